"""Policy reports of either API: objects of a bounded size, one or more for each namespace.

The users of a namespace may read its report, so a report says nothing about other namespaces. Reports have the fields
that Policy Reporter and similar tools read. `properties.resultID` identifies a result from one audit to the next.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import PurePath
from typing import Any

import orjson

from webhook.audit.report import AuditFinding, AuditReport, Level
from webhook.audit.reports.as_json import plain
from webhook.model.shape import shortened
from webhook.outcome import printable

SOURCE = "gpu-policy"
"""The engine that results name as their source."""
CATEGORY = "GPU policy"
NAME = "gpu-policy-audit"
"""Beginning of the objects' names; a dot and a number from 1 follow."""
LABELS: Mapping[str, str] = {"app.kubernetes.io/managed-by": "gpu-policy-webhook"}

RESULTS: Mapping[Level, str] = {
    Level.REFUSE: "fail",
    Level.WARN: "warn",
    Level.SKIP: "skip",
    Level.AUDIT: "warn",
    Level.COMPLETE: "pass",
}
"""Level -> result. A finding that is only recorded is a `warn`: `skip` means that somebody decided about it."""

_LONGEST_MESSAGE = 1024
_LONGEST_NAME = 253
_OUTCOMES = ("pass", "fail", "warn", "error", "skip")

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Format:
    """One API of policy reports. `has_source`: a report names its engine, as every result does."""

    api: str
    kind: str
    has_source: bool

    def plural(self, *, is_of_cluster: bool = False) -> str:
        return f"{'cluster' if is_of_cluster else ''}{self.kind.lower()}s"


POLICY_REPORTS = Format("wgpolicyk8s.io/v1alpha2", "PolicyReport", has_source=False)
OPEN_REPORTS = Format("openreports.io/v1alpha1", "Report", has_source=True)

RESULTS_OF_AN_OBJECT, BYTES_OF_AN_OBJECT, OBJECTS_OF_A_NAMESPACE = 500, 512 * 1024, 8
"""At most; etcd stores objects of up to 1.5 MiB."""


@dataclass(frozen=True, slots=True)
class Naming:
    """The name and the labels of the objects."""

    name: str = NAME
    labels: Mapping[str, str] = field(default_factory=lambda: LABELS)


def _listed(form: Format, report: AuditReport) -> str:
    document = {"apiVersion": "v1", "kind": "List", "items": list(objects(report, form))}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


render_policy_reports = partial(_listed, POLICY_REPORTS)
"""The report as a `kind: List` of PolicyReport and ClusterPolicyReport objects, in JSON."""
render_open_reports = partial(_listed, OPEN_REPORTS)
"""The report as a `kind: List` of Report and ClusterReport objects, in JSON."""


def objects(
    report: AuditReport, form: Format, levels: Iterable[Level] = tuple(Level), *, naming: Naming | None = None
) -> Iterator[Raw]:
    """The objects for the findings of these levels, sorted by namespace; cluster-scoped objects come first."""
    naming, levels = naming or Naming(), frozenset(levels)
    by_namespace: dict[str, list[AuditFinding]] = {"": []} if report.errors else {}
    for finding in report.findings:
        if finding.level in levels:
            by_namespace.setdefault(finding.object.home, []).append(finding)
    for namespace, findings in sorted(by_namespace.items()):
        # The gravest first, because the last may be left out.
        findings.sort(key=lambda one: (one.level.rank, one.owner, one.rule, one.id))
        results = [_result(finding, namespace, report) for finding in findings]
        if not namespace:
            errors = dict.fromkeys(map(str, report.errors))
            results += (_remark("error", Level.REFUSE.severity, error, report, error) for error in errors)
        for number, part in enumerate(_parts(results, namespace, report), start=1):
            yield _object(f"{naming.name}.{number}", namespace, part, form, naming)


