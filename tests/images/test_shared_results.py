"""Replicas that share their results agree in the end, in any order of events and with any content of the object."""

import logging
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.images.replicas import Clock, MemoryStore, config
from webhook.images import shared_results
from webhook.images.cache import NEVER, ImageCache, LookupResult
from webhook.images.packing import pack, unpack
from webhook.images.shared_results import ResultSharing
from webhook.kubernetes.api_errors import ApiServerError

TAG = "docker.io/library/app:1"
PROBLEM = "it is not there"
HOUR = 3600.0


class Replica:
    """A cache that tests synchronise by hand."""

    def __init__(
        self, store: MemoryStore, clock: Clock, is_wanted: Callable[[str], bool] = lambda _reference: True
    ) -> None:
        self.cache = ImageCache()
        self.clock = clock
        self.sharing = ResultSharing(self.cache, store, lambda _reference: HOUR, is_wanted=is_wanted, clock=clock)

    def finds(self, image: str, reference: str = TAG) -> None:
        """A look-up finds an image."""
        self.cache.put(reference, LookupResult(self.clock(), HOUR, config(image)))
        self.sharing.add(reference)

    def fails(self, problem: str = PROBLEM, reference: str = TAG) -> None:
        """A look-up fails."""
        self.cache.put(reference, LookupResult(self.clock(), 600.0, problem=problem))
        self.sharing.add(reference)

    def does(self, what: str, reference: str) -> None:
        """One step of a history: finds x, finds y, fails, exchanges."""
        if what == "exchanges":
            self.sharing.exchange()
        elif what == "fails":
            self.fails(reference=reference)
        else:
            self.finds(what.removeprefix("finds "), reference)

    def image(self, reference: str = TAG) -> str:
        """The digest of the known image, its problem, or `unknown`."""
        entry = self.cache.get(reference)
        if entry is None:
            return "unknown"
        return entry.info.problem if entry.info.config is None else entry.info.config.digest


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
def one(store: MemoryStore, clock: Clock) -> Replica:
    return Replica(store, clock)


@pytest.fixture
def other(store: MemoryStore, clock: Clock) -> Replica:
    return Replica(store, clock)


def digest(image: str) -> str:
    return config(image).digest


def exchange(*replicas: Replica) -> None:
    for replica in replicas:
        replica.sharing.exchange()


def test_results_of_one_replica_are_known_to_the_others(one: Replica, other: Replica, clock: Clock) -> None:
    one.finds("x")
    clock.advance(60)
    exchange(one, other)
    entry = other.cache.get(TAG)
    assert entry is not None
    assert entry.info.config == config("x")
    assert entry.due == pytest.approx(clock() - 60 + HOUR, abs=1)
    assert not other.sharing.has_news


def test_results_survive_a_restart_of_every_replica(one: Replica, store: MemoryStore, clock: Clock) -> None:
    one.finds("x")
    one.fails(reference="docker.io/library/gone:1")
    exchange(one)
    again = Replica(store, clock)
    exchange(again)
    assert (again.image(), again.image("docker.io/library/gone:1")) == (digest("x"), PROBLEM)


def test_nothing_is_written_without_new_results(one: Replica, other: Replica, store: MemoryStore) -> None:
    one.finds("x")
    exchange(one, other, one, other)
    assert store.writes == 1


def test_an_image_that_two_replicas_looked_up_is_written_once(
    one: Replica, other: Replica, store: MemoryStore, clock: Clock
) -> None:
    one.finds("x")
    clock.advance(1)
    other.finds("x")
    exchange(one, other)
    assert store.writes == 1


def test_unchanged_content_is_not_unpacked_again(one: Replica, store: MemoryStore) -> None:
    """Unpacking ten thousand results takes a tenth of a second."""
    one.finds("x")
    exchange(one, one)
    store.content = b"of the same version"
    exchange(one)
    assert one.image() == digest("x")
    assert not one.sharing.has_news


