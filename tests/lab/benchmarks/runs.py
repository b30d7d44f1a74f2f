"""What all benchmarks have in common: their short form, what they need, what they demand, and how they print tables.

A figure is only worth something where every answer was the one that was to be measured. So a benchmark says what it
expects, compares, and ends with status 1 at the first difference.
"""

import os
from typing import TypeVar

Value = TypeVar("Value")

SHORT = bool(os.environ.get("BENCH_SHORT"))
"""Whether only the checks are wanted: everything of the least size, and no figures worth keeping."""


class WrongAnswerError(SystemExit):
    """What was measured is not what was meant; ends the process with status 1 and says what was found."""


def sized(full: Value, short: Value) -> Value:
    """A size of the benchmark, or of its short form."""
    return short if SHORT else full


def need(reason: str | None) -> None:
    """End here where something is missing: the short form says that it skips, the benchmark fails."""
    if reason is None:
        return
    if SHORT:
        print(f"skipped: {reason}")
        raise SystemExit(0)
    raise SystemExit(reason)


def demand(is_right: bool, otherwise: str) -> None:
    """WrongAnswerError unless it is as it should be; `otherwise` names place, what was found and what was expected."""
    if not is_right:
        raise WrongAnswerError(f"these figures would be wrong: {otherwise}")


def head(*titles: str) -> None:
    """The head of a table, in Markdown."""
    row(*titles)
    print(f"|{'---|' * len(titles)}", flush=True)


def row(*cells: object) -> None:
    """One line of it."""
    print("|" + "|".join(f" {cell} " if cell else " " for cell in map(str, cells)) + "|", flush=True)
