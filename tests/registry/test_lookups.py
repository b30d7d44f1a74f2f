"""Looking images up in the background: who asks is answered at once, and registries are asked as seldom as can be."""

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.eventually import eventually
from tests.registry.replicas import Clock, MemoryStore, Registries, config, everybody, looking_up
from webhook.model.image import NOT_LOOKED_UP, ImageSight
from webhook.registry import in_step
from webhook.registry.errors import LookUpError
from webhook.registry.lookups import Images
from webhook.registry.patience import EXPIRY_SECONDS, LASTING_SECONDS
from webhook.registry.waiting import MOST_WAITING

PENDING = ImageSight(is_pending=True)
APP = "docker.io/team/app:1"
PINNED = f"docker.io/team/app@{config().digest}"


class Counts(list[str]):
    """What became of each look-up."""

    def __call__(self, result: str) -> None:
        self.append(result)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def client() -> Registries:
    return Registries()


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
def images(client: Registries, clock: Clock, counts: Counts) -> Iterator[Images]:
    images = Images(client, everybody, clock=clock)
    images.start(counts)
    yield images
    images.close()


def seen(images: Images, text: str = APP) -> ImageSight:
    """What is known once everything that was asked for is settled."""
    images.sight(text)
    assert images.wait(20)
    return images.sight(text)


# What is answered


def test_the_first_sight_is_pending_and_a_later_one_knows_the_image(images: Images, client: Registries) -> None:
    assert images.sight(APP) == PENDING
    assert seen(images).config == config(APP)
    assert client.asked == [APP]
    assert (images.known, images.pending) == (1, 0)


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(
            ["python", "python:latest", "docker.io/library/python", "index.docker.io/library/python"], id="Hub"
        ),
        pytest.param(["registry.corp:5000/app", "Registry.Corp:5000/app:latest"], id="a host in capitals"),
    ],
)
def test_all_spellings_of_a_reference_are_one(texts: list[str], images: Images, client: Registries) -> None:
    assert all(seen(images, text).config is not None for text in texts)
    assert len(client.asked) == 1


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("docker.io/Team/app", id="capitals"),
        pytest.param("a b", id="a space"),
        pytest.param("a@sha256:short", id="half a digest"),
        pytest.param("x" * 100_000, id="too long"),
        pytest.param("\ud800", id="half a character"),
        pytest.param("/" * 1000, id="slashes"),
    ],
)
def test_what_is_no_reference_is_a_problem_and_nobody_is_asked(text: str, images: Images, client: Registries) -> None:
    sight = images.sight(text)
    assert (sight.config, sight.is_pending) == (None, False)
    assert "is not an image reference" in sight.problem
    assert len(sight.problem) < 500
    assert images.pending == 0


def test_a_registry_that_is_not_on_the_list_is_never_asked(client: Registries, clock: Clock) -> None:
    images = Images(client, lambda reference: reference.registry == "nvcr.io", clock=clock)
    images.start()
    assert images.sight("docker.io/team/app:1") == NOT_LOOKED_UP
    assert seen(images, "nvcr.io/nvidia/pytorch:24.01-py3").config is not None
    images.close()
    assert client.asked == ["nvcr.io/nvidia/pytorch:24.01-py3"]


def test_asking_never_waits_for_a_registry_that_does_not_answer(client: Registries, clock: Clock) -> None:
    """Without an answer to wait for, this would never end."""
    silence = threading.Event()
    client.answers = {f"docker.io/team/app:{number}": lambda: silence.wait() and config() for number in range(5)}
    with looking_up(client, clock=clock) as images:
        for number in range(5):
            assert images.sight(f"docker.io/team/app:{number}") == PENDING
        eventually(lambda: len(client.asked) == 2)
        assert images.sight(APP) == PENDING
        images.close()
        silence.set()


def test_many_threads_that_ask_for_one_image_have_it_looked_up_once(images: Images, client: Registries) -> None:
    gate = threading.Event()
    client.answers[APP] = lambda: gate.wait(20) and config(APP)
    with ThreadPoolExecutor(16) as pool:
        sights = list(pool.map(lambda _: images.sight(APP), range(2000)))
    gate.set()
    assert set(map(repr, sights)) == {repr(PENDING)}
    assert seen(images).config == config(APP)
    assert client.asked == [APP]


