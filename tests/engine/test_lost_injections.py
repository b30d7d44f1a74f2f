"""What was injected and got lost: when it is missed, and when another policy excuses it."""

import copy
from typing import Any

import pytest

from tests.build import BY_KEY, FACTS, WITHOUT_CLASSES, env, pod, policy, wanting_pod
from tests.rules.every_rule import INJECTING
from webhook import engine
from webhook.model.shape import ShapeError
from webhook.outcome import FindingKind, Outcome
from webhook.policy.policy_set import Policy
from webhook.rules import RULES
from webhook.rules.rule_settings import Mode

REQUIRED_POOL = {"nodeAffinity": INJECTING["nodeAffinity"]}


MUTATORS = [rule.key for rule in RULES if rule.injects]


LASTING = [
    key for key in MUTATORS if key not in {"gpuLimits", "replicaSpread"} and not BY_KEY[key].depends_on_cluster_state
]
"""Rules of which a pod must not lose what they injected: it is no mere preference, and the API server needs none."""


def kinds(*outcomes: Outcome) -> list[FindingKind]:
    return [finding.kind for outcome in outcomes for finding in outcome.findings]


@pytest.mark.parametrize("key", LASTING)
@pytest.mark.parametrize("if_missing", ["refuse", "warn"])
def test_an_enforced_injection_that_got_lost_is_refused_or_warned_about(key: str, if_missing: str) -> None:
    in_force = policy({key: {**INJECTING[key], "ifMissing": if_missing}})
    lost = engine.validate(wanting_pod(), in_force, FACTS)
    expected = (1, 0) if if_missing == "refuse" else (0, 1)
    missing = [finding for finding in lost.findings if finding.kind is FindingKind.MISSING]
    assert expected == (sum(f.refuses for f in missing), sum(f.warns for f in missing))
    completed = engine.mutate(wanting_pod(), in_force, FACTS)
    assert FindingKind.MISSING not in kinds(engine.validate(completed.object, in_force, FACTS))


@pytest.mark.parametrize("key", LASTING)
def test_without_a_word_in_the_policy_only_a_lost_node_affinity_refuses(key: str) -> None:
    lost = engine.validate(wanting_pod(), policy({key: INJECTING[key]}), FACTS)
    (missing,) = [finding for finding in lost.findings if finding.kind is FindingKind.MISSING]
    assert (key == "nodeAffinity") == missing.refuses


def test_a_lost_preference_never_refuses() -> None:
    preferred = [{"key": "pool", "operator": "Exists", "weight": 5}]
    lost = engine.validate(pod(1), policy({"nodeAffinity": {"preferred": preferred}}), FACTS)
    assert (kinds(lost), lost.refusals) == ([FindingKind.MISSING], ())


POOL_A = policy({"nodeAffinity": {"required": [{"key": "pool", "operator": "In", "values": ["a"]}]}, "tolerations": {}})


POOL_B = policy({"nodeAffinity": {"required": [{"key": "pool", "operator": "In", "values": ["b"]}]}, "tolerations": {}})


NO_POOL = policy({"nodeAffinity": {"mode": "disabled"}, "tolerations": {}})


NOTHING = policy({"gpuLimits": {"maxPerPod": 4}})


@pytest.mark.parametrize(
    ("completing", "judging"),
    [
        pytest.param(POOL_A, POOL_B, id="another value"),
        pytest.param(POOL_A, NO_POOL, id="switched off"),
        pytest.param(NO_POOL, POOL_A, id="switched on"),
        pytest.param(POOL_A, NOTHING, id="everything switched off"),
        pytest.param(NOTHING, POOL_A, id="everything switched on"),
        pytest.param(policy(REQUIRED_POOL, mode="audit"), policy(REQUIRED_POOL), id="enforced"),
    ],
)
def test_a_change_of_policy_loses_no_pod_while_replicas_are_out_of_step(completing: Policy, judging: Policy) -> None:
    """The one replica completes the pod, the other judges it, and one of them has not got the change yet."""
    judged = engine.validate(engine.mutate(pod(1), completing, FACTS).object, judging, FACTS)
    assert (judged.refusals, judged.warnings) == ((), ())


def in_pool(value: str, **annotations: str) -> dict[str, Any]:
    return pod(1, annotations=annotations, spec={"nodeSelector": {"pool": value}})


