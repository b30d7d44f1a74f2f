"""An audit tells each fault once, for what people change to mend it, and keeps nothing of the objects."""

import gc
import weakref
from typing import Any

import pytest

from tests.audit.audits import CREATED, audited, audited_in_a_cluster, messages, stored
from tests.build import NAMESPACE, WORKLOADS, pod, policies, requests_only, workload
from tests.rules.every_rule import COMPLETING, INJECTING
from webhook.audit.auditing import Audit
from webhook.audit.documents import Document
from webhook.audit.object_sources import ObjectSource
from webhook.audit.owners import Owners
from webhook.audit.report import AuditFinding, Counts, Level, PodGroup, Running, SourceLine
from webhook.audit.reports import report_wording
from webhook.outcome import FindingKind
from webhook.rules.rule_settings import Mode

FOUR = policies({"gpuLimits": {"maxPerPod": 4}})
TOLERATING = policies({"tolerations": {}})


def deployment(gpus: int, name: str = "w", replicas: int = 1) -> dict[str, Any]:
    raw = workload("Deployment", pod(gpus))
    return {**raw, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {**raw["spec"], "replicas": replicas}}


def deployed(gpus: int, pods: int, first: int = 1) -> list[dict[str, Any]]:
    """A Deployment with its ReplicaSet and pods, as a cluster holds them."""
    owner = stored(deployment(gpus, replicas=pods), first)
    replicas = stored(workload("ReplicaSet", pod(gpus)), first + 1, owner)
    return [owner, replicas, *(stored(pod(gpus, name=f"p{i}"), first + 2 + i, replicas) for i in range(pods))]


def only(findings: tuple[AuditFinding, ...]) -> AuditFinding:
    (finding,) = findings
    return finding


# What a finding says


def test_a_finding_says_where_it_is_who_says_so_and_what_to_do() -> None:
    found = only(audited(pod(5), using=FOUR).findings)
    assert (found.level, found.rule, found.mode, found.kind) == (
        Level.REFUSE,
        "gpuLimits",
        Mode.ENFORCE,
        FindingKind.VIOLATION,
    )
    assert (found.object, found.object.title, found.field) == (found.owner, f"Pod {NAMESPACE}/trainer", "spec")
    assert "requests 5 GPUs" in found.message
    assert "4" in found.remedy
    assert (found.policy, found.file, found.source) == ("_default", "_default.yaml", SourceLine("f.yaml", 1))
    assert (found.pod_group, found.running) == (None, None)


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_workload_is_found_wanting_in_its_template_and_before_any_pod_is_made(kind: str) -> None:
    found = only(audited(workload(kind, pod(5)), using=FOUR).findings)
    assert (found.level, found.owner.title, found.running) == (Level.REFUSE, f"{kind} {NAMESPACE}/w", None)
    assert found.field.endswith("template.spec")
    assert found.pod_group is not None
    assert (found.pod_group.group, found.pod_group.gpus) == ("", 5)


def test_what_would_be_injected_is_one_finding_for_each_rule_with_everything_in_it() -> None:
    report = audited(pod(2), using=policies(INJECTING))
    assert [finding.rule for finding in report.findings] == sorted(COMPLETING)
    assert {finding.level for finding in report.findings} == {Level.COMPLETE}
    assert "memory volume gpu-policy-shm of 1Gi, mount /dev/shm in c0" in messages(report, Level.COMPLETE)


def test_pods_that_would_be_refused_are_not_called_completed() -> None:
    report = audited(pod(5), deployment(5), using=policies({"tolerations": {}, "gpuLimits": {"maxPerPod": 4}}))
    assert {finding.level for finding in report.findings} == {Level.REFUSE}


# What counts once


