"""No node lists the devices of a DeviceClass: pods that request them may run on nodes that are not known."""

from typing import Any

import pytest

from tests.facts.samples import GPU_TAINT, device_class, facts_of, node, pod
from webhook.facts.snapshot import Snapshot
from webhook.model.node import NodeClass

GPU = "nvidia.com/gpu"
PLAIN = Snapshot.of(
    [node("cpu", capacity={"cpu": "8"}), node("t4", taints=[GPU_TAINT], capacity={"cpu": "8", GPU: "1"})]
)
BY_CLASS = PLAIN.with_classes("device_classes", [device_class("gpu.nvidia.com", GPU), device_class("mig.nvidia.com")])
UNKNOWN = PLAIN.with_classes("device_classes", None)
SOMEWHERE = NodeClass({}, (), frozenset({GPU}), count=0, by_claim=True)


@pytest.mark.parametrize("facts", [BY_CLASS, UNKNOWN], ids=["by a DeviceClass", "DeviceClasses are not known"])
def test_a_pod_that_asks_for_such_a_resource_has_a_candidate_of_which_nothing_is_known(facts: Snapshot) -> None:
    asking = pod(gpus={GPU: 8})
    assert list(facts_of(PLAIN).feasible_nodes(asking)) == list(facts_of(PLAIN).matching_nodes(asking)) == []
    assert list(facts_of(facts).feasible_nodes(asking)) == list(facts_of(facts).matching_nodes(asking)) == [SOMEWHERE]


def test_nodes_that_list_the_resource_are_candidates_beside_it() -> None:
    asking = pod(gpus={GPU: 1}, tolerations=[{"operator": "Exists"}])
    assert [*facts_of(PLAIN).feasible_nodes(asking), SOMEWHERE] == list(facts_of(BY_CLASS).feasible_nodes(asking))
    assert len(facts_of(PLAIN).feasible_nodes(asking)) == 1


@pytest.mark.parametrize(
    "asking",
    [
        pytest.param(pod(), id="no GPU"),
        pytest.param(pod(asks={"cpu": "100"}), id="much cpu"),
        pytest.param(pod(gpus={GPU: 8}, nodeName="cpu"), id="bound to a node, past the scheduler that claims devices"),
    ],
)
@pytest.mark.parametrize("facts", [BY_CLASS, UNKNOWN], ids=["by a DeviceClass", "DeviceClasses are not known"])
def test_of_other_pods_the_same_is_known_as_without(facts: Snapshot, asking: Any) -> None:
    assert list(facts_of(facts).feasible_nodes(asking)) == list(facts_of(PLAIN).feasible_nodes(asking))
    assert list(facts_of(facts).matching_nodes(asking)) == list(facts_of(PLAIN).matching_nodes(asking))


def test_a_resource_that_no_class_gives_has_no_such_candidate_unless_classes_are_not_known() -> None:
    asking = pod(gpus={"amd.com/gpu": 1})
    assert list(facts_of(BY_CLASS).feasible_nodes(asking)) == []
    assert len(facts_of(UNKNOWN).feasible_nodes(asking)) == 1


def test_a_device_that_is_no_gpu_may_come_from_a_class_too() -> None:
    asking = pod(asks={"rdma/hca": "1"})
    assert list(facts_of(PLAIN).feasible_nodes(asking)) == []
    assert (
        len(facts_of(PLAIN.with_classes("device_classes", [device_class("nic", "rdma/hca")])).feasible_nodes(asking))
        == 1
    )


def test_changes_of_classes_are_followed() -> None:
    asking = pod(gpus={GPU: 8})
    snapshot = PLAIN.with_class("device_classes", device_class("a", GPU)).with_class(
        "device_classes", device_class("b", GPU)
    )
    assert facts_of(snapshot).feasible_nodes(asking)
    snapshot = snapshot.without_class("device_classes", "a")
    assert facts_of(snapshot).feasible_nodes(asking)
    assert not facts_of(snapshot.with_class("device_classes", device_class("b"))).feasible_nodes(asking)
    assert not facts_of(snapshot.with_class("device_classes", device_class("b", "amd.com/gpu"))).feasible_nodes(asking)
    assert not facts_of(snapshot.without_class("device_classes", "b")).feasible_nodes(asking)
    assert snapshot.with_class("device_classes", device_class("b", GPU)) is snapshot
    assert not facts_of(UNKNOWN.with_classes("device_classes", [])).feasible_nodes(asking)
