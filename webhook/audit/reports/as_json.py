"""The report for programs. The shape is a contract: `docs/audit-schema.json` describes it, `apiVersion` names it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from webhook.audit.report import (
    AuditFinding,
    AuditReport,
    Capacity,
    ChangedInjection,
    Comparison,
    Counts,
    ObjectReference,
    PendingPods,
    PodGroup,
    Running,
    SourceLine,
)
from webhook.audit.reports.report_wording import instant
from webhook.quota.quota_wording import number


def dumps(document: Mapping[str, Any]) -> str:
    """`document` as indented JSON with a newline at its end. Half a surrogate pair, which is no character, is replaced.

    An iterator among its values becomes a list; its items are not kept in memory.
    """
    return "".join(_pieces(document))


def _pieces(document: Mapping[str, Any]) -> Iterator[str]:
    before = "{\n"
    for key, value in document.items():
        yield f"{before}  {_text(key, 0)}: "
        if isinstance(value, Iterator):
            yield from _list(value)
        else:
            yield _text(value, 2)
        before = ",\n"
    yield "\n}\n" if document else "{}\n"


def _list(items: Iterator[Any]) -> Iterator[str]:
    before = "["
    for item in items:
        yield f"{before}\n    "
        yield _text(item, 4)
        before = ","
    yield "[]" if before == "[" else "\n  ]"


def _text(value: Any, indent: int) -> str:
    """A value where every line but the first is indented; a text in JSON has no line breaks."""
    text = json.dumps(_sound(value), indent=2, allow_nan=False)
    return text.replace("\n", "\n" + " " * indent) if indent else text


def _sound(value: Any) -> Any:
    if isinstance(value, dict):
        return {_sound(key): _sound(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_sound(item) for item in value]
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


API_VERSION = "gpupolicy.dev/v1alpha1"
KIND = "AuditReport"


def render(report: AuditReport) -> str:
    """The whole report as indented JSON in ASCII; values that do not apply are null."""
    return dumps(
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "created": instant(report.created),
            "policies": {"directory": report.directory, "hash": report.hash},
            "isOfCluster": report.is_of_cluster,
            "counts": _counts(report.counts),
            "findings": (_finding(finding) for finding in report.findings),
            "errors": [error.to_json() for error in report.errors],
            "capacity": [_capacity(capacity) for capacity in report.capacity],
            "quotas": [quota.to_json() for quota in report.quotas],
            "comparison": _comparison(report.comparison) if report.comparison is not None else None,
            "pending": (_pending(pending) for pending in report.pending),
        }
    )


def _counts(counts: Counts) -> dict[str, int]:
    return {
        "pods": counts.pods,
        "workloads": counts.workloads,
        "others": counts.others,
        "refused": counts.refused,
        "warned": counts.warned,
        "completed": counts.completed,
        "queued": counts.queued,
        "claims": counts.claims,
        "unsent": counts.unsent,
    }


def _finding(finding: AuditFinding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "level": finding.level,
        "severity": finding.level.severity,
        "rule": finding.rule,
        "mode": finding.mode,
        "kind": finding.kind,
        "object": _reference(finding.object),
        "owner": _reference(finding.owner),
        "template": _template(finding.pod_group),
        "field": finding.field,
        "message": finding.message,
        "remedy": finding.remedy,
        "policy": {"name": finding.policy, "file": finding.file, "line": finding.line or None},
        "source": _source(finding.source),
        "running": _running(finding.running),
        "exception": finding.exception or None,
    }


def _reference(reference: ObjectReference) -> dict[str, str]:
    return {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "namespace": reference.namespace,
        "name": reference.name,
        "uid": reference.uid,
    }


def _template(pod_group: PodGroup | None) -> dict[str, Any] | None:
    return {"group": pod_group.group, "pods": pod_group.pods, "gpus": pod_group.gpus} if pod_group is not None else None


def _source(source: SourceLine) -> dict[str, Any] | None:
    return {"file": source.file, "line": source.line} if source.file else None


def _running(running: Running | None) -> dict[str, Any] | None:
    return {"count": running.count, "names": list(running.names)} if running is not None else None


def _capacity(capacity: Capacity) -> dict[str, Any]:
    return {
        "model": capacity.model,
        "resource": capacity.resource,
        "nodes": capacity.nodes,
        "gpus": capacity.gpus,
        "driver": capacity.driver,
        "cuda": capacity.cuda,
        "unit": capacity.unit,
        "physicalGpus": number(capacity.physical),
    }


def _pending(pending: PendingPods) -> dict[str, Any]:
    return {
        "owner": _reference(pending.owner),
        "reason": pending.reason,
        "message": pending.message,
        "remedy": pending.remedy,
        "pods": _running(pending.pods),
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "directory": comparison.directory,
        "hash": comparison.hash,
        "newlyRefused": [_finding(finding) for finding in comparison.newly_refused],
        "noLongerRefused": [_finding(finding) for finding in comparison.no_longer_refused],
        "changedInjections": [_changed(changed) for changed in comparison.changed_injections],
    }


def _changed(changed: ChangedInjection) -> dict[str, Any]:
    return {
        "object": _reference(changed.object),
        "source": _source(changed.source),
        "template": _template(changed.pod_group),
        "before": list(changed.before),
        "after": list(changed.after),
    }
