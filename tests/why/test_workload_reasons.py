"""The reason of a workload: why it lacks pods, or the gravest of its pods."""

from typing import Any

import pytest

from tests.golden import golden
from tests.why.samples import POLICY, event, observed, printed, workload
from webhook.audit.owners import reference_of
from webhook.audit.quota_report import LimitUsage, ReportedQuota
from webhook.why.explanation import Answer, Explanation, PodsAlike, ReasonCode, gravest
from webhook.why.observed import ObservedWorkload, Surroundings
from webhook.why.workload_reasons import why_workload

OURS = 'Error creating: admission webhook "validate.gpupolicy.dev" denied the request: '
GRAVE = "gpuLimits: spec: requests 9 nvidia.com/gpu; at most 8 are allowed. Request 8."


def case(name: str, seen: ObservedWorkload, reason: str, words: str) -> Any:
    """A workload, its reason, and words of the message or the remedy."""
    return pytest.param(seen, reason, words, id=name)


@pytest.mark.parametrize(
    ("seen", "reason", "words"),
    [
        case(
            "refused",
            observed(workload(), event("FailedCreate", OURS + GRAVE)),
            "Refused",
            "gpu-policy refuses its pods (gpuLimits)",
        ),
        case(
            "two rules",
            observed(workload(), event("FailedCreate", f"{OURS}2 violations:\n- {GRAVE}\n- gpuQuota: spec: full")),
            "Refused",
            "(gpuLimits and gpuQuota)",
        ),
        case(
            "the GPU quota",
            observed(workload(), event("FailedCreate", OURS + "gpuQuota: spec: the quota is full")),
            "OverQuota",
            "the GPU quota refuses",
        ),
        case(
            "a ResourceQuota",
            observed(
                workload(),
                event(
                    "FailedCreate", 'pods "a" is forbidden: exceeded quota: few, requested: requests.nvidia.com/gpu=4'
                ),
            ),
            "OverQuota",
            "ResourceQuota few",
        ),
        case(
            "another webhook",
            observed(
                workload(), event("FailedCreate", 'admission webhook "images.example.com" denied the request: unsigned')
            ),
            "Refused",
            "images.example.com refuses its pods: unsigned",
        ),
        case(
            "a name that ends otherwise",
            observed(
                workload(),
                event("FailedCreate", 'admission webhook "x.gpupolicy.dev.evil.com" denied the request: gpuQuota: x'),
            ),
            "Refused",
            "x.gpupolicy.dev.evil.com",
        ),
        case(
            "no answer",
            observed(workload(), event("FailedCreate", 'failed calling webhook "validate.gpupolicy.dev": timeout')),
            "Refused",
            "gpu-policy does not answer",
        ),
        case(
            "a policy of Kubernetes",
            observed(
                workload(), event("FailedCreate", "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no")
            ),
            "Refused",
            "ValidatingAdmissionPolicy p",
        ),
        case(
            "Pod Security",
            observed(
                workload(),
                event("FailedCreate", 'pods "a" is forbidden: violates PodSecurity "restricted:latest": root'),
            ),
            "Refused",
            "Pod Security (restricted:latest)",
        ),
        case(
            "the API server",
            observed(workload(), event("FailedCreate", "spec.x: Invalid value")),
            "Refused",
            "the API server refuses",
        ),
        case("no event is left", observed(workload(), refusal=GRAVE), "Refused", "gpuLimits"),
        case(
            "a condition",
            observed(workload(status={"conditions": [{"type": "ReplicaFailure", "status": "True", "message": GRAVE}]})),
            "Refused",
            GRAVE,
        ),
        case("suspended", observed(workload(spec={"suspend": True})), "Suspended", "kubectl patch job train"),
        case(
            "suspended by Kubeflow", observed(workload(spec={"runPolicy": {"suspend": True}})), "Suspended", "suspended"
        ),
        case("no pods wanted", observed(workload(spec={"parallelism": 0})), "ScaledToZero", "parallelism"),
        case(
            "no replicas",
            observed(workload("Deployment", spec={"replicas": 0}), desired=0),
            "ScaledToZero",
            "kubectl scale deployment train",
        ),
        case(
            "paused",
            observed(workload("Deployment", spec={"paused": True})),
            "Paused",
            "kubectl rollout resume deployment train",
        ),
        case(
            "complete",
            observed(workload(status={"conditions": [{"type": "Complete", "status": "True"}]})),
            "Finished",
            "finished",
        ),
        case(
            "failed",
            observed(
                workload(
                    status={"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}
                )
            ),
            "Failed",
            "BackoffLimitExceeded",
        ),
        case("no GPUs", observed(workload(), has_gpus=False), "NoGpus", "no GPU"),
        case("nothing is known", observed(workload()), "NoPods", "nothing says why"),
        case(
            "a warning of any kind",
            observed(workload(), event("Odd", "the operator is away")),
            "NoPods",
            "the operator is away",
        ),
        case(
            "before its time", observed({**workload(), "kind": "CronJob"}, desired=None), "NoPods", "has not made a Job"
        ),
    ],
)
def test_a_workload_without_pods_has_one_reason(seen: ObservedWorkload, reason: str, words: str) -> None:
    """The reason, and words of its message or remedy."""
    found = why_workload(seen, (), Surroundings())
    assert (str(found.code), words in f"{found.message} {found.remedy}") == (reason, True), found


def pods(code: ReasonCode, count: int, *names: str, is_over: bool = False) -> PodsAlike:
    return PodsAlike(Explanation(code, f"it is {code}"), count, names, is_over)


@golden
def test_operators_say_in_their_own_words_how_a_workload_has_ended(status: dict[str, Any], reason: str) -> None:
    assert str(why_workload(observed(workload(status=status)), (), Surroundings()).code) == reason


def test_earlier_attempts_do_not_count_while_pods_go_on() -> None:
    """A Job has tried twice; a Deployment has pods that were evicted last week."""
    alike = (pods(ReasonCode.FAILED, 5, "a", is_over=True), pods(ReasonCode.HEALTHY, 1, "b"))
    found = why_workload(observed(workload(), pods=1), gravest(alike), Surroundings())
    assert found.code is ReasonCode.HEALTHY
    assert [clue.message for clue in found.evidence] == ["Healthy: 1 pod (b)", "Failed: 5 pods (a)"]
    found = why_workload(observed(workload(), pods=0), gravest(alike[:1]), Surroundings())
    assert found.code is ReasonCode.FAILED


def test_a_rollout_that_is_refused_is_told_while_the_old_pods_run() -> None:
    """All pods that it wants are there, of the template before."""
    status = {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": OURS + GRAVE}]}
    part = workload("ReplicaSet", status=status)
    seen = observed(workload("Deployment"), pods=3, desired=3, parts=(part,))
    assert why_workload(seen, (pods(ReasonCode.HEALTHY, 3, "a"),), Surroundings()).code is ReasonCode.REFUSED
    mended = observed(workload("Deployment"), pods=3, desired=3, parts=(workload("ReplicaSet"),))
    assert why_workload(mended, (pods(ReasonCode.HEALTHY, 3, "a"),), Surroundings()).code is ReasonCode.HEALTHY


def test_the_gravest_reason_of_the_pods_counts() -> None:
    """However few pods have it; the evidence has all of them."""
    alike = (pods(ReasonCode.HEALTHY, 90, "a"), pods(ReasonCode.BUSY, 9, "b"), pods(ReasonCode.IMAGE_FAILING, 1, "c"))
    found = why_workload(observed(workload(), pods=100, desired=100), gravest(alike), Surroundings())
    assert found.code is ReasonCode.IMAGE_FAILING
    assert found.message.startswith("1 of its 100 pods, such as c")
    assert [clue.message for clue in found.evidence] == [
        "ImageFailing: 1 pod (c)",
        "Busy: 9 pods (b)",
        "Healthy: 90 pods (a)",
    ]


@golden
def test_an_old_refusal_counts_only_while_pods_are_missing(alive: int, made: str, reason: str) -> None:
    """Events stay for an hour, also after a workload was mended."""
    events = event("FailedCreate", OURS + GRAVE), event("SuccessfulCreate", "", made, warns=False)
    seen = observed(workload(), *events, pods=alive, desired=4)
    assert str(why_workload(seen, (pods(ReasonCode.HEALTHY, alive, "a"),), Surroundings()).code) == reason


def test_a_refusal_names_the_file_of_the_rule_and_who_holds_the_quota() -> None:
    quota = ReportedQuota("team", "namespace", "enforce", ("team",), LimitUsage("", "8", "7"), (), ())
    known = Surroundings(POLICY, quotas=(quota,), holders=(("Job big", 7),))
    found = why_workload(observed(workload(), event("FailedCreate", OURS + "gpuQuota: spec: full")), (), known)
    texts: dict[str, Any] = {clue.source: clue.message for clue in found.evidence}
    assert texts["GPUQuota team"] == "GPUs: 7 of 8 used"
    assert texts["pods of the namespace"] == "Job big holds 7"
    found = why_workload(observed(workload(), event("FailedCreate", OURS + GRAVE)), (), known)
    assert any("gpuLimits is set in _default.yaml:" in clue.message for clue in found.evidence)


@pytest.mark.parametrize(
    ("raw", "command"),
    [
        pytest.param(
            workload(spec={"suspend": True}),
            'kubectl patch job train -n team --type merge -p \'{"spec":{"suspend":false}}\'',
            id="a Job",
        ),
        pytest.param(
            {**workload("PyTorchJob", spec={"runPolicy": {"suspend": True}}), "apiVersion": "kubeflow.org/v1"},
            "kubectl patch pytorchjob.kubeflow.org train -n team --type merge "
            '-p \'{"spec":{"runPolicy":{"suspend":false}}}\'',
            id="a PyTorchJob",
        ),
        pytest.param(
            workload("Deployment", spec={"replicas": 0}),
            "kubectl scale deployment train -n team --replicas=1",
            id="a Deployment",
        ),
        pytest.param(
            workload("Deployment", spec={"paused": True}),
            "kubectl rollout resume deployment train -n team",
            id="paused",
        ),
    ],
)
def test_a_command_can_be_copied(raw: dict[str, Any], command: str) -> None:
    """Whole, with the namespace, on a line of its own, and without a full stop behind it."""
    found = why_workload(observed(raw), (), Surroundings())
    assert found.remedy.splitlines()[1:] == [command]
    text = printed(Answer(reference_of(raw), found))
    assert f"    {command}\n" in text


def test_the_place_of_suspend_is_the_evidence() -> None:
    raw = workload("PyTorchJob", spec={"runPolicy": {"suspend": True}})
    assert why_workload(observed(raw), (), Surroundings()).evidence[0].source == "spec.runPolicy.suspend"


@golden
def test_a_template_is_changed_as_its_kind_allows(kind: str, words: str) -> None:
    found = why_workload(observed(workload(kind), event("FailedCreate", OURS + GRAVE)), (), Surroundings())
    assert words in found.remedy
