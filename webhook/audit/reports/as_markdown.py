"""The report as Markdown for a comment on a pull request: one sentence, what changes, what is refused, then details.

`Page` makes Markdown of a bounded size. Texts of manifests are in code spans, where nothing is a link, a mention, HTML
or emphasis. In tables a pipe ends a cell even inside a code span, so a span is split at each pipe.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from webhook.audit.report import AuditReport, Cell, Level
from webhook.audit.reports import report_wording
from webhook.audit.reports.report_wording import shortened
from webhook.audit.reports.sections import lines, sections

MOST = 65_536
"""Most characters that GitHub allows in a comment, counted here in bytes of UTF-8, which are never fewer."""
LONGEST_TEXT = 1_000
"""Most characters of one text."""

_CLOSING = "\n{left_out} left out, because a comment holds no more; `{command}` has all.\n"
_ROOM_FOR_CLOSING = 200


def code(text: str) -> str:
    """`text` in code spans on one line; empty for an empty text."""
    pieces = shortened(text, LONGEST_TEXT).split("|")
    return "&#124;".join(_span(piece) for piece in pieces)


def _span(text: str) -> str:
    if not text:
        return ""
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{fence}{pad}{text}{pad}{fence}"


@dataclass(frozen=True, slots=True)
class _Section:
    """A part of a page. Its `rows` may be left out; a section without rows is left out as a whole."""

    head: str
    rows: Sequence[str]
    tail: str

    @property
    def size(self) -> int:
        return _size(self.head) + sum(map(_size, self.rows)) + _size(self.tail)

    def within(self, room: int) -> tuple[str, int]:
        """The section with the rows that fit, and the number of rows that are left out.

        Shorter rows after a row that is too long may still fit.
        """
        room -= _size(self.head) + _size(self.tail)
        taken = []
        for row in self.rows:
            if _size(row) <= room:
                taken.append(row)
                room -= _size(row)
        text = f"{self.head}{''.join(taken)}{self.tail}" if taken else ""
        return text, len(self.rows) - len(taken)


class Page:
    """A page whose sections share its room: small sections are complete, large ones leave out rows. The end of the page
    says how many rows are left out.
    """

    def __init__(self, command: str = "gpu-policy audit --format json") -> None:
        """`command` is what has everything that does not fit."""
        self._command = command
        self._sections: list[_Section] = []

    def paragraph(self, text: str) -> None:
        self._sections.append(_Section("", (f"{text}\n\n",), ""))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]], *, summary: str = "") -> None:
        """A table of Markdown; with a `summary`, which is HTML, it is folded. No table without rows."""
        lines = tuple(_row(row) for row in rows)
        if not lines:
            return
        head, tail = f"{_row(columns)}{_row(['---'] * len(columns))}", "\n"
        if summary:
            head, tail = f"<details><summary>{summary}</summary>\n\n{head}", "\n</details>\n\n"
        self._sections.append(_Section(head, lines, tail))

    def __str__(self) -> str:
        shares = _shares([section.size for section in self._sections], MOST - _ROOM_FOR_CLOSING)
        made = [section.within(share) for section, share in zip(self._sections, shares, strict=True)]
        text = "".join(text for text, _ in made).rstrip("\n") + "\n"
        left_out = sum(number for _, number in made)
        if not left_out:
            return text
        rows = "1 row is" if left_out == 1 else f"{left_out:,} rows are"
        return text + _CLOSING.format(left_out=rows, command=self._command)


def _shares(wanted: Sequence[int], room: int) -> Sequence[int]:
    """The share of `room` for each part: what it wants, or as much as any other part that gets less than it wants.

    >>> _shares([10, 700, 500, 20], 630)
    [10, 300, 300, 20]
    """
    shares = list(wanted)
    smallest_first = sorted(range(len(wanted)), key=wanted.__getitem__)
    for done, index in enumerate(smallest_first):
        shares[index] = min(wanted[index], room // (len(wanted) - done))
        room -= shares[index]
    return shares


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))


def render(report: AuditReport) -> str:
    """The report in at most 65,536 characters, which is GitHub's limit; the last sentence says what is left out."""
    page = Page(report.command)
    when = report_wording.moment(report.created)
    if report.subject is not None:
        page.paragraph(f"**{report.subject.title}**, {when}: {report_wording.total(report)}.")
    else:
        page.paragraph(f"**GPU policy audit** of {report_wording.total(report)}.")
        page.paragraph(f"Policies: {code(report.directory)} ({code(report.hash[:12])}), {when}.")
    if (comparison := report.comparison) is not None:
        page.paragraph(f"**Against** {code(comparison.directory)}: {report_wording.changes(comparison)}.")
    for section in sections(report):
        rows = ([_cell(cell) for cell in row] for row in section.rows)
        is_folded = section.key != "refusals" and (report.subject is None or section.key != Level.REFUSE)
        page.table(section.columns, rows, summary=section.title if is_folded else "")
    return str(page)


def _cell(cell: Cell) -> str:
    """Numbers as they are, texts in code spans."""
    return f"{cell:,}" if isinstance(cell, int) else "<br>".join(map(code, lines(cell)))
