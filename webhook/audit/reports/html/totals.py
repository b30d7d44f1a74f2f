"""What would become of all that was looked at, in a sentence and in four numbers."""

from collections.abc import Iterable
from dataclasses import dataclass

from webhook.audit.report import AuditReport, Level
from webhook.audit.reports.html.bars import Bar, bar


@dataclass(frozen=True, slots=True)
class Total:
    """How many pods and workloads have something in common. `share` is text, such as `2.6 %`."""

    style: str
    label: str
    count: int
    share: str


def totals(report: AuditReport) -> tuple[Total, ...]:
    """What would become of the pods and workloads; every one of them is in one of the totals."""
    counts = report.counts
    whole = counts.pods + counts.workloads
    kept = max(whole - counts.refused - counts.warned - counts.completed, 0)
    named = (
        (Level.REFUSE, "refused", counts.refused),
        (Level.WARN, "admitted with a warning", counts.warned),
        (Level.COMPLETE, "completed", counts.completed),
        ("rest", "admitted as they are", kept),
    )
    return tuple(Total(style, label, count, _share(count, whole)) for style, label, count in named)


def totals_bar(found: Iterable[Total]) -> Bar:
    """The totals side by side."""
    amounts = [(total.style, total.count) for total in found]
    return bar(amounts, sum(count for _, count in amounts))


def _share(count: int, whole: int) -> str:
    """In percent with one digit; only none is 0, and only all are 100."""
    if not whole:
        return ""
    percent = 100 * count / whole
    if 0 < percent < 0.1:
        return "< 0.1 %"
    if 99.9 < percent < 100:
        return "> 99.9 %"
    return f"{percent:.1f} %"


def verdict(report: AuditReport) -> str:
    """The gravest thing to say in one sentence."""
    counts = report.counts
    whole = counts.pods + counts.workloads
    objects = f"{whole:,} {'pods and workloads' if whole != 1 else 'pod or workload'}"
    others = sum(1 for _ in report.at(Level.REFUSE))
    if counts.refused:
        return f"{counts.refused:,} of {objects} would be refused"
    if others:
        found = "1 other finding is a refusal" if others == 1 else f"{others:,} other findings are refusals"
        return f"None of {objects} would be refused, but {found}"
    if counts.warned:
        return f"None of {objects} would be refused, {counts.warned:,} would get a warning"
    if whole:
        return f"None of {objects} would be refused"
    return "No pod and no workload was looked at"
