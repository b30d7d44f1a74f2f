"""A snapshot never changes. A change makes a new snapshot, unless rules cannot see the change."""

import copy

import pytest

from tests.facts.samples import GPU_TAINT, counted, facts_of, housed, names, node, pod, priority_class, runtime_class
from webhook.facts.snapshot import EMPTY, Snapshot
from webhook.model.node import PriorityClass

GPU_POD = pod(gpus={"nvidia.com/gpu": 1}, tolerations=[{"operator": "Exists"}])


def gpu_node(name: str, uid: str = "uid-1") -> dict:
    capacity = {"cpu": "96", "memory": "1000Gi", "nvidia.com/gpu": "8", "rdma/hca": "4", "pods": "110"}
    allocatable = capacity | {"cpu": "95500m", "memory": "990Gi"}
    parts = {"capacity": capacity, "allocatable": allocatable}
    return node(name, uid=uid, taints=[GPU_TAINT], handlers=["nvidia"], **parts)


def with_heartbeat(raw: dict) -> None:
    raw["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2030-01-01T00:00:00Z"}]
    raw["metadata"]["resourceVersion"] = "999"


def with_images(raw: dict) -> None:
    raw["status"]["images"] = [{"names": ["registry.example.com/a:1"], "sizeBytes": 1}]


def with_annotation(raw: dict) -> None:
    raw["metadata"]["annotations"] = {"csi.volume.kubernetes.io/nodeid": "{}"}


def with_cordon(raw: dict) -> None:
    raw["spec"]["unschedulable"] = True
    raw["spec"]["taints"].append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})


def with_an_ill_gpu(raw: dict) -> None:
    raw["status"]["allocatable"]["nvidia.com/gpu"] = "7"


def with_room_for_more_pods(raw: dict) -> None:
    raw["status"]["capacity"]["pods"] = raw["status"]["allocatable"]["pods"] = "250"


def without_gpus(raw: dict) -> None:
    for part in ("capacity", "allocatable"):
        del raw["status"][part]["nvidia.com/gpu"]


def with_the_plugin_of_gpus_away(raw: dict) -> None:
    for part in ("capacity", "allocatable"):
        raw["status"][part]["nvidia.com/gpu"] = "0"


def with_plugins_away(raw: dict) -> None:
    for part in ("capacity", "allocatable"):
        raw["status"][part] |= {"nvidia.com/gpu": "0", "rdma/hca": "0"}


UNSEEN = [
    with_heartbeat,
    with_images,
    with_annotation,
    with_cordon,
    with_an_ill_gpu,
    with_room_for_more_pods,
    without_gpus,
    with_the_plugin_of_gpus_away,
]


@pytest.mark.parametrize("change", UNSEEN)
def test_news_that_rules_cannot_see_gives_the_same_snapshot(change):
    raw = gpu_node("a")
    snapshot = Snapshot.of([raw, gpu_node("b")])
    later = copy.deepcopy(raw)
    change(later)
    assert later != raw
    assert snapshot.with_node(later) is snapshot
    assert snapshot.with_nodes([gpu_node("b"), later]) is snapshot


@pytest.mark.parametrize(
    ("part", "resource", "less", "asking"),
    [
        pytest.param("capacity", "nvidia.com/gpu", "7", {"nvidia.com/gpu": 8}, id="a GPU fewer"),
        pytest.param("capacity", "rdma/hca", "1", {"rdma/hca": 4}, id="fewer other devices"),
        pytest.param("allocatable", "cpu", "90", {"cpu": "95"}, id="more cpu reserved"),
        pytest.param("allocatable", "memory", "1Gi", {"memory": "990Gi"}, id="less memory"),
    ],
)
def test_a_changed_amount_is_seen_and_the_earlier_snapshot_stays_as_it_was(part, resource, less, asking):
    raw = gpu_node("a")
    before = Snapshot.of([raw, gpu_node("b")])
    wanted = pod(asks=asking, tolerations=[{"operator": "Exists"}])
    assert housed(before, wanted) == 2
    later = copy.deepcopy(raw)
    later["status"][part][resource] = less
    for after in (before.with_node(later), before.with_nodes([later, gpu_node("b")])):
        assert (housed(after, wanted), counted(after, wanted)) == (1, 2)
    assert housed(before, wanted) == 2