def test_known_results_are_not_adopted_again_because_of_rounded_times(
    one: Replica, other: Replica, store: MemoryStore, clock: Clock
) -> None:
    """Otherwise ten thousand images would be adopted again, and requests would wait for the interpreter."""
    one.finds("a")
    one.sharing.exchange()
    other.sharing.exchange()
    before = other.cache.get(TAG)
    assert before is not None
    clock.advance(60)
    store.clock = lambda: clock() - 1.0
    one.finds("b", "docker.io/library/other:1")
    one.sharing.exchange()
    other.sharing.exchange()
    assert other.image("docker.io/library/other:1") == digest("b")
    assert other.cache.get(TAG) is before


def test_of_two_images_under_one_tag_the_one_looked_up_last_wins(one: Replica, other: Replica, clock: Clock) -> None:
    one.finds("x")
    clock.advance(30)
    other.finds("y")
    exchange(other, one, other)
    assert (one.image(), other.image()) == (digest("y"), digest("y"))


def test_a_configuration_beats_a_later_problem(one: Replica, other: Replica, clock: Clock) -> None:
    one.finds("x")
    clock.advance(30)
    other.fails()
    exchange(one, other, one)
    assert (one.image(), other.image()) == (digest("x"), digest("x"))


def test_a_replica_replaces_a_shared_problem_by_its_configuration(
    one: Replica, other: Replica, store: MemoryStore
) -> None:
    one.finds("x")
    exchange(one)
    store.put(b"")
    other.fails()
    exchange(other, one, other)
    assert (one.image(), other.image()) == (digest("x"), digest("x"))


def test_problems_are_shared_only_as_long_as_they_hold(
    one: Replica, other: Replica, store: MemoryStore, clock: Clock
) -> None:
    one.fails()
    exchange(one)
    clock.advance(700)
    exchange(other)
    assert other.image() == "unknown"
    one.finds("x", "docker.io/library/another:1")
    exchange(one)
    assert list(unpack(store.content).results) == ["docker.io/library/another:1"]


def test_a_writer_with_a_conflict_reads_again_and_loses_nothing(
    one: Replica, other: Replica, store: MemoryStore
) -> None:
    one.finds("x", "docker.io/library/a:1")
    other.finds("y", "docker.io/library/b:1")

    def overtake() -> None:
        store.before_write = lambda: None
        exchange(other)

    store.before_write = overtake
    exchange(one, other)
    for replica in (one, other):
        assert replica.image("docker.io/library/a:1") == digest("x")
        assert replica.image("docker.io/library/b:1") == digest("y")


def test_a_writer_with_too_many_conflicts_gives_up_for_now(
    one: Replica, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_results, "APART_SECONDS", 0.001)

    def overtake() -> None:
        store.version += 1

    store.before_write = overtake
    one.finds("x")
    with pytest.raises(ApiServerError, match="other replicas wrote first, 5 times in a row"):
        exchange(one)
    store.before_write = lambda: None
    exchange(one)
    assert TAG in unpack(store.content).results


def test_without_the_object_a_replica_goes_on_and_shares_later(
    one: Replica, other: Replica, store: MemoryStore
) -> None:
    store.fault = "no answer"
    one.finds("x")
    with pytest.raises(ApiServerError):
        exchange(one)
    store.fault = ""
    exchange(one, other)
    assert other.image() == digest("x")


@pytest.mark.parametrize(
    "content",
    [pytest.param(b"", id="emptied"), pytest.param(b"hello", id="garbage"), pytest.param(pack({}), id="none")],
)
def test_an_object_that_lost_everything_is_written_again(
    content: bytes, one: Replica, store: MemoryStore, clock: Clock
) -> None:
    one.finds("x")
    exchange(one, one)
    store.put(content)
    exchange(one)
    fresh = Replica(store, clock)
    exchange(fresh)
    assert fresh.image() == digest("x")


