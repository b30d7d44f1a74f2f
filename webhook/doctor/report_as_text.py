"""The report for people at a terminal: a line for each thing; where it is wrong, what is expected and the remedy."""

from collections.abc import Mapping
from types import MappingProxyType

from rich.console import Console
from rich.text import Text

from webhook.doctor.checklist import DoctorReport, DoctorResult
from webhook.doctor.doctor_finding import Status
from webhook.outcome import printable

_STYLES: Mapping[Status, str] = MappingProxyType(
    {Status.OK: "green", Status.WARNING: "yellow", Status.PROBLEM: "bold red", Status.SKIPPED: "dim"}
)


def render(report: DoctorReport, console: Console) -> None:
    """Print every result, then the total."""
    for result in report.results:
        _result(result, console)
    total = ", ".join(f"{report.count(status)} {status}" for status in Status)
    console.print(Text(total, style="bold"), soft_wrap=True)


def _result(result: DoctorResult, console: Console) -> None:
    finding = result.finding
    line = Text(f"{finding.status:<9}", style=_STYLES[finding.status])
    line.append(f"{result.check.key:<19}", style="bold")
    line.append(printable(finding.found))
    console.print(line, soft_wrap=True)
    for word, text in (("expected", finding.expected), ("remedy", finding.remedy)):
        if text:
            console.print(Text(f"{'':9}{word}: {printable(text)}", style="dim"), soft_wrap=True)
