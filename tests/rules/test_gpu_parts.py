"""Shares, and with countShares also MIG slices, count in the maxima of gpuLimits as the part of a GPU that they are."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gpus import discovered_labels as labels
from tests.rules.samples import container, each, pod, settings_of
from webhook.facts.facts import ClusterFacts
from webhook.gpus.gpu_catalogue import CATALOGUE
from webhook.gpus.gpu_shares import share_of
from webhook.model.node import NodePool
from webhook.model.pod_reader import pod_from_raw
from webhook.rules.gpu_limits import RULE
from webhook.rules.gpu_parts import gpus_of_pod, parts_of
from webhook.rules.rule import Advice, Violation

GPU, SHARED, SLICE = "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"


def cluster(*nodes: Mapping[str, str], resource: str = GPU) -> ClusterFacts:
    """Nodes n0, n1 and so on with these labels; those with `tainted` have a taint."""
    return ClusterFacts.of(
        [
            {
                "metadata": {"name": f"n{at}", "labels": {"node": f"n{at}", **found}},
                "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}] if "tainted" in found else []},
                "status": {"capacity": {resource: "8"}},
            }
            for at, found in enumerate(nodes)
        ]
    )


def told(raw: Mapping[str, Any], facts: ClusterFacts, **values: Any) -> list[Violation | Advice]:
    settings = settings_of(RULE, {"countShares": True, **values})
    return list(RULE.validate(pod_from_raw(raw), settings, facts))


def counted(raw: Mapping[str, Any], facts: ClusterFacts) -> Fraction:
    read = pod_from_raw(raw)
    return gpus_of_pod(read, parts_of(read, facts, CATALOGUE))


@each(
    "nodes, resource, units, gpus",
    {
        "no node is known": ([], GPU, 2, "2"),
        "unlabelled": ([labels.UNLABELLED], GPU, 2, "2"),
        "whole GPUs": ([labels.WHOLE], GPU, 2, "2"),
        "time-slicing": ([labels.TIME_SLICED], GPU, 2, "1/2"),
        "time-slicing, renamed": ([labels.TIME_SLICED_RENAMED], SHARED, 2, "1/2"),
        "the plain name on renamed nodes": ([labels.TIME_SLICED_RENAMED], GPU, 2, "2"),
        "MPS": ([labels.MPS], GPU, 3, "3/2"),
        "MIG, single": ([labels.SINGLE], GPU, 15, "15/7"),
        "MIG, single, time-slicing": ([labels.SINGLE_TIME_SLICED], GPU, 7, "1/2"),
        "MIG, single, time-slicing, renamed": ([labels.SINGLE_RENAMED], SHARED, 7, "1/2"),
        "MIG, mixed": ([labels.MIXED], GPU, 2, "2"),
        "MIG, invalid": ([labels.INVALID], GPU, 2, "2"),
        "labels that contradict each other": ([labels.CONTRADICTING], GPU, 2, "2"),
        "GKE": ([labels.GKE_TIME_SHARING], GPU, 2, "1/4"),
        "the largest part of several": ([labels.TIME_SLICED, labels.MPS], GPU, 2, "1"),
        "shares beside whole GPUs": ([labels.TIME_SLICED, labels.WHOLE], GPU, 2, "2"),
        "tolerations may come later": ([labels.TIME_SLICED, {"tainted": ""}], GPU, 2, "2"),
        "MIG slices by name, of any model": ([], SLICE, 8, "2"),
        "shares of MIG slices by name": ([], f"{SLICE}.shared", 8, "2"),
        "partitions of AMD, of any model": ([], "amd.com/cpx_nps4", 6, "1"),
        "GPUs of AMD": ([], "amd.com/gpu", 8, "8"),
    },
)
def test_a_pod_counts_the_largest_part_that_its_units_may_be(
    nodes: list[Mapping[str, str]], resource: str, units: int, gpus: str
) -> None:
    raw = pod(container(gpus=units, resource=resource))
    assert counted(raw, cluster(*nodes, resource=resource)) == Fraction(gpus)


def test_a_model_that_the_pod_selects_makes_its_slices_smaller() -> None:
    selector = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert counted(pod(container(gpus=7, resource=SLICE), nodeSelector=selector), cluster()) == 1


def test_a_pod_that_is_bound_to_a_node_counts_by_that_node() -> None:
    facts = cluster(labels.TIME_SLICED, labels.WHOLE)
    assert counted(pod(container(gpus=4), nodeName="n0"), facts) == 1
    assert counted(pod(container(gpus=4), nodeName="n1"), facts) == 4


def test_a_node_pool_counts_by_its_labels() -> None:
    def pool(found: Mapping[str, str]) -> NodePool:
        return NodePool("p", tuple(sorted(found.items())), (), frozenset({GPU}), 4)

    raw = pod(container(gpus=4))
    assert counted(raw, ClusterFacts().with_pools((pool(labels.TIME_SLICED),))) == 1
    assert counted(raw, cluster(labels.TIME_SLICED).with_pools((pool({}),))) == 4


def test_maxima_compare_exact_fractions_and_say_them(says) -> None:
    facts = cluster(labels.SINGLE)
    assert told(pod(container(gpus=14)), facts, maxPerPod=2, maxPerContainer=2) == []
    of_container, of_pod = told(pod(container(gpus=15)), facts, maxPerPod=2, maxPerContainer=2)
    says([str(of_container)])
    assert str(of_pod) == (
        "spec: requests 2 1/7 GPUs (15 units); the policy allows at most 2 per pod. Request 14 units or fewer."
    )


def test_slices_count_as_one_each_without_the_setting_and_shares_as_their_part() -> None:
    raw = pod(container(gpus=9))
    (one,) = told(raw, cluster(labels.SINGLE), maxPerPod=2, countShares=False)
    assert "requests 9 GPUs; the policy allows at most 2 per pod. Request 2 or fewer." in str(one)
    (one,) = told(raw, cluster(labels.TIME_SLICED), maxPerPod=2, countShares=False)
    assert "requests 2 1/4 GPUs (9 shares); the policy allows at most 2 per pod. Request 8 shares or fewer." in str(one)
    assert told(pod(container(gpus=8)), cluster(labels.TIME_SLICED), maxPerPod=2, countShares=False) == []


def test_shares_whose_number_nobody_knows_are_called_shares() -> None:
    (one,) = told(pod(container(gpus=3, resource=SHARED)), cluster(), maxPerPod=2)
    assert "requests 3 shares of GPUs, each counted as a GPU; the policy allows at most 2 per pod" in str(one)


def test_a_namespace_without_gpus_has_no_part_of_one_either() -> None:
    facts = cluster(labels.TIME_SLICED)
    (of_pod,) = told(pod(container(gpus=1)), facts, maxPerPod=0)
    assert "requests 1/4 GPU (1 share); GPUs are not enabled" in str(of_pod)
    (of_container,) = told(pod(container(gpus=1)), facts, maxPerContainer=0)
    assert "requests 1/4 GPU (1 share); the policy allows none for a container. Remove it." in str(of_container)


@pytest.mark.parametrize(
    ("nodes", "follows"),
    [([labels.TIME_SLICED], True), ([labels.WHOLE], False), ([], False)],
    ids=["shares", "whole", "-"],
)
def test_what_nodes_decide_may_change_with_a_queue(nodes: list[Mapping[str, str]], follows: bool) -> None:
    raw, facts = pod(container(gpus=9)), cluster(*nodes)
    (one,) = told(raw, facts, maxPerPod=2)
    assert one.follows_nodes is follows


KINDS = st.sampled_from(
    [
        labels.UNLABELLED,
        labels.WHOLE,
        labels.TIME_SLICED,
        labels.TIME_SLICED_RENAMED,
        labels.MPS,
        labels.SINGLE,
        labels.SINGLE_TIME_SLICED,
        labels.MIXED,
        labels.INVALID,
        labels.CONTRADICTING,
        labels.GKE_TIME_SHARING,
        {"tainted": ""},
    ]
)


@given(nodes=st.lists(KINDS, min_size=1, max_size=5), units=st.integers(1, 16), resource=st.sampled_from([GPU, SHARED]))
def test_a_pod_never_counts_less_than_on_any_node_that_it_could_run_on(
    nodes: list[Mapping[str, str]], units: int, resource: str
) -> None:
    found = counted(pod(container(gpus=units, resource=resource)), cluster(*nodes, resource=resource))
    assert found >= max(units * share_of(one).part(resource) for one in nodes)
