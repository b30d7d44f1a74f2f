"""The report as one page of HTML that works without network, without a server, and even without JavaScript.

Every text may come from tenants. The template escapes all texts, the data for the script cannot contain markup, the
script makes text nodes only, and the page's own Content-Security-Policy forbids anything else to run or to be loaded.

Findings become rows of texts. The table shows the first rows, and the script has all of them as data.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields

from webhook.audit.report import AuditFinding, AuditReport, ChangedInjection, Comparison, Level, PodGroup, SourceLine
from webhook.audit.reports.html import figures
from webhook.audit.reports.html.page_parts import TableAbout, page_of
from webhook.audit.reports.report_wording import counted, home, listed, looked_at, place, policy_place, why
from webhook.outcome import printable


@dataclass(frozen=True, slots=True)
class Row:
    """One finding. Every value is printable text; unknown and missing values are empty."""

    level: str
    rule: str
    namespace: str
    kind: str
    """Kind of the object that people change."""
    name: str
    """Name of the object that people change."""
    message: str
    field: str
    remedy: str
    object: str
    """The object that has the finding, if that is not the owner."""
    pods: str
    """Which pods of the workload have the finding, and how many GPUs they request."""
    running: str
    """How many running pods have the finding."""
    names: str
    """Names of the first running pods that have the finding."""
    mode: str
    policy: str
    line: str
    """File of the policy, and line."""
    source: str
    """File of the object, and line."""
    change: str
    """`new` if the comparison says that this is newly refused."""


COLUMNS = tuple(field.name for field in fields(Row))


def rows(findings: Iterable[AuditFinding], comparison: Comparison | None = None) -> list[Row]:
    """A row for each finding, in the same order."""
    new = frozenset(finding.id for finding in comparison.newly_refused) if comparison is not None else frozenset[str]()
    return [_row(finding, is_new=bool(new) and finding.id in new) for finding in findings]


def _row(finding: AuditFinding, *, is_new: bool) -> Row:
    running = finding.running
    texts = (
        finding.level,
        finding.rule,
        home(finding.owner),
        finding.owner.kind,
        finding.owner.name,
        finding.message,
        finding.field,
        finding.remedy,
        finding.object.title if finding.object != finding.owner else "",
        pods(finding.pod_group),
        str(running.count) if running is not None else "",
        listed(running) if running is not None else "",
        finding.mode,
        finding.policy,
        policy_place(finding),
        place(finding.source),
        "new" if is_new else "",
    )
    return Row(*map(printable, texts))


def pods(pod_group: PodGroup | None) -> str:
    """The pods of one template, such as `Worker: 4 pods with 8 GPUs each, 32 GPUs`."""
    if pod_group is None:
        return ""
    each = counted(pod_group.gpus, "GPU")
    if pod_group.pods is None:
        text = f"any number of pods with {each} each"
    elif pod_group.pods == 1:
        text = f"1 pod with {each}"
    else:
        text = f"{counted(pod_group.pods, 'pod')} with {each} each, {counted(pod_group.pods * pod_group.gpus, 'GPU')}"
    return f"{pod_group.group}: {text}" if pod_group.group else text


_ABOUT = TableAbout(
    noun="finding",
    place="findings",
    graded="level",
    grades=tuple(Level),
    choices=("namespace", "rule"),
    numbers=("running",),
    details=(
        ("field", "Field"),
        ("message", "Found"),
        ("remedy", "Remedy"),
        ("pods", "Pods"),
        ("object", "Seen in"),
        ("names", "Running"),
        ("line", "Policy"),
        ("mode", "Mode"),
        ("source", "Source"),
    ),
)


MOST_SHOWN = 200
"""Most entries of a list that the page shows; other formats have all entries."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A workload or pod whose injections change."""

    namespace: str
    kind: str
    name: str
    pods: str
    source: str
    lost: tuple[str, ...]
    gained: tuple[str, ...]
    kept: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """A comparison with at most MOST_SHOWN entries in each list; the numbers count all entries."""

    comparison: Comparison
    newly: int
    no_longer: int
    injections: int
    newly_shown: list[Row]
    no_longer_shown: list[Row]
    injections_shown: list[Changed]


def changes(comparison: Comparison) -> Changes:
    """The comparison as the page lists it."""
    return Changes(
        comparison,
        len(comparison.newly_refused),
        len(comparison.no_longer_refused),
        len(comparison.changed_injections),
        rows(comparison.newly_refused[:MOST_SHOWN]),
        rows(comparison.no_longer_refused[:MOST_SHOWN]),
        [_changed(one) for one in comparison.changed_injections[:MOST_SHOWN]],
    )


def _changed(change: ChangedInjection) -> Changed:
    before, after = frozenset(change.before), frozenset(change.after)
    return Changed(
        home(change.object),
        change.object.kind,
        change.object.name,
        pods(change.pod_group),
        place(change.source),
        tuple(text for text in change.before if text not in after),
        tuple(text for text in change.after if text not in before),
        tuple(text for text in change.after if text in before),
    )


MOST_WITHOUT_SCRIPT = 300
"""Rows of the table if JavaScript is off."""


def render(report: AuditReport) -> str:
    """The whole page; equal reports give equal pages."""
    found = rows(report.findings, report.comparison)
    parts = figures.totals(report)
    return page_of(
        (__package__, "page.html"),
        _ABOUT,
        COLUMNS,
        found,
        report=report,
        verdict=figures.verdict(report),
        totals=parts,
        totals_bar=figures.totals_bar(parts),
        levels=[(level, sum(1 for _ in report.at(level))) for level in Level],
        changes=changes(report.comparison) if report.comparison is not None else None,
        charts=(
            ("namespace", "Namespace", figures.by_namespace(report.findings)),
            ("rule", "Rule", figures.by_rule(report.findings)),
        ),
        worst=figures.worst(report.findings),
        nodes=figures.nodes(report.capacity),
        gpus=figures.gpus(report.capacity),
        shows_units=any(one.part != 1 or one.unit for one in report.capacity),
        quotas=figures.quotas(report.quotas),
        errors=[(place(SourceLine(error.source, error.line)), error.message) for error in report.errors],
        rows=found[:MOST_WITHOUT_SCRIPT],
        most_shown=MOST_SHOWN,
        link=figures.link,
        counted=counted,
        why=why,
        looked_at=looked_at(report.counts),
    )
