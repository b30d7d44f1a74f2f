"""The report for programs. The shape is a contract: `docs/audit-schema.json` describes it, `apiVersion` names it."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

from webhook.audit.documents import DocumentError
from webhook.audit.quota_report import ReportedQuota
from webhook.audit.report import AuditFinding, AuditReport, Capacity, SourceLine
from webhook.audit.reports.report_wording import instant
from webhook.quota.quota_wording import number

API_VERSION = "gpupolicy.dev/v1alpha1"
KIND = "AuditReport"


def render(report: AuditReport) -> str:
    """The whole report as indented JSON in ASCII; values that do not apply are null."""
    made = _map(report)
    del made["subject"]
    policies = {"directory": made.pop("directory"), "hash": made.pop("hash")}
    return dumps(
        {"apiVersion": API_VERSION, "kind": KIND, "created": made.pop("created"), "policies": policies, **made}
    )


def dumps(document: Mapping[str, Any]) -> str:
    """A document as indented JSON with a newline at its end. Half a surrogate pair is replaced, being no character."""
    return json.dumps(plain(document), indent=2, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """Values of a report as JSON has them: dataclasses are maps whose keys are in camelCase."""
    made: Any = value
    match value:
        case str() if not value.isascii():
            made = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            made = {plain(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            made = [plain(item) for item in value]
        case datetime():
            made = instant(value)
        case AuditFinding():
            made = _finding(value)
        case SourceLine():
            made = plain({"file": value.file, "line": value.line}) if value.file else None
        case Capacity():
            made = _map(value) | {"physicalGpus": number(value.physical)}
            del made["part"]
        case DocumentError() | ReportedQuota():
            made = plain(value.to_json())
        case _ if is_dataclass(value):
            made = _map(value)
    return made


def _map(value: Any) -> dict[str, Any]:
    return {_key(field.name): plain(getattr(value, field.name)) for field in fields(value)}


def _key(name: str) -> str:
    if name == "pod_group":
        return "template"
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _finding(finding: AuditFinding) -> dict[str, Any]:
    made = _map(finding)
    del made["place"], made["edits"]
    return made | {
        "id": finding.id,
        "severity": finding.level.severity,
        "policy": {"name": made["policy"], "file": made.pop("file"), "line": made.pop("line") or None},
        "exception": made["exception"] or None,
    }
