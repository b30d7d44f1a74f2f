"""What a check says: how things stand, what was found, what is expected, and what to do about it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webhook.doctor.installation import Installation


class Status(StrEnum):
    """How one thing stands."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `found` says for a skipped one why nobody could look."""

    status: Status
    found: str
    expected: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One question to an installation. `key` is its name for programs and never changes.

    `look` may raise Unavailable at any point: what it has found so far counts, and the rest is skipped.
    """

    key: str
    look: "Callable[[Installation], Iterable[Finding]]"


def ok(found: str) -> Finding:
    """All is well."""
    return Finding(Status.OK, found)


def warning(found: str, expected: str, remedy: str) -> Finding:
    """It works, but not as it should, or not for long."""
    return Finding(Status.WARNING, found, expected, remedy)


def problem(found: str, expected: str, remedy: str) -> Finding:
    """It does not work, or does not do what it is there for."""
    return Finding(Status.PROBLEM, found, expected, remedy)


def skipped(why: str, remedy: str = "") -> Finding:
    """Nobody could look."""
    return Finding(Status.SKIPPED, why, "", remedy)
