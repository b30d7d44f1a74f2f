"""The report as text for terminals and files, readable without colours and in any width."""

from collections.abc import Iterable, Iterator, Sequence

from rich.box import Box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from webhook.audit import quota_report
from webhook.audit.report import AuditFinding, AuditReport, ChangedInjection, Comparison, Level, PendingPods
from webhook.audit.reports import report_wording
from webhook.outcome import printable

_RULED = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
"""A box with one line below the head, in ASCII."""


def table(columns: Sequence[str], rows: Iterable[Sequence[str | int]]) -> Table:
    """A table with numbers aligned to the right and long texts folded. If all heads are empty, there is no head."""
    rows = list(rows)
    made = Table(box=_RULED, pad_edge=True, show_header=any(columns), show_edge=False, collapse_padding=True)
    for index, column in enumerate(columns):
        is_number = all(isinstance(row[index], int) for row in rows)
        made.add_column(Text(column), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text(f"{cell:,}" if isinstance(cell, int) else printable(cell)) for cell in row))
    return made


MOST = 50
"""Most entries of one section at a terminal."""

_STYLES = {
    Level.REFUSE: "red",
    Level.WARN: "yellow",
    Level.SKIP: "cyan",
    Level.AUDIT: "dim",
    Level.COMPLETE: "green",
}
_TITLES = {
    Level.REFUSE: "Would be refused",
    Level.WARN: "Would be warned about",
    Level.SKIP: "Admitted by an exception",
    Level.AUDIT: "Would only be recorded",
}


def render(report: AuditReport, console: Console) -> None:
    """Print the report, with the total first and last. Long sections are cut, and say so."""
    printer = _Printer(console)
    printer.head(report)
    if report.comparison is not None:
        printer.comparison(report.comparison)
    rows = report_wording.by_namespace_and_rule(report.at(Level.REFUSE))
    printer.table("Refusals", ("Namespace", "Rule", "Objects"), rows)
    for level, title in _TITLES.items():
        printer.findings(title, tuple(report.at(level)), _STYLES[level])
    printer.table("Would be injected", ("Rule", "Objects"), report_wording.by_rule(report.at(Level.COMPLETE)))
    printer.pending(report.pending)
    printer.table("GPU capacity", *report_wording.capacity(report.capacity))
    printer.quotas(report)
    printer.errors(report)
    printer.line(f"{report_wording.total(report)}.", "bold")


class _Printer:
    """Prints sections one after the other. Texts are printed as they are, without markup."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def line(self, text: str, style: str = "", depth: int = 0) -> None:
        """Print one line of any length: terminals wrap it, and pipes get it whole."""
        self._console.print(Text(f"{'  ' * depth}{printable(text)}", style=style), soft_wrap=True)

    def title(self, text: str) -> None:
        """Print the head of a section, after an empty line."""
        self._console.print()
        self.line(text, "bold")

    def rest(self, number: int) -> None:
        """Print how many entries a section leaves out."""
        if number > 0:
            self.line(f"and {number:,} more; --format json has all", "italic", depth=1)

    def head(self, report: AuditReport) -> None:
        """Print what was audited, under which policies, and the totals."""
        what = "a cluster" if report.is_of_cluster else "manifests"
        self.line(f"Audit of {what} with policies from {report.directory} ({report.hash[:12]})", "bold")
        self.line(f"at {report_wording.moment(report.created)}", "dim")
        counts = report.counts
        numbers = {
            "pods": counts.pods,
            "workloads": counts.workloads,
            **({"resource claims": counts.claims} if counts.claims else {}),
            "other objects": counts.others,
            **({"never sent to the webhook": counts.unsent} if counts.unsent else {}),
            "would be refused": counts.refused,
            "would only be warned about": counts.warned,
            "would be completed": counts.completed,
            "could not be read": len(report.errors),
        }
        self._console.print(table(("", ""), list(numbers.items())))

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str | int]]) -> None:
        """Print a section that is a table; print nothing without rows."""
        if rows:
            self.title(title)
            self._console.print(table(columns, rows[:MOST]))
            self.rest(len(rows) - MOST)

    def findings(self, title: str, findings: Sequence[AuditFinding], style: str) -> None:
        """Print a section of findings by namespace; print nothing without findings."""
        if not findings:
            return
        self.title(f"{title}: {report_wording.counted(len(findings), 'finding')}")
        for namespace, group in report_wording.by_namespace(findings[:MOST]).items():
            self.line(namespace, "bold", depth=1)
            for finding in group:
                self._finding(finding, style)
        self.rest(len(findings) - MOST)

    def _finding(self, finding: AuditFinding, style: str) -> None:
        self.line("  ".join(_head(finding)), style, depth=2)
        self.line(report_wording.found(finding), depth=3)
        if finding.remedy:
            self.line(report_wording.remedy(finding), depth=3)
        self.line("; ".join(_tail(finding)), "dim", depth=3)

    def pending(self, pending: Sequence[PendingPods]) -> None:
        """Print why pods are Pending; print nothing if none is."""
        if not pending:
            return
        self.title(f"Pending: {report_wording.counted(sum(one.pods.count for one in pending), 'GPU pod')}")
        for one in pending[:MOST]:
            pods = report_wording.counted(one.pods.count, "pod")
            self.line(f"{one.owner.title}  {one.reason}  {pods}: {report_wording.listed(one.pods)}", "yellow", depth=1)
            self.line(report_wording.why(one), depth=2)
        self.rest(len(pending) - MOST)

    def comparison(self, comparison: Comparison) -> None:
        """Print what the policies change."""
        self.title(f"Against {comparison.directory} ({comparison.hash[:12]}): {report_wording.changes(comparison)}")
        self.findings("Newly refused", comparison.newly_refused, "red")
        self.findings("No longer refused", comparison.no_longer_refused, "green")
        changed = comparison.changed_injections
        if changed:
            self.title(f"Changed injections: {len(changed):,}")
            for one in changed[:MOST]:
                self._changed(one)
            self.rest(len(changed) - MOST)

    def _changed(self, changed: ChangedInjection) -> None:
        parts = (changed.object.title, report_wording.about(changed.pod_group), report_wording.place(changed.source))
        self.line("  ".join(part for part in parts if part), depth=1)
        for text in sorted(set(changed.before) - set(changed.after)):
            self.line(f"- {text}", "red", depth=2)
        for text in sorted(set(changed.after) - set(changed.before)):
            self.line(f"+ {text}", "green", depth=2)

    def quotas(self, report: AuditReport) -> None:
        """Print the usage of quotas."""
        if report.quotas:
            self.title("GPU quotas")
            quota_report.render(report.quotas[:MOST], self._console, names_namespaces=True)
            self.rest(len(report.quotas) - MOST)

    def errors(self, report: AuditReport) -> None:
        """Print what could not be read."""
        if report.errors:
            self.title(f"Could not be read: {len(report.errors):,}")
            for error in report.errors[:MOST]:
                self.line(str(error), "bold red", depth=1)
            self.rest(len(report.errors) - MOST)
        self._console.print()


def _head(finding: AuditFinding) -> Iterator[str]:
    yield f"{finding.owner.kind} {finding.owner.name}"
    yield finding.rule
    place = report_wording.place(finding.source)
    if place:
        yield place


def _tail(finding: AuditFinding) -> Iterator[str]:
    where = report_wording.policy_place(finding)
    yield f"policy {finding.policy}, {where}" if where else f"policy {finding.policy}"
    if finding.object != finding.owner:
        yield f"found in {finding.object.title}"
    if finding.running is not None:
        yield report_wording.pods(finding.running)
