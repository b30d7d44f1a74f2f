"""What rules may ask about a live cluster is read once, and what of it cannot be read is said."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.facts.fake_api_server import (
    DEVICE_CLASSES,
    NODES,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    SLICES,
    FakeApiServer,
    always,
    fake_api_server,
)
from tests.facts.samples import device_class, node, pod, priority_class, resource_slice, runtime_class
from tests.facts.served_kinds import Groups, aggregated
from webhook.audit.object_sources import read_facts
from webhook.facts.facts import ClusterFacts
from webhook.kubernetes.api_server import ApiServer
from webhook.model.node import PriorityClass

SERVED: Groups = {
    "": [("v1", {"Node": "nodes"})],
    "node.k8s.io": [("v1", {"RuntimeClass": "runtimeclasses"})],
    "scheduling.k8s.io": [("v1", {"PriorityClass": "priorityclasses"})],
}
REFUSED = always(403, {"kind": "Status", "message": "it is not to be"})


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with fake_api_server() as server:
        server.instead["/api"] = server.instead["/apis"] = aggregated(SERVED)
        server.objects[NODES] = [node("a", capacity={"cpu": "8"})]
        server.objects[RUNTIME_CLASSES] = [runtime_class("nvidia")]
        server.objects[PRIORITY_CLASSES] = [priority_class("low", 10)]
        yield server


def read(server: FakeApiServer, directory: Path) -> tuple[ClusterFacts, list[str]]:
    facts, errors = read_facts(ApiServer(server.kubeconfig(directory)))
    return facts, [error.message for error in errors]


def test_nodes_and_classes_are_read(server: FakeApiServer, tmp_path: Path) -> None:
    facts, errors = read(server, tmp_path)
    assert errors == []
    assert (set(facts.cluster.nodes), facts.largest("cpu")) == ({"a"}, 8000)
    assert set(facts.cluster.runtime_classes) == {"nvidia"}
    assert facts.priority_classes() == {"low": PriorityClass("low", 10)}


def test_classes_that_must_not_be_listed_are_an_error_and_all_else_is_read(
    server: FakeApiServer, tmp_path: Path
) -> None:
    server.instead[PRIORITY_CLASSES] = REFUSED
    facts, errors = read(server, tmp_path)
    assert errors == [
        "PriorityClass: priorityclasses.scheduling.k8s.io cannot be listed: the API server answered 403: it is not to "
        'be; grant the verb list on priorityclasses of apiGroup "scheduling.k8s.io" in a ClusterRole, or name the '
        "namespaces to audit"
    ]
    assert (set(facts.cluster.nodes), set(facts.cluster.runtime_classes)) == ({"a"}, {"nvidia"})


DRA: Groups = {**SERVED, "resource.k8s.io": [("v1", {"DeviceClass": "deviceclasses"})]}
ASKING = pod(gpus={"nvidia.com/gpu": 1})


def test_device_classes_are_read_where_they_are_served(server: FakeApiServer, tmp_path: Path) -> None:
    server.objects[DEVICE_CLASSES] = [device_class("gpu.nvidia.com", "nvidia.com/gpu")]
    assert not read(server, tmp_path)[0].feasible_nodes(ASKING)
    server.instead["/apis"] = aggregated(DRA)
    facts, errors = read(server, tmp_path)
    assert errors == []
    assert facts.feasible_nodes(ASKING)
    assert not facts.feasible_nodes(pod(gpus={"amd.com/gpu": 1}))


def test_device_classes_that_must_not_be_listed_are_an_error_and_may_give_anything(
    server: FakeApiServer, tmp_path: Path
) -> None:
    server.instead["/apis"] = aggregated(DRA)
    server.instead[DEVICE_CLASSES] = REFUSED
    facts, errors = read(server, tmp_path)
    assert [error.partition(":")[0] for error in errors] == ["DeviceClass"]
    assert facts.feasible_nodes(ASKING)


SLICED: Groups = {**SERVED, "resource.k8s.io": [("v1", {"ResourceSlice": "resourceslices"})]}


def test_slices_are_read_where_they_are_served_and_unknown_where_they_must_not_be(
    server: FakeApiServer, tmp_path: Path
) -> None:
    server.objects[SLICES] = [resource_slice("a", "a", gpus=4)]
    server.instead["/apis"] = aggregated(SLICED)
    facts, errors = read(server, tmp_path)
    assert errors == []
    assert facts.cluster.slices is not None
    assert facts.cluster.slices.most("gpu.nvidia.com") == 4
    server.instead[SLICES] = REFUSED
    facts, errors = read(server, tmp_path)
    assert (facts.cluster.slices, errors) == (None, [])


@pytest.mark.parametrize("group", ["node.k8s.io", "scheduling.k8s.io"])
def test_a_class_that_the_cluster_does_not_know_is_no_error(server: FakeApiServer, tmp_path: Path, group: str) -> None:
    known = {name: versions for name, versions in SERVED.items() if name != group}
    server.instead["/api"] = server.instead["/apis"] = aggregated(known)
    facts, errors = read(server, tmp_path)
    assert errors == []
    assert len(facts.cluster.runtime_classes) + len(facts.priority_classes()) == 1


def test_that_nobody_can_tell_what_is_served_is_said_once(server: FakeApiServer, tmp_path: Path) -> None:
    server.instead["/apis"] = REFUSED
    facts, errors = read(server, tmp_path)
    assert len(errors) == 1
    assert errors[0].startswith("what the API server serves is not known: GET /apis: the API server answered 403")
    assert facts.feasible_nodes(ASKING)
    assert set(facts.cluster.nodes) == {"a"}


def test_runtimes_of_trainer_are_read_where_they_may_be(server: FakeApiServer, tmp_path: Path) -> None:
    group, kinds = "trainer.kubeflow.org", {"TrainingRuntime": "trainingruntimes"}
    served: Groups = {**SERVED, group: [("v1alpha1", {**kinds, "ClusterTrainingRuntime": "clustertrainingruntimes"})]}
    server.instead["/api"] = server.instead["/apis"] = aggregated(served)
    of_cluster, own = (f"/apis/{group}/v1alpha1/{one}" for one in ("clustertrainingruntimes", "trainingruntimes"))
    server.objects[of_cluster] = [{"metadata": {"name": "torch", "uid": "1"}}]
    server.objects[own] = [{"metadata": {"name": "mine", "namespace": "team", "uid": "2"}}]
    facts, errors = read(server, tmp_path)
    assert (sorted(facts.cluster.runtimes), errors) == ([("", "torch"), ("team", "mine")], [])
    server.instead[own] = REFUSED
    facts, errors = read(server, tmp_path)
    assert (sorted(facts.cluster.runtimes), errors) == ([("", "torch")], [])
