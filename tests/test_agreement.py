"""The webhook's answer, `review` and `audit` agree about every object, whatever the policies: there is one engine."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.audit.audits import audited, audited_in_a_cluster, stored
from tests.build import FACTS, NAMESPACE, WORKLOADS, against, patched, pod, policy, request
from tests.build import workload as built_in
from tests.rules.every_rule import INJECTING, policy_sets
from tests.strategies import broken_pods, examples, pods
from tests.strategies import checked as checked_in_general
from tests.strategies import requests_only as pods_with_requests_only
from webhook.admission import phases
from webhook.admission.admission_review import AdmissionResponse
from webhook.admission.service import reserve
from webhook.admission.watchdog import TimeBudget
from webhook.audit.documents import Document
from webhook.audit.report import AuditReport, Level
from webhook.audit.review_objects import ReviewContext, ReviewedObject, ReviewList, review, with_input_claims
from webhook.model.claims import TEMPLATE
from webhook.model.shape import ShapeError
from webhook.policy.policy_set import PolicySet
from webhook.policy.schema import WorkloadsMode

Object = dict[str, Any]

checked = settings(checked_in_general, max_examples=examples(100))


# The corpus


def _custom(api_version: str, kind: str, spec: Mapping[str, Any]) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w", "namespace": NAMESPACE}, "spec": spec}


def _template(raw: Mapping[str, Any]) -> Object:
    return {"metadata": {"labels": {"app": "a"}}, "spec": raw["spec"]}


CUSTOM = {
    "PyTorchJob": lambda raw: _custom(
        "kubeflow.org/v1",
        "PyTorchJob",
        {
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "template": _template(raw)},
                "Worker": {"replicas": 3, "template": _template(raw)},
            }
        },
    ),
    "MPIJob": lambda raw: _custom(
        "kubeflow.org/v2beta1",
        "MPIJob",
        {
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": _template(pod(0))},
                "Worker": {"replicas": 2, "template": _template(raw)},
            }
        },
    ),
    "RayCluster": lambda raw: _custom(
        "ray.io/v1",
        "RayCluster",
        {
            "headGroupSpec": {"rayStartParams": {}, "template": _template(pod(0))},
            "workerGroupSpecs": [{"groupName": "gpu", "replicas": 2, "template": _template(raw)}],
        },
    ),
    "JobSet": lambda raw: _custom(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": {"template": _template(raw)}}}]},
    ),
    "LeaderWorkerSet": lambda raw: _custom(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        {"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": _template(raw)}},
    ),
    "Volcano Job": lambda raw: _custom(
        "batch.volcano.sh/v1alpha1", "Job", {"tasks": [{"name": "t", "replicas": 2, "template": _template(raw)}]}
    ),
    "a kind that nobody knows": lambda raw: _custom(
        "example.com/v1", "Experiment", {"trial": {"replicas": 2, "podTemplate": _template(raw)}}
    ),
}


def some_pods() -> st.SearchStrategy[Object]:
    return pods() | pods_with_requests_only()


def workloads() -> st.SearchStrategy[Object]:
    """Objects of built-in kinds and of others, that make these pods."""
    makers = [*(lambda raw, kind=kind: built_in(kind, raw) for kind in WORKLOADS), *CUSTOM.values()]
    return st.builds(lambda make, raw: make(raw), st.sampled_from(makers), some_pods())


# The three answers


def answer_for_pod(
    raw: Mapping[str, Any], using: PolicySet, desk: ReviewContext | None = None
) -> tuple[AdmissionResponse, set[str]]:
    """What the webhook says of a pod in the end, and every warning on the way. `desk` keeps the ledgers."""
    mutated = phases.mutate(request(raw), using, FACTS)
    warnings = set(mutated.answer.warnings)
    if not mutated.answer.is_allowed:
        return mutated.answer, warnings
    final = request(patched(raw, mutated))
    judged = reserve(
        phases.validate(final, using, FACTS), final, (desk or against(using)).ledgers, TimeBudget(30.0)
    ).answer
    return judged, warnings | set(judged.warnings)


def answer_for_workload(raw: Mapping[str, Any], using: PolicySet, mode: WorkloadsMode) -> AdmissionResponse:
    using = PolicySet.of(replace(using.default, workloads=mode), {})
    return phases.workloads(request(raw), using, FACTS).answer


def reviewed(raw: Object, using: PolicySet) -> ReviewList:
    return review([Document("f.yaml", 1, 1, raw)], NAMESPACE, against(using))


def levels(item: ReviewedObject) -> set[Level]:
    """The levels that an audit has to find."""
    found = {Level.of(finding) for finding in item.findings}
    return found | ({Level.COMPLETE} if item.is_completed else set())


def agree(listed: ReviewList, report: AuditReport) -> bool:
    """Whether an audit found what a review did, of the one object that both looked at."""
    found = {level for item in listed.items for level in levels(item)}
    return ({one.level for one in report.findings}, report.exit_status()) == (found, listed.exit_status)


def in_its_namespace(raw: Object) -> Object:
    return {**raw, "metadata": {**(raw.get("metadata") or {}), "name": "p", "namespace": NAMESPACE}}


# Do they agree?


@given(some_pods(), policy_sets())
@checked
def test_all_agree_about_pods(raw: Object, using: PolicySet) -> None:
    raw = in_its_namespace(raw)
    answer, warnings = answer_for_pod(raw, using)
    listed = reviewed(raw, using)
    assert [item.is_allowed for item in listed.items] == [answer.is_allowed]
    assert [item.patch for item in listed.items] == [phases.mutate(request(raw), using, FACTS).answer.patch]
    assert {text for item in listed.items for text in item.warnings} == warnings
    report = audited(raw, using=using)
    assert agree(listed, report)
    assert bool(list(report.at(Level.WARN))) == bool(warnings)


@pytest.mark.parametrize(("mode", "level"), [("enforce", Level.REFUSE), ("warn", Level.WARN), ("audit", Level.AUDIT)])
@pytest.mark.parametrize("gpus", [0, 1, 2])
def test_all_agree_about_the_second_of_two_pods_that_share_a_quota(gpus: int, mode: str, level: Level) -> None:
    using = PolicySet.of(policy({"gpuQuota": {"mode": mode, "gpus": 3}}), {})
    first, second = (stored(in_its_namespace(pod(count)), number) for number, count in ((1, 2), (2, gpus)))
    desk = against(using)
    assert answer_for_pod(first, using, desk)[0].is_allowed
    answer, warnings = answer_for_pod(second, using, desk)
    listed = review([Document("f.yaml", n, n, raw) for n, raw in enumerate((first, second))], NAMESPACE, against(using))
    assert [item.is_allowed for item in listed.items] == [True, answer.is_allowed]
    assert [set(item.warnings) for item in listed.items] == [set(), warnings]
    report = audited(first, second, using=using)
    assert [one.level for one in report.findings] == ([level] if gpus > 1 else [])
    assert answer.is_allowed == (report.exit_status() == 0)
    assert bool(warnings) == bool(list(report.at(Level.WARN)))


@given(workloads(), policy_sets())
@checked
def test_all_agree_about_workloads(raw: Object, using: PolicySet) -> None:
    enforced = answer_for_workload(raw, using, WorkloadsMode.ENFORCE)
    warned = answer_for_workload(raw, using, WorkloadsMode.WARN)
    listed = reviewed(raw, using)
    (item,) = listed.items
    assert item.is_allowed == enforced.is_allowed
    assert set(item.warnings) == set(enforced.warnings)
    assert warned.is_allowed
    assert len(warned.warnings) >= len(item.warnings)
    assert bool(warned.warnings) == any(finding.refuses or finding.warns for finding in item.findings)
    assert agree(listed, audited(raw, using=using))


@given(workloads(), policy_sets())
@checked
def test_a_cluster_is_judged_as_files_are(raw: Object, using: PolicySet) -> None:
    in_files, in_a_cluster = audited(raw, using=using), audited_in_a_cluster(stored(raw, 1), using=using)
    assert [(one.level, one.rule, one.field, one.message) for one in in_files.findings] == [
        (one.level, one.rule, one.field, one.message) for one in in_a_cluster.findings
    ]
    assert (in_files.counts, in_files.exit_status()) == (in_a_cluster.counts, in_a_cluster.exit_status())


@given(broken_pods(), st.sampled_from([None, *CUSTOM, *WORKLOADS]))
@checked
def test_all_agree_about_what_is_broken(raw: Any, kind: str | None) -> None:
    using = PolicySet.of(policy(INJECTING), {})
    if not isinstance(raw, dict) or (raw.get("apiVersion"), raw.get("kind")) != ("v1", "Pod") or "spec" not in raw:
        return
    if kind is not None:
        raw = built_in(kind, raw) if kind in WORKLOADS else CUSTOM[kind](raw)
    listed, report = reviewed(raw, using), audited(raw, using=using)
    assert agree(listed, report)
    assert [error.message for error in listed.errors] == [error.message for error in report.errors]
    try:
        answer = (
            answer_for_pod(raw, using)[0] if kind is None else answer_for_workload(raw, using, WorkloadsMode.ENFORCE)
        )
    except ShapeError:
        assert listed.errors
    else:
        assert (listed.errors, [item.is_allowed for item in listed.items]) == ((), [answer.is_allowed])


def test_what_a_controller_made_is_passed_over_by_webhook_and_review() -> None:
    using = PolicySet.of(policy({"gpuLimits": {"maxPerPod": 4}}), {})
    owner = stored(built_in("Deployment", pod(9)), 1)
    raw = stored(built_in("ReplicaSet", pod(9)), 2, owner)
    assert answer_for_workload(raw, using, WorkloadsMode.ENFORCE).is_allowed
    assert (reviewed(raw, using).exit_status, reviewed(owner, using).exit_status) == (0, 1)


def test_the_mode_for_workloads_says_who_is_told_and_not_what_becomes_of_the_pods() -> None:
    raw = built_in("Deployment", pod(9))
    for mode in WorkloadsMode:
        using = PolicySet.of(replace(policy({"gpuLimits": {"maxPerPod": 4}}), workloads=mode), {})
        assert (reviewed(raw, using).exit_status, audited(raw, using=using).exit_status()) == (1, 1)


# Claims


def _template_of(*classes: str) -> Object:
    requests = [{"name": f"r{index}", "exactly": {"deviceClassName": one}} for index, one in enumerate(classes)]
    spec = {"spec": {"devices": {"requests": requests}}}
    metadata = {"name": "gpus", "namespace": NAMESPACE}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}


CLAIMING = pod(0, spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]})
TOLERATING = PolicySet.of(policy({"tolerations": {"mode": "enforce", "ifMissing": "refuse"}}), {})


@pytest.mark.parametrize("classes", [["gpu.nvidia.com"], ["gpu.amd.com", "mig.nvidia.com"], ["mrdma.google.com"]])
@pytest.mark.parametrize("named", [True, False], ids=["with its namespace", "without"])
def test_all_agree_about_what_a_claim_brings(classes: list[str], named: bool) -> None:
    """What the webhook knows of the cluster, commands know of their input as well, and audits of the cluster."""
    template, raw = _template_of(*classes), CLAIMING
    if not named:
        raw = {**raw, "metadata": {"name": "trainer"}}
    facts = replace(FACTS, cluster=FACTS.cluster.with_claim(TEMPLATE, template))
    expected = phases.mutate(request(raw), TOLERATING, facts).answer.patch
    is_completed = any(operation["path"] == "/spec/tolerations" for operation in expected)
    assert is_completed == (classes != ["mrdma.google.com"])
    documents = [Document("f.yaml", 1, 1, raw), Document("f.yaml", 2, 9, template)]
    surroundings = replace(against(TOLERATING), facts=with_input_claims(FACTS, documents, NAMESPACE))
    pod_item, _ = review(documents, NAMESPACE, surroundings).items
    assert (pod_item.patch, pod_item.is_allowed) == (expected, True)
    completes = {Level.COMPLETE} if is_completed else set()
    assert {one.level for one in audited(CLAIMING, template, using=TOLERATING).findings} - {Level.AUDIT} == completes


def test_nobody_is_refused_for_a_template_that_came_after_the_pod_was_completed() -> None:
    """Replicas hear of templates at different moments, and so may both phases."""
    mutated = phases.mutate(request(CLAIMING), TOLERATING, FACTS)
    assert [operation["path"] for operation in mutated.answer.patch] == ["/metadata/annotations"]  # its stamp
    final = request(patched(CLAIMING, mutated))
    cluster = FACTS.cluster.with_claim(TEMPLATE, _template_of("gpu.nvidia.com"))
    judged = phases.validate(final, TOLERATING, replace(FACTS, cluster=cluster)).answer
    assert (judged.is_allowed, judged.warnings) == (True, ())