# When a registry is asked again


def test_an_answer_holds_for_about_an_hour_and_is_then_confirmed_by_one_cheap_request(
    images: Images, client: Registries, clock: Clock, counts: Counts
) -> None:
    seen(images)
    clock.advance(EXPIRY_SECONDS * 0.79)
    assert seen(images).config == config(APP)
    assert client.looked_at == []
    clock.advance(EXPIRY_SECONDS * 0.22)
    assert images.sight(APP).config == config(APP)
    assert images.wait(20)
    assert (client.asked, client.looked_at) == ([APP], [APP])
    seen(images)
    assert client.looked_at == [APP]
    assert counts == ["found", "unchanged"]


def test_a_tag_that_was_moved_is_looked_up_anew_and_the_old_answer_stays_meanwhile(
    images: Images, client: Registries, clock: Clock
) -> None:
    seen(images)
    client.answers[APP] = config("moved")
    clock.advance(EXPIRY_SECONDS)
    assert images.sight(APP).config == config(APP)
    assert images.wait(20)
    assert images.sight(APP).config == config("moved")
    assert client.asked == [APP, APP]


def test_an_image_that_is_known_by_its_digest_is_not_read_twice(
    images: Images, client: Registries, clock: Clock
) -> None:
    seen(images)
    client.answers["docker.io/team/app:2"] = config("other")
    seen(images, "docker.io/team/app:2")
    client.answers[APP] = config("other")
    clock.advance(EXPIRY_SECONDS)
    seen(images)
    assert images.sight(APP).config == config("other")
    assert client.asked == [APP, "docker.io/team/app:2"]


def test_what_a_digest_stands_for_is_never_asked_again(images: Images, client: Registries, clock: Clock) -> None:
    seen(images, PINNED)
    clock.advance(1e9)
    assert seen(images, PINNED).config is not None
    assert (client.asked, client.looked_at) == ([PINNED], [])


@pytest.mark.parametrize(
    ("error", "again"),
    [
        pytest.param(LookUpError("gone"), (LASTING_SECONDS * 0.89, LASTING_SECONDS * 1.11), id="lasting: ten minutes"),
        pytest.param(LookUpError("slow", is_lasting=False), (26.0, 34.0), id="transient: half a minute"),
        pytest.param(LookUpError("busy", is_lasting=False, retry_after=100.0), (99.0, 101.0), id="as it asked to"),
        pytest.param(ValueError("never thought of"), (26.0, 34.0), id="a bug: half a minute"),
    ],
)
def test_a_failure_is_a_problem_that_stays_until_asking_again_helps(
    error: Exception, again: tuple[float, float], images: Images, client: Registries, clock: Clock
) -> None:
    early, late = again
    client.answers[APP] = error
    sight = seen(images)
    assert (sight.config, sight.is_pending) == (None, False)
    assert sight.problem
    clock.advance(early)
    assert seen(images) == sight
    assert client.asked == [APP]
    client.answers[APP] = config("mended")
    clock.advance(late - early)
    assert images.sight(APP) == sight
    assert images.wait(20)
    assert images.sight(APP).config == config("mended")


def test_a_registry_that_goes_on_failing_is_asked_less_and_less_often(
    images: Images, client: Registries, clock: Clock
) -> None:
    client.answers[APP] = LookUpError("docker.io: does not answer", is_lasting=False)
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


def test_a_failure_does_not_take_away_what_was_known(
    images: Images, client: Registries, clock: Clock, counts: Counts
) -> None:
    seen(images)
    client.answers[APP] = LookUpError("docker.io: does not answer", is_lasting=False)
    clock.advance(EXPIRY_SECONDS)
    assert seen(images).config == config(APP)
    assert seen(images).config == config(APP)
    assert client.looked_at == [APP]
    assert counts == ["found", "failed"]


