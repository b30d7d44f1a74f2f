"""The words of reports for people, and their sections: titles, columns and rows, once for every format."""

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction

from webhook.audit.quota_report import LimitUsage, ReportedQuota
from webhook.audit.report import (
    MOST_NAMES,
    AuditFinding,
    AuditReport,
    Capacity,
    Cell,
    ChangedInjection,
    Comparison,
    Counts,
    Level,
    ObjectReference,
    PendingPods,
    PodGroup,
    Running,
    Section,
    SourceLine,
)
from webhook.model.shape import shortened as cut_to
from webhook.outcome import printable
from webhook.quota.quota_wording import number
from webhook.rules import RULES

STDIN = "-"
_LONGEST_WHY = 500
NOWHERE = "(no namespace)"


def counted(number: int, what: str, several: str = "") -> str:
    """`1 pod`, `1,200 pods`."""
    return f"{number:,} {what if number == 1 else several or what + 's'}"


def moment(when: datetime) -> str:
    """A time in UTC for people, to the second, such as `2025-03-01 12:00:00 UTC`."""
    return f"{when.astimezone(UTC).replace(tzinfo=None).isoformat(' ', 'seconds')} UTC"


def instant(when: datetime) -> str:
    """A time in UTC for programs, as in RFC 3339, such as `2025-03-01T12:00:00.000Z`."""
    return when.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def namespace_of(reference: ObjectReference) -> str:
    """The namespace that an object is in, or is; NOWHERE for cluster-scoped objects."""
    return printable(reference.home) or NOWHERE


def objects_by(
    key: Callable[[AuditFinding], tuple[str, ...]], findings: Iterable[AuditFinding]
) -> list[tuple[str | int, ...]]:
    """Each key with the number of objects that have such findings; the largest number first."""
    objects: defaultdict[tuple[str, ...], set[tuple[object, ...]]] = defaultdict(set)
    for finding in findings:
        objects[key(finding)].add((finding.owner, finding.source.file))
    found = sorted(((key, len(those)) for key, those in objects.items()), key=lambda one: (-one[1], one[0]))
    return [(*key, count) for key, count in found]


def about(pod_group: PodGroup | None) -> str:
    """The pods of one template, and the GPUs that they request together; empty for the object itself."""
    if pod_group is None:
        return ""
    name = printable(f"pod template of {pod_group.group}") if pod_group.group else "pod template"
    if pod_group.pods is None:
        return f"{name} ({counted(pod_group.gpus, 'GPU')} in each pod)" if pod_group.gpus else name
    pods = counted(pod_group.pods, "pod")
    return (
        f"{name} ({pods}, {counted(pod_group.gpus * pod_group.pods, 'GPU')})" if pod_group.gpus else f"{name} ({pods})"
    )


def found(finding: AuditFinding) -> str:
    """The place and the message of a finding, on one line, with a period."""
    head = f"{about(finding.pod_group)}: " if finding.pod_group is not None else ""
    return printable(f"{head}{finding.field}: {finding.message}.")


def remedy_text(finding: AuditFinding) -> str:
    """The remedy of a finding with a period; empty where there is none."""
    return printable(f"{finding.remedy}.") if finding.remedy else ""


def why(pending: PendingPods) -> str:
    """Why pods are Pending, and what to do, in at most 500 characters."""
    remedy = f" {pending.remedy}." if pending.remedy else ""
    return shortened(f"{pending.message}.{remedy}", _LONGEST_WHY)


def place(source: SourceLine) -> str:
    """A file and line such as `manifests/a.yaml:12`; empty for objects of a cluster."""
    file = "standard input" if source.file == STDIN else printable(source.file)
    return f"{file}:{source.line}" if file and source.line else file


def policy_place(finding: AuditFinding) -> str:
    """The file of the policy and the line, as far as they are known."""
    return printable(f"{finding.file}:{finding.line}" if finding.file and finding.line else finding.file)


def pods(running: Running | None) -> str:
    """Running pods as `4 running pods: a, b, c and 1 more`; empty for None."""
    if running is None:
        return ""
    names = listed(running)
    return f"{counted(running.count, 'running pod')}{': ' if names else ''}{names}"


def listed(running: Running) -> str:
    """Names of pods as `a, b, c and 1 more`; empty where there are none."""
    rest = running.count - len(running.names)
    names = ", ".join(running.names)
    return printable(f"{names} and {rest:,} more" if names and rest > 0 else names)


def total(report: AuditReport) -> str:
    """The whole report in one sentence without a period."""
    counts = report.counts
    unread = f"; {counted(len(report.errors), 'entry', 'entries')} could not be read" if report.errors else ""
    if report.subject is not None:
        return report.subject.total + unread
    return (
        f"{looked_at(counts)}: {counts.refused:,} would be refused, {counts.warned:,} only warned, "
        f"{counts.completed:,} completed{unread}"
    )


def changes(comparison: Comparison) -> str:
    """The numbers of a comparison in one sentence without a period."""
    return (
        f"{len(comparison.newly_refused):,} newly refused, {len(comparison.no_longer_refused):,} no longer refused, "
        f"{counted(len(comparison.changed_injections), 'changed injection')}"
    )


