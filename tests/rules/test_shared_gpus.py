"""A container asks for one unit of a shared GPU at most, whatever the device plugin calls it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.golden import each
from tests.gpus import discovered_labels as labels
from tests.rules.rule_case import RuleCase, RulePods, any_of, requesting, tolerating_gpu_nodes
from tests.rules.samples import Cluster, container, messages, pod, settings_of, violations
from webhook.facts.facts import ClusterFacts
from webhook.model.node import NodeClass, NodePool
from webhook.model.pod_reader import pod_from_raw
from webhook.rules.rule import Advice, Violation
from webhook.rules.shared_gpus import RULE

REFUSED = {"failRequestsGreaterThanOne": True}
SHARED, SHARED_SLICE = "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb.shared"


@each(
    "resource, larger",
    {
        "GPUs": (SHARED, "whole GPUs (nvidia.com/gpu)"),
        "MIG slices": (SHARED_SLICE, "a larger slice"),
        "MIG slices with media engines": ("nvidia.com/mig-1g.10gb.me.shared", "a larger slice"),
    },
)
def test_several_units_in_one_container_are_told_and_refused_where_the_plugin_is_known_to_refuse_them(resource, larger):
    raw = pod(container(gpus=2, resource=resource))
    where = f"spec.containers[trainer].resources: requests 2 {resource}"
    (advice,) = told(raw)
    assert isinstance(advice, Advice)
    assert str(advice) == (
        f"{where}; more than 1 does not give more compute, and some device plugins refuse it. Request 1, or {larger}."
    )
    assert messages(RULE, raw, REFUSED) == [f"{where}; the device plugin refuses more than 1. Request 1, or {larger}."]


@pytest.mark.parametrize("written", [2, "2", "2e0", "2000m", "0.002k"], ids=repr)
def test_the_amount_is_read_in_every_spelling(written):
    (message,) = messages(RULE, pod(container(gpus=written, resource=SHARED)), REFUSED)
    assert "requests 2 nvidia.com/gpu.shared" in message


@each(
    "raw",
    {
        "one": pod(container(gpus=1, resource=SHARED)),
        "one, as text": pod(container(gpus="1", resource=SHARED_SLICE)),
        "none": pod(container(gpus=0, resource=SHARED)),
        "no number": pod(container(gpus="many", resource=SHARED)),
        "a negative number": pod(container(gpus=-2, resource=SHARED)),
        "one in each of two containers": pod(container("a", 1, SHARED), container("b", 1, SHARED)),
        "one of each of two resources": pod(container(resources={"limits": {SHARED: 1, SHARED_SLICE: 1}})),
        "whole GPUs": pod(container(gpus=8)),
        "slices of one's own": pod(container(gpus=2, resource="nvidia.com/mig-1g.10gb")),
        "a name that is no GPU": pod(container(gpus=2, resource="nvidia.com/gpu-10gb.shared")),
        "a GPU passed through": pod(container(gpus=2, resource="nvidia.com/NVIDIA_A10.shared")),
        "ephemeral": pod(container(), ephemeralContainers=[container("debug", 2, SHARED)]),
    },
)
def test_anything_else_is_allowed(raw):
    assert messages(RULE, raw, REFUSED) == []


def test_every_container_is_told(says):
    raw = pod(
        container("a", 2, SHARED), container("b", 3, SHARED_SLICE), initContainers=[container("check", 4, SHARED)]
    )
    says([message.partition(";")[0] for message in messages(RULE, raw, REFUSED)])


def test_what_stands_in_requests_only_is_counted_as_well():
    raw = pod(container(resources={"requests": {SHARED: 2}}))
    assert len(messages(RULE, raw, REFUSED)) == 1


def told(raw: Mapping[str, Any], *nodes: Mapping[str, str] | NodeClass, **parts: Any) -> list[Violation | Advice]:
    """What the rule says where these nodes match; by their labels, each with GPUs of the plain name."""
    classes = [one if isinstance(one, NodeClass) else NodeClass(one) for one in nodes]
    return list(RULE.validate(pod_from_raw(raw), settings_of(RULE, {}), Cluster(nodes=classes, **parts)))


TWO = pod(container(gpus=2))
_NOT_SHARED = [
    pytest.param(labels.UNLABELLED, id="unlabelled"),
    pytest.param(labels.WHOLE, id="whole GPUs"),
    pytest.param(labels.TIME_SLICED_RENAMED, id="time-slicing, renamed"),
    pytest.param(labels.MPS_RENAMED, id="MPS, renamed"),
    pytest.param(labels.SINGLE, id="MIG, single"),
    pytest.param(labels.SINGLE_RENAMED, id="MIG, single, time-slicing, renamed"),
    pytest.param(labels.MIXED, id="MIG, mixed"),
    pytest.param(labels.INVALID, id="MIG, invalid"),
    pytest.param(labels.GKE_SLICES, id="GKE, slices"),
    pytest.param(labels.CONTRADICTING, id="labels that contradict each other"),
    pytest.param(labels.discovered("Tesla-T4-SHARED", 1, "x", "time-slicing"), id="an unreadable number"),
    pytest.param(labels.discovered("Tesla-T4-SHARED", 1, "0", "time-slicing"), id="shared by nobody"),
    pytest.param({"nvidia.com/gpu.product": "Tesla-T4-SHARED"}, id="a suffix without replicas"),
]
_REFUSING = [
    pytest.param(labels.MPS, "shared by 2 (mps)", ", unless its failRequestsGreaterThanOne is false", id="MPS"),
    pytest.param(labels.GKE_TIME_SHARING, "shared by 8 (time-slicing)", "", id="GKE, time-sharing"),
]
_ADVISING = [
    pytest.param(labels.TIME_SLICED, "shared by 4 (time-slicing)", id="time-slicing"),
    pytest.param(labels.SINGLE_TIME_SLICED, "1g.5gb, shared by 2 (time-slicing)", id="MIG, single, time-slicing"),
    pytest.param(labels.MIXED_BESIDE_SHARED, "shared by 2 (time-slicing)", id="MIG, mixed, beside shared GPUs"),
    pytest.param(labels.GKE_MPS, "shared by 8 (mps)", id="GKE, MPS: a node with one GPU allows it"),
]


@pytest.mark.parametrize(("shared", "how", "unless"), _REFUSING)
def test_shares_without_a_name_of_their_own_are_refused_where_the_plugin_refuses_several(shared, how, unless):
    assert [str(one) for one in told(TWO, shared, shared)] == [
        "spec.containers[trainer].resources: requests 2 nvidia.com/gpu, which are shares of a GPU on every node that "
        f"it could run on ({how}); the device plugin refuses more than 1{unless}. Request 1, or select nodes whose "
        "GPUs are not shared."
    ]
    assert all(isinstance(one, Violation) for one in told(TWO, shared))


@pytest.mark.parametrize("nodes", [labels.MPS, labels.MPS_RENAMED], ids=["MPS", "MPS, renamed"])
def test_shares_by_name_are_refused_where_every_node_shares_by_mps(nodes):
    raw = pod(container(gpus=7, resource=SHARED))
    assert [type(one) for one in told(raw, nodes)] == [Violation]
    assert [type(one) for one in told(raw, nodes, labels.TIME_SLICED_RENAMED)] == [Advice]


def test_time_slicing_refuses_several_units_where_the_platform_says_so():
    (message,) = [str(one) for one in violations(RULE, TWO, REFUSED, Cluster(nodes=[NodeClass(labels.TIME_SLICED)]))]
    assert "which are shares of a GPU" in message
    assert violations(RULE, TWO, REFUSED, Cluster(nodes=[NodeClass(labels.WHOLE)])) == []


@pytest.mark.parametrize(("shared", "how"), _ADVISING)
def test_the_author_of_a_pod_is_told_of_shares_where_the_setting_of_the_plugin_cannot_be_seen(shared, how):
    (one,) = told(TWO, shared)
    assert isinstance(one, Advice)
    assert str(one) == (
        "spec.containers[trainer].resources: requests 2 nvidia.com/gpu, which are shares of a GPU on every node that "
        f"it could run on ({how}); more than 1 does not give more compute. Request 1, or select nodes whose GPUs are "
        "not shared."
    )


def test_one_node_whose_plugin_may_allow_several_units_turns_the_refusal_into_advice():
    (one,) = told(TWO, labels.MPS, labels.TIME_SLICED)
    assert isinstance(one, Advice)
    assert "(shared by 2 (mps) and shared by 4 (time-slicing))" in one.found


@pytest.mark.parametrize("beside", _NOT_SHARED)
@pytest.mark.parametrize("shared", [labels.MPS, labels.TIME_SLICED], ids=["MPS", "time-slicing"])
def test_nothing_is_said_while_one_candidate_is_not_shared_for_certain(beside, shared):
    assert told(TWO, beside) == told(TWO, shared, beside) == []


def test_nothing_is_said_where_no_node_matches():
    assert told(TWO, labels.MPS, selects=lambda _: False) == []
    assert told(TWO) == []


def cluster(**nodes: Mapping[str, str]) -> ClusterFacts:
    """Nodes of these names and labels. Those called tainted... have a taint."""
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    raws = [
        {
            "metadata": {"name": name, "labels": {**found, "pool": name}},
            "spec": {"taints": [taint] if name.startswith("tainted") else []},
            "status": {"capacity": {"nvidia.com/gpu": "8"}},
        }
        for name, found in nodes.items()
    ]
    return ClusterFacts.of(raws)


def judged(raw: Mapping[str, Any], facts: ClusterFacts) -> list[Violation | Advice]:
    return list(RULE.validate(pod_from_raw(raw), settings_of(RULE, {}), facts))


def test_a_pod_that_is_bound_to_a_node_counts_by_that_node():
    facts = cluster(shared=labels.MPS, whole=labels.WHOLE)
    assert judged(TWO, facts) == []
    assert len(judged(pod(container(gpus=2), nodeName="shared"), facts)) == 1
    assert judged(pod(container(gpus=2), nodeName="whole"), facts) == []
    assert judged(pod(container(gpus=2), nodeName="gone"), facts) == []


def test_all_nodes_count_for_a_pod_in_a_queue_whatever_their_taints():
    facts = cluster(shared=labels.MPS, tainted=labels.WHOLE)
    assert len(judged(TWO, facts)) == 1
    assert judged(pod(container(gpus=2), schedulingGates=[{"name": "quota"}]), facts) == []


def test_a_node_pool_counts_by_its_labels():
    def pool(name: str, found: Mapping[str, str]) -> NodePool:
        return NodePool(name, tuple(sorted(found.items())), (), frozenset({"nvidia.com/gpu"}), 4)

    facts = cluster(shared=labels.MPS)
    assert judged(TWO, facts.with_pools((pool("silent", {}),))) == []
    assert len(judged(TWO, facts.with_pools((pool("sharing", labels.MPS),)))) == 1
    assert len(judged(TWO, ClusterFacts().with_pools((pool("sharing", labels.MPS),)))) == 1


def test_nodes_are_not_asked_for_where_no_node_divides_its_gpus():
    """Most clusters divide no GPU, and a pod with eight of them pays nothing there."""

    def never(_: object) -> bool:
        raise AssertionError

    assert told(pod(container(gpus=8)), labels.WHOLE, labels.MIXED, selects=never) == []


def test_what_follows_from_nodes_says_so_and_what_follows_from_the_name_does_not():
    """A queue may still place the pods of a workload elsewhere, and a scheduler binds a pod that was admitted."""
    (by_label,) = told(TWO, labels.MPS)
    (by_name,) = told(pod(container(gpus=2, resource=SHARED)), labels.TIME_SLICED_RENAMED)
    assert (by_label.follows_nodes, by_name.follows_nodes) == (True, False)
    assert replace(by_label, follows_nodes=False) != by_label


CASE = RuleCase(
    pods=lambda raw: RulePods(
        lacks=tolerating_gpu_nodes(raw),
        breaks=requesting(raw, SHARED, "2"),
        keeps=requesting(raw, SHARED, "1"),
        completing={"isolation": "shared"},
    ),
    values=any_of(isolation=st.sampled_from(("any", "exclusive", "shared")), failRequestsGreaterThanOne=st.booleans()),
    enforced=REFUSED,
    injecting={"isolation": "shared"},
    fuzzed=REFUSED,
)
