"""What a pod claims of the quotas of its namespace, and what people read when it does not fit."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from tests.bound_quotas import TEAM, own, shared_quota
from tests.build import FACTS, container, pod, policy, workload
from tests.ledger.small_cluster import raw_pod
from webhook import engine
from webhook.engine.quota_claims import reserved
from webhook.ledger.ledger_store import GpuPod
from webhook.ledger.verdicts import Claim, Exceeded, Granted, LedgerFull, Unanswered, Verdict
from webhook.model.pod_reader import pod_from_raw
from webhook.outcome import Finding, FindingKind, Outcome
from webhook.policy.policy_quotas import BoundQuota
from webhook.quota.quotas import Excess
from webhook.rules.rule_settings import Mode

POLICY = policy({})
GRANTED = Granted()


def over(bound: BoundQuota, asks: int, used: int, at: int = 0) -> Exceeded:
    """The verdict that a limit of a quota is passed."""
    return Exceeded((Excess(bound.quota.limits[at], Fraction(asks), Fraction(used)),))


def asked(
    raw: dict[str, Any],
    bound: Sequence[BoundQuota],
    verdicts: Sequence[Verdict] = (),
    pods: Sequence[GpuPod] = (),
    findings: tuple[Finding, ...] = (),
) -> tuple[Outcome, list[Sequence[Claim]]]:
    """What becomes of a pod that is about to be admitted, and what the ledgers were asked."""
    questions: list[Sequence[Claim]] = []

    def ask(claims: Sequence[Claim]) -> Sequence[Verdict]:
        questions.append(claims)
        return verdicts or [GRANTED] * len(claims)

    def seen(namespace: str) -> list[GpuPod]:
        assert namespace == TEAM
        return [one for one in pods if one.namespace == namespace]

    return reserved(Outcome(POLICY, raw, findings), TEAM, bound, FACTS, ask, seen), questions


def running(name: str, gpus: int, namespace: str = TEAM, **spec: Any) -> GpuPod:
    """A pod that is there."""
    return GpuPod(name.encode().ljust(16), namespace, name, pod_from_raw(raw_pod(gpus, **spec)))


# Who is asked.


def test_the_ledgers_are_asked_once_for_all_quotas() -> None:
    bound = [own(gpus=8), shared_quota(gpus=8)]
    outcome, questions = asked(pod(2), bound)
    assert outcome.findings == ()
    assert [[claim.quota for claim in claims] for claims in questions] == [[one.quota for one in bound]]


@pytest.mark.parametrize(
    ("raw", "bound", "findings"),
    [
        pytest.param(
            pod(2),
            [own(gpus=8)],
            (Finding("gpuLimits", Mode.ENFORCE, FindingKind.VIOLATION, "spec", "m", refuses=True),),
            id="refused by a rule",
        ),
        pytest.param(pod(9), [shared_quota(gpus=8)], (), id="more than a shared quota has"),
        pytest.param(pod(0), [own(gpus=0)], (), id="without GPUs"),
        pytest.param(pod(9), [], (), id="without quotas"),
    ],
)
def test_no_ledger_is_asked_about_a_pod_that_is_refused_anyway_or_not_counted(
    raw: dict[str, Any], bound: list[BoundQuota], findings: tuple[Finding, ...]
) -> None:
    assert asked(raw, bound, findings=findings)[1] == []


@pytest.mark.parametrize("mode", ["warn", "audit"])
def test_what_a_shared_quota_never_allows_is_entered_all_the_same_where_it_is_not_enforced(mode: str) -> None:
    bound = shared_quota(gpus=8, mode=mode)
    outcome, questions = asked(pod(9), [bound], [over(bound, 9, 0)])
    assert len(questions) == 1
    assert not questions[0][0].enforced
    assert len(outcome.findings) == 2
    assert outcome.refusals == ()
    assert bool(outcome.warnings) == (mode == "warn")


def test_what_a_rule_only_warned_of_stays_beside_what_the_quota_says() -> None:
    bound = own(gpus=8)
    warned = Finding("gpuLimits", Mode.WARN, FindingKind.VIOLATION, "spec", "m")
    outcome, _ = asked(pod(4), [bound], [over(bound, 4, 6)], findings=(warned,))
    assert [finding.rule for finding in outcome.findings] == ["gpuLimits", "gpuQuota"]
    assert len(outcome.refusals) == 1


# What is said.


def test_a_refusal_says_what_is_used_who_uses_most_and_what_to_do() -> None:
    bound = own(gpus=8)
    pods = [running("notebook-x", 2), running("train-a", 4), running("huge", 64, "other-team")]
    outcome, _ = asked(pod(4), [bound], [over(bound, 4, 6)], pods)
    assert outcome.refusal == (
        "gpuQuota: spec: exceeded GPU quota 'team-vision': requested 4, used 6 of 8 (2 free); "
        "largest: train-a 4, notebook-x 2; free some or request 2."
    )


@pytest.mark.parametrize(
    ("mode", "refused", "warned"),
    [("enforce", True, False), ("warn", False, True), ("audit", False, False)],
    ids=["enforce", "warn", "audit"],
)
@pytest.mark.parametrize("make", [own, shared_quota], ids=["of the namespace", "a shared quota"])
def test_the_mode_says_what_becomes_of_a_pod_that_does_not_fit(
    make: Any, mode: str, refused: bool, warned: bool
) -> None:
    bound = make(gpus=8, mode=mode)
    outcome, _ = asked(pod(4), [bound], [over(bound, 4, 6)])
    assert (bool(outcome.refusals), bool(outcome.warnings), len(outcome.findings)) == (refused, warned, 1)
    assert f"exceeded GPU quota '{bound.quota.name}': requested 4, used 6 of 8 (2 free)" in outcome.findings[0].message


def test_every_quota_that_is_passed_says_so_and_one_that_refuses_is_enough() -> None:
    first, second, third = own(gpus=8), shared_quota(gpus=8, mode="warn"), shared_quota("all", "*", gpus=99)
    pods = [running("a", 3)]
    outcome, _ = asked(pod(4), [first, second, third], [over(first, 4, 6), over(second, 4, 8), GRANTED], pods)
    assert [finding.message for finding in outcome.findings] == [
        "exceeded GPU quota 'team-vision': requested 4, used 6 of 8 (2 free); largest: a 3; free some or request 2",
        "exceeded GPU quota 'research': requested 4, used 8 of 8 (0 free); largest: a 3; free some",
    ]
    assert (len(outcome.refusals), len(outcome.warnings)) == (1, 1)


def test_three_pods_are_named_the_largest_first_and_those_alike_by_name() -> None:
    bound = own(gpus=8)
    pods = [running(name, count) for name, count in [("d", 2), ("b", 1), ("c", 2), ("a", 1), ("e", 0)]]
    outcome, _ = asked(pod(1), [bound], [over(bound, 1, 8)], pods)
    assert "; largest: c 2, d 2, a 1; free some" in outcome.findings[0].message


def test_the_largest_are_those_of_the_limit_that_is_passed() -> None:
    bound = own(gpus=99, byModel={"H100": 4, "T4": 16})
    h100, t4 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, {"nvidia.com/gpu.product": "Tesla-T4"}
    pods = [running("many", 8, nodeSelector=t4), running("one", 1, nodeSelector=h100), running("open", 2)]
    outcome, _ = asked(pod(2, spec={"nodeSelector": h100}), [bound], [over(bound, 2, 3, at=1)], pods)
    assert outcome.findings[0].message == (
        "exceeded GPU quota 'team-vision': requested 2 H100, used 3 of 4 (1 free); largest: open 2, one 1; "
        "free some or request 1"
    )


def test_slices_are_said_as_parts_of_a_gpu() -> None:
    bound = own(gpus=1)
    selector = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    slices = container("c", limits={"nvidia.com/mig-1g.10gb": 4})
    raw = pod(spec={"containers": [slices], "nodeSelector": selector})
    verdict = Exceeded((Excess(bound.quota.limits[0], Fraction(4, 7), Fraction(4, 7)),))
    pods = [GpuPod(b"1" * 16, TEAM, "slices", pod_from_raw(raw))]
    outcome, questions = asked(raw, [bound], [verdict], pods)
    assert questions[0][0].demand.models == ("H100-80GB",)
    assert outcome.findings[0].message == (
        "exceeded GPU quota 'team-vision': requested 4/7, used 4/7 of 1 (3/7 free); largest: slices 4/7; "
        "free some or request 3/7"
    )


def test_a_pod_that_counts_against_a_model_only_because_it_names_none_is_told_how_to_name_one() -> None:
    bound = own(byModel={"H100": 4})
    outcome, _ = asked(pod(2), [bound], [over(bound, 2, 4)])
    assert outcome.findings[0].message.startswith(
        "exceeded GPU quota 'team-vision': requested 2 H100, used 4 of 4 (0 free); free some; or add a nodeSelector "
        "for "
    )
    named, _ = asked(pod(2, spec={"nodeSelector": {"nvidia.com/gpu.product": "H100"}}), [bound], [over(bound, 2, 4)])
    assert named.findings[0].message.endswith("(0 free); free some")


def test_a_quota_below_what_is_in_use_has_nothing_free() -> None:
    bound = own(gpus=4)
    outcome, _ = asked(pod(1), [bound], [over(bound, 1, 9)])
    assert outcome.findings[0].message == (
        "exceeded GPU quota 'team-vision': requested 1, used 9 of 4 (0 free); free some"
    )


@pytest.mark.parametrize(
    ("settings", "refused", "warned"),
    [
        pytest.param({}, True, False, id="deny unless said otherwise"),
        pytest.param({"onLedgerFailure": "allow"}, False, True, id="allow"),
        pytest.param({"mode": "warn"}, False, True, id="warn"),
        pytest.param({"mode": "audit"}, False, False, id="audit"),
    ],
)
def test_a_ledger_that_cannot_be_reached_refuses_or_not_as_the_policy_says_and_always_says_so(
    settings: dict[str, Any], refused: bool, warned: bool
) -> None:
    bound = own(gpus=8, **settings)
    outcome, _ = asked(pod(4), [bound], [Unanswered("PUT https://10.0.0.1: timed out")])
    assert (bool(outcome.refusals), bool(outcome.warnings)) == (refused, warned)
    assert str(outcome.findings[0]) == (
        "gpuQuota: spec: the ledger of GPU quota 'team-vision' cannot be reached, so it is not known what is free: "
        "PUT https://10.0.0.1: timed out. Try again in a moment, or tell the platform team."
    )


@pytest.mark.parametrize("mode", ["enforce", "warn"])
def test_a_pod_with_more_kinds_of_gpus_than_any_node_has_fills_no_ledger(mode: str) -> None:
    limits = {f"nvidia.com/A{number:060}": "1" for number in range(17)}
    raw = raw_pod(1)
    raw["spec"]["containers"][0]["resources"] = {"limits": limits}
    outcome, questions = asked(raw, [shared_quota(mode=mode, byModel={"H100": 2})])
    assert questions == []
    assert [(bool(outcome.refusals), finding.message) for finding in outcome.findings] == [
        (mode == "enforce", "requests 17 different GPU resources; at most 16 are counted")
    ]


def test_what_keeps_a_pod_out_is_not_told_where_nothing_is_said_of_what_is_in_use() -> None:
    bound = own(gpus=8)
    verdict = LedgerFull(501, 500)
    raw = pod(4)
    outcome = reserved(Outcome(policy({}), raw), TEAM, [bound], FACTS, lambda _claims: [verdict], None)
    assert outcome.refusal == (
        "gpuQuota: spec: does not fit beside the pods of its namespace; a GPU quota is used up. "
        "Free some or request less."
    )


# Whom people should turn to.

UNDECLARED = {"deviceclass.resource.kubernetes.io/h100": 1}


def test_what_the_ledger_says_sends_people_to_the_contact_of_their_policy() -> None:
    in_force = replace(POLICY, contact="#gpu-help")
    outcome = reserved(Outcome(in_force, pod(4)), TEAM, [own(gpus=8)], FACTS, lambda _: [Unanswered("timed out")], None)
    assert [one.remedy for one in outcome.findings] == ["Try again in a moment, or tell #gpu-help"]


@pytest.mark.parametrize("contact", ["", "#gpu-help"], ids=["nobody named", "somebody named"])
def test_what_shared_quotas_cannot_count_sends_people_to_the_contact_of_their_policy(contact: str) -> None:
    raw = pod(spec={"containers": [container("c0", limits=UNDECLARED)]})
    in_force = replace(policy({}), contact=contact)
    of_pod = reserved(Outcome(in_force, raw), TEAM, [shared_quota(gpus=8)], FACTS, lambda _: [], None).findings
    of_job = engine.validate_workload(workload("Job", raw), TEAM, in_force, FACTS, [shared_quota(gpus=8)]).findings
    whom = contact or "the platform team"
    assert [f"ask {whom} to declare" in one.remedy for one in (*of_pod, *of_job)] == [True, True]
