"""Look-ups when there are too many, and when registries, images or the code are faulty."""

import logging
import threading

import pytest

from tests.e2e.eventually import eventually
from tests.images.replicas import APP, EVERYBODY, PENDING, PINNED, Clock, Counts, MemoryStore, Registries, config, seen
from webhook.images.allowlist import PRESETS, AllowList
from webhook.images.http_request import ImageLookupError
from webhook.images.lookup_queue import MOST_WAITING
from webhook.images.lookups import WORKERS, LookupService

# How many at once


def test_a_slow_registry_delays_no_other_and_gets_two_requests_at_a_time(
    images: LookupService, client: Registries
) -> None:
    gate = threading.Event()
    slow = [f"slow.example/app:{number}" for number in range(20)]
    client.answers = dict.fromkeys(slow, lambda: gate.wait(20) and config())
    for text in slow:
        images.info(text)
    eventually(lambda: client.at_once["slow.example"] == 2)
    for number in range(50):
        images.info(f"fast.example/app:{number}")
    eventually(lambda: images.info("fast.example/app:49").config is not None)
    assert images.pending == 20
    gate.set()
    assert images.wait(20)
    assert client.most_at_once["slow.example"] == 2
    assert client.most_at_once["fast.example"] <= 2


def test_images_beyond_the_queue_stay_pending_and_nothing_grows(client: Registries, clock: Clock) -> None:
    images = LookupService(client.look_up, EVERYBODY, clock=clock)
    registries = [f"registry-{number}.example" for number in range(5)]
    for number in range(5 * MOST_WAITING):
        assert images.info(f"{registries[number % 5]}/app:{number}") == PENDING
    assert images.pending == MOST_WAITING
    images.start()
    assert images.wait(20)
    assert seen(images, f"{registries[4]}/app:{5 * MOST_WAITING - 1}").config is not None
    images.close()


def test_hosts_of_one_pattern_leave_room_for_those_of_others(client: Registries, clock: Clock) -> None:
    """Tenants can make up any number of host names below a domain."""
    allowed = AllowList(registry for name in ("pkg.dev", "nvcr.io") for registry in PRESETS[name])
    images = LookupService(client.look_up, allowed, clock=clock)
    for number in range(2 * MOST_WAITING):
        images.info(f"host-{number}.pkg.dev/mallory/app:1", "mallory")
    images.info("nvcr.io/nvidia/cuda:12", "team")
    images.start()
    assert images.wait(20)
    images.close()
    assert "nvcr.io/nvidia/cuda:12" in client.asked[:WORKERS]
    assert client.at_once.total() == 0


def test_a_tag_beside_a_digest_is_ignored(images: LookupService, client: Registries) -> None:
    """The tag has no meaning then, so tenants could fill the cache with made-up tags."""
    for tag in ("", ":1", ":2"):
        assert seen(images, PINNED.replace("@", f"{tag}@")).config == config(PINNED)
    assert (client.asked, images.known) == ([PINNED], 1)


# What goes wrong


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ValueError("a b"), id="any error"),
        pytest.param(MemoryError(), id="no memory"),
        pytest.param(RecursionError(), id="too deep"),
        pytest.param(AssertionError(), id="an assertion"),
        pytest.param(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd"), id="an odd text"),
    ],
)
def test_a_bug_ends_no_thread_and_is_counted_and_logged_once(
    error: Exception, images: LookupService, client: Registries, counts: Counts, caplog: pytest.LogCaptureFixture
) -> None:
    texts = [f"docker.io/team/app:{number}" for number in range(12)]
    client.answers = dict.fromkeys(texts, error)
    with caplog.at_level(logging.WARNING):
        for text in texts:
            problem = seen(images, text).problem
            assert problem == f"docker.io: a bug in gpu-policy ({type(error).__name__})"
    assert counts == ["bug"] * 12
    assert len(caplog.records) == 1
    assert seen(images, "docker.io/team/sound:1").config is not None


def test_a_failed_look_up_is_logged_once_for_each_registry_and_reason(
    images: LookupService, client: Registries, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for name, count in (("docker.io", 30), ("nvcr.io", 3)):
        for number in range(count):
            text = f"{name}/team/app:{number}"
            client.answers[text] = ImageLookupError(f"{name}: {name} does not have {text} (404)")
    client.answers["docker.io/team/slow:1"] = ImageLookupError("docker.io: no answer", is_lasting=False)
    with caplog.at_level(logging.WARNING):
        for text in client.answers:
            seen(images, text)
        seen(images, "docker.io/team/slow:1")
        assert sorted(record.getMessage() for record in caplog.records) == [
            "looking up an image in docker.io failed: docker.io: docker.io does not have an image (404)",
            "looking up an image in docker.io failed: docker.io: no answer",
            "looking up an image in nvcr.io failed: nvcr.io: nvcr.io does not have an image (404)",
        ]
        clock.advance(3700)
        seen(images, "docker.io/team/app:0")
        assert len(caplog.records) == 4


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("evil: a\nb\x1b[31m\u202e", "evil: ab[31m", id="what would spoil a log or a terminal"),
        pytest.param("x" * 10_000, "x" * 300, id="a long one"),
        pytest.param("\n", "no reason was given", id="nothing"),
    ],
)
def test_a_problem_is_one_short_printable_line(
    text: str, shown: str, images: LookupService, client: Registries
) -> None:
    client.answers[APP] = ImageLookupError(text)
    assert seen(images).problem == shown


def test_closing_does_not_wait_for_a_registry_that_hangs(client: Registries, clock: Clock) -> None:
    silence = threading.Event()
    client.answers = {f"silent-{number}.example/app:1": lambda: silence.wait() and config() for number in range(6)}
    images = LookupService(client.look_up, EVERYBODY, MemoryStore(), clock=clock)
    images.start()
    for text in client.answers:
        images.info(text)
    eventually(lambda: sum(client.at_once.values()) == 4)
    images.close()
    assert images.info(APP) == PENDING
    silence.set()


def test_a_service_that_was_never_started_can_be_closed(client: Registries) -> None:
    LookupService(client.look_up, EVERYBODY, MemoryStore()).close()
    assert client.asked == []
