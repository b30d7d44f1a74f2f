"""Of the nodes that a pod could be scheduled to, those have room that have enough of all it asks for."""

import pytest

from tests.facts.samples import GPU_TAINT, counted, housed, node, pod, priority_class
from webhook.facts.facts import ClusterFacts
from webhook.model.node import PriorityClass
from webhook.rules.rule import Facts

GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
H100 = {"cpu": "192", "memory": "2000Gi", "ephemeral-storage": "3000Gi", GPU: "8", "rdma/hca": "8"}
T4 = {"cpu": "48", "memory": "384Gi", "ephemeral-storage": "200Gi", GPU: "1"}
CPU = {"cpu": "128", "memory": "512Gi", "hugepages-1Gi": "64Gi", "ephemeral-storage": "400Gi"}
CLUSTER = ClusterFacts.of(
    [
        node("h100", labels={"zone": "a"}, taints=[GPU_TAINT], capacity=H100),
        node("t4", labels={"zone": "b"}, taints=[GPU_TAINT], capacity=T4),
        node("cpu", labels={"zone": "b"}, capacity=CPU),
    ]
)
ANYWHERE = {"tolerations": [{"operator": "Exists"}]}


@pytest.mark.parametrize(
    ("asking", "matching", "feasible"),
    [
        pytest.param(pod(), 1, 1, id="nothing at all"),
        pytest.param(pod(**ANYWHERE), 3, 3, id="nothing but a place"),
        pytest.param(pod(gpus={GPU: 8}, **ANYWHERE), 2, 1, id="exactly as many GPUs as a node has"),
        pytest.param(pod(gpus={GPU: 9}, **ANYWHERE), 2, 0, id="one more"),
        pytest.param(pod(asks={"cpu": "129"}, **ANYWHERE), 3, 1, id="cpu"),
        pytest.param(pod(asks={"cpu": "127999.9m"}, **ANYWHERE), 3, 2, id="cpu, in parts of a thousandth"),
        pytest.param(pod(asks={"memory": "600Gi"}), 1, 0, id="room only where it could not be scheduled to"),
        pytest.param(pod(asks={"cpu": "100", "memory": "400Gi"}, **ANYWHERE), 3, 2, id="two resources on one node"),
        pytest.param(
            pod(asks={"cpu": "100"}, gpus={GPU: 1}, nodeSelector={"zone": "b"}, **ANYWHERE), 1, 0, id="on none"
        ),
        pytest.param(pod(asks={"ephemeral-storage": "1000Gi"}, **ANYWHERE), 3, 1, id="ephemeral storage"),
        pytest.param(pod(asks={"hugepages-1Gi": "64Gi"}, **ANYWHERE), 3, 1, id="huge pages"),
        pytest.param(pod(asks={"hugepages-2Mi": "2Mi"}, **ANYWHERE), 3, 0, id="huge pages of a size that no node has"),
        pytest.param(pod(asks={"rdma/hca": "1"}, **ANYWHERE), 3, 1, id="another device"),
        pytest.param(pod(asks={"example.com/fpga": "1"}, **ANYWHERE), 3, 0, id="a device that no node has"),
        pytest.param(pod(gpus={"amd.com/gpu": 1}, **ANYWHERE), 0, 0, id="a GPU that no node has"),
        pytest.param(pod(asks={"pods": "1000", "made-up": "5"}, **ANYWHERE), 3, 3, id="resources without comparison"),
        pytest.param(pod(asks={"example.kubernetes.io/a": "5"}, **ANYWHERE), 3, 3, id="Kubernetes' own names"),
        pytest.param(pod(gpus={GPU: 1, "nvidia.com/gpumem": 4000}, **ANYWHERE), 2, 2, id="a share of a GPU (HAMi)"),
        pytest.param(pod(asks={"cpu": "1000"}, nodeName="h100"), 1, 0, id="bound to a node by name"),
        pytest.param(pod(asks={"cpu": "100"}, overhead={"cpu": "30"}, **ANYWHERE), 3, 1, id="with overhead"),
    ],
)
def test_a_candidate_is_a_home_if_it_has_enough_of_everything(asking, matching, feasible):
    assert (matching, feasible) == (counted(CLUSTER, asking), housed(CLUSTER, asking))


def test_an_unknown_amount_is_enough():
    unlabelled = ClusterFacts.of([node("new"), node("away", capacity={"cpu": "8", GPU: "0"})])
    assert housed(unlabelled, pod(asks={"cpu": "64", "memory": "1Ti"})) == 1
    assert housed(unlabelled, pod(asks={"rdma/hca": "1"})) == 1
    assert housed(unlabelled, pod(gpus={GPU: 64})) == 1


@pytest.mark.parametrize(
    ("resource", "of_all", "in_zone_b"),
    [
        pytest.param("cpu", 192_000, 128_000, id="millicores"),
        pytest.param("memory", 2000 * 2**30, 512 * 2**30, id="bytes"),
        pytest.param(GPU, 8, 1, id="GPUs"),
        pytest.param("rdma/hca", 8, 0, id="other devices"),
        pytest.param("hugepages-1Gi", 64 * 2**30, 64 * 2**30, id="huge pages"),
        pytest.param("example.com/fpga", 0, 0, id="a device that no node has"),
        pytest.param("amd.com/gpu", 0, 0, id="a GPU that no node has"),
        pytest.param("pods", None, None, id="what is not known"),
    ],
)
def test_the_most_of_a_resource_is_told_in_its_unit(resource, of_all, in_zone_b):
    assert CLUSTER.largest(resource) == of_all
    assert CLUSTER.largest(resource, pod(nodeSelector={"zone": "b"}, **ANYWHERE)) == in_zone_b
    assert CLUSTER.largest(resource, pod(nodeSelector={"zone": "c"})) == 0


def test_gpu_resources_are_those_of_all_nodes_also_of_those_whose_device_plugin_is_away():
    snapshot = CLUSTER.cluster.with_node(node("mig", capacity={SLICE: "7"})).with_node(
        node("away", capacity={"amd.com/gpu": "0"})
    )
    assert ClusterFacts(snapshot).gpu_resources() == {GPU, SLICE, "amd.com/gpu"}
    assert ClusterFacts(CLUSTER.cluster.without_node("h100").without_node("t4")).gpu_resources() == frozenset()


def test_the_values_of_a_label_are_sorted_and_each_told_once():
    assert CLUSTER.label_values("zone") == ["a", "b"]
    assert CLUSTER.label_values("kubernetes.io/hostname") == ["cpu", "h100", "t4"]
    assert list(CLUSTER.label_values("rack")) == []


def test_of_an_empty_cluster_nothing_is_known():
    assert list(ClusterFacts().feasible_nodes(pod(asks={"cpu": "1"}))) == []
    assert (ClusterFacts().largest("cpu"), ClusterFacts().gpu_resources(), ClusterFacts().priority_classes()) == (
        0,
        frozenset(),
        {},
    )


def test_priority_classes_are_known_by_name():
    facts: Facts = ClusterFacts.of((), (), [priority_class("low", 10), priority_class("usual", 50, is_default=True)])
    assert facts.priority_classes() == {
        "low": PriorityClass("low", 10),
        "usual": PriorityClass("usual", 50, is_default=True),
    }
