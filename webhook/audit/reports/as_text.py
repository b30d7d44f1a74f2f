"""The report as text for terminals and files, readable without colours and in any width; and in a few lines for logs.

Texts are printed as they are, without markup.
"""

from collections.abc import Iterable, Iterator, Sequence

from rich.box import Box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from webhook.audit import quota_report
from webhook.audit.report import AuditReport, Cell, Level, Section
from webhook.audit.reports import report_wording
from webhook.audit.reports.report_wording import lines, sections
from webhook.outcome import printable

MOST = 50

_RULED = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
"""A box with one line below the head, in ASCII."""
_STYLES = {
    "newly-refused": "red",
    "no-longer-refused": "green",
    Level.REFUSE: "red",
    Level.WARN: "yellow",
    Level.SKIP: "cyan",
    Level.AUDIT: "dim",
    "pending": "yellow",
    "errors": "bold red",
}
"""Key of a section -> style of the first line of each entry."""


def render(report: AuditReport, console: Console) -> None:
    """Print the report, with the total first and last. Long sections are cut, and say so."""
    _head(report, console)
    if (comparison := report.comparison) is not None:
        against = f"Against {comparison.directory} ({comparison.hash[:12]})"
        _title(f"{against}: {report_wording.changes(comparison)}", console)
    # What could not be read comes last, where it is seen at a terminal.
    for section in sorted(sections(report), key=lambda section: section.key == "errors"):
        _title(section.title, console)
        left = len(section.rows) - MOST
        if section.key == "quotas":
            quota_report.render(report.quotas[:MOST], console, names_namespaces=True)
            left = len(report.quotas) - MOST
        elif section.heads:
            _entries(section, console)
        else:
            console.print(table(section.columns, section.rows[:MOST]))
        if left > 0:
            _line(f"and {left:,} more; --format json has all", console, "italic", depth=1)
    console.print()
    if report.findings and report.subject is None:
        _line("What a rule wants and why: gpu-policy explain RULE", console, "dim")
    _line(f"{report_wording.total(report)}.", console, "bold")


def _head(report: AuditReport, console: Console) -> None:
    if report.subject is not None:
        _line(f"{report.subject.title}, {report_wording.moment(report.created)}", console, "bold")
        return
    what = "a cluster" if report.is_of_cluster else "manifests"
    _line(f"Audit of {what} with policies from {report.directory} ({report.hash[:12]})", console, "bold")
    _line(f"at {report_wording.moment(report.created)}", console, "dim")
    _line(f"{report_wording.total(report)}.", console)


def _entries(section: Section, console: Console) -> None:
    for row in section.rows[:MOST]:
        heads = "  ".join(text for cell in row[: section.heads] for text in lines(cell))
        _line(heads, console, _STYLES.get(section.key, ""), depth=1)
        for cell in row[section.heads :]:
            for text in lines(cell):
                _line(text, console, depth=2)


def _title(text: str, console: Console) -> None:
    console.print()
    _line(text, console, "bold")


def _line(text: str, console: Console, style: str = "", depth: int = 0) -> None:
    """Print one line of any length: terminals wrap it, and pipes get it whole."""
    console.print(Text(f"{'  ' * depth}{printable(text)}", style=style), soft_wrap=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Table:
    """A table with numbers aligned to the right and long texts folded."""
    rows = list(rows)
    made = Table(box=_RULED, pad_edge=True, show_edge=False, collapse_padding=True)
    for index, column in enumerate(columns):
        is_number = all(isinstance(row[index], int) for row in rows)
        made.add_column(Text(column), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text("\n".join(lines(cell))) for cell in row))
    return made


MOST_IN_A_LOG = 20
"""Most findings of one level, and most entries that could not be read."""
_LONGEST = 500


def summary(report: AuditReport, file: str) -> Iterator[str]:
    """Lines for a log, with refusals, warnings, what could not be read, and at the end the total and the report's file.

    Each line begins with a word of ours, because runners of CI obey lines that begin in their own way.
    """
    found = {section.key: section.rows for section in sections(report)}
    for key, head in ((Level.REFUSE, "refuse"), (Level.WARN, "warn"), ("errors", "could not be read")):
        rows = found.get(key, ())
        for row in rows[:MOST_IN_A_LOG]:
            text = ": ".join(str(cell) for cell in row[:4] if cell)
            yield report_wording.shortened(f"{head}: {text}", _LONGEST)
        if (more := len(rows) - MOST_IN_A_LOG) > 0:
            yield f"{head}: {more:,} more, which the report has"
    yield f"{report_wording.total(report)}."
    yield printable(f"The report is in {file}.")
