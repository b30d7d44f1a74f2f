"""Replicas that share their results agree in the end, in any order of events and with any content of the ConfigMap."""

import base64
import gzip
import logging
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import each
from tests.images.replicas import Clock, MemoryStore, config
from tests.strategies import checked
from webhook.images import shared_results
from webhook.images.shared_results import (
    KEY,
    MOST_PACKED,
    MOST_REFERENCES,
    Configs,
    ImageCache,
    LookupResult,
    SharedResults,
    pack,
    unpack,
)
from webhook.kubernetes.api_errors import ApiServerError
from webhook.model.image import ImageConfig, ImageInfo
from webhook.model.shape import FormatError

TAG = "docker.io/library/app:1"
PROBLEM = "it is not there"
HOUR = 3600.0


def problem(at: float) -> LookupResult:
    return LookupResult(ImageInfo(problem=PROBLEM), int(at), at + 600.0, failures=1)


class Replica:
    """A cache that tests synchronise by hand."""

    def __init__(
        self, store: MemoryStore, clock: Clock, is_wanted: Callable[[str], bool] = lambda _reference: True
    ) -> None:
        self.cache = ImageCache(MOST_REFERENCES)
        self.clock = clock
        self.sharing = SharedResults(self.cache, store, is_wanted, clock)

    def finds(self, image: str, reference: str = TAG) -> None:
        self.cache.put(reference, LookupResult.found(reference, int(self.clock()), config(image)))
        self.sharing.add()

    def fails(self, reference: str = TAG) -> None:
        known = self.cache.get(reference)
        if known is None or known.info.config is None:  # an earlier configuration stays
            self.cache.put(reference, problem(self.clock()))

    def does(self, what: str, reference: str) -> None:
        """One step of a history: finds x, finds y, fails, exchanges."""
        if what == "exchanges":
            self.sharing.exchange()
        elif what == "fails":
            self.fails(reference)
        else:
            self.finds(what.removeprefix("finds "), reference)

    def image(self, reference: str = TAG) -> str:
        """The digest of the known image, its problem, or `unknown`."""
        result = self.cache.get(reference)
        if result is None:
            return "unknown"
        return result.info.problem if result.info.config is None else result.info.config.digest


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


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


def test_results_of_one_replica_are_known_to_the_others_and_survive_all_of_them(
    one: Replica, other: Replica, store: MemoryStore, clock: Clock
) -> None:
    one.finds("x")
    clock.advance(60)
    exchange(one, other)
    result = other.cache.get(TAG)
    assert result is not None
    assert result.info.config == config("x")
    assert clock() - 60 + 0.8 * HOUR <= result.due <= clock() - 60 + HOUR
    again = Replica(store, clock)
    exchange(again)
    assert again.image() == digest("x")


def test_nothing_is_written_twice(one: Replica, other: Replica, store: MemoryStore, clock: Clock) -> None:
    one.finds("x")
    clock.advance(1)
    other.finds("x")
    exchange(one, other, one, other)
    assert store.writes == 1


def test_content_is_read_again_only_if_it_has_changed(one: Replica, store: MemoryStore) -> None:
    """Unpacking two thousand results takes a while."""
    one.finds("x")
    exchange(one, one)
    store.content = {"binaryData": {KEY: "of the same version"}}
    exchange(one)
    assert one.image() == digest("x")
    assert store.writes == 1


def test_problems_are_not_shared_and_give_way_to_configurations(
    one: Replica, other: Replica, store: MemoryStore, clock: Clock
) -> None:
    one.fails("docker.io/library/gone:1")
    one.finds("x")
    clock.advance(30)
    other.fails()
    exchange(one, other)
    assert other.image() == digest("x")
    assert set(store.configs) == {TAG}


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
    assert TAG in store.configs


