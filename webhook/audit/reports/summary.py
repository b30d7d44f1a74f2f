"""A report in a few lines: what a log shows where the report itself is in a file that nobody sees while a job runs."""

from collections.abc import Iterator, Sequence

from webhook.audit.report import AuditFinding, AuditReport, Level
from webhook.audit.reports import report_wording
from webhook.outcome import printable

MOST = 20
"""Most findings of one level, and most entries that could not be read."""
_LONGEST = 500
"""Characters of one line."""


def lines_of(report: AuditReport, file: str) -> Iterator[str]:
    """Lines with refusals, warnings, what could not be read, and at the end the total and the file of the report.

    Each line begins with a word of ours, because runners of CI obey lines that begin in their own way.
    """
    for level in (Level.REFUSE, Level.WARN):
        yield from _some(str(level), [_short(finding) for finding in report.at(level)])
    yield from _some("could not be read", [str(error) for error in report.errors])
    yield f"{report_wording.total(report)}."
    yield printable(f"The report is in {file}.")


def _some(head: str, texts: Sequence[str]) -> Iterator[str]:
    """The first texts, each on a line below `head`, and how many are left out."""
    for text in texts[:MOST]:
        yield report_wording.shortened(f"{head}: {text}", _LONGEST)
    if len(texts) > MOST:
        yield f"{head}: {len(texts) - MOST:,} more, which the report has"


def _short(finding: AuditFinding) -> str:
    """Whose finding it is and where it was read, its rule, and what was found."""
    place = report_wording.place(finding.source)
    where = f" ({place})" if place else ""
    return f"{finding.owner.title}{where}: {printable(finding.rule)}: {report_wording.found(finding)}"
