"""A snapshot never changes; news gives a new one, and news that rules cannot see gives the same one again."""

import copy
from threading import Barrier, Thread

import pytest

from tests.cluster.samples import GPU_TAINT, counted, names, node, pod, runtime_class
from webhook.cluster.snapshot import EMPTY, Snapshot

GPU_POD = pod(gpus={"nvidia.com/gpu": 1}, tolerations=[{"operator": "Exists"}])


def gpu_node(name: str, uid: str = "uid-1", **capacity: str) -> dict:
    return node(name, uid=uid, taints=[GPU_TAINT], capacity={"nvidia.com/gpu": "8"}, handlers=["nvidia"])


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


def with_fewer_gpus(raw: dict) -> None:
    raw["status"]["capacity"]["nvidia.com/gpu"] = "7"


def without_gpus(raw: dict) -> None:
    del raw["status"]["capacity"]["nvidia.com/gpu"]


@pytest.mark.parametrize(
    "change", [with_heartbeat, with_images, with_annotation, with_cordon, with_fewer_gpus, without_gpus]
)
def test_news_that_rules_cannot_see_gives_the_same_snapshot(change):
    raw = gpu_node("a")
    snapshot = Snapshot.of([raw, gpu_node("b")])
    later = copy.deepcopy(raw)
    change(later)
    assert later != raw
    assert snapshot.with_node(later) is snapshot
    assert snapshot.with_nodes([gpu_node("b"), later]) is snapshot


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


def test_nothing_is_remembered_of_another_machine_with_the_same_name():
    replaced = gpu_node("a", uid="uid-2")
    without_gpus(replaced)
    assert counted(Snapshot.of([gpu_node("a")]).with_node(replaced), GPU_POD) == 0


def test_a_change_of_runtime_classes_keeps_the_nodes_and_what_is_known_about_them():
    snapshot = Snapshot.of([gpu_node("a")], [runtime_class("runc")])
    changed = snapshot.with_runtime_class(runtime_class("nvidia"))
    assert changed.nodes is snapshot.nodes
    assert {"runc", "nvidia"} == set(changed.runtime_classes)
    assert {"nvidia"} == set(changed.without_runtime_class("runc").runtime_classes)
    assert {"runc"} == set(snapshot.runtime_classes)


def test_runtime_classes_that_stay_as_they_are_give_the_same_snapshot():
    snapshot = Snapshot.of((), [runtime_class("runc")])
    assert snapshot.with_runtime_class(runtime_class("runc")) is snapshot
    assert snapshot.with_runtime_classes([runtime_class("runc")]) is snapshot
    assert snapshot.without_runtime_class("nvidia") is snapshot
    assert snapshot.with_runtime_class({"handler": "nameless"}) is snapshot


def test_threads_that_ask_a_new_snapshot_at_the_same_moment_get_the_same_answer():
    snapshot = Snapshot.of([gpu_node(f"n{number}") for number in range(300)])
    barrier, answers = Barrier(8), []

    def ask() -> None:
        barrier.wait(timeout=10)
        answers.append(
            counted(snapshot, pod(nodeSelector={"kubernetes.io/hostname": "n7"}, tolerations=[{"operator": "Exists"}]))
        )

    threads = [Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert answers == [1] * 8
