"""Ledgers and lists of pods on a real API server: compare-and-swap, consistency, and nothing but metadata."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from tests.e2e.control_plane import TENANT_TOKEN, ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.objects import gpu_pod, pod
from tests.facts.asking import is_gone, is_live
from tests.ledger.store_contract import KEY, SECONDS, StoreContract, entries
from webhook.kubernetes.api_errors import ConflictError
from webhook.kubernetes.api_server import ApiServer
from webhook.ledger.ledger_store import LedgerError, StoredLedger
from webhook.ledger.pod_source import LivePods
from webhook.replica.ledger_config_maps import ApiStore

NODE = "lost-node"


@pytest.fixture
def server(control_plane: ControlPlane) -> ApiServer:
    return ApiServer(control_plane.kubeconfig)


@pytest.fixture
def namespace(control_plane: ControlPlane, make_namespace: Callable[[str], str]) -> str:
    return make_namespace("ledgers")


class TestApiStore(StoreContract):
    """All promises of a store, and what others may do to its objects meanwhile."""

    @pytest.fixture
    def store(self, server: ApiServer, namespace: str) -> ApiStore:
        """An empty one."""
        return ApiStore(server, namespace)

    def test_of_many_who_write_over_the_same_book_one_succeeds(self, store):
        held = store.create(KEY, entries(0), SECONDS)

        def write(number: int) -> bool:
            try:
                store.replace(KEY, entries(0, number), held, SECONDS)
            except ConflictError:
                return False
            return True

        with ThreadPoolExecutor(16) as pool:
            written = list(pool.map(write, range(1, 49)))
        assert written.count(True) == 1
        read = store.read(KEY, SECONDS)
        assert read is not None
        assert read.entries == entries(0, 1 + written.index(True))

    def test_missing_rights_are_told_with_the_remedy(self, control_plane, namespace):
        store = ApiStore(ApiServer(control_plane.kubeconfig_for(TENANT_TOKEN)), namespace)
        told = "answered 403: .*; install the RBAC objects of the chart again"
        held = StoredLedger("1", entries(1))
        for ask in (
            lambda: store.read(KEY, SECONDS),
            lambda: store.read_all(SECONDS),
            lambda: store.create(KEY, entries(1), SECONDS),
            lambda: store.replace(KEY, entries(1), held, SECONDS),
            lambda: store.remove(KEY, held, SECONDS),
        ):
            with pytest.raises(LedgerError, match=told):
                ask()


def create(control_plane: ControlPlane, namespace: str, manifest: dict) -> bytes:
    status, answer = control_plane.raw("POST", f"/api/v1/namespaces/{namespace}/pods", manifest)
    assert status == 201, answer
    return UUID(answer["metadata"]["uid"]).bytes


def finish(control_plane: ControlPlane, namespace: str, name: str, phase: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
    status, answer = control_plane.raw("PATCH", path, {"status": {"phase": phase}})
    assert status == 200, answer


def delete(control_plane: ControlPlane, namespace: str, name: str, grace: int = 0) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds={grace}"
    status, answer = control_plane.raw("DELETE", path)
    assert status in (200, 202), answer


@pytest.fixture
def pods(server: ApiServer) -> LivePods:
    """Pods that are asked for consistent lists only."""
    return LivePods(server)


def test_what_was_created_a_moment_ago_is_listed_and_what_was_deleted_is_not(control_plane, pods, namespace):
    """No list is ever older than its beginning; ten times, because one could be lucky."""
    for number in range(10):
        uid = create(control_plane, namespace, gpu_pod(f"p-{number}"))
        assert uid in pods.live_now([namespace], SECONDS)
        assert uid in {seen.uid for seen in pods.list_now([namespace], SECONDS)}
        delete(control_plane, namespace, f"p-{number}")
        assert pods.live_now([namespace], SECONDS) == frozenset()
        assert list(pods.list_now([namespace], SECONDS)) == []


def test_pods_that_have_finished_are_not_listed_and_those_without_gpus_are_live(control_plane, pods, namespace):
    uids = {name: create(control_plane, namespace, gpu_pod(name)) for name in ("runs", "done", "failed")}
    web = create(control_plane, namespace, pod("web", {"limits": {"cpu": "1"}}))
    finish(control_plane, namespace, "done", "Succeeded")
    finish(control_plane, namespace, "failed", "Failed")
    assert {uids["runs"], web} == pods.live_now([namespace], SECONDS)
    assert [seen.name for seen in pods.list_now([namespace], SECONDS)] == ["runs"]
    assert [seen.name for seen in pods.list_now([f"{namespace[:-1]}?"], SECONDS) if seen.uid in uids.values()] == [
        "runs"
    ]


def test_a_deletion_that_nobody_confirms_ends_with_its_deadline(control_plane, pods, namespace):
    """The pod is on a node that is lost, so it stays in the API server."""
    uid = create(control_plane, namespace, gpu_pod("stuck", nodeName=NODE))
    delete(control_plane, namespace, "stuck", grace=1)
    assert pods.live_now([namespace], SECONDS) == {uid}
    eventually(lambda: pods.live_now([namespace], SECONDS) == frozenset())
    assert control_plane.raw("GET", f"/api/v1/namespaces/{namespace}/pods/stuck")[0] == 200
    delete(control_plane, namespace, "stuck")


def test_pods_are_followed_until_they_are_gone(control_plane, server, namespace):
    told: list[float] = []
    pods = LivePods(server)
    pods.listen(lambda: told.append(time.monotonic()))
    pods.start()
    try:
        eventually(pods.is_known)
        uids = {name: create(control_plane, namespace, gpu_pod(name)) for name in ("deleted", "done", "stays")}
        create(control_plane, namespace, pod("web", {"limits": {"cpu": "1"}}))
        eventually(lambda: {seen.name for seen in pods.seen(namespace)} == set(uids))
        assert told == []
        delete(control_plane, namespace, "deleted")
        finish(control_plane, namespace, "done", "Succeeded")
        eventually(lambda: is_gone(pods, uids["deleted"]) and is_gone(pods, uids["done"]))
        assert {"stays"} == {seen.name for seen in pods.seen(namespace)}
        assert len(told) >= 2
        finish(control_plane, namespace, "done", "Running")
        eventually(lambda: is_live(pods, uids["done"]) and not is_gone(pods, uids["done"]))
    finally:
        pods.close()
