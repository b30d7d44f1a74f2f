"""Node pools that scale from zero count as candidates, by the rules that hold for nodes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.samples import GPU_TAINT, expressions, fields, node, pod, runtime_class
from tests.cluster.test_candidates_properties import GPUS, KEYS, PODS, RUNTIME_CLASSES, TAINTS, VALUES
from tests.rules.samples import Cluster
from webhook.cluster.pools import WithPools
from webhook.cluster.snapshot import EMPTY, Snapshot
from webhook.model.image import ImageSight
from webhook.model.node import NodeClass, NodePool, RuntimeClass
from webhook.model.pod import Pod
from webhook.model.tolerations import Taint
from webhook.rules.rule import Facts

GPU = frozenset({"nvidia.com/gpu"})
H100 = NodePool(
    "h100",
    (("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"), ("pool", "h100"), ("zone", "a")),
    (Taint("nvidia.com/gpu", "present", "NoSchedule"),),
    GPU,
    8,
)
T4 = NodePool("t4", (("nvidia.com/gpu.product", "Tesla-T4"), ("pool", "t4"), ("zone", "b")), (), GPU)
BOTH = {"NVIDIA-H100-80GB-HBM3", "Tesla-T4"}


def products(facts: Facts, asking: Pod) -> set[str]:
    return {candidate.labels["nvidia.com/gpu.product"] for candidate in facts.candidates(asking)}


def asking(**parts: object) -> Pod:
    """A pod with a GPU that tolerates GPU nodes."""
    return pod(gpus={"nvidia.com/gpu": 1}, **{"tolerations": [{"operator": "Exists"}], **parts})


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(asking(), BOTH, id="all that it asks for"),
        pytest.param(asking(tolerations=[]), {"Tesla-T4"}, id="a taint that it does not tolerate"),
        pytest.param(asking(nodeSelector={"zone": "a"}), {"NVIDIA-H100-80GB-HBM3"}, id="nodeSelector"),
        pytest.param(asking(nodeSelector={"rack": "1"}), set(), id="a label that no pool declares"),
        pytest.param(asking(terms=[expressions(("pool", "NotIn", ["h100"]))]), {"Tesla-T4"}, id="required affinity"),
        pytest.param(pod(gpus={"amd.com/gpu": 1}), set(), id="a GPU resource that no pool has"),
        pytest.param(asking(nodeName="h100"), set(), id="bound to a node by name"),
        pytest.param(asking(terms=[fields(("metadata.name", "In", ["h100", "n1"]))]), set(), id="to some by field"),
        pytest.param(asking(terms=[fields(("metadata.name", "NotIn", ["n1"]))]), BOTH, id="kept off a node by name"),
        pytest.param(asking(nodeSelector={"kubernetes.io/hostname": "h100"}), set(), id="bound by host name"),
    ],
)
def test_a_pool_is_a_candidate_where_a_node_of_it_would_be(wanted: Pod, expected: set[str]) -> None:
    assert expected == products(WithPools(EMPTY, (H100, T4)), wanted)


def test_candidates_are_those_of_the_nodes_and_then_the_pools_which_count_as_no_node() -> None:
    nodes = Snapshot.of([node(f"n{n}", labels=dict(T4.labels), capacity={"nvidia.com/gpu": "1"}) for n in range(3)])
    of_nodes, *of_pools = WithPools(nodes, (H100, T4)).candidates(asking())
    shown = {"nvidia.com/gpu.product": "Tesla-T4"}
    assert of_nodes == NodeClass(shown, (), GPU, None, count=3)
    assert of_pools == [
        NodeClass({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, H100.taints, GPU, None, count=0),
        NodeClass(shown, (), GPU, None, count=0),
    ]


def test_without_pools_the_candidates_are_those_of_the_nodes() -> None:
    nodes = Snapshot.of([node("n", taints=[GPU_TAINT], capacity={"nvidia.com/gpu": "1"})])
    assert WithPools(nodes, ()).candidates(asking()) is nodes.candidates(asking())


def test_the_runtime_class_of_the_pod_selects_and_tolerates_among_pools_too() -> None:
    scheduling = {"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
    facts = WithPools(Snapshot.of((), [runtime_class("nvidia", scheduling=scheduling)]), (H100, T4))
    assert products(facts, asking(tolerations=[], runtimeClassName="nvidia")) == {"NVIDIA-H100-80GB-HBM3"}
    assert products(facts, asking(tolerations=[], runtimeClassName="unheard-of")) == {"Tesla-T4"}


def test_runtime_classes_and_images_are_those_of_the_facts() -> None:
    known, gone = RuntimeClass("nvidia", "handler"), ImageSight(problem="app:1 is gone")
    facts: Facts = WithPools(Cluster({"nvidia": known}, images={"app:1": gone}), (H100,))
    assert facts.runtime_class("nvidia") == known
    assert facts.runtime_class("kata") is None
    assert facts.image("app:1") == gone


POOLS = st.lists(
    st.builds(
        NodePool,
        st.sampled_from(["n0", "n1", "n2", "n3"]),
        st.dictionaries(KEYS, VALUES, max_size=3).map(lambda labels: tuple(sorted(labels.items()))),
        TAINTS.map(lambda raws: tuple(Taint(raw["key"], raw["value"], raw["effect"]) for raw in raws)),
        st.frozensets(GPUS, min_size=1, max_size=1),
    ),
    max_size=4,
    unique_by=lambda pool: pool.name,
).map(tuple)


@given(pools=POOLS, runtime_classes=st.lists(RUNTIME_CLASSES, max_size=1), wanted=PODS)
def test_a_pool_fits_exactly_when_a_node_without_a_known_name_would(pools, runtime_classes, wanted) -> None:
    nodes = [
        {
            "metadata": {"name": f"nobody-knows-{pool.name}", "labels": dict(pool.labels)},
            "spec": {"taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in pool.taints]},
            "status": {"capacity": dict.fromkeys(pool.gpu_resources, "1")},
        }
        for pool in pools
    ]
    as_nodes = Snapshot.of(nodes, runtime_classes).candidates(wanted)
    facts = WithPools(Snapshot.of((), runtime_classes), pools)
    for _ in range(2):  # the second answer is a remembered one
        assert [replace(candidate, count=0) for candidate in as_nodes] == list(facts.candidates(wanted))