def test_a_registry_that_asks_to_be_left_alone_is_not_asked_for_other_images_either(
    images: Images, client: Registries, clock: Clock
) -> None:
    client.answers[APP] = LookUpError("docker.io: asked too often (429)", is_lasting=False, retry_after=100.0)
    seen(images)
    assert seen(images, "docker.io/team/other:1").problem == "docker.io: asked too often (429)"
    assert seen(images, "nvcr.io/nvidia/cuda:12").config is not None
    assert client.asked == [APP, "nvcr.io/nvidia/cuda:12"]
    clock.advance(101)
    seen(images, "docker.io/team/other:1")
    assert images.sight("docker.io/team/other:1").config is not None


# How many at once


def test_a_slow_registry_holds_up_no_other_and_gets_two_requests_at_once_at_most(
    images: Images, client: Registries
) -> None:
    gate = threading.Event()
    slow = [f"slow.example/app:{number}" for number in range(20)]
    client.answers = dict.fromkeys(slow, lambda: gate.wait(20) and config())
    for text in slow:
        images.sight(text)
    eventually(lambda: client.at_once["slow.example"] == 2)
    for number in range(50):
        images.sight(f"fast.example/app:{number}")
    eventually(lambda: images.sight("fast.example/app:49").config is not None)
    assert images.pending == 20
    gate.set()
    assert images.wait(20)
    assert client.most_at_once["slow.example"] == 2
    assert client.most_at_once["fast.example"] <= 2


def test_more_images_than_may_wait_stay_pending_and_nothing_grows(client: Registries, clock: Clock) -> None:
    images = Images(client, everybody, clock=clock)
    registries = [f"registry-{number}.example" for number in range(5)]
    for number in range(5 * MOST_WAITING):
        assert images.sight(f"{registries[number % 5]}/app:{number}") == PENDING
    assert images.pending == MOST_WAITING
    images.start()
    assert images.wait(20)
    assert seen(images, f"{registries[4]}/app:{5 * MOST_WAITING - 1}").config is not None
    images.close()


def test_images_of_one_registry_leave_room_for_those_of_others(client: Registries, clock: Clock) -> None:
    images = Images(client, everybody, clock=clock)
    for number in range(2 * MOST_WAITING):
        images.sight(f"docker.io/mallory/app:{number}")
    images.sight("nvcr.io/nvidia/cuda:12")
    images.start()
    assert images.wait(20)
    images.close()
    assert "nvcr.io/nvidia/cuda:12" in client.asked
    assert len(client.asked) <= MOST_WAITING


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
def test_a_bug_ends_no_thread_and_is_counted_and_said_once(
    error: Exception, images: Images, client: Registries, counts: Counts, caplog: pytest.LogCaptureFixture
) -> None:
    texts = [f"docker.io/team/app:{number}" for number in range(12)]
    client.answers = dict.fromkeys(texts, error)
    with caplog.at_level(logging.WARNING):
        for text in texts:
            problem = seen(images, text).problem
            assert problem == f"docker.io: a bug of gpu-policy ({type(error).__name__})"
    assert counts == ["bug"] * 12
    assert len(caplog.records) == 1
    assert seen(images, "docker.io/team/sound:1").config is not None


