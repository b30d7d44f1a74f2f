"""The sections of a report: titles, columns and rows, once for every format that people read."""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from webhook.audit.quota_report import LimitUsage, ReportedQuota
from webhook.audit.report import (
    AuditFinding,
    AuditReport,
    Capacity,
    Cell,
    ChangedInjection,
    Level,
    PendingPods,
    Section,
)
from webhook.audit.reports import report_wording as wording
from webhook.outcome import printable
from webhook.quota.quota_wording import number

FINDINGS = {
    Level.REFUSE: "Would be refused",
    Level.WARN: "Would be warned about",
    Level.SKIP: "Admitted by an exception",
    Level.AUDIT: "Would only be recorded",
}
"""Level -> title of the section that lists its findings; injections are counted by rule instead."""


def sections(report: AuditReport) -> Iterator[Section]:
    """The sections that have rows, the most important first."""
    return (section for section in _sections(report) if section.rows)


def _sections(report: AuditReport) -> Iterator[Section]:
    if (comparison := report.comparison) is not None:
        yield findings("newly-refused", "Newly refused", comparison.newly_refused)
        yield findings("no-longer-refused", "No longer refused", comparison.no_longer_refused)
        changed = [_changed(one) for one in comparison.changed_injections]
        injections = ("Object", "Pods", "Source", "No longer injected", "Now injected")
        yield Section("changed", f"Changed injections: {len(changed):,}", injections, changed, heads=3)
    if (subject := report.subject) is not None:
        yield from subject.sections
    refused = report.at(Level.REFUSE) if subject is None else ()
    rows = wording.objects_by(lambda one: (wording.namespace_of(one.owner), one.rule), refused)
    yield Section("refusals", "Refusals", ("Namespace", "Rule", "Objects refused"), rows)
    errors = [(str(error),) for error in report.errors]
    yield Section("errors", f"Could not be read: {len(errors):,}", ("What",), errors, heads=1)
    for level, title in (FINDINGS if subject is None else subject.levels).items():
        yield findings(level, title, tuple(report.at(level)))
    rules = wording.objects_by(lambda one: (one.rule,), report.at(Level.COMPLETE))
    yield Section("injected", "Would be injected", ("Rule", "Objects"), rules)
    pods = sum(one.pods.count for one in report.pending)
    pending = [_pending(one) for one in report.pending]
    yield Section("pending", f"Pending GPU pods: {pods:,}", ("Owner", "Reason", "Pods", "Why"), pending, heads=3)
    yield _capacity(report.capacity)
    quotas = [_limit(quota, part) for quota in report.quotas for part in quota.parts]
    columns = ("Quota", "Of", "Used", "Hard", "Share", "Rest", "By claims", "Units", "Mode")
    yield Section("quotas", "GPU quotas", columns, quotas)


def findings(key: str, title: str, found: Sequence[AuditFinding]) -> Section:
    """A section of findings."""
    columns = ("Object", "Rule", "Source", "Finding", "Remedy", "Policy and pods")
    counted = f"{title}: {wording.counted(len(found), 'finding')}"
    return Section(key, counted, columns, [_finding(one) for one in found], heads=3)


def _finding(finding: AuditFinding) -> tuple[Cell, ...]:
    where = wording.policy_place(finding)
    details = [f"policy {finding.policy}, {where}" if where else f"policy {finding.policy}"] if finding.policy else []
    if finding.object != finding.owner:
        details.append(f"found in {finding.object.title}")
    if finding.running is not None:
        details.append(wording.pods(finding.running))
    return (
        finding.owner.title,
        finding.rule,
        wording.place(finding.source),
        wording.found(finding),
        wording.remedy(finding),
        "; ".join(details),
    )


def _changed(changed: ChangedInjection) -> tuple[Cell, ...]:
    before, after = frozenset(changed.before), frozenset(changed.after)
    return (
        changed.object.title,
        wording.about(changed.pod_group),
        wording.place(changed.source),
        tuple(f"- {text}" for text in changed.before if text not in after),
        tuple(f"+ {text}" for text in changed.after if text not in before),
    )


def _pending(pending: PendingPods) -> tuple[Cell, ...]:
    pods = wording.counted(pending.pods.count, "pod")
    return (pending.owner.title, pending.reason, f"{pods}: {wording.listed(pending.pods)}", wording.why(pending))


def _capacity(capacity: Sequence[Capacity]) -> Section:
    """The table of GPU capacity. Units stand beside GPUs where some are parts of a GPU."""
    shows_units = any(one.part != 1 or one.unit for one in capacity)
    heads = ("One unit", "Nodes", "Units", "GPUs") if shows_units else ("Nodes", "GPUs")
    rows = []
    for one in capacity:
        gpus = one.physical.numerator if one.physical.denominator == 1 else number(one.physical)
        counts: tuple[Cell, ...] = (one.one_unit, one.nodes, one.gpus) if shows_units else (one.nodes,)
        rows.append((one.model or "unknown", one.resource, *counts, gpus, one.driver, one.cuda))
    return Section("capacity", "GPU capacity", ("Model", "Resource", *heads, "Driver", "Newest CUDA"), rows)


def _limit(quota: ReportedQuota, part: LimitUsage) -> tuple[Cell, ...]:
    share = part.share
    return (
        f"{quota.scope} {quota.name}",
        part.name or "GPUs",
        part.used,
        part.hard,
        "" if share is None else share,
        part.rest,
        part.by_claims or "0",
        part.units or part.used,
        quota.mode,
    )


def lines(cell: Cell) -> Iterable[str]:
    """The lines of a cell as printable texts, without empty ones."""
    if isinstance(cell, Fraction):
        cell = f"{float(cell):.0%}"
    texts = cell if isinstance(cell, tuple) else (f"{cell:,}" if isinstance(cell, int) else cell,)
    return [printable(text) for text in texts if text]
