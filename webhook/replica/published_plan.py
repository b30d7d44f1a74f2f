"""Keeps a plan of a driver upgrade up to date in the cluster, in the same kinds of objects as an audit.

Policy reports in the namespaces say what their workloads would lose; those of audits have other names and stay as they
are. The ConfigMap with the status of audits has a second key, of a bounded size.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from certs.cluster import ClusterError
from webhook.audit.cluster_objects import NamespaceScope
from webhook.audit.report import AuditFinding, AuditReport, Counts, Level
from webhook.audit.reports.policy_results import PLAN_RULE
from webhook.kubernetes.api_server import ApiServer
from webhook.model.shape import shortened
from webhook.outcome import FindingKind, printable
from webhook.replica.audit_status import store
from webhook.replica.kubernetes_cluster import KubernetesCluster
from webhook.replica.published_reports import PublishedReports, publish
from webhook.replica.report_objects import ReportKind
from webhook.replica.settings import ConfigMapPlace
from webhook.rules.rule_settings import Mode
from webhook.upgrades import plan_wording
from webhook.upgrades.driver_plan import DriverPlan, MatrixRow, PlannedPool, PlannedWorkload, WorkloadChange

PLAN_KEY = "plan.json"
"""The key of the ConfigMap that a plan writes; it leaves other keys alone."""
_SUFFIX = "-plan"
"""End of the names of reports, by which they differ from those of audits."""
_MOST_POOLS, _MOST_ROWS, _MOST_WORKLOADS, _MOST_ERRORS = 50, 100, 20, 20
_LONGEST = 300

_LEVELS: Mapping[WorkloadChange, Level] = {
    WorkloadChange.BREAKS: Level.REFUSE,
    WorkloadChange.UNKNOWN: Level.WARN,
    WorkloadChange.LOSES_NODES: Level.WARN,
    WorkloadChange.COMPAT_ONLY: Level.WARN,
}
"""What is published; what is better with the new drivers is no finding."""


@dataclass(frozen=True, slots=True)
class PlanPublication:
    """Where a plan is written: the kind of reports, None for none, the ConfigMap, None for none, and the namespaces."""

    kind: ReportKind | None
    place: ConfigMapPlace | None
    scope: NamespaceScope


def publish_plan(plan: DriverPlan, server: ApiServer, to: PlanPublication, finished: datetime) -> tuple[str, ...]:
    """Write reports and the status; what could not be written, and why. `finished` is in UTC."""
    published = PublishedReports()
    if to.kind is not None:
        place = None if to.place is None else replace(to.place, name=to.place.name + _SUFFIX)
        place = place or ConfigMapPlace("", "gpu-policy" + _SUFFIX)
        published = publish(as_report(plan), server, to.kind, place, to.scope)
    errors = list(published.errors)
    if to.place is not None:
        try:
            store(KubernetesCluster(server), to.place, plan_status(plan, published, finished), PLAN_KEY)
        except ClusterError as error:
            errors.append(str(error))
    return tuple(errors)


def as_report(plan: DriverPlan) -> AuditReport:
    """The plan as findings about its workloads, which policy reports are made of."""
    findings = tuple(_finding(one) for one in plan.workloads if one.change in _LEVELS)
    return AuditReport(plan.created, "", "", True, Counts(workloads=len(plan.workloads)), findings, plan.errors)


def _finding(one: PlannedWorkload) -> AuditFinding:
    return AuditFinding(
        _LEVELS[one.change],
        PLAN_RULE,
        Mode.AUDIT,
        FindingKind.ADVICE,
        one.owner,
        one.owner,
        "planned drivers",
        f"{plan_wording.ONE[one.change]}, {plan_wording.moves(one)}: {one.reason}",
        one.remedy,
        PLAN_RULE,
        "",
        0,
    )


def plan_status(plan: DriverPlan, published: PublishedReports, finished: datetime) -> str:
    """The status as JSON: counts, what is planned, the worst workloads and, with a matrix, its newest branches."""
    errors = [*map(str, plan.errors), *published.errors]
    breaking = plan.at(WorkloadChange.BREAKS)
    content: dict[str, Any] = {
        "version": 1,
        "finished": f"{finished:%Y-%m-%dT%H:%M:%SZ}",
        "seconds": round((finished - plan.created).total_seconds(), 1),
        "counts": plan.to_json_counts(),
        "unknownImages": len(plan.unknown_images),
        "pools": [_pool(one) for one in plan.pools[:_MOST_POOLS]],
        "breaks": [_text(f"{one.owner.title}{plan_wording.in_use(one.gpus)}") for one in breaking[:_MOST_WORKLOADS]],
        "newest": None if plan.matrix is None else [_newest(row) for row in plan.matrix.rows[:_MOST_ROWS]],
        "reports": {
            "kind": published.kind,
            "objects": published.objects,
            "bytes": published.size,
            "written": published.written,
            "removed": published.removed,
        },
        "errors": len(errors),
        "firstErrors": [_text(error) for error in errors[:_MOST_ERRORS]],
    }
    return orjson.dumps(content, option=orjson.OPT_INDENT_2).decode()


def _pool(pool: PlannedPool) -> dict[str, Any]:
    return {
        "action": pool.action,
        "selector": _text(pool.selector),
        "nodes": pool.nodes,
        "gpus": pool.gpus,
        "driver": _text(pool.driver) or None,
        "undrivenGpus": sum(one.gpus for one in pool.undriven if one.is_certain),
        "branchEnd": None if pool.branch is None else pool.branch.end or None,
    }


def _newest(row: MatrixRow) -> dict[str, Any]:
    return {"nodes": _text(row.name), "count": row.nodes, "gpus": row.gpus, "newest": row.newest}


def _text(text: str) -> str:
    return printable(shortened(text, _LONGEST))
