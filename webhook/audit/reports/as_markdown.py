"""The report as Markdown for a comment on a pull request: one sentence, what changes, what is refused, then details."""

from collections.abc import Iterable, Iterator, Sequence

from webhook.audit.report import AuditFinding, AuditReport, ChangedInjection, Comparison, Level, PodGroup, SourceLine
from webhook.audit.reports import report_wording
from webhook.audit.reports.markdown_page import Page, code

_FINDING = ("Object", "Rule", "Finding", "Remedy", "Policy")
_MOST_REFUSALS = 20


def render(report: AuditReport) -> str:
    """At most 65,536 characters, which is what GitHub takes; what is left out is told in the last sentence."""
    page = Page()
    page.paragraph(f"**GPU policy audit** of {report_wording.total(report)}.")
    when = report_wording.moment(report.created)
    page.paragraph(f"Policies: {code(report.directory)} ({code(report.hash[:12])}), {when}.")
    if report.comparison is not None:
        _comparison(page, report.comparison)
    _refusals(page, report)
    errors = ((code(str(error)),) for error in report.errors)
    page.table(("What",), errors, summary=f"Could not be read: {len(report.errors):,}")
    _findings(page, "Would be refused", report.at(Level.REFUSE))
    _findings(page, "Would be warned about", report.at(Level.WARN))
    _findings(page, "Would only be recorded", report.at(Level.AUDIT))
    completed = report_wording.by_rule(report.at(Level.COMPLETE))
    page.table(("Rule", "Objects"), ((code(rule), f"{n:,}") for rule, n in completed), summary="Would be injected")
    _cluster(page, report)
    return str(page)


def _comparison(page: Page, comparison: Comparison) -> None:
    changed = comparison.changed_injections
    page.paragraph(f"**Against** {code(comparison.directory)}: {report_wording.changes(comparison)}.")
    _findings(page, "Newly refused", comparison.newly_refused)
    _findings(page, "No longer refused", comparison.no_longer_refused)
    page.table(("Object", "Before", "After"), map(_changed, changed), summary=f"Changed injections: {len(changed):,}")


def _changed(changed: ChangedInjection) -> Sequence[str]:
    name = _name(changed.object.title, changed.sort, changed.source)
    return name, _listed(changed.before), _listed(changed.after)


def _listed(texts: Sequence[str]) -> str:
    return "<br>".join(map(code, texts)) or "nothing"


def _refusals(page: Page, report: AuditReport) -> None:
    rows = report_wording.by_namespace_and_rule(report.at(Level.REFUSE))
    cells = [(code(namespace), code(rule), f"{count:,}") for namespace, rule, count in rows[:_MOST_REFUSALS]]
    if len(rows) > _MOST_REFUSALS:
        rest = sum(count for _, _, count in rows[_MOST_REFUSALS:])
        cells.append((f"{len(rows) - _MOST_REFUSALS:,} more", "", f"{rest:,}"))
    page.table(("Namespace", "Rule", "Objects refused"), cells)


def _findings(page: Page, title: str, findings: Iterable[AuditFinding]) -> None:
    rows = [tuple(_cells(finding)) for finding in findings]
    page.table(_FINDING, rows, summary=f"{title}: {report_wording.counted(len(rows), 'finding')}")


def _cells(finding: AuditFinding) -> Iterator[str]:
    name = _name(finding.owner.title, finding.sort, finding.source)
    if finding.object != finding.owner:
        name += f"<br>found in {code(finding.object.title)}"
    if finding.running is not None:
        name += f"<br>{code(report_wording.pods(finding.running))}"
    yield name
    yield code(finding.rule)
    yield f"{code(finding.field)}<br>{code(finding.message)}"
    yield code(finding.remedy)
    yield code(report_wording.policy_place(finding))


def _name(title: str, sort: PodGroup | None, source: SourceLine) -> str:
    parts = (title, report_wording.about(sort), report_wording.place(source))
    return "<br>".join(code(part) for part in parts if part)


def _cluster(page: Page, report: AuditReport) -> None:
    """What is known of the cluster: its GPUs, and what is in use of the quotas."""
    capacity = (
        (
            code(row.model or "unknown"),
            code(row.resource),
            f"{row.nodes:,}",
            f"{row.gpus:,}",
            *map(code, (row.driver, row.cuda)),
        )
        for row in report.capacity
    )
    page.table(("Model", "Resource", "Nodes", "GPUs", "Driver", "Newest CUDA"), capacity, summary="GPU capacity")
    quotas = (
        (
            code(f"{quota.scope} {quota.name}"),
            code(part.name or "GPUs"),
            code(part.used),
            code(part.hard),
            code(quota.mode),
        )
        for quota in report.quotas
        for part in quota.parts
    )
    page.table(("Quota", "Of", "Used", "Hard", "Mode"), quotas, summary="GPU quotas")
