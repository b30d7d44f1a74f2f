"""Modes mean one thing everywhere; completing, judging and noticing what got lost."""

import json
from typing import Any

import pytest

from tests.build import BY_KEY, FACTS, WITHOUT_CLASSES, container, env, pod, policy, requests_only, wanting_pod
from tests.lab.benchmarks.cluster import PRIORITY_CLASS, nodes
from tests.lab.benchmarks.engine import REVIEW
from tests.rules.every_rule import CASES, COMPLETING, INJECTING
from webhook import engine
from webhook.facts.facts import ClusterFacts
from webhook.outcome import FindingKind, Outcome
from webhook.policy.policy_set import ConfiguredRule, Policy
from webhook.rules import RULES
from webhook.rules.rule import Advice, Rule
from webhook.rules.rule_settings import Mode, RuleSettings

REQUIRED_POOL = {"nodeAffinity": INJECTING["nodeAffinity"]}
MUTATORS = [rule.key for rule in RULES if rule.injects]
MODES = ["enforce", "warn", "audit", "disabled"]

REFUSING = [rule.key for rule in RULES if rule.validate is not None and not rule.only_advises]
BENCHMARKED = json.loads(REVIEW.read_text())["request"]["object"]
CLUSTER = ClusterFacts.of(nodes(10)[1:], nodes(10)[:1], [PRIORITY_CLASS])
ADVISED = {
    "runtimeClass": ({"whenMissing": "warn"}, pod(1)),
    "priorityClass": ({"name": "training", "whenMissing": "warn"}, pod(1)),
    "driverCapabilities": (
        {},
        pod(spec={"containers": [container("c0", limits={"nvidia.com/gpu": 1}, envFrom=[{"secretRef": {}}])]}),
    ),
    "sharedMemory": ({}, pod(spec={"containers": [{"name": "c0", "resources": {"limits": {"nvidia.com/gpu": 2}}}]})),
    "ncclEnv": (
        INJECTING["ncclEnv"],
        pod(spec={"containers": [container("c0", limits={"nvidia.com/gpu": 2}, envFrom=[{"secretRef": {}}])]}),
    ),
}


def both_phases(raw: dict[str, Any], in_force: Policy, facts: Any = FACTS) -> tuple[Outcome, Outcome]:
    completed = engine.mutate(raw, in_force, facts)
    return completed, engine.validate(completed.object, in_force, facts)


def kinds(*outcomes: Outcome) -> list[FindingKind]:
    return [finding.kind for outcome in outcomes for finding in outcome.findings]


@pytest.mark.parametrize("key", MUTATORS)
def test_enforce_injects_and_says_nothing(key: str) -> None:
    outcome = engine.mutate(wanting_pod(), policy({key: INJECTING[key]}), FACTS)
    assert (key,) == outcome.injected
    assert outcome.patch
    assert FindingKind.INJECTION not in kinds(outcome)


@pytest.mark.parametrize("key", [key for key in MUTATORS if BY_KEY[key].warns_of_injections])
def test_warn_says_what_would_be_injected(key: str) -> None:
    outcome = engine.mutate(wanting_pod(), policy({key: INJECTING[key]}, mode="warn"), FACTS)
    (said,) = [warning for warning in outcome.warnings if "would add" in warning]
    assert said.startswith(f"{key}: spec: would add ")


def test_warn_only_records_of_visible_devices_what_would_be_injected() -> None:
    """A side container without GPUs is given `void`, about which its author has nothing to do."""
    outcome = engine.simulate(wanting_pod(), policy({"visibleDevices": {}}, mode="warn"), FACTS)
    assert outcome.warnings == ()
    assert [(finding.kind, finding.mode) for finding in outcome.findings] == [(FindingKind.INJECTION, Mode.AUDIT)]


@pytest.mark.parametrize("key", MUTATORS)
def test_audit_only_records_what_would_be_injected(key: str) -> None:
    outcome = engine.mutate(wanting_pod(), policy({key: INJECTING[key]}, mode="audit"), FACTS)
    assert outcome.warnings == ()
    assert FindingKind.INJECTION in kinds(outcome)


@pytest.mark.parametrize("key", MUTATORS)
def test_an_injection_that_is_not_enforced_is_never_missed(key: str) -> None:
    for mode in ("warn", "audit", "disabled"):
        assert FindingKind.MISSING not in kinds(
            engine.validate(wanting_pod(), policy({key: INJECTING[key]}, mode=mode), FACTS)
        )


