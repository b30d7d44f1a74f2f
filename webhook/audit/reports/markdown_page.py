"""Markdown of a bounded size, in which no text can become anything but text.

Whatever comes from a manifest stands in a code span: there nothing is a link, a mention, HTML or emphasis. In tables a
pipe ends a cell even in a code span, so spans are interrupted by one.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from webhook.audit.reports.report_wording import shortened

MOST = 65_536
"""Characters that GitHub allows in a comment; counted here in bytes of UTF-8, of which there are never fewer."""
LONGEST_TEXT = 500
"""Characters of one text."""

_CLOSING = "\n{left_out} left out, because a comment holds no more; `gpu-policy audit --format json` has all.\n"
_ROOM_FOR_CLOSING = 200


def code(text: str) -> str:
    """`text` as it is, in code spans on one line; nothing for an empty text."""
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
    """A part of a page: `rows` are what may be left out of it; without any of them it is left out as a whole."""

    head: str
    rows: Sequence[str]
    tail: str

    @property
    def size(self) -> int:
        """Of all of it."""
        return _size(self.head) + sum(map(_size, self.rows)) + _size(self.tail)

    def within(self, room: int) -> tuple[str, int]:
        """As much of it as there is room for, and how many rows that leaves out; a row that is too long is no reason to
        leave out those after it.
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
    """A page whose parts share its room: what is small is shown as a whole, what is large leaves out rows. How many
    they are stands at its end.
    """

    def __init__(self) -> None:
        self._sections: list[_Section] = []

    def paragraph(self, text: str) -> None:
        """One short paragraph of Markdown."""
        self._sections.append(_Section("", (f"{text}\n\n",), ""))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]], *, summary: str = "") -> None:
        """A table of Markdown; where there is a `summary`, which is HTML, it is folded under it. None without rows."""
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
        return text + _CLOSING.format(left_out=rows)


def _shares(wanted: Sequence[int], room: int) -> Sequence[int]:
    """How much of `room` each gets: as much as it wants, or as much as any other that wants more than that.

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
