"""What several pods made alike lack together is said of the workload that makes them, and of no pod."""

from typing import Any

import pytest

from tests.build import FACTS, WORKLOADS, pod, policy, workload
from tests.quota.quotas import shared_quota
from webhook import engine
from webhook.outcome import Outcome
from webhook.policy.policy_set import ConfiguredRule, Policy
from webhook.policy.schema import WorkloadsMode
from webhook.rules.rule import Rule, Violation
from webhook.rules.rule_settings import Mode, RuleSettings

TEAM = "team"
SPREAD = {"replicaSpread": {}}
CROWDED = (
    "spec.template.spec.topologySpreadConstraints: nothing keeps the replicas apart; one node may get all of them, "
    "which then fail with it. Set it or podAntiAffinity, with topologyKey kubernetes.io/hostname."
)


def deployment(replicas: Any = 2, *, kind: str = "Deployment", **spec: Any) -> dict[str, Any]:
    raw = workload(kind, pod(1, spec=spec))
    raw["spec"]["replicas"] = replicas
    return raw


def judged(raw: dict[str, Any], using: Policy, old: Any = None, quotas: Any = ()) -> Outcome:
    return engine.validate_workload(raw, TEAM, using, FACTS, quotas, old=old)


def said(raw: dict[str, Any], using: Policy, old: Any = None) -> list[str]:
    return [str(finding) for finding in judged(raw, using, old).findings]


@pytest.mark.parametrize("mode", ["warn", "enforce"])
@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet"])
def test_replicas_that_nothing_keeps_apart_are_a_warning_where_they_are_applied(kind: str, mode: str) -> None:
    outcome = judged(deployment(kind=kind), policy(SPREAD, mode=mode))
    assert (outcome.refusals, len(outcome.warnings)) == ((), 1)
    assert outcome.warnings[0] == f"replicaSpread: pod template (2 pods, 2 GPUs): {CROWDED}"


def test_they_refuse_the_object_only_where_the_rule_is_enforced_and_objects_are_refused() -> None:
    refused = judged(deployment(), policy(SPREAD, workloads="enforce"))
    assert refused.refusal == f"replicaSpread: pod template (2 pods, 2 GPUs): {CROWDED}"
    warned = judged(deployment(), policy(SPREAD, mode="warn", workloads="enforce"))
    assert (warned.refusals, len(warned.warnings)) == ((), 1)


@pytest.mark.parametrize("workloads", ["warn", "enforce", "disabled"])
def test_a_review_calls_the_pods_refused_only_where_the_object_is(workloads: str) -> None:
    (found,) = engine.template_outcomes(deployment(), TEAM, policy(SPREAD, workloads=workloads), FACTS)
    assert found.is_refused is (workloads == "enforce")
    assert [finding.rule for finding in found.findings] == ["replicaSpread"]


@pytest.mark.parametrize("mode", ["warn", "enforce"])
def test_no_pod_hears_of_it(mode: str) -> None:
    owners = [{"kind": "ReplicaSet", "controller": True}]
    raw = pod(1, labels={"app": "a"}, ownerReferences=owners)
    using = policy(SPREAD, mode=mode)
    completed = engine.mutate(raw, using, FACTS)
    assert (completed.findings, completed.injections) == ((), ())
    assert engine.validate(raw, using, FACTS).findings == ()


@pytest.mark.parametrize(
    ("old", "new", "is_said"),
    [
        pytest.param(deployment(1), deployment(2), True, id="a second replica"),
        pytest.param(deployment(2), deployment(5), False, id="more of them"),
        pytest.param(deployment(5), deployment(2), False, id="fewer"),
        pytest.param(deployment(2), deployment(2, hostIPC=True), False, id="something else"),
        pytest.param(
            deployment(2, topologySpreadConstraints=[{"topologyKey": "zone"}]),
            deployment(2),
            True,
            id="no longer spread",
        ),
    ],
)
def test_an_update_is_told_when_replicas_begin_to_crowd(old: Any, new: Any, is_said: bool) -> None:
    assert bool(said(new, policy(SPREAD), old)) is is_said


@pytest.mark.parametrize("kind", WORKLOADS)
def test_pods_are_judged_as_those_of_the_controller_that_makes_them(kind: str) -> None:
    """A limit of time cannot stand in the templates of some kinds, so it is not asked for there."""
    raw = workload(kind, pod(1))
    using = policy({"timeLimit": {"missing": "refuse", "selectors": [{"app": "a"}]}})
    (found,) = engine.template_outcomes(raw, TEAM, using, FACTS)
    can_say_so = kind in ("Job", "CronJob", "PodTemplate")
    assert found.is_refused is can_say_so
    assert bool(found.injections) is not can_say_so


class Counting(RuleSettings):
    """Settings of a rule that counts."""


def counting(workloads: str = "warn") -> Policy:
    """A policy of one rule that refuses every workload, and names what it was asked."""

    def judge(pod: Any, replicas: int, settings: Counting, facts: Any) -> Any:
        yield Violation("spec.containers[c0]", f"{replicas} pods of {pod.owner_kind}", f"{settings.mode}", "Run one")

    rule = Rule(key="counting", promise="p", settings=Counting, validate_replicas=judge)
    bound = ConfiguredRule(rule, Mode.ENFORCE, Counting(mode=Mode.ENFORCE), "p.yaml")
    return Policy("p", ("p.yaml",), "0" * 64, (bound,), workloads=WorkloadsMode(workloads))


def test_a_rule_is_told_how_many_pods_there_are_and_whose() -> None:
    assert said(deployment(3), counting()) == [
        "counting: pod template (3 pods, 3 GPUs): spec.template.spec.containers[c0]: 3 pods of ReplicaSet; enforce. "
        "Run one."
    ]


def test_quotas_are_not_asked_for_what_is_refused_anyway() -> None:
    quotas = [shared_quota(gpus=0)]
    assert [one.rule for one in judged(deployment(), counting("enforce"), quotas=quotas).findings] == ["counting"]
    assert "gpuQuota" in [one.rule for one in judged(deployment(), counting(), quotas=quotas).findings]
