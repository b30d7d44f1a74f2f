"""Findings of the doctor's checks, and the report of all findings as text and as JSON."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from webhook.outcome import printable

if TYPE_CHECKING:
    from webhook.doctor.installation import Place


class Status(StrEnum):
    """The status of a finding."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """A result of a check. With the status skipped, `found` says why it could not be checked."""

    status: Status
    found: str
    expected: str = ""
    remedy: str = ""


ok = partial(DoctorFinding, Status.OK)
"""A finding that something is right."""
warning = partial(DoctorFinding, Status.WARNING)
"""A finding that something works badly, or not for long."""
problem = partial(DoctorFinding, Status.PROBLEM)
"""A finding that something does not work."""


def skipped(why: str, remedy: str = "") -> DoctorFinding:
    """A finding that something could not be checked."""
    return DoctorFinding(Status.SKIPPED, why, "", remedy)


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """All findings, each after the key of its check."""

    results: tuple[tuple[str, DoctorFinding], ...]

    def count(self, status: Status) -> int:
        return sum(finding.status is status for _, finding in self.results)

    @property
    def exit_status(self) -> int:
        return 1 if self.count(Status.PROBLEM) else 0


def to_json(report: DoctorReport, place: "Place") -> dict[str, Any]:
    """The report for programs. Its shape is a contract; the version is in `apiVersion`."""
    return {
        "apiVersion": "gpupolicy.dev/v1alpha1",
        "kind": "DoctorReport",
        "namespace": place.namespace,
        "name": place.name,
        "counts": {status.value: report.count(status) for status in Status},
        "results": [{"check": key, **asdict(finding)} for key, finding in report.results],
    }


_STYLES = {Status.OK: "green", Status.WARNING: "yellow", Status.PROBLEM: "bold red", Status.SKIPPED: "dim"}


def render_text(report: DoctorReport, console: Console) -> None:
    """Print a line for each result, with expectation and remedy if something is wrong, and then the totals."""
    for key, finding in report.results:
        line = Text(f"{finding.status:<9}", style=_STYLES[finding.status])
        line.append(f"{key:<19}", style="bold").append(printable(finding.found))
        console.print(line, soft_wrap=True)
        for word, text in (("expected", finding.expected), ("remedy", finding.remedy)):
            if text:
                console.print(Text(f"{'':9}{word}: {printable(text)}", style="dim"), soft_wrap=True)
    total = ", ".join(f"{report.count(status)} {status}" for status in Status)
    console.print(Text(total, style="bold"), soft_wrap=True)
