"""Groups of pods on a real API server with the PodGroups of Kubernetes: each is in a quota whole or not at all."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.objects import gpu_pod
from tests.e2e.quota_fixtures import create
from tests.e2e.quota_site import QuotaSite, quota_policy
from webhook.ledger.entries import entries_in

Namespaces = Callable[[str], str]
FLAGS = ["--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true"]
API = "/apis/scheduling.k8s.io/v1beta1/namespaces"
MOST = 37


@pytest.fixture(scope="module")
def groups(quotas: QuotaSite) -> Iterator[QuotaSite]:
    """Three replicas beside an API server that has PodGroups."""
    plane = quotas.plane
    if plane.version < (1, 37):
        pytest.skip("PodGroups are served since Kubernetes 1.37")
    plane.flags += FLAGS
    plane.restart_apiserver()
    eight, many = (
        quota_policy(name, f"{{mode: enforce, gpus: {gpus}}}") + "    gpuLimits: {mode: disabled}\n"
        for name, gpus in (("gang", 8), ("many", MOST))
    )
    quotas.write_policies({"gang.yaml": eight, "many.yaml": many})
    yield quotas
    plane.flags = [flag for flag in plane.flags if flag not in FLAGS]
    plane.restart_apiserver()


def podgroup(plane: ControlPlane, namespace: str, name: str, size: int) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": size}}}
    manifest = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
    status, answer = plane.raw("POST", f"{API}/{namespace}/podgroups", manifest)
    assert status == 201, answer


def member(name: str, group: str, gpus: int = 4) -> dict[str, Any]:
    raw = gpu_pod(name, gpus)
    raw["spec"]["schedulingGroup"] = {"podGroupName": group}
    return raw


def change(plane: ControlPlane, namespace: str, name: str, size: int) -> None:
    path = f"{API}/{namespace}/podgroups/{name}"
    found = plane.raw("GET", path)[1]
    found["spec"]["schedulingPolicy"]["gang"]["minCount"] = size
    status, answer = plane.raw("PUT", path, found)
    assert status == 200, answer


def held(site: QuotaSite, namespace: str) -> list[int]:
    """How many pods each remainder in the ledger of a namespace waits for."""
    ledger = site.ledger(f"namespace.{namespace}")
    return [one.left for one in entries_in(ledger).remainders.values()] if ledger else []


def test_a_group_gets_in_whole_or_not_at_all(groups: QuotaSite, make_namespace: Namespaces) -> None:
    namespace = make_namespace("gang")
    podgroup(groups.plane, namespace, "ga", 3)
    status, said = create(groups, namespace, member("a", "ga"))
    assert (status, "PodGroup ga needs 12 GPUs for 3 pods together" in said) == (403, True), said
    assert create(groups, namespace, gpu_pod("notebook", 1))[0] == 201
    groups.plane.raw("DELETE", f"/api/v1/namespaces/{namespace}/pods/notebook?gracePeriodSeconds=0")
    change(groups.plane, namespace, "ga", 2)
    eventually(lambda: create(groups, namespace, member("a", "ga"))[0] == 201)
    assert held(groups, namespace) == [1]
    status, said = create(groups, namespace, gpu_pod("notebook", 1))
    assert (status, "requested 1, used 8 of 8 (0 free)" in said) == (403, True), said
    assert create(groups, namespace, member("b", "ga")) == (201, "")
    eventually(lambda: held(groups, namespace) == [])


def test_pods_that_came_before_their_group_belong_to_it(groups: QuotaSite, make_namespace: Namespaces) -> None:
    namespace = make_namespace("gang")
    assert [create(groups, namespace, member(name, "late", 2))[0] for name in "ab"] == [201, 201]
    assert held(groups, namespace) == []
    podgroup(groups.plane, namespace, "late", 5)

    def refused() -> bool:
        status, said = create(groups, namespace, member("c", "late", 2))
        return status == 403 and "needs 6 GPUs for 3 pods together; used 4 of 8" in said

    eventually(refused)
    change(groups.plane, namespace, "late", 4)
    eventually(lambda: create(groups, namespace, member("c", "late", 2))[0] == 201)
    assert held(groups, namespace) == [1]


@pytest.mark.parametrize("how", ["deleted", "scheduled"])
def test_room_is_free_again_once_the_object_does_not_need_it(
    groups: QuotaSite, make_namespace: Namespaces, how: str
) -> None:
    namespace = make_namespace("gang")
    podgroup(groups.plane, namespace, "ga", 2)
    assert create(groups, namespace, member("a", "ga"))[0] == 201
    path = f"{API}/{namespace}/podgroups/ga"
    if how == "deleted":
        found = groups.plane.raw("GET", path)[1]
        found["metadata"]["finalizers"] = []
        groups.plane.raw("PUT", path, found)
        groups.plane.raw("DELETE", path)
    else:
        found = groups.plane.raw("GET", path)[1]
        at = "2026-01-01T00:00:00Z"
        condition = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled", "message": ""}
        found["status"] = {"conditions": [condition | {"lastTransitionTime": at}]}
        status, answer = groups.plane.raw("PUT", f"{path}/status", found)
        assert status == 200, answer
    eventually(lambda: held(groups, namespace) == [])
    assert create(groups, namespace, gpu_pod("notebook", 4))[0] == 201