def looked_at(counts: Counts) -> str:
    """How many objects were looked at, such as `3 pods, 1 workload`."""
    claims = f", {counted(counts.claims, 'resource claim')}" if counts.claims else ""
    others = f", {counted(counts.others, 'other object')}" if counts.others else ""
    others += f", {counts.unsent:,} never sent to the webhook" if counts.unsent else ""
    queued = f" ({counts.queued:,} left to a queue)" if counts.queued else ""
    return f"{counted(counts.pods, 'pod')}, {counted(counts.workloads, 'workload')}{queued}{claims}{others}"


def shortened(text: str, longest: int) -> str:
    """`text` of at most `longest` characters, on one line and without control characters."""
    return printable(cut_to(text, longest))


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
    rows = objects_by(lambda one: (namespace_of(one.owner), one.rule), refused)
    yield Section("refusals", "Refusals", ("Namespace", "Rule", "Objects refused"), rows)
    errors = [(str(error),) for error in report.errors]
    yield Section("errors", f"Could not be read: {len(errors):,}", ("What",), errors, heads=1)
    for level, title in (FINDINGS if subject is None else subject.levels).items():
        yield findings(level, title, tuple(report.at(level)))
    rules = objects_by(lambda one: (one.rule,), report.at(Level.COMPLETE))
    yield Section("injected", "Would be injected", ("Rule", "Objects"), rules)
    waiting = sum(one.pods.count for one in report.pending)
    pending = [
        (one.owner.title, one.reason, f"{counted(one.pods.count, 'pod')}: {listed(one.pods)}", why(one))
        for one in report.pending
    ]
    yield Section("pending", f"Pending GPU pods: {waiting:,}", ("Owner", "Reason", "Pods", "Why"), pending, heads=3)
    yield _capacity(report.capacity)
    quotas = [_limit(quota, part) for quota in report.quotas for part in quota.parts]
    columns = ("Quota", "Of", "Used", "Hard", "Share", "Rest", "By claims", "Units", "Mode")
    yield Section("quotas", "GPU quotas", columns, quotas)


def alike(findings: Iterable[AuditFinding], new: Container[str] = ()) -> list[tuple[AuditFinding, bool]]:
    """The findings, with one for all bare pods of a namespace that have an equal one, and whether `new` has their ids.

    It is named after the first pod, and counts them.
    """
    groups: dict[object, list[AuditFinding]] = {}
    for one in findings:
        key: object = len(groups)
        if one.owner == one.object and one.owner.kind == "Pod" and one.running is not None:
            nameless = replace(one.owner, name="")
            key = (replace(one, owner=nameless, object=nameless, running=None), one.id in new)
        groups.setdefault(key, []).append(one)
    return [(_together(equal), equal[0].id in new) for equal in groups.values()]


def _together(equal: Sequence[AuditFinding]) -> AuditFinding:
    if len(equal) == 1:
        return equal[0]
    first = equal[0].owner
    named = replace(first, name=f"{first.name} and {counted(len(equal) - 1, 'pod')} like it")
    running = Running(len(equal), tuple(one.owner.name for one in equal[:MOST_NAMES]))
    return replace(equal[0], owner=named, object=named, running=running)


def rule_texts(key: str, report: AuditReport) -> tuple[str, ...]:
    """What a rule of findings promises, and what goes wrong without it; in a report that is no audit, what it means."""
    if report.subject is not None:
        return (report.subject.rules.get(key, key),)
    return next(((rule.promise, rule.problem) for rule in RULES if rule.key == key), (key or "unnamed", ""))


def findings(key: str, title: str, found: Iterable[AuditFinding]) -> Section:
    """A section of findings."""
    found = [one for one, _ in alike(found)]
    columns = ("Object", "Rule", "Source", "Finding", "Remedy", "Policy and pods")
    head = f"{title}: {counted(len(found), 'finding')}"
    return Section(key, head, columns, [_finding(one) for one in found], heads=3)


def _finding(finding: AuditFinding) -> tuple[Cell, ...]:
    where = policy_place(finding)
    details = [f"policy {finding.policy}, {where}" if where else f"policy {finding.policy}"] if finding.policy else []
    if finding.object != finding.owner:
        details.append(f"found in {finding.object.title}")
    if finding.running is not None:
        details.append(pods(finding.running))
    return (
        finding.owner.title,
        finding.rule,
        place(finding.source),
        found(finding),
        remedy_text(finding),
        "; ".join(details),
    )


def _changed(changed: ChangedInjection) -> tuple[Cell, ...]:
    before, after = frozenset(changed.before), frozenset(changed.after)
    return (
        changed.object.title,
        about(changed.pod_group),
        place(changed.source),
        tuple(f"- {text}" for text in changed.before if text not in after),
        tuple(f"+ {text}" for text in changed.after if text not in before),
    )


def _capacity(capacity: Sequence[Capacity]) -> Section:
    """The table of GPU capacity. Units stand beside GPUs where some are parts of a GPU."""
    shows_units = any(one.part != 1 or one.unit for one in capacity)
    heads = ("One unit", "Nodes", "Units", "GPUs") if shows_units else ("Nodes", "GPUs")
    rows = []
    for one in capacity:
        gpus = one.physical.numerator if one.physical.denominator == 1 else number(one.physical)
        unit = one.unit or ("a GPU" if one.part == 1 else f"{one.part} GPU")
        counts: tuple[Cell, ...] = (unit, one.nodes, one.gpus) if shows_units else (one.nodes,)
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
