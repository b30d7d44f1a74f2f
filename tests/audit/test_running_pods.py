"""Pods that a cluster has are looked at as what they are: they count against their quotas once, and were completed."""

import json
from typing import Any
from uuid import UUID

import pytest

from tests.audit.audits import audited, audited_in_a_cluster, stored
from tests.build import FACTS, NAMESPACE, against, pod, policies, policy
from tests.golden import golden
from tests.ledger.small_cluster import seen_pod
from tests.rules.every_rule import INJECTING
from webhook import engine
from webhook.audit.cluster_objects import NamespaceScope
from webhook.audit.documents import Document
from webhook.audit.quota_report import LimitUsage
from webhook.audit.report import AuditReport, Level, Running
from webhook.audit.review_objects import review
from webhook.ledger.ledger_store import GpuPod
from webhook.policy.policy_quotas import ConfiguredQuota, SharedQuotas, SharedQuotaSettings
from webhook.policy.policy_set import PolicySet
from webhook.quota.quotas import Quota, QuotaScope

FOUR = PolicySet.of(policy({}), {NAMESPACE: policy({"gpuQuota": {"gpus": 4}}, name=NAMESPACE)})


def limited(**settings: Any) -> PolicySet:
    return PolicySet.of(policy({}), {NAMESPACE: policy({"gpuQuota": settings}, name=NAMESPACE)})


def with_shared_quota(mode: str = "enforce", **limits: Any) -> PolicySet:
    raw = {"name": "shared", "namespaces": [NAMESPACE, "other"], "mode": mode, **limits}
    settings = SharedQuotaSettings.model_validate_json(json.dumps(raw), by_alias=True, by_name=False)
    quota = Quota(QuotaScope.SHARED, settings.name, settings.namespaces, settings.limits, settings.counting)
    bound = ConfiguredQuota(quota, settings.mode, settings.on_ledger_failure, "_quotas.yaml", 5)
    return PolicySet.of(policy({}), {}, shared=SharedQuotas((bound,), ({},)))


def running(*gpus: int, namespace: str = NAMESPACE, **changes: Any) -> list[dict[str, Any]]:
    pods = (stored(pod(count, name=f"p{i}", namespace=namespace), i) for i, count in enumerate(gpus, start=1))
    return [{**raw, "status": {"phase": "Running"}, **changes} for raw in pods]


def as_printed(seen: GpuPod, gpus: int) -> dict[str, Any]:
    """The pod as `kubectl get pods -o yaml` prints it."""
    raw = pod(gpus, name=seen.name)
    return {**raw, "metadata": {**raw["metadata"], "uid": str(UUID(bytes=seen.uid))}}


def used(report: AuditReport) -> list[LimitUsage | None]:
    return [quota.gpus for quota in report.quotas]


def test_pods_that_run_are_not_refused_because_of_themselves() -> None:
    already = [seen_pod(1, NAMESPACE, 2), seen_pod(2, NAMESPACE, 2)]
    objects = [*(as_printed(seen, 2) for seen in already), pod(1, name="another")]
    documents = [Document("f", number, number, raw) for number, raw in enumerate(objects, start=1)]
    items = review(documents, "default", against(FOUR, pods=already)).items
    assert [item.is_allowed for item in items] == [True, True, False]


@pytest.mark.parametrize(
    ("mode", "level", "status"), [("enforce", Level.REFUSE, 1), ("warn", Level.WARN, 0), ("audit", Level.AUDIT, 0)]
)
def test_a_quota_of_which_too_much_is_in_use_is_a_finding_about_its_namespace(
    mode: str, level: Level, status: int
) -> None:
    report = audited_in_a_cluster(*running(1, 3, 2), using=limited(gpus=4, mode=mode))
    (found,) = report.findings
    assert (found.level, found.rule, found.owner.title) == (level, "gpuQuota", f"Namespace {NAMESPACE}")
    assert found.message == f"GPU quota '{NAMESPACE}' is used beyond its limit: 6 of 4 (2 over)"
    assert (found.remedy, found.running) == ("Free 2, or raise the quota", Running(3, ("p2", "p3", "p1")))
    assert (found.policy, found.file) == (NAMESPACE, f"{NAMESPACE}.yaml")
    assert report.exit_status() == status


def test_each_limit_of_a_quota_is_looked_at() -> None:
    report = audited_in_a_cluster(
        *running(1, 1, 1), using=limited(gpus=4, byModel={"H100": 2}, byResource={"nvidia.com/gpu": 1})
    )
    assert [(one.message.partition(": ")[2], one.remedy) for one in report.findings] == [
        ("3 of 1 nvidia.com/gpu (2 over)", "Free 2 nvidia.com/gpu, or raise the quota"),
        ("3 of 2 H100 (1 over)", "Free 1 H100, or raise the quota"),
    ]


def test_a_shared_quota_of_which_too_much_is_in_use_is_a_finding_about_the_shared_quota() -> None:
    objects = [*running(2), *running(3, namespace="other")]
    (found,) = audited_in_a_cluster(*objects, using=with_shared_quota(gpus=4)).findings
    assert (found.owner.title, found.policy, found.file, found.line) == (
        "SharedQuota shared",
        "_quotas",
        "_quotas.yaml",
        5,
    )


def test_of_a_part_of_a_cluster_only_quotas_are_told_that_no_other_part_uses() -> None:
    objects = running(2)
    report = audited_in_a_cluster(*objects, using=with_shared_quota(gpus=1), scope=NamespaceScope((NAMESPACE,)))
    assert (report.quotas, report.findings) == ((), ())
    report = audited_in_a_cluster(*objects, using=with_shared_quota(gpus=1), scope=NamespaceScope((NAMESPACE, "other")))
    assert (len(report.quotas), len(report.findings)) == (1, 1)
    report = audited_in_a_cluster(*objects, using=with_shared_quota(gpus=1), scope=NamespaceScope(excluded=("oth*",)))
    assert (report.quotas, report.findings) == ((), ())


@golden
def test_what_uses_a_quota_is_what_the_ledger_counts(metadata: Any, status: Any, counts: bool) -> None:
    raw = {**stored(pod(2), 1, **metadata), "status": status}
    report = audited_in_a_cluster(raw, using=FOUR)
    assert used(report) == [LimitUsage("", "4", "2" if counts else "0")]


def test_for_files_the_quotas_are_told_as_the_inventory_uses_them_and_the_cluster_is_not_judged() -> None:
    report = audited(pod(0), using=FOUR, counted=[seen_pod(1, NAMESPACE, 6)])
    assert (used(report), report.findings, report.exit_status()) == ([LimitUsage("", "4", "6")], (), 0)


def test_a_pod_that_was_completed_is_left_in_peace() -> None:
    using = policies(INJECTING)
    completed = engine.mutate(pod(2), using.default, FACTS).object
    assert audited_in_a_cluster(stored(completed, 1), using=using).findings == ()


def test_what_would_be_injected_into_a_pod_that_runs_without_it_is_told() -> None:
    report = audited_in_a_cluster(stored(pod(2), 1), using=policies({"tolerations": {}}))
    assert [(one.level, one.running) for one in report.findings] == [(Level.COMPLETE, Running(1, ("trainer",)))]
