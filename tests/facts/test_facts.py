"""Facts with node pools, which count as matching nodes by the rules that hold for nodes, and with images."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.facts.samples import node, pod, priority_class, runtime_class
from tests.facts.test_matching_nodes_properties import GPUS, KEYS, PODS, RUNTIME_CLASSES, TAINTS, VALUES
from tests.gpus import discovered_labels as labels
from tests.images.replicas import Clock, Registries, config, looking_up
from webhook.facts.facts import ClusterFacts
from webhook.model.image import NOT_LOOKED_UP
from webhook.model.node import NodeClass, NodePool, Taint
from webhook.model.pod import Pod
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


def asking(**parts: object) -> Pod:
    """A pod with a GPU that tolerates GPU nodes."""
    return pod(gpus={"nvidia.com/gpu": 1}, **{"tolerations": [{"operator": "Exists"}], **parts})


def test_candidates_are_those_of_the_nodes_and_then_the_pools_which_count_as_no_node() -> None:
    nodes = ClusterFacts.of([node(f"n{n}", labels=dict(T4.labels), capacity={"nvidia.com/gpu": "1"}) for n in range(3)])
    of_nodes, *of_pools = nodes.with_pools((H100, T4)).matching_nodes(asking())
    shown = {"nvidia.com/gpu.product": "Tesla-T4"}
    assert of_nodes == NodeClass(shown, (), GPU, None, count=3)
    assert of_pools == [
        NodeClass({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, H100.taints, GPU, None, count=0),
        NodeClass(shown, (), GPU, None, count=0),
    ]


def test_pools_and_images_are_added_to_the_facts_in_any_order() -> None:
    cluster = ClusterFacts.of([node("n", labels={"zone": "c"})], [runtime_class("nvidia")])
    with looking_up(Registries(), clock=Clock()) as images:
        with_both = cluster.with_pools((H100,)).with_images(images), cluster.with_images(images).with_pools((H100,))
        for facts in with_both:
            assert facts.runtime_class("nvidia") is not None
            assert facts.runtime_class("kata") is None
            assert list(facts.label_values("zone")) == ["a", "c"]
            assert facts.image("app:1").is_pending


def test_asking_about_an_image_has_it_looked_up() -> None:
    assert ClusterFacts().image("python") is NOT_LOOKED_UP
    with looking_up(Registries(), clock=Clock()) as images:
        facts = ClusterFacts().with_images(images)
        assert facts.image("python").is_pending
        assert images.wait(20)
        assert facts.image("python").config == config("docker.io/library/python:latest")


AMD = NodePool("amd", (), (), frozenset({"amd.com/gpu"}), 4)


@pytest.mark.parametrize(
    ("pools", "resource", "expected"),
    [
        pytest.param((), "nvidia.com/gpu", 2, id="no pools"),
        pytest.param((H100,), "nvidia.com/gpu", 8, id="a pool that has more"),
        pytest.param((AMD,), "nvidia.com/gpu", 2, id="a pool that has none"),
        pytest.param((AMD,), "amd.com/gpu", 4, id="what only a pool has"),
        pytest.param((T4, H100), "nvidia.com/gpu", None, id="a pool that does not say"),
        pytest.param((H100,), "cpu", None, id="what no pool says"),
    ],
)
def test_the_most_counts_pools_too(pools: tuple[NodePool, ...], resource: str, expected: int | None) -> None:
    nodes = ClusterFacts.of([node("n", capacity={"cpu": "8", "nvidia.com/gpu": "2"})])
    assert nodes.with_pools(pools).largest(resource) == expected


def test_what_is_known_of_the_cluster_is_known_of_pools_too() -> None:
    nodes = ClusterFacts.of(
        [node("n", labels={"zone": "c"}, capacity={"amd.com/gpu": "2"})], (), [priority_class("low")]
    )
    facts: Facts = nodes.with_pools((H100, T4))
    assert facts.gpu_resources() == {"amd.com/gpu", "nvidia.com/gpu"}
    assert list(facts.label_values("zone")) == ["a", "b", "c"]
    assert list(facts.label_values("rack")) == []
    assert set(facts.priority_classes()) == {"low"}
    assert nodes.with_pools((T4,)).knows_nodes()
    assert not ClusterFacts().with_pools((T4,)).knows_nodes(), "pools are not all nodes there are"


POOLS = st.lists(
    st.builds(
        NodePool,
        st.sampled_from(["n0", "n1", "n2", "n3"]),
        st.dictionaries(KEYS, VALUES, max_size=3).map(lambda labels: tuple(sorted(labels.items()))),
        TAINTS.map(lambda raws: tuple(Taint(raw["key"], raw["value"], raw["effect"]) for raw in raws)),
        st.frozensets(GPUS, min_size=1, max_size=1),
        st.none() | st.integers(1, 2),
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
            "status": {"capacity": dict.fromkeys(pool.gpu_resources, "64" if pool.gpus is None else str(pool.gpus))},
        }
        for pool in pools
    ]
    as_nodes = ClusterFacts.of(nodes, runtime_classes)
    facts = ClusterFacts.of((), runtime_classes).with_pools(pools)
    for _ in range(2):  # the second answer is a remembered one
        assert [replace(one, count=0) for one in as_nodes.matching_nodes(wanted)] == list(facts.matching_nodes(wanted))
        assert [replace(one, count=0) for one in as_nodes.feasible_nodes(wanted)] == list(facts.feasible_nodes(wanted))


@pytest.mark.parametrize(
    ("found", "divides"),
    [
        pytest.param(labels.UNLABELLED, False, id="unlabelled"),
        pytest.param(labels.WHOLE, False, id="whole GPUs"),
        pytest.param(labels.MIXED, False, id="MIG slices that have a name of their own"),
        pytest.param(labels.SINGLE, True, id="MIG slices"),
        pytest.param(labels.CONTRADICTING, True, id="labels that contradict each other"),
        pytest.param(labels.TIME_SLICED, True, id="time-slicing"),
        pytest.param(labels.TIME_SLICED_RENAMED, True, id="renamed"),
        pytest.param(labels.GKE_MPS, True, id="GKE"),
    ],
)
def test_whether_gpus_are_divided_is_known_of_nodes_and_of_pools(found: Mapping[str, str], divides: bool) -> None:
    assert not ClusterFacts().divides_gpus()
    by_node = ClusterFacts.of([node("plain"), node("n", labels=found, capacity={"nvidia.com/gpu": "4"})])
    assert by_node.divides_gpus() is divides
    assert not ClusterFacts(by_node.cluster.without_node("n")).divides_gpus()
    pool = NodePool("p", tuple(found.items()), gpu_resources=frozenset({"nvidia.com/gpu"}))
    assert ClusterFacts.of([node("plain")]).with_pools((pool,)).divides_gpus() is divides