@each("content", {"emptied": None, "garbage": b"hello", "none": pack({})[1]})
def test_a_config_map_that_lost_everything_is_written_again(
    content: bytes | None, one: Replica, store: MemoryStore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    one.finds("x")
    exchange(one, one)
    store.put(content)
    with caplog.at_level(logging.WARNING):
        exchange(one, one)
    fresh = Replica(store, clock)
    exchange(fresh)
    assert fresh.image() == digest("x")
    said = "the shared results of look-ups cannot be read and are ignored: it is not what replicas write"
    assert [record.getMessage().startswith(said) for record in caplog.records] == [True] * (content == b"hello")


def test_a_look_up_in_the_future_does_not_win(one: Replica, store: MemoryStore, clock: Clock) -> None:
    """The clock of some node is wrong: its results count as the oldest, and are looked up again at once."""
    store.put(pack({TAG: (int(clock() + 3e9), config("evil"))})[1])
    exchange(one)
    result = one.cache.get(TAG)
    assert result is not None
    assert (one.image(), result.due <= clock()) == (digest("evil"), True)
    one.finds("x")
    exchange(one)
    other = Replica(store, clock)
    exchange(other)
    assert (one.image(), other.image()) == (digest("x"), digest("x"))


def test_only_wanted_references_are_taken_and_none_is_dropped_for_others(
    one: Replica, store: MemoryStore, clock: Clock
) -> None:
    """While a release is replaced, replicas have different lists of registries."""
    one.finds("x", "quay.io/team/app:1")
    exchange(one)
    picky = Replica(store, clock, lambda reference: reference.startswith("docker.io/"))
    picky.finds("y")
    exchange(picky)
    assert picky.image("quay.io/team/app:1") == "unknown"
    assert set(store.configs) == {TAG, "quay.io/team/app:1"}


def test_replicas_that_know_more_than_is_shared_stop_writing(store: MemoryStore, clock: Clock) -> None:
    replicas = [Replica(store, clock) for _ in range(2)]
    for number in range(MOST_REFERENCES + 100):
        replicas[number % 2].finds("x", f"docker.io/library/app:{number}")
        clock.advance(1)
    exchange(*replicas, *replicas)
    writes = store.writes
    for replica in replicas:
        replica.sharing.add()
    exchange(*replicas)
    assert (store.writes, len(store.configs)) == (writes, MOST_REFERENCES)
    assert "docker.io/library/app:99" not in store.configs


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
    store = MemoryStore()
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
    for reference in REFERENCES:
        known = {replica.image(reference) for replica in replicas}
        if not known <= {"unknown", PROBLEM}:
            assert known == {store.configs[reference][1].digest}
    writes = store.writes
    exchange(*replicas)
    assert store.writes == writes


# What stands in the ConfigMap


def many(count: int, size: int) -> Configs:
    """Images with different variables of this many characters, the last of which are the newest."""
    draw = random.Random(1)
    return {
        f"registry.corp.example/machine-learning/team/trainer:2026.07.{number:05d}-cuda": (
            1_800_000_000 + number,
            ImageConfig(f"sha256:{draw.randbytes(32).hex()}", {"V": draw.randbytes(size // 2).hex()}, ("amd64",)),
        )
        for number in range(count)
    }


def holding(content: bytes) -> dict[str, object]:
    return {"binaryData": {KEY: base64.b64encode(content).decode()}}


configs = st.builds(
    ImageConfig,
    st.binary(min_size=32, max_size=32).map(lambda data: f"sha256:{data.hex()}"),
    st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=80), max_size=4),
    st.lists(st.sampled_from(["amd64", "arm64"]), max_size=3).map(tuple),
)


@checked
@given(st.dictionaries(st.text(max_size=40), st.tuples(st.integers(0, 2**33), configs), max_size=20))
def test_packed_results_are_read_unchanged_and_written_in_one_order(results: Configs) -> None:
    kept, packed = pack(results)
    assert unpack(holding(packed)) == kept == results
    assert packed == pack(dict(reversed(results.items())))[1]


@each(
    "found, left",
    {
        "as clusters have them": (many(MOST_REFERENCES, 40), MOST_REFERENCES),
        "too many": (many(MOST_REFERENCES + 500, 40), MOST_REFERENCES),
        "too large": (many(500, 8_000), None),
    },
)
def test_the_oldest_results_are_left_out_if_they_do_not_fit(found: Configs, left: int | None) -> None:
    kept, packed = pack(found)
    assert len(packed) <= MOST_PACKED
    assert kept == dict(reversed(list(found.items())[-len(kept) :]))
    assert len(kept) == left if left is not None else 0 < len(kept) < len(found)


@each(
    "content",
    {
        "nothing": b"",
        "a text": b"hello",
        "nearly compressed": b"\x1f\x8b" + b"\0" * 100,
        "cut off": pack({})[1][:-4],
        "a list": gzip.compress(b"[1, 2]"),
        "an entry without its keys": gzip.compress(b'{"docker.io/a:1": {"at": 1}}'),
        "no number": gzip.compress(b'{"docker.io/a:1": {"at": NaN}}'),
    },
)
def test_other_content_is_refused(content: bytes) -> None:
    with pytest.raises(FormatError):
        unpack(holding(content))


@pytest.mark.parametrize(
    "found", [{}, {"data": {KEY: "text"}}, {"binaryData": {"other": "AAAA"}}, {"binaryData": None}]
)
def test_a_config_map_without_results_has_none(found: dict[str, object]) -> None:
    assert unpack(found) == {}


# What one replica remembers


def test_what_was_not_used_for_longest_makes_room_and_problems_first() -> None:
    """Otherwise names of missing images would displace images that exist."""
    cache = ImageCache(10)
    for number in range(9):
        cache.put(str(number), LookupResult.found(str(number), number, config(str(number))))
    for number in range(100):
        cache.put(f"problem-{number}", problem(number))
    assert set(cache.configs()) == set("012345678")
    assert cache.get("problem-99") == problem(99)
    cache.get("0", is_used=True)
    cache.get("1")
    for number in (9, 10):
        cache.put(str(number), LookupResult.found(str(number), number, config(str(number))))
    assert set(cache.configs()) == {"0", *"23456789", "10"}
    assert cache.get("problem-99") is None
