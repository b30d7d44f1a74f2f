"""The report as JUnit XML: a suite for each namespace, and in it a case for each object and rule.

A case fails if pods would be refused. If they only cause warnings, or an exception admits them, it is skipped, with the
message: GitLab shows no text of a passed case, and a failure would exaggerate. Any other case passes. All findings of
one case are one failure, because GitLab shows only one.

`junit_xml` writes any suites, in the common subset of what Jenkins, GitLab and Ant's schema accept, with every count.
Some readers show the attribute `message` and others the text of an element, so both are written. Times are always 0,
because Ant's schema demands a time. Timestamps are in UTC without a time zone, as that schema demands.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from webhook.audit.report import AuditFinding, AuditReport, Level, SourceLine
from webhook.audit.reports import report_wording
from webhook.outcome import printable

_FORBIDDEN = re.compile("[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What is no character of XML (production 2 of the specification)."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A failure, or an error: a short `type`, a `message` of one line, and the whole `text`."""

    type: str
    message: str
    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class JUnitCase:
    """One test, which passes if it has no problems.

    `skipped` is a remark that every reader shows and that fails nothing; `output` is other text about the case. `file`
    is a path from the working directory, or empty; `line` counts from 1, or is 0. GitLab shows only the first of two
    cases with the same `classname` and `name`.
    """

    classname: str
    name: str
    file: str = ""
    line: int = 0
    problems: tuple[Problem, ...] = ()
    skipped: str = ""
    output: str = ""

    @property
    def result(self) -> str:
        if self.problems:
            return "errors" if any(problem.is_error for problem in self.problems) else "failures"
        return "skipped" if self.skipped else "passed"


@dataclass(frozen=True, slots=True)
class JUnitSuite:
    """Cases that belong together. `timestamp` is when they ran, with its time zone."""

    name: str
    cases: tuple[JUnitCase, ...]
    timestamp: datetime | None = None


def junit_xml(name: str, suites: Iterable[JUnitSuite]) -> str:
    """The whole document in plain ASCII, with a newline at its end. Text that XML cannot carry is replaced."""
    suites = tuple(suites)
    root = Element("testsuites", _attributes(name, [case for suite in suites for case in suite.cases]))
    for suite in suites:
        element = SubElement(root, "testsuite", _attributes(suite.name, suite.cases))
        if suite.timestamp is not None:
            utc = suite.timestamp.astimezone(UTC).replace(tzinfo=None)
            element.set("timestamp", utc.isoformat(timespec="seconds"))
        for case in suite.cases:
            _case(element, case)
    indent(root)
    declaration = '<?xml version="1.0" encoding="UTF-8"?>\n'
    content: bytes = tostring(root, encoding="us-ascii", xml_declaration=False)
    return declaration + content.decode("ascii") + "\n"


def _attributes(name: str, cases: Sequence[JUnitCase]) -> dict[str, str]:
    results = Counter(case.result for case in cases)
    counts = {result: str(results[result]) for result in ("failures", "errors", "skipped")}
    return {"name": _carried(name), "tests": str(len(cases)), **counts, "time": "0"}


def _case(suite: Element, case: JUnitCase) -> None:
    attributes = {"classname": _carried(case.classname), "name": _carried(case.name), "time": "0"}
    element = SubElement(suite, "testcase", attributes)
    if case.file:
        element.set("file", _carried(case.file))
    if case.line > 0:
        element.set("line", str(case.line))
    if case.result == "skipped":
        SubElement(element, "skipped", {"message": _one_line(case.skipped)}).text = _carried(case.skipped)
    for problem in sorted(case.problems, key=lambda problem: not problem.is_error):
        head = {"type": _carried(problem.type), "message": _one_line(problem.message)}
        SubElement(element, "error" if problem.is_error else "failure", head).text = _carried(problem.text)
    if case.output:
        SubElement(element, "system-out").text = _carried(case.output)


def _one_line(text: str) -> str:
    return " ".join(_carried(text).splitlines())


def _carried(text: str) -> str:
    """`text` without characters that XML 1.0 forbids even when escaped, and with the line ends of XML parsers."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n").replace("\r", "\n"))


_SHOWN = (Level.REFUSE, Level.WARN, Level.SKIP)
"""Levels with an XML element of their own; findings of other levels are output."""


def render(report: AuditReport) -> str:
    """One suite for the input, so that every report has a case; then one for each namespace with findings."""
    suites = [JUnitSuite("input", tuple(_input(report)), report.created)]
    by_namespace: dict[str, list[AuditFinding]] = {}
    for finding in report.findings:
        by_namespace.setdefault(report_wording.namespace_of(finding.owner), []).append(finding)
    for namespace, findings in by_namespace.items():
        suites.append(JUnitSuite(namespace, tuple(_cases(findings)), report.created))
    return junit_xml("gpu-policy audit", suites)


def _input(report: AuditReport) -> Iterator[JUnitCase]:
    if not report.errors:
        yield JUnitCase("input", "everything could be read", output=f"{report_wording.looked_at(report.counts)}.")
    seen: Counter[tuple[str, str]] = Counter()
    for error in report.errors:
        source = report_wording.place(SourceLine(error.source)) or "cluster"
        name = f"document {error.number}: {error.message}" if error.number else error.message
        seen[source, name] += 1
        if seen[source, name] > 1:
            name += f" ({seen[source, name]})"
        problem = Problem("unreadable", error.message, str(error), is_error=True)
        file = "" if report.is_of_cluster or error.source == report_wording.STDIN else error.source
        yield JUnitCase(source, printable(name), file, error.line or 0, (problem,))


def _cases(findings: Iterable[AuditFinding]) -> Iterator[JUnitCase]:
    grouped: dict[tuple[str, ...], list[AuditFinding]] = {}
    for finding in findings:
        grouped.setdefault((finding.rule, finding.source.file, *finding.owner.identity), []).append(finding)
    for (rule, source, *_), group in grouped.items():
        owner, file = group[0].owner, "" if source == report_wording.STDIN else source
        api_group = owner.identity[0]  # several groups have a Job
        gravest = min((finding.level for finding in group), key=lambda level: level.rank)
        shown = [finding for finding in group if finding.level is gravest]
        more = f" (and {len(shown) - 1:,} more)" if len(shown) > 1 else ""
        problem = Problem(rule, f"{report_wording.found(shown[0])}{more}", _text(shown))
        yield JUnitCase(
            f"{owner.title} ({api_group})" if api_group else owner.title,
            rule + (f" in {file}" if file else ""),
            file,
            group[0].source.line or 0 if file else 0,
            problems=(problem,) if gravest is Level.REFUSE else (),
            skipped=_text(shown) if gravest in (Level.WARN, Level.SKIP) else "",
            output=_text(finding for finding in group if finding.level is not gravest or gravest not in _SHOWN),
        )


def _text(findings: Iterable[AuditFinding]) -> str:
    return "\n\n".join("\n".join(_lines(finding)) for finding in findings)


def _lines(finding: AuditFinding) -> Iterator[str]:
    yield f"{finding.level}: {report_wording.found(finding)}"
    if finding.remedy:
        yield report_wording.remedy_text(finding)
    yield f"policy {finding.policy}: {report_wording.policy_place(finding)}"
    if finding.running is not None:
        yield report_wording.pods(finding.running)
