"""Look-ups of several replicas that share their results."""

import logging

import pytest

from tests.e2e.eventually import eventually
from tests.images.asking import APP, seen
from tests.images.replicas import Clock, MemoryStore, Registries, config, looking_up
from webhook.images import shared_results
from webhook.images.lookup_limits import ImageLookupError


@pytest.fixture
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_results, "READ_SECONDS", 0.05)
    monkeypatch.setattr(shared_results, "WRITE_SECONDS", 0.01)


@pytest.mark.usefixtures("in_a_hurry")
def test_replicas_agree_and_only_one_queries_the_registry(clock: Clock) -> None:
    store, one, other = MemoryStore(clock), Registries(), Registries()
    with looking_up(one, store, clock) as first, looking_up(other, store, clock) as second:
        seen(first)
        eventually(lambda: second.known)
        assert seen(second) == first.info(APP)
        assert other.asked == []
        assert (first.is_shared, second.is_shared) == (True, True)


@pytest.mark.usefixtures("in_a_hurry")
def test_only_lasting_problems_are_shared(clock: Clock) -> None:
    store = MemoryStore(clock)
    slow, gone = "docker.io/team/slow:1", "docker.io/team/gone:1"
    one = Registries({slow: ImageLookupError("slow", is_lasting=False), gone: ImageLookupError("gone")})
    other = Registries()
    with looking_up(one, store, clock) as first, looking_up(other, store, clock) as second:
        assert [seen(first, text).problem for text in (slow, gone)] == ["slow", "gone"]
        eventually(lambda: store.writes)
        eventually(lambda reads=store.reads: store.reads > reads + 4)  # type: ignore[misc]  # the reads of now
        assert seen(second, gone).problem == "gone"
        assert seen(second, slow).config is not None
        assert other.asked == [slow]
        eventually(lambda: first.info(slow).config is not None)


@pytest.mark.usefixtures("in_a_hurry")
def test_known_images_are_not_looked_up_after_a_restart(client: Registries, clock: Clock) -> None:
    store = MemoryStore(clock)
    with looking_up(client, store, clock) as images:
        seen(images)
    again = Registries()
    with looking_up(again, store, clock) as images:
        assert seen(images).config == config(APP)
    assert again.asked == []


def test_new_results_are_written_at_the_end(client: Registries, clock: Clock) -> None:
    """A replica that ends a second after a look-up still shares the result."""
    store = MemoryStore(clock)
    with looking_up(client, store, clock) as images:
        eventually(lambda: images.is_shared)
        seen(images)
        assert store.writes == 0
    assert store.writes == 1


@pytest.mark.usefixtures("in_a_hurry")
def test_without_the_shared_object_look_ups_go_on_and_the_log_says_so_once(
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
