"""Look-ups of several replicas, and of commands, that share their results."""

import logging

import pytest

from tests.e2e.eventually import eventually
from tests.images.replicas import APP, EVERYBODY, Clock, MemoryStore, Registries, config, looking_up, seen
from webhook.images import shared_results
from webhook.images.http_request import ImageLookupError
from webhook.images.lookups import look_up_all
from webhook.model.image import NOT_LOOKED_UP


@pytest.fixture
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_results, "READ_SECONDS", 0.05)
    monkeypatch.setattr(shared_results, "WRITE_SECONDS", 0.01)


@pytest.mark.usefixtures("in_a_hurry")
def test_replicas_agree_and_only_one_queries_the_registry(clock: Clock) -> None:
    store, one, other = MemoryStore(), Registries(), Registries()
    with looking_up(one, store, clock) as first, looking_up(other, store, clock) as second:
        seen(first)
        eventually(lambda: second.known)
        assert seen(second) == first.info(APP)
        assert other.asked == []
        assert (first.is_shared, second.is_shared) == (True, True)


def test_new_results_are_written_at_the_end(client: Registries, clock: Clock) -> None:
    """A replica that ends a second after a look-up still shares the result."""
    store = MemoryStore()
    with looking_up(client, store, clock) as images:
        eventually(lambda: images.is_shared)
        seen(images)
        assert store.writes == 0
    assert store.writes == 1


@pytest.mark.usefixtures("in_a_hurry")
def test_without_the_shared_object_look_ups_go_on_and_the_log_says_so_once(
    client: Registries, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
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
    store = MemoryStore()
    store.before_write = lambda: {}["never thought of"]
    with caplog.at_level(logging.ERROR), looking_up(client, store, clock) as images:
        seen(images)
        eventually(lambda: images.is_shared is False)
        store.before_write = lambda: None
        eventually(lambda: store.writes and images.is_shared)
    assert len(caplog.records) == 1


# Looking images up at once, as commands do


def test_results_have_the_references_as_given() -> None:
    client = Registries({"docker.io/library/gone:1": ImageLookupError("gone")})
    infos = look_up_all(["python", "gone:1", "a b", "elsewhere.example/a", "python"], client.look_up, EVERYBODY)
    assert list(infos) == ["python", "gone:1", "a b", "elsewhere.example/a"]
    assert infos["python"].config == config("docker.io/library/python:latest")
    assert infos["gone:1"].problem == "gone"
    assert "is not an image reference" in infos["a b"].problem
    assert infos["elsewhere.example/a"] == NOT_LOOKED_UP
    assert client.asked == ["docker.io/library/python:latest", "docker.io/library/gone:1"]
    assert look_up_all([], client.look_up, EVERYBODY) == {}


def test_more_references_than_a_replica_would_queue_or_remember_are_all_looked_up() -> None:
    texts = [f"docker.io/team/app:{number}" for number in range(2_500)]
    infos = look_up_all(texts, Registries().look_up, EVERYBODY, MemoryStore())
    assert all(info.config is not None for info in infos.values())


def test_what_a_command_finds_is_shared_and_what_is_shared_stays() -> None:
    store = MemoryStore()
    for client, text in ((Registries(), APP), (Registries(), "docker.io/team/app:2")):
        look_up_all([text], client.look_up, EVERYBODY, store)
        assert client.asked == [text]
    assert set(store.configs) == {APP, "docker.io/team/app:2"}


def test_results_that_cannot_be_shared_are_returned(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    store.fault = "there is no ConfigMap gpu-policy/gpu-policy-images"
    with caplog.at_level(logging.WARNING):
        assert look_up_all(["python"], Registries().look_up, EVERYBODY, store)["python"].config is not None
    assert "not shared with the replicas: there is no ConfigMap" in caplog.text
