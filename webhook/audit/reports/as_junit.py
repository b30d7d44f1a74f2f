"""The report for what reads JUnit XML: a suite for each namespace, in it a case for each object and rule.

What would be refused fails. What would be warned about is a skipped case with its message: GitLab shows no text of a
case that passed, and a failure would be more than a warning is. Everything else passed. Several findings of one case
are one failure with all of them in its text, since GitLab shows one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from webhook.audit.junit_xml import JUnitCase, JUnitSuite, Problem
from webhook.audit.junit_xml import render as xml
from webhook.audit.report import AuditFinding, AuditReport, Level, ObjectReference, SourceLine
from webhook.audit.reports import report_wording
from webhook.outcome import printable

_NAME = "gpu-policy audit"
_SHOWN = (Level.REFUSE, Level.WARN)
"""What stands in an element of its own; the rest is output."""


def render(report: AuditReport) -> str:
    """A suite for each namespace with findings after one for the input, so that no report is without a case."""
    suites = [JUnitSuite("input", tuple(_input(report)), report.created)]
    for namespace, findings in report_wording.by_namespace(report.findings).items():
        suites.append(JUnitSuite(namespace, tuple(_cases(findings)), report.created))
    return xml(_NAME, suites)


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
        problem = Problem("unreadable", error.message, str(error))
        yield JUnitCase(source, printable(name), _file(report, error.source), error.line or 0, errors=(problem,))


def _file(report: AuditReport, source: str) -> str:
    return "" if report.is_of_cluster or source == report_wording.STDIN else source


def _cases(findings: Iterable[AuditFinding]) -> Iterator[JUnitCase]:
    grouped: dict[tuple[str, ...], list[AuditFinding]] = {}
    for finding in findings:
        grouped.setdefault((finding.rule, *finding.source.identity, *finding.owner.identity), []).append(finding)
    for (rule, source, nth, *_), group in grouped.items():
        file = "" if source == report_wording.STDIN else source
        gravest = min((finding.level for finding in group), key=lambda level: level.rank)
        said = [finding for finding in group if finding.level is gravest]
        yield JUnitCase(
            _class_of(group[0].owner),
            rule + (f" in {file}" if file else "") + (f" ({nth})" if nth != "1" else ""),
            file,
            group[0].source.line or 0 if file else 0,
            failures=(_failure(rule, said),) if gravest is Level.REFUSE else (),
            skipped=_text(said) if gravest is Level.WARN else "",
            output=_text(finding for finding in group if finding.level is not gravest or gravest not in _SHOWN),
        )


def _class_of(owner: ObjectReference) -> str:
    """The object, with its API group: several groups have a Job."""
    group = owner.api_version.rpartition("/")[0]
    return f"{owner.title} ({group})" if group else owner.title


def _failure(rule: str, findings: Sequence[AuditFinding]) -> Problem:
    more = f" (and {len(findings) - 1:,} more)" if len(findings) > 1 else ""
    return Problem(rule, f"{report_wording.found(findings[0])}{more}", _text(findings))


def _text(findings: Iterable[AuditFinding]) -> str:
    return "\n\n".join("\n".join(_lines(finding)) for finding in findings)


def _lines(finding: AuditFinding) -> Iterator[str]:
    yield f"{finding.level}: {report_wording.found(finding)}"
    if finding.remedy:
        yield report_wording.remedy(finding)
    yield f"policy {finding.policy}: {report_wording.policy_place(finding)}"
    if finding.running is not None:
        yield report_wording.pods(finding.running)