@pytest.mark.parametrize(
    ("mode", "refused", "warned", "recorded"),
    [
        ("enforce", True, False, True),
        ("warn", False, True, True),
        ("audit", False, False, True),
        ("disabled", False, False, False),
    ],
    ids=MODES,
)
@pytest.mark.parametrize("key", REFUSING)
def test_a_violation_is_refused_warned_about_or_recorded_by_the_mode(
    key: str, mode: str, refused: bool, warned: bool, recorded: bool
) -> None:
    raw = CASES[key].pods(BENCHMARKED).breaks
    assert raw is not None
    outcome = engine.validate(raw, policy({key: CASES[key].enforced}, mode=mode), CLUSTER)
    found = [finding for finding in outcome.findings if finding.kind is FindingKind.VIOLATION]
    warns = any(finding.warns for finding in found)
    assert (refused, warned, recorded) == (bool(outcome.refusals), warns, bool(found))


@pytest.mark.parametrize(
    ("mode", "warned", "recorded"),
    [("enforce", True, True), ("warn", True, True), ("audit", False, True), ("disabled", False, False)],
    ids=MODES,
)
@pytest.mark.parametrize("key", ADVISED)
def test_advice_never_refuses_and_is_said_or_recorded_by_the_mode(
    key: str, mode: str, warned: bool, recorded: bool
) -> None:
    settings, raw = ADVISED[key]
    outcome = engine.mutate(raw, policy({key: settings}, mode=mode), WITHOUT_CLASSES)
    advice = [finding for finding in outcome.findings if finding.kind is FindingKind.ADVICE]
    assert (recorded, warned, ()) == (bool(advice), any(f.warns for f in advice), outcome.refusals)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("requests", "limits"),
    [({"nvidia.com/gpu": 2}, {}), ({"nvidia.com/gpu": 2}, {"nvidia.com/gpu": 1}), (None, {"nvidia.com/gpu": "500m"})],
    ids=["requests only", "unequal", "fraction"],
)
def test_what_the_api_server_would_refuse_is_explained_before_it_can(mode: str, requests: Any, limits: Any) -> None:
    raw = pod(spec={"containers": [container("c0", requests=requests, limits=limits)]})
    outcome = engine.mutate(raw, policy({"gpuLimits": {}}, mode=mode), FACTS)
    expected = {"enforce": (1, 0), "warn": (0, 1)}.get(mode, (0, 0))
    assert expected == (len(outcome.refusals), len(outcome.warnings))
    assert (mode != "disabled") == bool(outcome.findings)


def test_such_a_pod_is_told_every_other_enforced_violation_at_once() -> None:
    raw = requests_only()
    raw["spec"]["nodeSelector"] = {"pool": "cpu"}
    raw["spec"]["containers"][0]["env"] = env("NVIDIA_VISIBLE_DEVICES", "all")
    rules = {"gpuLimits": {"maxPerPod": 1}, "visibleDevices": {}, **REQUIRED_POOL}
    outcome = engine.mutate(raw, policy(rules), FACTS)
    assert [f.rule for f in outcome.refusals] == ["nodeAffinity", "gpuLimits", "gpuLimits", "visibleDevices"]
    assert outcome.refusal.startswith("4 violations:\n- nodeAffinity: spec.nodeSelector: ")
    assert (raw, ()) == (outcome.object, outcome.patch)


def test_a_refused_pod_gets_no_advice_about_what_is_then_not_injected() -> None:
    raw = pod(spec={"containers": [{"name": "c0", "resources": {"requests": {"nvidia.com/gpu": 2}}}]})
    outcome = engine.mutate(raw, policy({"sharedMemory": {}, "gpuLimits": {}}), FACTS)
    assert [finding.rule for finding in outcome.findings] == ["gpuLimits"]


UNLIMITED = pod(spec={"containers": [{"name": "c0", "resources": {"limits": {"nvidia.com/gpu": 2}}}]})
UNLIMITED_VOLUME = pod(
    spec={
        "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
        "containers": [
            {
                "name": "c0",
                "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],
                "resources": {"limits": {"nvidia.com/gpu": 2}},
            }
        ],
    }
)


