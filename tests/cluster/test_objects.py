"""Objects of any shape are read without an error: what makes sense is kept, the rest left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.samples import counted, pod
from webhook.cluster.objects import node_from_raw, runtime_class_from_raw
from webhook.cluster.snapshot import Snapshot

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
        capacity=st.dictionaries(st.sampled_from(["cpu", "nvidia.com/gpu"]), JSON),
        allocatable=JSON,
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


@given(nodes=st.lists(NODES, max_size=4), runtime_classes=st.lists(RUNTIME_CLASSES, max_size=3))
def test_no_node_and_no_runtime_class_is_too_strange(nodes, runtime_classes):
    """They are kept under their name or counted, and the snapshot answers, also when they come one by one."""
    snapshot = Snapshot.of(nodes, runtime_classes)
    named = [raw for raw in nodes if node_from_raw(raw) is not None]
    assert len(nodes) - len(named) == snapshot.unreadable
    one_by_one = Snapshot.of()
    for raw in nodes:
        one_by_one = one_by_one.with_node(raw)
    for raw in runtime_classes:
        one_by_one = one_by_one.with_runtime_class(raw)
    asking = pod(nodeSelector={"zone": ""}, tolerations=[{"operator": "Exists"}])
    assert counted(snapshot, asking) == counted(one_by_one, asking)
    assert snapshot.runtime_classes == one_by_one.runtime_classes


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(None, id="null"),
        pytest.param([], id="a list"),
        pytest.param({}, id="an empty map"),
        pytest.param({"metadata": None}, id="metadata is null"),
        pytest.param({"metadata": {"name": ""}}, id="an empty name"),
        pytest.param({"metadata": {"name": 7}}, id="a name that is a number"),
    ],
)
def test_an_object_without_a_name_is_left_out_and_counted(raw):
    assert node_from_raw(raw) is None
    assert runtime_class_from_raw(raw) is None
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
    found = runtime_class_from_raw({"metadata": {"name": "nvidia"}, "spec": {"runtimeHandler": "nvidia-legacy"}})
    assert found is not None
    assert found.handler == "nvidia-legacy"


@pytest.mark.parametrize(
    ("capacity", "gpus"),
    [
        pytest.param({"cpu": "96", "nvidia.com/gpu": "8"}, 8, id="whole GPUs"),
        pytest.param({"nvidia.com/mig-1g.10gb": "7", "nvidia.com/mig-2g.20gb": "3"}, 10, id="slices"),
        pytest.param({"nvidia.com/gpu": "many", "amd.com/gpu": "-1"}, 0, id="no numbers"),
        pytest.param({}, 0, id="none"),
    ],
)
def test_the_gpus_of_a_node_are_counted(capacity, gpus):
    found = node_from_raw({"metadata": {"name": "a"}, "status": {"capacity": capacity}})
    assert found is not None
    assert found.gpus == gpus


def test_nodes_share_what_they_have_in_common():
    """Thousands of nodes fit into memory because equal texts, label keys and hardware are one object."""
    labels = {"zone": "eu-west-1a", "nvidia.com/gpu.product": "Tesla-T4"}
    first, second = (
        node_from_raw(
            {"metadata": {"name": name, "labels": {"".join(key): "".join(value) for key, value in labels.items()}}}
        )
        for name in ("a", "b")
    )
    assert first is not None
    assert second is not None
    assert first.kind is second.kind
    assert first.keys is second.keys
    assert first.label("zone") is second.label("zone")