@pytest.mark.parametrize("is_cluster", [False, True], ids=["in a file", "in a cluster"])
def test_the_pods_of_a_deployment_count_with_it(is_cluster: bool) -> None:
    objects = deployed(5, pods=40)
    report = (audited_in_a_cluster if is_cluster else audited)(*objects, using=FOUR)
    found = only(report.findings)
    assert (found.object.title, found.owner.title) == (f"Deployment {NAMESPACE}/w",) * 2
    assert (found.pod_group, found.running) == (PodGroup("", 40, 5), Running(40, ("p0", "p1", "p2")))
    assert report.counts == Counts(pods=40, workloads=1, refused=41)


def test_the_order_of_objects_does_not_matter_in_a_file() -> None:
    objects = deployed(5, pods=3)
    found = only(audited(*reversed(objects), using=FOUR).findings)
    assert (found.owner.title, found.running) == (f"Deployment {NAMESPACE}/w", Running(3, ("p2", "p1", "p0")))


def test_pods_whose_deployment_was_not_read_count_under_the_last_owner_that_is_known() -> None:
    owner, replicas, *pods = deployed(5, pods=3)
    found = only(audited_in_a_cluster(replicas, *pods, using=FOUR).findings)
    assert (found.object.title, found.owner.title) == (f"ReplicaSet {NAMESPACE}/w", f"Deployment {NAMESPACE}/w")
    found = only(audited_in_a_cluster(*pods, using=FOUR).findings)
    assert (found.owner.title, found.running) == (f"ReplicaSet {NAMESPACE}/w", Running(3, ("p0", "p1", "p2")))
    assert owner["kind"] == "Deployment"


def test_a_fault_that_only_pods_have_is_told_of_them() -> None:
    owner, replicas, good, bad = deployed(2, pods=2)
    bad["spec"] = pod(9)["spec"]
    found = only(audited_in_a_cluster(owner, replicas, good, bad, using=FOUR).findings)
    assert (found.object.title, found.owner.title) == (f"Pod {NAMESPACE}/p1", f"Deployment {NAMESPACE}/w")
    assert (found.pod_group, found.running) == (None, Running(1, ("p1",)))


def test_the_templates_of_one_object_stay_apart() -> None:
    replicas = {"pytorchReplicaSpecs": {name: {"replicas": n, "template": {"spec": pod(5)["spec"]}} for name, n in
                                        (("Master", 1), ("Worker", 3))}}  # fmt: skip
    raw = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "j"}, "spec": replicas}
    report = audited(raw, using=FOUR)
    assert [finding.pod_group for finding in report.findings] == [PodGroup("Master", 1, 5), PodGroup("Worker", 3, 5)]
    assert report.counts == Counts(workloads=1, refused=1)


def test_the_same_object_twice_is_one_finding_in_one_file_and_two_in_two() -> None:
    twice = [Document(name, number, 1, pod(5)) for number, name in enumerate(("a", "a", "b"), start=1)]
    report = audited(*twice, using=FOUR)
    assert [finding.source.file for finding in report.findings] == ["a", "b"]
    assert report.counts.refused == 3


def test_findings_come_sorted_by_level_and_by_what_people_change() -> None:
    using = policies({"gpuLimits": {"maxPerPod": 4}, "tolerations": {}})
    names = ("b", "a")
    objects = [pod(g, name=n, namespace=s) for s in ("y", "x") for n in names for g in (1, 5)]
    found = audited(*(Document(f"f{i}", 1, 1, raw) for i, raw in enumerate(objects)), using=using).findings
    keys = [(one.level.rank, one.owner.namespace, one.owner.kind, one.owner.name) for one in found]
    assert keys == sorted(keys)
    assert len(keys) == 8


def test_ids_differ_within_a_report_and_stay_the_same_in_the_next() -> None:
    objects = [*deployed(5, pods=3), pod(9), requests_only(), workload("Job", pod(9))]
    using = policies({**INJECTING, "gpuLimits": {"maxPerPod": 4, "maxPerContainer": 2}})
    first, second = (audited_in_a_cluster(*objects, using=using).findings for _ in range(2))
    assert [one.id for one in first] == [one.id for one in second]
    assert len({one.id for one in first}) == len(first)
    assert all(len(one.id) == 32 for one in first)


