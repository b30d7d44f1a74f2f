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
class DoctorFinding:
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
    look: "Callable[[Installation], Iterable[DoctorFinding]]"


def ok(found: str) -> DoctorFinding:
    """All is well."""
    return DoctorFinding(Status.OK, found)


def warning(found: str, expected: str, remedy: str) -> DoctorFinding:
    """It works, but not as it should, or not for long."""
    return DoctorFinding(Status.WARNING, found, expected, remedy)


def problem(found: str, expected: str, remedy: str) -> DoctorFinding:
    """It does not work, or does not do what it is there for."""
    return DoctorFinding(Status.PROBLEM, found, expected, remedy)


def skipped(why: str, remedy: str = "") -> DoctorFinding:
    """Nobody could look."""
    return DoctorFinding(Status.SKIPPED, why, "", remedy)
