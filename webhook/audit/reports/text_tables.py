"""Tables for terminals."""

from collections.abc import Iterable, Sequence

from rich.box import Box
from rich.table import Table
from rich.text import Text

from webhook.outcome import printable

_RULED = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
"""Nothing but a line below the head, in letters that every log shows."""


def table(columns: Sequence[str], rows: Iterable[Sequence[str | int]]) -> Table:
    """A table in which numbers stand to the right and long texts are folded; heads that are all empty are left out."""
    rows = list(rows)
    made = Table(box=_RULED, pad_edge=True, show_header=any(columns), show_edge=False, collapse_padding=True)
    for index, column in enumerate(columns):
        is_number = all(isinstance(row[index], int) for row in rows)
        made.add_column(Text(column), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text(f"{cell:,}" if isinstance(cell, int) else printable(cell)) for cell in row))
    return made
