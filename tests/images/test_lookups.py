"""Looking images up in the background: nobody waits or delays others, and registries get few requests."""

import logging
import threading

import pytest

from tests.e2e.eventually import eventually
from tests.golden import each
from tests.images.replicas import (
    APP,
    EVERYBODY,
    PENDING,
    PINNED,
    Clock,
    Counts,
    MemoryStore,
    Registries,
    config,
    seen,
)
from webhook.images.allowlist import PRESETS, AllowList, Registry
from webhook.images.hosts import HostPattern
from webhook.images.http_request import ImageLookupError
from webhook.images.lookups import LASTING_SECONDS, MOST_WAITING, WORKERS, LookupService
from webhook.images.shared_results import EXPIRY_SECONDS
from webhook.model.image import NOT_LOOKED_UP, ImageInfo

# What is answered


def test_what_is_recalled_is_never_looked_up(images: LookupService, client: Registries, clock: Clock) -> None:
    assert [images.info(f"docker.io/team/app:{number}", looks_up=False) for number in range(64)] == [PENDING] * 64
    assert (images.pending, client.asked) == (0, [])
    assert seen(images).config == config(APP)
    clock.advance(10 * max(EXPIRY_SECONDS, LASTING_SECONDS))
    assert images.info(APP, looks_up=False).config == config(APP)
    assert "is not an image reference" in images.info("a b", looks_up=False).problem
    assert (images.pending, client.asked) == (0, [APP])


def test_a_namespace_for_which_a_registry_is_not_learns_nothing_and_has_nothing_looked_up(
    client: Registries, clock: Clock
) -> None:
    """Not even whether the image exists, and also where others had it looked up, or another replica."""
    store = MemoryStore()
    allowed = AllowList([Registry(HostPattern("docker.io"), namespaces=("team-a",))])
    images, other = (LookupService(client.look_up, allowed, store, clock=clock) for _ in range(2))
    images.start()
    assert "namespace team-b may not know" in images.info(APP, "team-b").problem
    assert (images.pending, client.asked) == (0, [])
    assert images.info(APP, "team-a") == PENDING
    eventually(lambda: images.info(APP, "team-a").config == config(APP))
    images.close()
    other.start()
    eventually(lambda: other.info(APP, "team-a", looks_up=False).config == config(APP))
    for asker in ("team-b", ""):
        for known in (images.info(APP, asker), images.info(APP, asker, looks_up=False), other.info(APP, asker)):
            assert (known.config, "may not know" in known.problem) == (None, True)
    other.close()
    assert client.asked == [APP]


def test_a_registry_that_is_not_on_the_list_is_never_queried(client: Registries, clock: Clock) -> None:
    images = LookupService(client.look_up, AllowList([Registry(HostPattern("nvcr.io"))]), clock=clock)
    images.start()
    assert images.info("docker.io/team/app:1") == NOT_LOOKED_UP
    assert seen(images, "nvcr.io/nvidia/pytorch:24.01-py3").config is not None
    images.close()
    assert client.asked == ["nvcr.io/nvidia/pytorch:24.01-py3"]


# When a registry is asked again


def test_a_result_holds_for_about_an_hour_and_is_then_confirmed_by_one_cheap_request(
    images: LookupService, client: Registries, clock: Clock, counts: Counts
) -> None:
    seen(images)
    clock.advance(EXPIRY_SECONDS * 0.79)
    assert seen(images).config == config(APP)
    assert client.looked_at == []
    clock.advance(EXPIRY_SECONDS * 0.22)
    assert images.info(APP).config == config(APP)
    assert images.wait(20)
    assert (client.asked, client.looked_at) == ([APP], [APP])
    seen(images)
    assert client.looked_at == [APP]
    assert counts == ["found", "unchanged"]


