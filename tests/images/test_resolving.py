"""Looking images up at once, as commands do."""

import logging

import pytest

from tests.images.replicas import Clock, MemoryStore, Registries, config, everybody, looking_up
from webhook.images.lookup_limits import ImageLookupError
from webhook.images.lookups import look_up_all
from webhook.images.packing import unpack
from webhook.model.image import NOT_LOOKED_UP, ImageReference


def test_results_have_the_references_as_given() -> None:
    client = Registries({"docker.io/library/gone:1": ImageLookupError("gone")})
    infos = look_up_all(["python", "gone:1", "a b", "python"], client, everybody)
    assert list(infos) == ["python", "gone:1", "a b"]
    assert infos["python"].config == config("docker.io/library/python:latest")
    assert infos["gone:1"].problem == "gone"
    assert "is not an image reference" in infos["a b"].problem
    assert not any(info.is_pending for info in infos.values())


def test_more_references_than_a_replica_would_queue_are_all_looked_up() -> None:
    texts = [f"docker.io/team/app:{number}" for number in range(2_500)]
    infos = look_up_all(texts, Registries(), everybody)
    assert all(info.config is not None for info in infos.values())


def test_a_registry_that_is_not_on_the_list_is_not_asked() -> None:
    def admits(reference: ImageReference) -> bool:
        return reference.registry == "nvcr.io"

    client = Registries()
    assert look_up_all(["python"], client, admits) == {"python": NOT_LOOKED_UP}
    assert client.asked == []


def test_no_references_give_no_results_at_once() -> None:
    assert look_up_all([], Registries(), everybody) == {}


def test_what_is_found_is_shared_with_the_replicas() -> None:
    clock = Clock()
    store = MemoryStore()
    look_up_all(["docker.io/team/app:1"], Registries(), everybody, store)
    client = Registries()
    with looking_up(client, store, clock) as images:
        images.info("docker.io/team/app:1")
        assert images.wait(20)
        assert images.info("docker.io/team/app:1").config == config("docker.io/team/app:1")
    assert client.asked == []


def test_the_registry_is_queried_and_shared_results_stay() -> None:
    store = MemoryStore()
    look_up_all(["docker.io/team/app:1", "docker.io/team/app:2"], Registries(), everybody, store)
    store.clock.advance(3600)  # type: ignore[attr-defined]  # a Clock
    moved = Registries({"docker.io/team/app:1": config("moved")})
    assert look_up_all(["docker.io/team/app:1"], moved, everybody, store)["docker.io/team/app:1"].config == config(
        "moved"
    )
    shared = unpack(store.content).results
    assert shared["docker.io/team/app:1"].config == config("moved")
    assert "docker.io/team/app:2" in shared


def test_results_that_cannot_be_shared_are_returned(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    store.fault = "there is no ConfigMap gpu-policy/gpu-policy-images"
    with caplog.at_level(logging.WARNING):
        assert look_up_all(["python"], Registries(), everybody, store)["python"].config is not None
    assert "not shared with the replicas: there is no ConfigMap" in caplog.text