def test_an_older_object_that_is_put_back_does_not_bring_back_older_images(
    one: Replica, other: Replica, store: MemoryStore, clock: Clock
) -> None:
    one.finds("x")
    exchange(one)
    older = store.content
    clock.advance(600)
    one.finds("y")
    exchange(one, other)
    store.put(older)
    exchange(other, one, other)
    assert (one.image(), other.image()) == (digest("y"), digest("y"))


def test_garbage_is_logged_once(one: Replica, store: MemoryStore, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            store.put(b"hello")
            exchange(one)
    (record,) = caplog.records
    assert record.getMessage().startswith("the shared results of look-ups cannot be read and are ignored: it is not")


def test_a_look_up_in_the_future_does_not_win_for_ever(one: Replica, store: MemoryStore, clock: Clock) -> None:
    """A result with a time in the future counts as of the moment in which it is read."""
    store.put(pack({TAG: LookupResult(store.now() + 3e9, NEVER, config("evil"))}))
    exchange(one)
    assert one.image() == digest("evil")
    clock.advance(HOUR)
    entry = one.cache.get(TAG)
    assert entry is not None
    assert entry.due <= clock()
    one.finds("x")
    exchange(one)
    assert one.image() == digest("x")
    clock.advance(HOUR)
    other = Replica(store, clock)
    exchange(other)
    assert other.image() == digest("x")


@pytest.mark.parametrize("apart", [-2.0, 2.0])
def test_clocks_that_are_seconds_apart_do_not_keep_replicas_from_agreeing(
    apart: float, one: Replica, store: MemoryStore, clock: Clock
) -> None:
    class Apart(MemoryStore):
        def read(self) -> object:  # type: ignore[override]  # hands on what the other store says
            return store.read()

        write = store.write

        def now(self) -> float:
            return store.now() + apart

    other = Replica(Apart(clock), clock)
    one.finds("x")
    other.finds("y")
    exchange(one, other, one, other, one)
    assert one.image() == other.image()
    writes = store.writes
    exchange(one, other, one, other)
    assert store.writes == writes


def test_only_wanted_references_are_adopted_and_none_is_dropped_for_others(
    one: Replica, store: MemoryStore, clock: Clock
) -> None:
    """While a release is replaced, replicas have different lists of registries."""
    one.finds("x", "quay.io/team/app:1")
    exchange(one)
    picky = Replica(store, clock, lambda reference: reference.startswith("docker.io/"))
    picky.finds("y")
    exchange(picky)
    assert picky.image("quay.io/team/app:1") == "unknown"
    assert set(unpack(store.content).results) == {TAG, "quay.io/team/app:1"}


REFERENCES = [f"docker.io/library/{name}:1" for name in "abc"]
steps = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["finds x", "finds y", "fails", "exchanges", "restarts", "time"]),
        st.sampled_from(REFERENCES),
    ),
    max_size=40,
)


@given(steps, st.integers(0, 3))
def test_replicas_that_have_exchanged_agree_in_every_order(history: list[tuple[int, str, str]], damaged: int) -> None:
    clock = Clock()
    store = MemoryStore(clock)
    replicas = [Replica(store, clock) for _ in range(3)]
    for number, (who, does, reference) in enumerate(history):
        if number == damaged * 10:
            store.put(b"garbage")
        if does == "restarts":
            replicas[who] = Replica(store, clock)
        elif does == "time":
            clock.advance(10)
        else:
            replicas[who].does(does, reference)
    for _ in range(3):
        exchange(*replicas)
    shared = {} if store.content in (b"", b"garbage") else unpack(store.content).results
    for reference in REFERENCES:
        known = {replica.image(reference) for replica in replicas}
        if known != {"unknown", PROBLEM}:  # a problem is not shared again when the object is damaged
            assert len(known) == 1
        if reference in shared:
            result = shared[reference]
            assert known == {result.problem if result.config is None else result.config.digest}
    writes = store.writes
    exchange(*replicas)
    assert store.writes == writes
