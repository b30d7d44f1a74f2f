"""Rules that keep pods off nodes: together they never take the last node of a pod in silence."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import pod, policy, workload
from tests.facts.samples import node
from tests.gpus.discovered_labels import MPS
from tests.strategies import checked
from webhook import engine
from webhook.facts.facts import ClusterFacts
from webhook.model.pod_reader import pod_from_raw
from webhook.outcome import FindingKind
from webhook.policy.policy_set import Policy

PRODUCT, STRATEGY = "nvidia.com/gpu.product", "nvidia.com/gpu.sharing-strategy"
DRIVER, RUNTIME = "nvidia.com/cuda.driver-version.full", "nvidia.com/cuda.runtime-version.major"
OLD, NEW = "535.183.01", "580.95.05"
IMAGE = "pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime"

SHARED = {PRODUCT: "Tesla-T4-SHARED", "nvidia.com/gpu.replicas": "4", STRATEGY: "time-slicing"}
WHOLE = {PRODUCT: "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.replicas": "1", STRATEGY: "none"}


def labels(kind: Mapping[str, str], driver: str) -> dict[str, str]:
    """The labels of GPU Feature Discovery on nodes of a kind with this driver."""
    return {**kind, DRIVER: driver, RUNTIME: {OLD: "12", NEW: "13"}[driver]}


T4, A100, H100 = labels(SHARED, NEW), labels(WHOLE, OLD), labels({**WHOLE, PRODUCT: "NVIDIA-H100-80GB-HBM3"}, NEW)
L4 = labels({**SHARED, PRODUCT: "NVIDIA-L4-SHARED"}, NEW)
"""A node with shared GPUs, one with an old driver, one that suits every pod, and another one with shared GPUs."""


def cluster(*kinds: Mapping[str, str]) -> ClusterFacts:
    return ClusterFacts.of(
        [node(f"n{at}", labels=kind, capacity={"nvidia.com/gpu": "8"}) for at, kind in enumerate(kinds)]
    )


def trainer(**spec: Any) -> dict[str, Any]:
    raw = pod(1, spec=None)
    raw["spec"] |= spec
    raw["spec"]["containers"][0]["image"] = IMAGE
    return raw


def rules(*, cuda: str = "enforce", sharing: str = "enforce", steer: bool = True) -> Policy:
    return policy(
        {"cudaDriver": {"mode": cuda, "steer": steer}, "sharedGpus": {"mode": sharing, "isolation": "exclusive"}}
    )


def excluded(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    required = raw["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = required.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    return [expression for term in terms for expression in term["matchExpressions"]]


def test_a_pod_is_kept_off_what_any_rule_finds_unsuited() -> None:
    outcome = engine.simulate(trainer(), rules(), cluster(T4, A100, H100))
    assert outcome.findings == ()
    assert excluded(outcome.object) == [
        {"key": STRATEGY, "operator": "NotIn", "values": ["time-slicing"]},
        {"key": RUNTIME, "operator": "NotIn", "values": ["12"]},
    ]
    assert outcome.injected == ("sharedGpus", "cudaDriver")
    assert engine.mutate(outcome.object, rules(), cluster(T4, A100, H100)).patch == ()


def test_a_pod_to_which_each_rule_leaves_a_node_and_all_together_none_is_refused_with_all_reasons() -> None:
    facts = cluster(T4, A100)
    assert engine.mutate(trainer(), rules(), facts).injections == ()
    (finding,) = engine.simulate(trainer(), rules(), facts).refusals
    assert str(finding) == (
        "cudaDriver: spec: no node is left that the pod could land on: T4 is shared by time-slicing, A100 has driver "
        "535; a node must suit all rules of the policy. Select other nodes by nodeSelector, affinity or tolerations, "
        "or tell the platform team."
    )
    for alone in (rules(sharing="disabled"), rules(cuda="disabled")):
        assert engine.simulate(trainer(), alone, facts).refusals == ()


def test_the_refusal_comes_from_the_rule_to_which_most_nodes_are_unsuited() -> None:
    of_sharing = cluster(T4, L4, A100)
    (finding,) = engine.simulate(trainer(), rules(), of_sharing).refusals
    assert finding.rule == "sharedGpus"
    of_driver = cluster(T4, A100, labels({**WHOLE, PRODUCT: "NVIDIA-L40S"}, OLD))
    (finding,) = engine.simulate(trainer(), rules(), of_driver).refusals
    assert finding.rule == "cudaDriver"


def test_where_one_rule_leaves_no_node_its_own_violation_is_the_only_one() -> None:
    facts = cluster(A100, labels(SHARED, OLD))
    together = engine.simulate(trainer(), rules(), facts).refusals
    assert together == engine.simulate(trainer(), rules(sharing="disabled"), facts).refusals
    assert len(together) == 1


@pytest.mark.parametrize("mode", ["warn", "audit"])
def test_a_rule_that_is_not_enforced_is_judged_by_itself(mode: str) -> None:
    outcome = engine.simulate(trainer(), rules(sharing=mode), cluster(T4, A100))
    assert outcome.refusals == ()
    assert [expression["key"] for expression in excluded(outcome.object)] == [RUNTIME]
    assert outcome.injected == ("cudaDriver",)


def test_nodes_that_a_rule_does_not_steer_off_still_count_against_the_pod() -> None:
    assert [one.rule for one in engine.simulate(trainer(), rules(steer=False), cluster(T4, A100)).refusals] == [
        "cudaDriver"
    ]
    outcome = engine.simulate(trainer(), rules(steer=False), cluster(T4, A100, H100))
    assert [expression["key"] for expression in excluded(outcome.object)] == [STRATEGY]


@pytest.mark.parametrize("others", [[], [L4]], ids=["said by cudaDriver", "said by sharedGpus"])
def test_an_update_that_leaves_only_nodes_which_a_rule_forbids_is_refused(others: list[dict[str, str]]) -> None:
    narrowed = trainer(nodeSelector={"pool": "a"})
    facts = cluster(*({**kind, "pool": "a"} for kind in (T4, A100, *others)), H100)
    outcome = engine.validate(narrowed, rules(), facts, old=trainer())
    (refused,) = outcome.refusals
    assert "no node is left" in refused.message
    assert engine.validate(narrowed, rules(), facts, old=narrowed).findings == ()


def test_a_pod_that_a_queue_holds_counts_nodes_whose_taints_it_does_not_tolerate() -> None:
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    nodes = [
        node("n0", labels=T4, capacity={"nvidia.com/gpu": "8"}),
        node("n1", labels=H100, capacity={"nvidia.com/gpu": "8"}, taints=[taint]),
        node("n2", labels=A100, capacity={"nvidia.com/gpu": "8"}),
    ]
    facts = ClusterFacts.of(nodes)
    assert engine.simulate(trainer(), rules(), facts).refusals != ()
    assert engine.simulate(trainer(schedulingGates=[{"name": "queue"}]), rules(), facts).refusals == ()


SOME = st.sampled_from(
    [
        labels(kind, driver)
        for kind in (
            SHARED,
            WHOLE,
            {**WHOLE, PRODUCT: "NVIDIA-L4"},
            {**SHARED, PRODUCT: "NVIDIA-L4-SHARED"},
            {**WHOLE, PRODUCT: "NVIDIA-H100-80GB-HBM3"},
            {**SHARED, PRODUCT: "NVIDIA-H100-80GB-HBM3-SHARED"},
        )
        for driver in (OLD, NEW)
    ]
    + [{}, {PRODUCT: "Tesla-T4"}, {PRODUCT: "NVIDIA-H100-80GB-HBM3"}, {DRIVER: OLD}, {STRATEGY: "none"}]
)
SETTINGS = {"cudaDriver": {}, "gpuTypes": {"denied": ["H100"]}, "sharedGpus": {"isolation": "exclusive"}}
MODES = st.fixed_dictionaries(dict.fromkeys(SETTINGS, st.sampled_from(["enforce", "enforce", "warn"])))


def suits(kind: Mapping[str, str], modes: Mapping[str, str]) -> bool:
    """Whether every enforced rule lets the pod run on nodes with these labels."""
    unsuited = {
        "cudaDriver": kind.get(DRIVER) == OLD,
        "gpuTypes": "H100" in kind.get(PRODUCT, ""),
        "sharedGpus": kind.get(STRATEGY) == "time-slicing",
    }
    return not any(unsuited[rule] for rule, mode in modes.items() if mode == "enforce")


@checked
@given(
    st.lists(SOME, min_size=1, max_size=5),
    st.sampled_from([{}, {}, {STRATEGY: "none"}]),
    MODES,
    st.booleans(),
    st.sampled_from(["", "", "n0"]),
)
def test_no_pod_loses_its_last_node_in_silence(
    kinds: list[dict[str, str]], selector: dict[str, str], modes: dict[str, str], steer: bool, name: str
) -> None:
    values = {rule: {**settings, "mode": modes[rule]} for rule, settings in SETTINGS.items()}
    values["cudaDriver"] |= {"steer": steer}
    facts, in_force = cluster(*kinds), policy(values)
    raw = trainer(nodeSelector=selector, **({"nodeName": name} if name else {}))
    before = facts.matching_nodes(pod_from_raw(raw))
    outcome = engine.mutate(raw, in_force, facts)
    after = facts.matching_nodes(pod_from_raw(outcome.object))
    judged = engine.validate(outcome.object, in_force, facts)
    suited = [one.labels for one in before if suits(one.labels, modes)]
    assert [one.labels for one in after if suits(one.labels, modes)] == suited
    assert bool(after) == bool(before)
    assert bool(judged.refusals) == (bool(before) and not suited)
    if before and not suited:
        assert outcome.injections == ()
    assert engine.mutate(outcome.object, in_force, facts).patch == ()


ONLY_T4 = {"gpuTypes": {"mode": "enforce", "allowed": ["T4"]}}
BOTH = "A100 has driver 535, L4 is shared by time-slicing"
NO_ROOM = "no node that suits the pod has room for all that it requests; the other nodes do not suit it: "


@pytest.mark.parametrize(
    ("nodes", "gpus", "by", "reasons"),
    [
        pytest.param([(T4, 1), (A100, 8)], 4, policy(ONLY_T4), "A100-80GB is not allowed here", id="one rule takes it"),
        pytest.param([(H100, 1), (A100, 8), (L4, 8)], 4, rules(), BOTH, id="two rules take them"),
        pytest.param([(T4, 4), (A100, 8)], 4, policy(ONLY_T4), None, id="a node that is left has room"),
        pytest.param([(T4, 1), (A100, 2)], 4, policy(ONLY_T4), None, id="no node had room before"),
        pytest.param([(T4, 1), (A100, 8)], 1, policy(ONLY_T4), None, id="little is requested"),
    ],
)
def test_a_pod_that_is_kept_off_all_nodes_with_room_is_told(
    nodes: list[tuple[Mapping[str, str], int]], gpus: int, by: Policy, reasons: str | None
) -> None:
    """It would wait for ever, although nodes are left to it."""
    facts = ClusterFacts.of(
        [node(f"n{at}", labels=kind, capacity={"nvidia.com/gpu": str(size)}) for at, (kind, size) in enumerate(nodes)]
    )
    raw = trainer()
    raw["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    told = [finding.message for finding in engine.mutate(raw, by, facts).findings if "room" in finding.message]
    assert told == ([] if reasons is None else [NO_ROOM + reasons])


# One rule at a time

OLD_CUDA, NEW_CUDA = (policy({"cudaDriver": {"images": {"*": cuda}}}) for cuda in ("11.4", "13.0"))
OLD_T4, B200 = labels({PRODUCT: "Tesla-T4"}, OLD), labels({PRODUCT: "NVIDIA-B200"}, NEW)
"""The older node runs CUDA 11, the newer one CUDA 13, and neither runs the other."""


def test_a_pod_that_another_policy_steered_off_the_nodes_that_fit_is_not_refused_for_it() -> None:
    """The platform corrects what it says of an image, and one replica has heard of it before the other."""
    facts = cluster(OLD_T4, B200)
    assert engine.validate(engine.mutate(trainer(), OLD_CUDA, facts).object, NEW_CUDA, facts).refusals == ()
    assert engine.validate(engine.mutate(trainer(), NEW_CUDA, facts).object, NEW_CUDA, facts).findings == ()


@pytest.mark.parametrize(
    ("kind", "nodes", "said"),
    [
        pytest.param("Deployment", [OLD_T4, B200], [], id="steered"),
        pytest.param("DaemonSet", [OLD_T4, B200], [FindingKind.ADVICE], id="one pod for each node"),
        pytest.param("Deployment", [OLD_T4], [FindingKind.VIOLATION], id="no node can run it"),
        pytest.param("DaemonSet", [OLD_T4], [FindingKind.VIOLATION], id="no node can run it, for each node"),
    ],
)
@pytest.mark.parametrize("by", [NEW_CUDA, policy({"gpuTypes": {"denied": ["T4"]}})], ids=["cudaDriver", "gpuTypes"])
def test_a_template_is_told_of_nodes_that_its_pods_cannot_be_kept_off(
    kind: str, nodes: list[dict[str, str]], said: list[FindingKind], by: Policy
) -> None:
    outcome = engine.validate_workload(workload(kind, trainer()), "team", by, cluster(*nodes))
    assert ([finding.kind for finding in outcome.findings], outcome.patch) == (said, ())


_GKE = "cloud.google.com/gke-"
UNTOLD = [{_GKE + "accelerator": "nvidia-l4"}, {**T4, _GKE + "accelerator": "nvidia-l4"}]
"""A node with whole GPUs, whose only label another node has as well."""
TYPES, WHOLE_GPUS, SHARES_ONLY = (
    policy({rule: {"mode": "warn", key: value}})
    for rule, key, value in (
        ("gpuTypes", "denied", ["T4"]),
        ("sharedGpus", "isolation", "exclusive"),
        ("sharedGpus", "isolation", "shared"),
    )
)


@pytest.mark.parametrize(
    ("kind", "by", "nodes", "said"),
    [
        pytest.param("Deployment", TYPES, [T4, H100], [FindingKind.INJECTION], id="completed if enforced"),
        pytest.param("Deployment", WHOLE_GPUS, [T4, H100], [FindingKind.INJECTION], id="isolation"),
        pytest.param("Deployment", SHARES_ONLY, UNTOLD, [FindingKind.ADVICE], id="no label keeps it off"),
        pytest.param("DaemonSet", TYPES, [T4, H100], [FindingKind.ADVICE], id="one pod for each node"),
    ],
)
def test_where_an_enforced_rule_would_complete_a_pod_that_alone_is_said(
    kind: str, by: Policy, nodes: list[dict[str, str]], said: list[FindingKind]
) -> None:
    facts = cluster(*nodes)
    findings = engine.validate_workload(workload(kind, trainer()), "team", by, facts).findings
    assert [one.kind for one in findings] == said
    if kind == "Deployment":
        mutated = engine.mutate(trainer(), by, facts)
        assert [one.kind for one in (*mutated.findings, *engine.validate(mutated.object, by, facts).findings)] == said


SHARES, BY_MPS = policy({"sharedGpus": {}}), cluster(dict(MPS))


@pytest.mark.parametrize(
    ("resource", "refuses"),
    [pytest.param("nvidia.com/gpu", 0, id="by labels"), pytest.param("nvidia.com/gpu.shared", 1, id="by name")],
)
def test_a_queue_may_choose_other_nodes_than_those_that_share_and_a_name_stays(resource: str, refuses: int) -> None:
    """A rule may judge by nodes and by the pod alone; only what follows from nodes waits for the queue."""
    raw = workload("Job", pod(0))
    raw["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {resource: 2}}
    assert len(engine.validate_workload(raw, "team", SHARES, BY_MPS).findings) == 1
    raw["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    assert len(engine.validate_workload(raw, "team", SHARES, BY_MPS).findings) == refuses


def test_an_update_that_narrows_down_the_nodes_to_those_that_share_is_not_refused() -> None:
    """A scheduler or a queue places a pod that was admitted."""
    (new,) = engine.validate(pod(2), SHARES, BY_MPS).findings
    (updated,) = engine.validate(pod(2), SHARES, BY_MPS, old=pod(2, spec={"nodeSelector": {"pool": "later"}})).findings
    assert (new.refuses, updated.refuses) == (True, False)