def test_a_changed_node_is_seen_and_the_earlier_snapshot_stays_as_it_was():
    before = Snapshot.of([node("a", labels={"zone": "a"}), node("b", labels={"zone": "a"})])
    asking = pod(nodeSelector={"zone": "a"})
    assert counted(before, asking) == 2
    after = before.with_node(node("a", labels={"zone": "b"}))
    assert {"b"} == names(after, asking)
    assert {"a", "b"} == names(before, asking)


def test_nodes_come_and_go():
    snapshot = EMPTY.with_node(node("a")).with_node(node("b")).with_node(node("c")).without_node("a")
    assert {"b", "c"} == names(snapshot, pod())
    assert snapshot.without_node("a") is snapshot
    assert {"c", "d"} == names(snapshot.with_nodes([node("c"), node("d")]), pod())


def test_gpu_resources_that_a_node_once_had_are_remembered_while_the_device_plugin_restarts():
    snapshot = Snapshot.of([gpu_node("a")])
    without = gpu_node("a")
    without_gpus(without)
    for later in (snapshot.with_node(without), snapshot.with_nodes([without])):
        relabelled = later.with_node(without | {"metadata": {**without["metadata"], "labels": {"rack": "1"}}})
        assert counted(relabelled, GPU_POD) == 1


def test_how_many_devices_a_node_once_had_is_remembered_while_device_plugins_restart():
    snapshot = Snapshot.of([gpu_node("a")])
    for change in (without_gpus, with_plugins_away):
        without = gpu_node("a")
        change(without)
        relabelled = without | {"metadata": {**without["metadata"], "labels": {"rack": "1"}}}
        for later in (snapshot.with_node(relabelled), snapshot.with_nodes([relabelled])):
            assert later is not snapshot
            assert (facts_of(later).largest("nvidia.com/gpu"), facts_of(later).largest("rdma/hca")) == (8, 4)
            assert later.nodes["a"].gpus == 8
    back = gpu_node("a")
    back["status"]["capacity"]["nvidia.com/gpu"] = "6"
    assert facts_of(snapshot.with_node(without).with_node(back)).largest("nvidia.com/gpu") == 6


def test_cpu_and_memory_are_not_remembered():
    without = gpu_node("a")
    for part in ("capacity", "allocatable"):
        del without["status"][part]["memory"]
    later = Snapshot.of([gpu_node("a")]).with_node(without)
    assert facts_of(later).largest("memory") is None


def test_nothing_is_remembered_of_another_machine_with_the_same_name():
    replaced = gpu_node("a", uid="uid-2")
    without_gpus(replaced)
    after = Snapshot.of([gpu_node("a")]).with_node(replaced)
    assert counted(after, GPU_POD) == 0
    assert facts_of(after).largest("nvidia.com/gpu") == 0


def test_priority_classes_come_and_go_and_the_nodes_stay():
    snapshot = Snapshot.of([gpu_node("a")], [runtime_class("runc")], [priority_class("low", 10)])
    changed = snapshot.with_class("priority_classes", priority_class("high", 1000, is_default=True))
    assert {"low", "high"} == set(changed.priority_classes)
    assert changed.priority_classes["high"] == PriorityClass("high", 1000, is_default=True)
    assert {"high"} == set(changed.without_class("priority_classes", "low").priority_classes)
    assert {"low"} == set(snapshot.priority_classes)
    assert (changed.nodes, changed.runtime_classes) == (snapshot.nodes, snapshot.runtime_classes)
    assert changed.with_node(gpu_node("b")).priority_classes == changed.priority_classes
    assert changed.with_classes("runtime_classes", []).priority_classes == changed.priority_classes


def test_priority_classes_that_stay_as_they_are_give_the_same_snapshot():
    snapshot = Snapshot.of((), (), [priority_class("low")])
    assert snapshot.with_class("priority_classes", priority_class("low")) is snapshot
    assert snapshot.with_classes("priority_classes", [priority_class("low")]) is snapshot
    assert snapshot.without_class("priority_classes", "high") is snapshot
    assert snapshot.with_class("priority_classes", {"value": 1}) is snapshot
