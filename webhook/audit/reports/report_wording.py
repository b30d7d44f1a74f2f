"""The order, grouping and wording of findings, which all reports for people share."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from webhook.audit.report import (
    AuditFinding,
    AuditReport,
    Comparison,
    Counts,
    ObjectReference,
    PendingPods,
    PodGroup,
    Running,
    SourceLine,
)
from webhook.model.shape import shortened as cut_to
from webhook.outcome import printable

STDIN = "-"
_LONGEST_WHY = 500
"""Characters of the reason why pods are Pending."""
NOWHERE = "(no namespace)"
"""The heading for objects that are in no namespace."""


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


def remedy(finding: AuditFinding) -> str:
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