@pytest.mark.parametrize(
    ("memory_and_cpu", "rules"),
    [
        pytest.param({"mode": "warn"}, ["memoryAndCpu"], id="it warns"),
        pytest.param({"mode": "enforce"}, ["memoryAndCpu"], id="it refuses"),
        pytest.param({"mode": "audit"}, ["memoryAndCpu"], id="it is recorded, so no other rule warns of it"),
        pytest.param({"mode": "disabled"}, ["sharedMemory"], id="it is disabled"),
        pytest.param({"memoryLimit": False}, ["sharedMemory", "memoryAndCpu"], id="it is about the CPU alone"),
    ],
)
def test_one_missing_memory_limit_is_one_finding(memory_and_cpu: dict[str, Any], rules: list[str]) -> None:
    using = policy({"sharedMemory": {}, "memoryAndCpu": memory_and_cpu})
    assert [finding.rule for finding in engine.simulate(UNLIMITED, using, FACTS).findings] == rules
    assert engine.mutate(UNLIMITED, using, FACTS).injected == ("sharedMemory",)
    assert [finding.rule for finding in engine.validate(UNLIMITED_VOLUME, using, FACTS).findings] == rules


def test_the_rules_that_name_a_fault_declare_it() -> None:
    using = policy({"memoryAndCpu": {}})
    told = {finding.fault for finding in engine.validate(UNLIMITED, using, FACTS).findings}
    assert told == BY_KEY["memoryAndCpu"].faults


def test_a_missing_limit_that_is_only_warned_about_refuses_for_the_other_rules() -> None:
    """The API server is about to refuse it, so the validating phase, where the other rule speaks, is never reached."""
    raw = requests_only()
    raw["spec"]["containers"][0]["env"] = env("NVIDIA_VISIBLE_DEVICES", "all")
    rules = {"gpuLimits": {"mode": "warn", "requestsOnly": "repair"}, "visibleDevices": {}}
    outcome = engine.mutate(raw, policy(rules), FACTS)
    assert [f.rule for f in outcome.refusals] == ["visibleDevices"]
    assert outcome.warnings == ("gpuLimits: spec: would add limit nvidia.com/gpu=2 in c0.",)


def test_any_other_violation_waits_for_the_validating_phase() -> None:
    completed, judged = both_phases(pod(2), policy({"gpuLimits": {"maxPerPod": 1}, "tolerations": {}}))
    assert (completed.injected, completed.findings) == (("tolerations",), ())
    assert [finding.rule for finding in judged.refusals] == ["gpuLimits"]


def test_a_repaired_pod_keeps_both_phases_quiet() -> None:
    completed, judged = both_phases(requests_only("2"), policy({"gpuLimits": {"requestsOnly": "repair"}}))
    resources = completed.object["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {"memory": "8Gi", "nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "2"}}
    assert (completed.findings, judged.findings) == ((), ())


def test_rules_that_look_at_nodes_see_the_placement_that_was_injected() -> None:
    """Without the injected toleration no node is a candidate, so nothing could lack the handler."""
    node = {
        "metadata": {"name": "n", "uid": "1"},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        "status": {"capacity": {"nvidia.com/gpu": "8"}, "runtimeHandlers": [{"name": "runc"}]},
    }
    facts = ClusterFacts(FACTS.cluster.with_nodes([node]))
    alone = engine.mutate(pod(1), policy({"runtimeClass": {}}), facts)
    together = engine.mutate(pod(1), policy({"runtimeClass": {}, "tolerations": {}}), facts)
    assert (alone.injected, together.injected) == (("runtimeClass",), ("tolerations",))


def test_the_annotation_names_the_rules_that_injected() -> None:
    outcome = engine.mutate(pod(2), policy(INJECTING), FACTS)
    assert ",".join(COMPLETING) == outcome.object["metadata"]["annotations"][engine.ANNOTATION]


def test_an_annotation_of_the_user_is_left_alone_and_believed_by_nobody() -> None:
    raw = pod(2, annotations={engine.ANNOTATION: "nodeAffinity"})
    completed = engine.mutate(raw, policy(INJECTING), FACTS)
    assert completed.object["metadata"]["annotations"][engine.ANNOTATION] == "nodeAffinity"
    assert completed.injected == COMPLETING
    assert "nodeAffinity" in [f.rule for f in engine.validate(raw, policy(INJECTING), FACTS).refusals]


def test_a_validator_may_advise_without_refusing() -> None:
    rule = Rule(key="r", promise="p", settings=RuleSettings, validate=lambda *_: [Advice("spec", "found", "Do this")])
    in_force = Policy("p", (), "", (ConfiguredRule(rule, Mode.ENFORCE, RuleSettings(mode=Mode.ENFORCE), "p.yaml"),))
    outcome = engine.validate(pod(1), in_force, FACTS)
    assert (outcome.refusals, outcome.warnings) == ((), ("r: spec: found. Do this.",))