def _result(finding: AuditFinding, namespace: str, report: AuditReport) -> Raw:
    # People change the owner, unless it is outside the namespace, such as a node that owns a pod.
    subject = finding.owner if finding.owner.namespace == namespace else finding.object
    remedy = f" {finding.remedy}." if finding.remedy else ""
    return _raw(
        report,
        policy=_text(finding.policy),
        rule=finding.rule,
        severity=finding.level.severity,
        result=RESULTS[finding.level],
        scored=finding.level is Level.REFUSE,
        message=_text(f"{finding.field}: {finding.message}.{remedy}", _LONGEST_MESSAGE),
        resources=[{key: _text(value) for key, value in plain(subject).items() if value}],
        properties=_properties(finding),
    )


def _raw(report: AuditReport, **fields: Any) -> Raw:
    when = {"seconds": int(report.created.timestamp()), "nanos": report.created.microsecond * 1000}
    return {"source": SOURCE, "category": CATEGORY, "timestamp": when, **fields}


def _properties(finding: AuditFinding) -> dict[str, str]:
    """Properties as texts, which both APIs require. Pod names are left out: they change with every rollout."""
    group, running = finding.pod_group, finding.running
    found = {
        "resultID": finding.id,
        "level": finding.level,
        "mode": finding.mode,
        "policyFile": _place(PurePath(finding.file).name, finding.line),
        "file": _place(finding.source.file, finding.source.line),
        "podGroup": group.group if group is not None else "",
        "pods": group.pods if group is not None else None,
        "gpusPerPod": group.gpus if group is not None else None,
        "runningPods": running.count if running is not None else None,
        "exception": finding.exception,
    }
    return {key: _text(str(value)) for key, value in found.items() if value not in ("", None)}


def _place(file: str, line: int | None) -> str:
    return f"{file}:{line}" if file and line else file


def _text(text: str, most: int = _LONGEST_NAME) -> str:
    return printable(shortened(text, most))


def _left_out(results: Sequence[Raw], namespace: str, report: AuditReport) -> Raw:
    listed = ", ".join(f"{count} {outcome}" for outcome, count in _summary(results).items() if count)
    where = f" --namespace {namespace}" if namespace else ""
    text = f"results left out of this report: {listed}; gpu-policy audit --cluster{where} lists all of them"
    return _remark("skip", results[0]["severity"], text, report, namespace)


def _remark(result: str, severity: str, message: str, report: AuditReport, about: str) -> Raw:
    identity = sha256(f"{'error' if result == 'error' else 'left out'}\0{about}".encode(errors="surrogatepass"))
    return _raw(
        report,
        policy=SOURCE,
        rule="audit",
        severity=severity,
        result=result,
        scored=False,
        message=_text(message, _LONGEST_MESSAGE),
        properties={"resultID": identity.hexdigest()[:32]},
    )


def _parts(results: Iterable[Raw], namespace: str, report: AuditReport) -> Iterator[Sequence[Raw]]:
    rest = iter(results)
    part: list[Raw] = []
    size = number = 0
    for result in rest:
        length = len(orjson.dumps(result))
        if part and (len(part) >= RESULTS_OF_AN_OBJECT or size + length > BYTES_OF_AN_OBJECT):
            number += 1
            if number == OBJECTS_OF_A_NAMESPACE:
                left = [part.pop(), result, *rest]  # the remark takes the place of one result
                yield [*part, _left_out(left, namespace, report)]
                return
            yield part
            part, size = [], 0
        part.append(result)
        size += length
    if part:
        yield part


def _object(name: str, namespace: str, results: Sequence[Raw], form: Format, naming: Naming) -> Raw:
    where = {"namespace": namespace} if namespace else {}
    scope = {"scope": {"apiVersion": "v1", "kind": "Namespace", "name": namespace}} if namespace else {}
    return {
        "apiVersion": form.api,
        "kind": form.kind if namespace else f"Cluster{form.kind}",
        "metadata": {"name": name, **where, "labels": dict(naming.labels)},
        **({"source": SOURCE} if form.has_source else {}),
        **scope,
        "summary": _summary(results),
        "results": results,
    }


def _summary(results: Iterable[Raw]) -> dict[str, int]:
    counts = Counter(result["result"] for result in results)
    return {outcome: counts[outcome] for outcome in _OUTCOMES}