def test_a_failed_look_up_is_said_once_for_each_registry_and_reason(
    images: Images, client: Registries, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for name, count in (("docker.io", 30), ("nvcr.io", 3)):
        for number in range(count):
            text = f"{name}/team/app:{number}"
            client.answers[text] = LookUpError(f"{name}: {name} has not got {text} (404)")
    client.answers["docker.io/team/slow:1"] = LookUpError("docker.io: no answer", is_lasting=False)
    with caplog.at_level(logging.WARNING):
        for text in client.answers:
            seen(images, text)
        seen(images, "docker.io/team/slow:1")
        assert sorted(record.getMessage() for record in caplog.records) == [
            "not every image of docker.io can be looked up: docker.io: docker.io has not got an image (404)",
            "not every image of docker.io can be looked up: docker.io: no answer",
            "not every image of nvcr.io can be looked up: nvcr.io: nvcr.io has not got an image (404)",
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
def test_a_problem_is_one_short_printable_line(text: str, shown: str, images: Images, client: Registries) -> None:
    client.answers[APP] = LookUpError(text)
    assert seen(images).problem == shown


def test_closing_does_not_wait_for_a_registry_that_hangs(client: Registries, clock: Clock) -> None:
    silence = threading.Event()
    client.answers = {f"r{number}.example/app:1": lambda: silence.wait() and config() for number in range(6)}
    images = Images(client, everybody, MemoryStore(clock), clock=clock)
    images.start()
    for text in client.answers:
        images.sight(text)
    eventually(lambda: sum(client.at_once.values()) == 4)
    images.close()
    assert images.sight(APP) == PENDING
    silence.set()


def test_one_that_was_never_started_can_be_closed(client: Registries) -> None:
    Images(client, everybody, MemoryStore()).close()
    assert client.asked == []


# Together with other replicas


@pytest.fixture
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_step, "READ_SECONDS", 0.05)
    monkeypatch.setattr(in_step, "WRITE_SECONDS", 0.01)


@pytest.mark.usefixtures("in_a_hurry")
def test_replicas_agree_and_only_one_of_them_asks(clock: Clock) -> None:
    store, one, other = MemoryStore(clock), Registries(), Registries()
    with looking_up(one, store, clock) as first, looking_up(other, store, clock) as second:
        seen(first)
        eventually(lambda: second.known)
        assert seen(second) == first.sight(APP)
        assert other.asked == []
        assert (first.is_shared, second.is_shared) == (True, True)


@pytest.mark.usefixtures("in_a_hurry")
def test_a_problem_that_lasts_is_shared_and_one_that_may_be_our_own_is_not(clock: Clock) -> None:
    store = MemoryStore(clock)
    slow, gone = "docker.io/team/slow:1", "docker.io/team/gone:1"
    one = Registries({slow: LookUpError("slow", is_lasting=False), gone: LookUpError("gone")})
    other = Registries()
    with looking_up(one, store, clock) as first, looking_up(other, store, clock) as second:
        assert [seen(first, text).problem for text in (slow, gone)] == ["slow", "gone"]
        eventually(lambda: store.writes)
        eventually(lambda reads=store.reads: store.reads > reads + 4)  # type: ignore[misc]  # the reads of now
        assert seen(second, gone).problem == "gone"
        assert seen(second, slow).config is not None
        assert other.asked == [slow]
        eventually(lambda: first.sight(slow).config is not None)


@pytest.mark.usefixtures("in_a_hurry")
def test_after_a_restart_nothing_is_asked_that_was_known(client: Registries, clock: Clock) -> None:
    store = MemoryStore(clock)
    with looking_up(client, store, clock) as images:
        seen(images)
    again = Registries()
    with looking_up(again, store, clock) as images:
        assert seen(images).config == config(APP)
    assert again.asked == []


def test_what_is_new_is_written_at_the_end(client: Registries, clock: Clock) -> None:
    """A replica that is replaced a second after it found something has not looked in vain."""
    store = MemoryStore(clock)
    with looking_up(client, store, clock) as images:
        eventually(lambda: images.is_shared)
        seen(images)
        assert store.writes == 0
    assert store.writes == 1


@pytest.mark.usefixtures("in_a_hurry")
def test_without_the_shared_object_look_ups_go_on_and_it_is_said_once(
    client: Registries, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore(clock)
    store.fault = "the API server does not answer"
    with caplog.at_level(logging.ERROR), looking_up(client, store, clock) as images:
        assert seen(images).config == config(APP)
        assert images.is_shared is False
        assert [record.getMessage() for record in caplog.records] == [
            "results are not shared with the other replicas: the API server does not answer"
        ]
        store.fault = ""
        eventually(lambda: store.writes == 1 and images.is_shared)


@pytest.mark.usefixtures("in_a_hurry")
def test_a_bug_in_sharing_does_not_end_it(client: Registries, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore(clock)
    store.before_write = lambda: {}["never thought of"]
    with caplog.at_level(logging.ERROR), looking_up(client, store, clock) as images:
        seen(images)
        eventually(lambda: images.is_shared is False)
        store.before_write = lambda: None
        eventually(lambda: store.writes and images.is_shared)
    assert len(caplog.records) == 1
