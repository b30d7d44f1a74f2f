"""The report as Markdown for a comment on a pull request: one sentence, what changes, what is refused, then details.

Texts of manifests are in code spans, where nothing is a link, a mention, HTML or emphasis. In tables a pipe ends a cell
even inside a code span, so a span is split at each pipe.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from webhook.audit.report import AuditReport, Level
from webhook.audit.reports import report_wording
from webhook.audit.reports.report_wording import counted, lines, sections, shortened

MOST = 65_536
"""Most characters that GitHub allows in a comment, counted here in bytes of UTF-8, which are never fewer."""
LONGEST_TEXT = 1_000

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


_Part = tuple[str, Sequence[str], str]
"""Head, rows and tail of a part of the page. Rows may be left out; without rows, the part is left out as a whole."""


def render(report: AuditReport) -> str:
    """The report in at most 65,536 characters, which is GitHub's limit; the last sentence says what is left out.

    Parts share the room: small ones are complete, large ones leave out rows. Shorter rows after a row that is too long
    may still fit.
    """
    parts, left_out, text = list(_parts(report)), 0, ""
    wanted = [_size(head, *rows, tail) for head, rows, tail in parts]
    for (head, rows, tail), room in zip(parts, _shares(wanted, MOST - _ROOM_FOR_CLOSING), strict=True):
        left, taken = room - _size(head, tail), []
        for row in rows:
            if _size(row) <= left:
                taken.append(row)
                left -= _size(row)
        left_out += len(rows) - len(taken)
        text += f"{head}{''.join(taken)}{tail}" if taken else ""
    text = text.rstrip("\n") + "\n"
    if not left_out:
        return text
    return text + _CLOSING.format(left_out=f"{counted(left_out, 'row is', 'rows are')}", command=report.command)


def _parts(report: AuditReport) -> Iterator[_Part]:
    when = report_wording.moment(report.created)
    paragraphs = [f"**GPU policy audit** of {report_wording.total(report)}."]
    if report.subject is not None:
        paragraphs = [f"**{report.subject.title}**, {when}: {report_wording.total(report)}."]
    else:
        paragraphs.append(f"Policies: {code(report.directory)} ({code(report.hash[:12])}), {when}.")
    if (comparison := report.comparison) is not None:
        paragraphs.append(f"**Against** {code(comparison.directory)}: {report_wording.changes(comparison)}.")
    yield from (("", (f"{paragraph}\n\n",), "") for paragraph in paragraphs)
    for section in sections(report):
        head, tail = f"{_row(section.columns)}{_row(['---'] * len(section.columns))}", "\n"
        if section.key != "refusals" and (report.subject is None or section.key != Level.REFUSE):
            head, tail = f"<details><summary>{section.title}</summary>\n\n{head}", "\n</details>\n\n"
        cells = (
            [f"{one:,}" if isinstance(one, int) else "<br>".join(map(code, lines(one))) for one in row]
            for row in section.rows
        )
        yield head, list(map(_row, cells)), tail


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


def _size(*texts: str) -> int:
    return sum(len(text.encode(errors="replace")) for text in texts)
