"""Objects of any shape are read without an error: what makes sense is kept, the rest left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.facts.samples import counted, housed, node, pod
from tests.golden import golden
from tests.gpus.discovered_labels import discovered
from webhook.facts.nodes import Node, node_from_raw
from webhook.facts.snapshot import Snapshot, priority_class_from_raw, runtime_class_from_raw
from webhook.gpus.gpu_shares import share_of
from webhook.model.node import PriorityClass, RuntimeClass

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def optional_parts(**parts: st.SearchStrategy) -> st.SearchStrategy:
    """A map in which each part is missing, garbage, or what it should be."""
    return JSON | st.fixed_dictionaries({}, optional={name: JSON | part for name, part in parts.items()})


TAINT = optional_parts(key=st.text(max_size=5), value=st.text(max_size=5), effect=st.just("NoSchedule"))
TOLERATION = optional_parts(key=st.text(max_size=5), operator=st.just("Exists"), tolerationSeconds=st.integers())
NODES = optional_parts(
    metadata=optional_parts(name=st.text(max_size=5), uid=st.text(max_size=5), labels=optional_parts(zone=st.text())),
    spec=optional_parts(taints=st.lists(TAINT, max_size=3)),
    status=optional_parts(
        capacity=st.dictionaries(st.sampled_from(["cpu", "nvidia.com/gpu", "rdma/hca", ""]), JSON),
        allocatable=JSON | st.dictionaries(st.sampled_from(["cpu", "memory", "pods"]), JSON),
        runtimeHandlers=st.lists(optional_parts(name=st.text(max_size=5)), max_size=3),
    ),
)
RUNTIME_CLASSES = optional_parts(
    metadata=optional_parts(name=st.text(max_size=5)),
    handler=st.text(max_size=5),
    spec=optional_parts(runtimeHandler=st.text(max_size=5)),
    scheduling=optional_parts(
        nodeSelector=st.dictionaries(st.text(max_size=5), JSON, max_size=2),
        tolerations=st.lists(TOLERATION, max_size=2),
    ),
)


PRIORITY_CLASSES = optional_parts(
    metadata=optional_parts(name=st.text(max_size=5)),
    value=st.integers(),
    globalDefault=st.booleans(),
    preemptionPolicy=st.sampled_from(["Never", "PreemptLowerPriority"]),
)


@given(
    nodes=st.lists(NODES, max_size=4),
    runtime_classes=st.lists(RUNTIME_CLASSES, max_size=3),
    priority_classes=st.lists(PRIORITY_CLASSES, max_size=3),
)
def test_no_node_and_no_class_is_too_strange(nodes, runtime_classes, priority_classes):
    """They are kept under their name or counted, and the snapshot answers, also when they come one by one."""
    snapshot = Snapshot.of(nodes, runtime_classes, priority_classes)
    named = [raw for raw in nodes if node_from_raw(raw) is not None]
    assert len(nodes) - len(named) == snapshot.unreadable
    one_by_one = Snapshot.of()
    for raw in nodes:
        one_by_one = one_by_one.with_node(raw)
    for raw in runtime_classes:
        one_by_one = one_by_one.with_class("runtime_classes", raw)
    for raw in priority_classes:
        one_by_one = one_by_one.with_class("priority_classes", raw)
    asking = pod(nodeSelector={"zone": ""}, tolerations=[{"operator": "Exists"}])
    assert counted(snapshot, asking) == counted(one_by_one, asking)
    assert snapshot.runtime_classes == one_by_one.runtime_classes
    assert snapshot.priority_classes == one_by_one.priority_classes
    for asking in (pod(asks={"cpu": "1"}), pod(asks={"rdma/hca": "1"}), pod(gpus={"nvidia.com/gpu": 1})):
        assert housed(snapshot, asking) <= counted(snapshot, asking)


@golden
def test_an_object_without_a_name_is_left_out_and_counted(raw):
    assert node_from_raw(raw) is None
    assert runtime_class_from_raw(raw) is None
    assert priority_class_from_raw(raw) is None
    assert Snapshot.of([raw]).unreadable == 1


def test_label_values_that_a_hand_written_file_leaves_unquoted_are_read_as_text():
    node = node_from_raw({"metadata": {"name": "a", "labels": {"n": 7, "b": True, "nothing": None, 8: "x", "map": {}}}})
    assert node is not None
    assert [node.label(key) for key in ("n", "b", "nothing", "8", "map")] == ["7", "true", "", "x", None]


@pytest.mark.parametrize(
    ("published", "expected"),
    [
        pytest.param(None, None, id="null"),
        pytest.param([], None, id="an empty list"),
        pytest.param("nvidia", None, id="a text"),
        pytest.param([{"name": "nvidia"}, {"features": {}}], frozenset({"nvidia", ""}), id="the default has no name"),
        pytest.param([{"name": 7}, {"name": "runc"}], frozenset({"runc"}), id="a name that is no text is left out"),
    ],
)
def test_runtime_handlers_are_unknown_unless_they_are_published(published, expected):
    node = node_from_raw({"metadata": {"name": "a"}, "status": {"runtimeHandlers": published}})
    assert node is not None
    assert expected == node.kind.runtime_handlers


def test_the_first_form_of_runtime_classes_is_read_too():
    raw = {"metadata": {"name": "nvidia"}, "spec": {"runtimeHandler": "nvidia-legacy"}}
    assert runtime_class_from_raw(raw) == ("nvidia", RuntimeClass("nvidia", "nvidia-legacy"))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param({"value": 1000}, PriorityClass("a", 1000), id="a class"),
        pytest.param({"value": -5, "globalDefault": True}, PriorityClass("a", -5, True), id="the default"),
        pytest.param({"preemptionPolicy": "Never"}, PriorityClass("a", preempts=False), id="one that waits"),
        pytest.param({"preemptionPolicy": "PreemptLowerPriority"}, PriorityClass("a"), id="one that does not"),
        pytest.param(
            {"value": "1000", "globalDefault": "yes", "preemptionPolicy": {}}, PriorityClass("a"), id="wrong types"
        ),
        pytest.param(
            {"preemptionPolicy": "Never"}, PriorityClass("a", preempts=False), id="a class that preempts no pod"
        ),
        pytest.param({"preemptionPolicy": "PreemptLowerPriority"}, PriorityClass("a"), id="pushes others out"),
        pytest.param({"value": True}, PriorityClass("a"), id="a boolean is no number"),
        pytest.param({}, PriorityClass("a"), id="nothing but a name"),
    ],
)
def test_a_priority_class_has_a_value_and_may_be_the_default(raw, expected):
    assert ("a", expected) == priority_class_from_raw({"metadata": {"name": "a"}, **raw})


def read(**parts) -> Node:
    found = node_from_raw(node("a", **parts))
    assert found is not None
    return found


def amounts(found: Node) -> dict[str, int | None]:
    return {resource: found.listed_amount(resource) for resource in found.resources}


def test_of_what_every_node_has_counts_what_pods_may_use_and_of_extended_resources_what_the_node_has():
    """A GPU that is ill is missing in allocatable until it recovers; what the system reserves stays reserved."""
    found = read(
        capacity={"cpu": "96", "memory": "1000Gi", "hugepages-2Mi": "0", "nvidia.com/gpu": "8", "rdma/hca": "2"},
        allocatable={"cpu": "95500m", "memory": "990Gi", "hugepages-2Mi": "0", "nvidia.com/gpu": "7", "rdma/hca": "1"},
    )
    assert amounts(found) == {
        "cpu": 95500,
        "memory": 990 * 2**30,
        "hugepages-2Mi": 0,
        "nvidia.com/gpu": 8,
        "rdma/hca": 2,
    }


def test_irrelevant_and_malformed_parts_are_left_out():
    left_out = {"pods": "110", "attachable-volumes-csi-ebs": "39", "kubernetes.io/batch-cpu": "5", "memory": "lots"}
    assert amounts(read(capacity={"cpu": "1", **left_out})) == {"cpu": 1000}


GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"


@pytest.mark.parametrize(
    ("capacity", "resource", "expected"),
    [
        pytest.param({"cpu": "8"}, "cpu", 8000, id="as it is listed"),
        pytest.param({"cpu": "8"}, "memory", None, id="every node has memory"),
        pytest.param({"cpu": "8"}, "hugepages-1Gi", 0, id="not every node has huge pages"),
        pytest.param({"cpu": "8"}, "rdma/hca", 0, id="nor other devices"),
        pytest.param({"cpu": "8", "rdma/hca": "0"}, "rdma/hca", 0, id="a device that is listed as 0"),
        pytest.param({}, "rdma/hca", None, id="a node that lists nothing"),
        pytest.param({}, GPU, 0, id="a node that lists nothing, not even that it has GPUs"),
        pytest.param({"cpu": "8"}, GPU, 0, id="a node without GPUs"),
        pytest.param({GPU: "0", "cpu": "8"}, GPU, None, id="a GPU whose device plugin may be away"),
        pytest.param({GPU: "many"}, GPU, None, id="a GPU in a number that is none"),
        pytest.param({GPU: "0", SLICE: "7"}, GPU, 0, id="a GPU that became slices"),
        pytest.param({GPU: "0", SLICE: "0"}, GPU, None, id="GPU and slices with the device plugin away"),
        pytest.param({GPU: "0", "amd.com/gpu": "8"}, GPU, None, id="with the device plugin of another vendor there"),
    ],
)
def test_a_resource_that_a_node_does_not_list_is_absent_or_unknown(capacity, resource, expected):
    assert expected == read(capacity=capacity).amount(resource)


@pytest.mark.parametrize(
    ("count", "replicas", "capacity", "expected"),
    [
        pytest.param("8", None, {GPU: "0"}, 8, id="as many as its labels say"),
        pytest.param("8", "4", {GPU: "0"}, 32, id="each shared by several"),
        pytest.param("8", "0", {GPU: "0"}, 8, id="not shared"),
        pytest.param("8", None, {GPU: "4"}, 4, id="as it is listed"),
        pytest.param("8", None, {GPU: "0", SLICE: "7"}, 0, id="a GPU that became slices"),
        pytest.param("8", None, {}, 0, id="no such resource"),
        pytest.param("0", None, {GPU: "0"}, None, id="none that is known"),
        pytest.param("many", None, {GPU: "0"}, None, id="no number"),
        pytest.param("\u0668", None, {GPU: "0"}, None, id="a digit of another script"),
        pytest.param("9" * 5000, None, {GPU: "0"}, None, id="no likely number"),
    ],
)
def test_gpus_whose_device_plugin_is_away_are_as_many_as_the_labels_say(count, replicas, capacity, expected):
    labels = {"nvidia.com/gpu.count": count} | ({"nvidia.com/gpu.replicas": replicas} if replicas else {})
    assert read(labels=labels, capacity=capacity).amount(GPU) == expected


@golden
def test_the_gpus_of_a_node_are_counted(capacity, gpus):
    found = node_from_raw({"metadata": {"name": "a"}, "status": {"capacity": capacity}})
    assert found is not None
    assert found.gpus == gpus
    assert sum(count for _, count in found.capacity) == gpus


def test_nodes_share_what_they_have_in_common():
    """Thousands of nodes fit into memory because equal texts, label keys and hardware are one object."""
    labels = {"zone": "eu-west-1a", "nvidia.com/gpu.product": "Tesla-T4", "kubernetes.io/hostname": "same"}
    capacity = {"cpu": "96", "memory": "1000Gi", "nvidia.com/gpu": "8"}
    first, second = (read(labels=copied(labels), capacity=copied(capacity)) for _ in range(2))
    assert first.kind is second.kind
    assert first.keys is second.keys
    assert first.label("zone") is second.label("zone")
    assert first.resources is second.resources
    assert first.amounts is second.amounts


def copied(texts: dict[str, str]) -> dict[str, str]:
    """Equal texts that are other objects."""
    return {"".join(list(key)): "".join(list(value)) for key, value in texts.items()}


@pytest.mark.parametrize(
    ("labels", "capacity", "is_whole"),
    [
        pytest.param(discovered("A100-SHARED", 8, "4", "time-slicing"), {"nvidia.com/gpu": "8"}, True, id="not yet"),
        pytest.param(
            discovered("A100-SHARED", 8, "4", "time-slicing"), {"nvidia.com/gpu": "32"}, False, id="all units"
        ),
        pytest.param(discovered("A100-SHARED", 8, "4", "time-slicing"), {"nvidia.com/gpu": "31"}, False, id="a part"),
        pytest.param(discovered("A100-SHARED", 8, "4", "time-slicing"), {"nvidia.com/gpu": "0"}, False, id="a restart"),
        pytest.param(discovered("A100-SHARED", 8, "4", "time-slicing"), {"nvidia.com/gpu": "64"}, False, id="more"),
        pytest.param(discovered("A100", 2, "4", "time-slicing"), {"nvidia.com/gpu.shared": "2"}, True, id="renamed"),
        pytest.param(
            discovered("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", 56, mig="single"), {"nvidia.com/gpu": "8"}, True, id="MIG"
        ),
        pytest.param(
            discovered("A100-SHARED", 8, "4", "time-slicing", "mixed"), {"nvidia.com/gpu": "8"}, False, id="mixed"
        ),
    ],
)
def test_a_node_that_offers_fewer_units_than_its_labels_mean_has_whole_gpus(labels, capacity, is_whole):
    """The device plugin may read its configuration later than GPU Feature Discovery, or another one."""
    made = node("n0", labels=labels, capacity=capacity)
    read = node_from_raw(made)
    assert read is not None
    share = share_of(read.kind.labels)
    resource = "nvidia.com/gpu.shared" if "nvidia.com/gpu.shared" in capacity else "nvidia.com/gpu"
    assert (share.part(resource) == 1) is is_whole
    assert bool(share.fault) is is_whole
