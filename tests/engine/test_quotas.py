"""What a pod requests of the quotas of its namespace, and what people read when it does not fit."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.build import FACTS, container, pod, policy, workload
from tests.ledger.small_cluster import raw_pod
from tests.quota.claim_samples import exactly, first_of
from tests.quota.quotas import TEAM, own, shared_quota
from webhook import engine
from webhook.engine.quota_requests import reserved
from webhook.engine.quota_usage import quota_usages, statuses
from webhook.facts.facts import ClusterFacts
from webhook.facts.snapshot import Snapshot
from webhook.ledger.ledger_store import GpuPod
from webhook.ledger.verdicts import Exceeded, Granted, LedgerFull, QuotaRequest, Unanswered, Verdict
from webhook.model.pod_reader import pod_from_raw
from webhook.outcome import Finding, FindingKind, Outcome
from webhook.policy.directory import contents_of
from webhook.policy.loader import build
from webhook.policy.policy_quotas import ConfiguredQuota
from webhook.quota.amounts import Usage
from webhook.quota.quotas import Demand, Excess, Limit, Measure, Quota, QuotaScope
from webhook.rules.rule_settings import Mode

POLICY = policy({})
GRANTED = Granted()
H100, T4 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, {"nvidia.com/gpu.product": "Tesla-T4"}
Asked = list[QuotaRequest]


def over(bound: ConfiguredQuota, asks: int | Fraction, used: int | Fraction, at: int = 0) -> Exceeded:
    """The verdict that a limit of a quota is passed."""
    return Exceeded((Excess(bound.quota.limits[at], Fraction(asks), Fraction(used)),))


def asked(
    raw: dict[str, Any],
    bound: Sequence[ConfiguredQuota],
    verdicts: Sequence[Verdict] = (),
    pods: Sequence[GpuPod] = (),
    findings: tuple[Finding, ...] = (),
    facts: ClusterFacts = FACTS,
) -> tuple[Outcome, Asked]:
    """What becomes of a pod that is about to be admitted, and what ledgers were asked, all at once."""
    questions: list[Sequence[QuotaRequest]] = []

    def ask(requests: Sequence[QuotaRequest]) -> Sequence[Verdict]:
        questions.append(requests)
        return verdicts or [GRANTED] * len(requests)

    def seen(namespace: str) -> list[GpuPod]:
        return [one for one in pods if one.namespace == namespace]

    outcome = reserved(Outcome(POLICY, raw, findings), TEAM, bound, facts, ask, seen)
    assert len(questions) < 2
    return outcome, [one for requests in questions for one in requests]


def messages(raw: dict[str, Any], bound: Sequence[ConfiguredQuota], *others: Any) -> list[str]:
    return [finding.message for finding in asked(raw, bound, *others)[0].findings]


def running(name: str, gpus: int, namespace: str = TEAM, **spec: Any) -> GpuPod:
    return GpuPod(name.encode().ljust(16), namespace, name, pod_from_raw(raw_pod(gpus, **spec)))


# What is requested


def test_a_pod_requests_the_same_of_every_quota_that_counts_alike() -> None:
    first, second = own(gpus=8), shared_quota(gpus=16, mode="warn")
    demand = Demand(TEAM, (("nvidia.com/gpu", 3),))
    assert asked(pod(1, 2), [first, second])[1] == [
        QuotaRequest(first.quota, demand, enforced=True),
        QuotaRequest(second.quota, demand, enforced=False),
    ]


def test_a_model_that_only_one_quota_knows_is_requested_of_that_one() -> None:
    bound = [own(models={"X9": {"example.com/gpu": ["x9"]}}, byModel={"X9": 4}), shared_quota(gpus=4)]
    requests = asked(pod(1, spec={"nodeSelector": {"example.com/gpu": "x9"}}), bound)[1]
    assert [one.demand.models for one in requests] == [("X9",), None]


REFUSED = (Finding("gpuLimits", Mode.ENFORCE, FindingKind.VIOLATION, "spec", "m", refuses=True),)


@pytest.mark.parametrize(
    ("raw", "bound", "findings"),
    [
        pytest.param(pod(2), [own(gpus=8)], REFUSED, id="refused by a rule"),
        pytest.param(pod(9), [shared_quota(gpus=8)], (), id="more than a shared quota has"),
        pytest.param(pod(0), [own(gpus=0)], (), id="without GPUs"),
        pytest.param(
            pod(spec={"containers": [container("c", limits={"nvidia.com/gpumem": 9})]}), [own(gpus=0)], (), id="memory"
        ),
        pytest.param(pod(9), [], (), id="without quotas"),
    ],
)
def test_no_ledger_is_asked_about_a_pod_that_is_refused_anyway_or_not_counted(
    raw: dict[str, Any], bound: list[ConfiguredQuota], findings: tuple[Finding, ...]
) -> None:
    assert asked(raw, bound, findings=findings)[1] == []


@pytest.mark.parametrize("mode", ["warn", "audit"])
def test_what_a_shared_quota_never_allows_is_entered_all_the_same_where_it_is_not_enforced(mode: str) -> None:
    bound = shared_quota(gpus=8, mode=mode)
    outcome, (request,) = asked(pod(9), [bound], [over(bound, 9, 0)])
    assert not request.enforced
    assert (len(outcome.findings), outcome.refusals, bool(outcome.warnings)) == (2, (), mode == "warn")


def claiming(count: int, **named: str) -> dict[str, Any]:
    """A pod with so many claims, which all name the same."""
    return pod(0, namespace=TEAM, spec={"resourceClaims": [{"name": f"c{at}", **named} for at in range(count)]})


def with_template(*requests: dict[str, Any]) -> ClusterFacts:
    """A cluster with a template of claims named `one`."""
    named = [{"name": f"r{at}", **one} for at, one in enumerate(requests)]
    raw = {"metadata": {"name": "one", "namespace": TEAM}, "spec": {"spec": {"devices": {"requests": named}}}}
    return ClusterFacts(Snapshot.of(templates=[raw]))


def test_a_pod_requests_room_for_each_claim_from_a_template_and_none_for_others() -> None:
    facts, bound = with_template(exactly(2)), [own(gpus=8)]
    (request,) = asked(claiming(2, resourceClaimTemplateName="one"), bound, facts=facts)[1]
    assert request.own is None
    assert [name for name, _ in request.reserved] == ["c0", "c1"]
    devices = [(one.resource, one.number) for (one,) in request.demand.requests]
    assert devices == [("deviceclass.resource.kubernetes.io/gpu.nvidia.com", 2)] * 2
    assert asked(claiming(1, resourceClaimName="one"), bound, facts=facts)[1] == []
    assert asked(claiming(1, resourceClaimTemplateName="none"), bound, facts=facts)[1] == []


def test_a_pod_whose_claims_never_fit_together_or_would_fill_a_ledger_is_refused() -> None:
    raw, bound = claiming(2, resourceClaimTemplateName="one"), [shared_quota(gpus=3)]
    outcome, _ = asked(raw, bound, facts=with_template(exactly(2)))
    assert [one.message for one in outcome.findings] == ["requests 4 GPUs; GPU quota 'research' allows 3 GPUs in all"]
    many = with_template(*[first_of(exactly(1), exactly(2, "mig.nvidia.com"))] * 8)
    for mode in ("enforce", "warn"):
        bound = [shared_quota(gpus=99, mode=mode)]
        assert len(asked(claiming(4, resourceClaimTemplateName="one"), bound, facts=many)[1]) == 1
        outcome, requests = asked(claiming(5, resourceClaimTemplateName="one"), bound, facts=many)
        assert (requests, bool(outcome.refusals)) == ([], mode == "enforce")
        assert "have more than 64 alternatives together; at most 64 are counted" in outcome.findings[0].message


# What is said


def test_a_refusal_says_what_is_used_who_uses_most_and_what_to_do() -> None:
    bound = own(gpus=8)
    pods = [running("notebook-x", 2), running("train-a", 4), running("huge", 64, "other-team")]
    assert asked(pod(4), [bound], [over(bound, 4, 6)], pods)[0].refusal == (
        "gpuQuota: spec: exceeded GPU quota 'team-vision': requested 4, used 6 of 8 (2 free); "
        "largest: train-a 4, notebook-x 2; free some or request 2."
    )


def test_what_a_shared_quota_never_allows_is_said_of_the_shared_quota_alone_because_the_rule_says_it_of_the_other() -> (
    None
):
    assert [str(one) for one in asked(pod(9), [own(gpus=8), shared_quota(gpus=8)])[0].findings] == [
        "gpuQuota: spec: requests 9 GPUs; GPU quota 'research' allows 8 GPUs in all. Request 8 or fewer."
    ]
    unspecified = shared_quota(byModel={"H100": 4}, unspecifiedModel="deny")
    assert [str(one) for one in asked(pod(1), [unspecified])[0].findings] == [
        "gpuQuota: spec: does not select a GPU model; GPU quota 'research' limits H100, so a pod has to select one. "
        "Add a nodeSelector for the model, such as nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3 for H100."
    ]


@pytest.mark.parametrize(("mode", "refused", "warned"), [("enforce", 1, 0), ("warn", 0, 1), ("audit", 0, 0)])
@pytest.mark.parametrize("make", [own, shared_quota], ids=["of the namespace", "a shared quota"])
def test_the_mode_says_what_becomes_of_a_pod_that_does_not_fit(make: Any, mode: str, refused: int, warned: int) -> None:
    bound = make(gpus=8, mode=mode)
    warning = Finding("gpuLimits", Mode.AUDIT, FindingKind.VIOLATION, "spec", "m")
    outcome, _ = asked(pod(4), [bound], [over(bound, 4, 6)], findings=(warning,))
    assert (len(outcome.refusals), len(outcome.warnings)) == (refused, warned)
    assert [one.rule for one in outcome.findings] == ["gpuLimits", "gpuQuota"]
    assert f"exceeded GPU quota '{bound.quota.name}': requested 4, used 6 of 8" in outcome.findings[1].message


def test_every_quota_that_is_passed_says_so_and_one_that_refuses_is_enough() -> None:
    first, second, third = own(gpus=8), shared_quota(gpus=8, mode="warn"), shared_quota("all", "*", gpus=99)
    verdicts = [over(first, 4, 6), over(second, 4, 8), GRANTED]
    assert messages(pod(4), [first, second, third], verdicts, [running("a", 3)]) == [
        "exceeded GPU quota 'team-vision': requested 4, used 6 of 8 (2 free); largest: a 3; free some or request 2",
        "exceeded GPU quota 'research': requested 4, used 8 of 8 (0 free); largest: a 3; free some",
    ]


SLICED = pod(spec={"containers": [container("c", limits={"nvidia.com/mig-1g.10gb": 4})], "nodeSelector": H100})
ALIKE = [running(name, count) for name, count in [("d", 2), ("b", 1), ("c", 2), ("a", 1), ("e", 0)]]
OF_MODELS = [running("many", 8, nodeSelector=T4), running("one", 1, nodeSelector=H100), running("open", 2)]
BY_MODEL = own(gpus=99, byModel={"H100": 4, "T4": 16})


@pytest.mark.parametrize(
    ("raw", "bound", "verdict", "pods", "said"),
    [
        pytest.param(
            pod(1), own(gpus=8), over(own(gpus=8), 1, 8), ALIKE, "largest: c 2, d 2, a 1; free some", id="three pods"
        ),
        pytest.param(
            pod(2, spec={"nodeSelector": H100}),
            BY_MODEL,
            over(BY_MODEL, 2, 3, at=1),
            OF_MODELS,
            "requested 2 H100, used 3 of 4 (1 free); largest: open 2, one 1; free some or request 1",
            id="the largest of the limit that is passed",
        ),
        pytest.param(
            SLICED,
            own(gpus=1),
            over(own(gpus=1), Fraction(4, 7), Fraction(4, 7)),
            [GpuPod(b"1" * 16, TEAM, "slices", pod_from_raw(SLICED))],
            "requested 4/7, used 4/7 of 1 (3/7 free); largest: slices 4/7; free some or request 3/7",
            id="parts of a GPU",
        ),
        pytest.param(
            pod(2, spec={"nodeSelector": H100}),
            own(byModel={"H100": 4}),
            over(own(byModel={"H100": 4}), 2, 4),
            [],
            "requested 2 H100, used 4 of 4 (0 free); free some",
            id="a pod that names its model",
        ),
        pytest.param(
            pod(1), own(gpus=4), over(own(gpus=4), 1, 9), [], "used 9 of 4 (0 free); free some", id="below what is used"
        ),
    ],
)
def test_messages_name_the_largest_pods_and_what_would_fit(
    raw: dict[str, Any], bound: ConfiguredQuota, verdict: Verdict, pods: list[GpuPod], said: str
) -> None:
    (message,) = messages(raw, [bound], [verdict], pods)
    assert message.startswith("exceeded GPU quota 'team-vision': requested ")
    assert message.endswith(said)


def test_a_pod_that_counts_against_a_model_only_because_it_names_none_is_told_how_to_name_one() -> None:
    bound = own(byModel={"H100": 4})
    (message,) = messages(pod(2), [bound], [over(bound, 2, 4)])
    assert "requested 2 H100, used 4 of 4 (0 free); free some; or add a nodeSelector for " in message


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
    outcome, _ = asked(pod(4), [own(gpus=8, **settings)], [Unanswered("PUT https://10.0.0.1: timed out")])
    assert (bool(outcome.refusals), bool(outcome.warnings)) == (refused, warned)
    assert str(outcome.findings[0]) == (
        "gpuQuota: spec: the ledger of GPU quota 'team-vision' cannot be reached, so it is not known what is free: "
        "PUT https://10.0.0.1: timed out. Try again in a moment, or tell the platform team."
    )


def test_what_keeps_a_pod_out_is_not_told_where_nothing_is_said_of_what_is_in_use() -> None:
    verdict = LedgerFull(501, 500)
    assert reserved(Outcome(POLICY, pod(4)), TEAM, [own(gpus=8)], FACTS, lambda _: [verdict], None).refusal == (
        "gpuQuota: spec: does not fit beside the pods of its namespace; a GPU quota is used up. "
        "Free some or request less."
    )


@pytest.mark.parametrize("contact", ["", "#gpu-help"], ids=["nobody named", "somebody named"])
def test_what_is_said_of_quotas_sends_people_to_the_contact_of_their_policy(contact: str) -> None:
    in_force, whom = replace(POLICY, contact=contact), contact or "the platform team"
    of_ledger = reserved(
        Outcome(in_force, pod(4)), TEAM, [own(gpus=8)], FACTS, lambda _: [Unanswered("timed out")], None
    )
    assert [one.remedy for one in of_ledger.findings] == [f"Try again in a moment, or tell {whom}"]
    raw = pod(spec={"containers": [container("c0", limits={"deviceclass.resource.kubernetes.io/h100": 1})]})
    of_pod = reserved(Outcome(in_force, raw), TEAM, [shared_quota(gpus=8)], FACTS, lambda _: [], None).findings
    of_job = engine.validate_workload(workload("Job", raw), TEAM, in_force, FACTS, [shared_quota(gpus=8)]).findings
    assert [f"ask {whom} to declare" in one.remedy for one in (*of_pod, *of_job)] == [True, True]


# Workloads whose pods pass a quota together


def told(raw: dict[str, Any], *bound: ConfiguredQuota, using: Any = POLICY) -> list[Finding]:
    return list(engine.validate_workload(raw, TEAM, using, FACTS, bound).findings)


def deployment(replicas: int | None, gpus: int = 2, kind: str = "Deployment", **spec: Any) -> dict[str, Any]:
    raw = workload(kind, pod(gpus, **spec))
    raw["spec"] |= {} if replicas is None else {"replicas": replicas}
    return raw


def slices(replicas: int) -> dict[str, Any]:
    one = container("c", limits={"nvidia.com/mig-1g.10gb": 1})
    return deployment(replicas, 0, spec={"containers": [one], "nodeSelector": H100})


@pytest.mark.parametrize(
    ("raw", "bound", "said"),
    [
        pytest.param(deployment(4), [own(gpus=8)], [], id="just fits"),
        pytest.param(
            deployment(5),
            [own(gpus=8)],
            [
                "gpuQuota: pod template (5 pods, 10 GPUs): spec.template.spec: its 5 pods request 10 GPUs together; "
                "GPU quota 'team-vision' allows 8 GPUs in all, enough for 4 of them. Run 4 or fewer, or request less "
                "in each."
            ],
            id="one too many",
        ),
        pytest.param(deployment(None), [own(gpus=8)], [], id="one pod"),
        pytest.param(deployment(0), [own(gpus=8)], [], id="none"),
        pytest.param(deployment(5, 0), [own(gpus=8)], [], id="without GPUs"),
        pytest.param(
            deployment(5, kind="StatefulSet"), [own(gpus=8)], ["its 5 pods request 10 GPUs"], id="StatefulSet"
        ),
        pytest.param(deployment(5, kind="DaemonSet"), [own(gpus=8)], [], id="DaemonSet"),
        pytest.param(
            deployment(5),
            [own(gpus=8, byModel={"H100": 4}), shared_quota(byResource={"nvidia.com/gpu": 9})],
            ["request 10 GPUs together", "request 10 H100 together", "request 10 nvidia.com/gpu together"],
            id="each limit of each quota",
        ),
        pytest.param(slices(7), [own(gpus=1)], [], id="slices that fit exactly"),
        pytest.param(slices(8), [own(gpus=1)], ["its 8 pods request 1 1/7 GPUs together"], id="slices"),
        pytest.param(
            deployment(1, 9),
            [own(gpus=8), shared_quota(gpus=8)],
            [
                "gpuQuota: pod template (1 pod, 9 GPUs): spec.template.spec: requests 9 GPUs; GPU quota 'research' "
                "allows 8 GPUs in all. Request 8 or fewer."
            ],
            id="no pod fits into a shared quota",
        ),
    ],
)
def test_a_workload_is_told_of_each_limit_that_its_pods_pass(
    raw: dict[str, Any], bound: list[ConfiguredQuota], said: list[str]
) -> None:
    found = told(raw, *bound)
    assert len(found) == len(said)
    assert all(text in str(finding) for text, finding in zip(said, found, strict=True))


def test_a_job_of_a_cron_job_is_told_at_its_own_place() -> None:
    raw = workload("CronJob", pod(2))
    raw["spec"]["jobTemplate"]["spec"]["parallelism"] = 5
    assert [finding.field for finding in told(raw, own(gpus=8))] == ["spec.jobTemplate.spec.template.spec"]


@pytest.mark.parametrize(("mode", "warns"), [("enforce", True), ("warn", True), ("audit", False)])
def test_a_workload_is_never_refused_for_its_number_of_pods(mode: str, warns: bool) -> None:
    (finding,) = told(deployment(5), own(gpus=8, mode=mode))
    assert (finding.refuses, finding.warns) == (False, warns)


def test_a_model_that_the_policy_will_add_is_not_counted_as_open() -> None:
    product = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["Tesla-T4"]}
    bound = own(byModel={"H100": 4})
    assert told(deployment(5), bound)
    assert told(deployment(5), bound, using=policy({"nodeAffinity": {"required": [product]}})) == []


# What namespaces see of a quota

GPUS = Limit(Measure.GPUS, "", Fraction(8))
LIMITS = (
    GPUS,
    Limit(Measure.MODEL, "H100", Fraction(4)),
    Limit(Measure.MODEL, "T4", Fraction(16)),
    Limit(Measure.RESOURCE, "nvidia.com/mig-1g.10gb", Fraction(14)),
)


def status_of(limits: tuple[Limit, ...], used: dict[int, Fraction], claimed: int | Fraction = 0, units: int = 6) -> Any:
    """The status of the quota of a namespace; `used` is by the number of the limit."""
    quota = Quota(QuotaScope.NAMESPACE, TEAM, (TEAM,), limits)
    amounts = {limit: used.get(at, Fraction(0)) for at, limit in enumerate(limits)}
    by_claims = {limit: Fraction(claimed) if limit == GPUS else Fraction(0) for limit in limits}
    usage = Usage(quota, amounts, by_claims, units, 3, frozenset(), "17")
    ((place, status),) = statuses([(replace(own(gpus=8), quota=quota), usage)]).items()
    assert place == (TEAM, "namespace.team-vision")
    return status


def test_a_namespace_sees_every_limit_of_its_quota_with_exact_numbers() -> None:
    assert status_of(LIMITS, {0: Fraction(6), 1: Fraction(17, 7), 3: Fraction(3)}) == {
        "quota": TEAM,
        "scope": "namespace",
        "mode": "enforce",
        "ledger": "17",
        "gpus": {"hard": "8", "used": "6"},
        "byModel": [{"name": "H100", "hard": "4", "used": "2 3/7"}, {"name": "T4", "hard": "16", "used": "0"}],
        "models": "H100 2 3/7 of 4, T4 0 of 16",
        "byResource": [{"name": "nvidia.com/mig-1g.10gb", "hard": "14", "used": "3"}],
        "resources": "nvidia.com/mig-1g.10gb 3 of 14",
    }
    assert not {"gpus", "byResource", "resources"} & status_of(LIMITS[1:2], {}).keys()


def test_what_claims_count_and_units_stand_beside_gpus_where_they_are_others() -> None:
    status = status_of(LIMITS[:2], {0: Fraction(6), 1: Fraction(2)}, claimed=Fraction(3, 7), units=9)
    assert status["gpus"] == {"hard": "8", "used": "6", "byClaims": "3/7", "units": "9"}
    assert status["byModel"] == [{"name": "H100", "hard": "4", "used": "2"}]


@pytest.mark.parametrize(
    ("bound", "pods_in", "seen"),
    [
        pytest.param(own(gpus=8), (), {TEAM}, id="a namespace's own, nothing in use"),
        pytest.param(shared_quota("x", "a", "b", gpus=8), ("b",), {"a", "b"}, id="names, also those without pods"),
        pytest.param(shared_quota("x", "r-*", gpus=8), (), set(), id="a glob, nothing in use"),
        pytest.param(shared_quota("x", "r-*", gpus=8), ("r-1", "r-2"), {"r-1", "r-2"}, id="a glob, where pods count"),
        pytest.param(shared_quota("x", "a", "r-*", gpus=8), ("r-1", "old"), {"a", "r-1"}, id="not where it ended"),
    ],
)
def test_a_quota_is_seen_where_it_holds_by_its_sum_alone(
    bound: ConfiguredQuota, pods_in: tuple[str, ...], seen: set[str]
) -> None:
    found = statuses([(bound, Usage.of({Demand(name, (("nvidia.com/gpu", 1),)): 2 for name in pods_in}, bound.quota))])
    assert {namespace for namespace, _ in found} == seen
    assert len({repr(status) for status in found.values()}) < 2


HEAD = "apiVersion: gpupolicy.dev/v1alpha1\n"
FILES = {
    "_default.yaml": f"{HEAD}kind: GPUPolicy\nmetadata: {{name: _default}}\nspec: {{rules: {{}}}}\n",
    "r-2.yaml": f"{HEAD}kind: GPUPolicy\nmetadata: {{name: r-2}}\n"
    "spec: {rules: {gpuQuota: {mode: warn, gpus: 2}}}",
    "_quotas.yaml": f"{HEAD}kind: GPUSharedQuotas\nmetadata: {{name: _quotas}}\n"
    "spec: {quotas: [{name: research, namespaces: ['r-*'], mode: audit, gpus: 4}]}\n",
}


def test_only_quotas_of_the_policies_are_seen_in_their_mode_and_in_namespaces_that_policies_name() -> None:
    policies = build(contents_of(Path("policies"), {name: text.encode() for name, text in FILES.items()}))
    gone = Quota(QuotaScope.SHARED, "gone", ("a",), (GPUS,)), Quota(QuotaScope.NAMESPACE, "b", ("b",), (GPUS,))
    quotas = [*(bound.quota for bound in policies.quotas_for("r-2")), *gone]
    usages = quota_usages({one.key: Usage.of({}, one, policies.names) for one in quotas}, policies)
    assert {(*place, status["mode"]) for place, status in statuses(usages).items()} == {
        ("r-2", "namespace.r-2", "warn"),
        ("r-2", "shared.research", "audit"),
    }