# What is passed over


def test_pods_that_run_are_not() -> None:
    report = audited_in_a_cluster({**stored(pod(9), 1), "status": {"phase": "Running"}}, using=FOUR)
    assert report.counts == Counts(pods=1, refused=1)


def test_a_workload_that_another_one_made_is_passed_over_where_that_is_looked_at() -> None:
    cron = stored(workload("CronJob", pod(2)), 1)
    job = stored(workload("Job", pod(9)), 2, cron)
    assert audited(job, cron, using=FOUR).findings == ()
    assert audited(job, using=FOUR).counts == Counts(workloads=1, refused=1)


def test_somebody_who_invents_an_owner_is_not_passed_over() -> None:
    invented = stored({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}, 7)
    report = audited(stored(deployment(9), 1, invented), invented, using=FOUR)
    assert (report.counts, len(report.findings)) == (Counts(workloads=1, others=1, refused=1), 1)


def test_other_objects_are_counted_and_nothing_else() -> None:
    report = audited({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}, using=FOUR)
    assert (report.findings, report.counts, report.exit_status()) == ((), Counts(others=1), 0)


# Counts


def test_each_object_is_counted_under_the_gravest_of_what_was_found() -> None:
    rules = {"tolerations": {}, "gpuLimits": {"maxPerPod": 4}, "visibleDevices": {"mode": "warn"}}
    exposed = pod(1, name="exposed")
    exposed["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    report = audited(pod(0), pod(1), exposed, pod(9), deployment(9), deployment(1, "fine"), using=policies(rules))
    assert report.counts == Counts(pods=4, workloads=2, refused=2, warned=1, completed=2)


# What cannot be judged


def test_a_malformed_object_is_an_error_with_its_file_and_line_and_the_rest_is_looked_at() -> None:
    broken = workload("Job", {"spec": {"containers": "none"}})
    report = audited(pod(1), broken, pod(9), using=FOUR)
    assert list(map(str, report.errors)) == ["f.yaml:2: spec.template.spec.containers: found a string, expected a list"]
    assert (report.counts, report.exit_status()) == (Counts(pods=2, refused=1), 2)


def test_a_malformed_object_of_a_cluster_is_named() -> None:
    broken = workload("Job", {"spec": {"containers": "none"}})
    (error,) = audited_in_a_cluster(broken, using=FOUR).errors
    assert str(error) == f"Job {NAMESPACE}/w: spec.template.spec.containers: found a string, expected a list"


# Memory


class Marked(str):
    """A text of which one can tell whether it still lives."""

    __slots__ = ("__weakref__",)


def test_nothing_of_an_object_is_kept() -> None:
    source = ObjectSource((), Owners(), is_cluster=True)
    audit = Audit(source, source.context(FOUR, "policies"), CREATED)
    marks = []
    for number in range(50):
        mark = Marked("x")
        marks.append(weakref.ref(mark))
        raw = stored(pod(9, name=f"p{number}", labels={"a": mark}, spec={"hostname": mark}), number)
        audit.add(Document("", number, 0, raw))
        del mark, raw
    gc.collect()
    assert [mark for mark in marks if mark() is not None] == []
    assert len(audit.report().findings) == 50


def test_workloads_that_are_left_to_a_queue_are_counted() -> None:
    """Nothing is said of them that follows from the nodes, and without a word that would pass for praise."""
    queue = {"labels": {"kueue.x-k8s.io/queue-name": "q"}}
    queued, running, idle = deployment(1, "queued"), deployment(1, "running"), deployment(0, "idle")
    objects = [{**one, "metadata": {**one["metadata"], **queue}} for one in (queued, idle)]
    report = audited(*objects, running, using=policies({"schedulable": {}}))
    assert report.counts.queued == 1
    assert report_wording.looked_at(report.counts) == "0 pods, 3 workloads (1 left to a queue)"