MADE_UP = [
    pytest.param({}, id="none"),
    pytest.param({engine.STAMP: "_default@000000000000"}, id="made up"),
    pytest.param({engine.STAMP: "elsewhere"}, id="in another form"),
    pytest.param({engine.STAMP: ""}, id="empty"),
    pytest.param({engine.STAMP: f"_default@{POOL_B.short_hash}"}, id="of a policy that allows it"),
]


@pytest.mark.parametrize("value", ["forbidden", "b"])
@pytest.mark.parametrize("stamp", MADE_UP)
def test_a_pod_is_held_to_the_policy_whatever_stamp_it_brings(stamp: dict[str, str], value: str) -> None:
    raw = in_pool(value, **stamp)
    raw["spec"]["tolerations"] = [{"operator": "Exists"}]  # so that nothing is injected
    completed = engine.mutate(raw, POOL_A, FACTS)
    assert completed.object["metadata"]["annotations"] == {engine.STAMP: POOL_A.stamp}
    assert kinds(engine.validate(completed.object, POOL_A, FACTS)) == [FindingKind.VIOLATION]


def test_a_stamp_of_a_policy_that_is_not_known_leaves_a_record_of_what_it_excuses() -> None:
    """A pod can bring one where GPUs were added after /mutate, or where that was not called."""
    outcome = engine.validate(pod(1, annotations={engine.STAMP: "x@y"}), POOL_A, FACTS)
    assert {(finding.kind, finding.mode, finding.refuses) for finding in outcome.findings} == {
        (FindingKind.MISSING, Mode.AUDIT, False)
    }


def test_a_release_that_only_records_does_not_sign_what_another_release_completed() -> None:
    recording = policy({"nodeAffinity": {"mode": "audit", **REQUIRED_POOL["nodeAffinity"]}})
    completed = engine.mutate(pod(1), POOL_A, FACTS)
    assert engine.mutate(completed.object, recording, FACTS).patch == ()


def test_what_is_not_about_injections_is_judged_by_the_policy_in_force_whoever_completed_the_pod() -> None:
    limited = policy({"gpuLimits": {"maxPerPod": 1}, "tolerations": {}})
    completed = engine.mutate(pod(2), policy({"gpuLimits": {"maxPerPod": 2}, "tolerations": {}}), FACTS)
    assert kinds(engine.validate(completed.object, limited, FACTS)) == [FindingKind.VIOLATION]


def test_a_pod_without_gpus_gets_no_stamp_and_loses_one_of_its_own_making() -> None:
    assert engine.mutate(pod(0), POOL_A, FACTS).patch == ()
    made_up = pod(0, annotations={engine.STAMP: "x@y"})
    assert engine.mutate(made_up, POOL_A, FACTS).object["metadata"]["annotations"] == {engine.STAMP: POOL_A.stamp}


def test_a_runtime_class_that_the_cluster_lacks_is_not_missed() -> None:
    in_force = policy({"runtimeClass": {"ifMissing": "refuse"}})
    assert kinds(engine.validate(pod(1), in_force, FACTS)) == [FindingKind.MISSING]
    assert kinds(engine.validate(pod(1), in_force, WITHOUT_CLASSES)) == []


def test_an_update_is_told_only_what_is_new() -> None:
    in_force = policy({"gpuLimits": {"maxPerPod": 1}, "visibleDevices": {}, **REQUIRED_POOL})
    old = pod(4, spec={"nodeSelector": {"pool": "cpu"}})
    new = copy.deepcopy(old)
    assert engine.validate(new, in_force, FACTS, old=old).findings == ()
    new["spec"]["ephemeralContainers"] = [{"name": "debug", "env": env("NVIDIA_VISIBLE_DEVICES", "all")}]
    (finding,) = engine.validate(new, in_force, FACTS, old=old).refusals
    assert finding.field == "spec.ephemeralContainers[debug].env[NVIDIA_VISIBLE_DEVICES]"


def test_an_update_is_never_told_of_a_missing_injection() -> None:
    assert engine.validate(pod(2), policy(INJECTING), FACTS, old=pod(2)).findings == ()


@pytest.mark.parametrize("phase", [engine.mutate, engine.validate])
def test_a_malformed_pod_is_an_error_that_names_the_place(phase: Any) -> None:
    with pytest.raises(ShapeError, match=r"^spec.containers: found a map, expected a list$"):
        phase(pod(spec={"containers": {}}), policy(INJECTING), FACTS)