def test_a_moved_tag_is_looked_up_again_and_the_old_result_stays_meanwhile(
    images: LookupService, client: Registries, clock: Clock
) -> None:
    seen(images)
    client.answers[APP] = config("moved")
    clock.advance(EXPIRY_SECONDS)
    assert images.info(APP).config == config(APP)
    assert images.wait(20)
    assert images.info(APP).config == config("moved")
    assert client.asked == [APP, APP]


def test_a_reference_with_a_digest_is_looked_up_once(images: LookupService, client: Registries, clock: Clock) -> None:
    seen(images, PINNED)
    clock.advance(1e9)
    assert seen(images, PINNED).config is not None
    assert (client.asked, client.looked_at) == ([PINNED], [])


@each(
    "error, again",
    {
        "lasting: ten minutes": (ImageLookupError("gone"), (LASTING_SECONDS * 0.89, LASTING_SECONDS * 1.11)),
        "transient: half a minute": (ImageLookupError("slow", is_lasting=False), (26.0, 34.0)),
        "as it asked to": (ImageLookupError("busy", is_lasting=False, retry_after=100.0), (99.0, 101.0)),
        "a bug: half a minute": (ValueError("never thought of"), (26.0, 34.0)),
    },
)
def test_a_failure_stays_until_a_retry_succeeds(
    error: Exception, again: tuple[float, float], images: LookupService, client: Registries, clock: Clock
) -> None:
    early, late = again
    client.answers[APP] = error
    info = seen(images)
    assert (info.config, info.is_pending) == (None, False)
    assert info.problem
    clock.advance(early)
    assert seen(images) == info
    assert client.asked == [APP]
    client.answers[APP] = config("mended")
    clock.advance(late - early)
    assert images.info(APP) == info
    assert images.wait(20)
    assert images.info(APP).config == config("mended")


def test_a_failing_registry_is_queried_less_and_less_often(
    images: LookupService, client: Registries, clock: Clock
) -> None:
    client.answers[APP] = ImageLookupError("docker.io: does not answer", is_lasting=False)
    seen(images)
    asked = []
    for _ in range(200):
        clock.advance(30)
        before = len(client.asked)
        seen(images)
        asked.append(len(client.asked) > before)
    pauses = [len(run) for run in "".join("x" if one else "." for one in asked).split("x")]
    assert pauses[0] <= 1
    assert pauses[1] <= pauses[2] <= pauses[3]
    assert 17 <= max(pauses) <= 23


def test_a_failure_keeps_the_earlier_configuration(
    images: LookupService, client: Registries, clock: Clock, counts: Counts
) -> None:
    seen(images)
    client.answers[APP] = ImageLookupError("docker.io: does not answer", is_lasting=False)
    clock.advance(EXPIRY_SECONDS)
    assert seen(images).config == config(APP)
    assert seen(images).config == config(APP)
    assert client.looked_at == [APP]
    assert counts == ["found", "failed"]


def test_a_registry_that_demands_a_pause_gets_no_request_for_any_image(
    images: LookupService, client: Registries, clock: Clock
) -> None:
    client.answers[APP] = ImageLookupError("docker.io: asked too often (429)", is_lasting=False, retry_after=100.0)
    seen(images)
    assert seen(images, "docker.io/team/other:1") == ImageInfo(is_pending=True)
    assert seen(images, "nvcr.io/nvidia/cuda:12").config is not None
    assert client.asked == [APP, "nvcr.io/nvidia/cuda:12"]
    clock.advance(101)
    seen(images, "docker.io/team/other:1")
    assert images.info("docker.io/team/other:1").config is not None


# How many at once


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


@each(
    "error",
    {
        "any error": ValueError("a b"),
        "no memory": MemoryError(),
        "too deep": RecursionError(),
        "an assertion": AssertionError(),
        "an odd text": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd"),
    },
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


@each(
    "text, shown",
    {
        "what would spoil a log or a terminal": ("evil: a\nb\x1b[31m\u202e", "evil: ab[31m"),
        "a long one": ("x" * 10_000, "x" * 300),
        "nothing": ("\n", "no reason was given"),
    },
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
