"""The report as JUnit XML, as CI systems see it."""

import re
from dataclasses import replace

from hypothesis import given
from junitparser import Failure, JUnitXml, Skipped, TestCase

from tests.audit.reports.any_report import REPORTS, SOME
from tests.audit.sample_report import FROM_A_FILE, empty, sample, sample_of_files
from tests.golden import each
from webhook.audit.documents import DocumentError
from webhook.audit.report import AuditFinding, AuditReport, Level
from webhook.audit.reports import as_junit


def read(report: AuditReport) -> JUnitXml:
    return JUnitXml.fromstring(as_junit.render(report).encode())


def place_of(case: TestCase) -> tuple[str | None, str | None]:
    """The file and line that CI systems open; the reader of JUnit knows no attributes of that name."""
    found = dict(re.findall(r'(\w+)="([^"]*)"', case.tostring().decode().partition(">")[0]))
    return found.get("file"), found.get("line")


def cases(report: AuditReport) -> list[TestCase]:
    return [case for suite in read(report) for case in suite]


def case_of(*findings: AuditFinding) -> TestCase:
    (case,) = [case for suite in read(replace(empty(), findings=findings)) if suite.name != "input" for case in suite]
    return case


REFUSED = next(finding for finding in sample().findings if finding.owner == FROM_A_FILE)


@each(
    "level, results",
    {
        "refused pods fail": (Level.REFUSE, [Failure]),
        "a warning is seen and fails nothing": (Level.WARN, [Skipped]),
        "what is only recorded passes": (Level.AUDIT, []),
        "what is completed passes": (Level.COMPLETE, []),
    },
)
def test_what_a_level_is_for_a_consumer(level: Level, results: list[type]) -> None:
    case = case_of(replace(REFUSED, level=level))
    assert [type(result) for result in case.result] == results
    told = case.result[0].text if results else case.system_out
    assert "Move the 4 to resources.limits." in told


def test_a_case_names_object_rule_and_place() -> None:
    case = case_of(REFUSED)
    assert (case.classname, case.name) == ("CronJob default/nightly (batch)", "gpuLimits in manifests/nightly.yaml")
    assert place_of(case) == ("manifests/nightly.yaml", "14")


def test_several_findings_of_a_rule_are_one_failure_with_all_of_them() -> None:
    others = (replace(REFUSED, message="asks for 9"), replace(REFUSED, level=Level.WARN, message="has no limit"))
    case = case_of(REFUSED, *others)
    (failure,) = case.result
    assert failure.message.endswith("GPUs are allocated from limits. (and 1 more)")
    assert "asks for 9." in failure.text
    assert "has no limit." not in failure.text
    assert "has no limit." in case.system_out


def test_each_namespace_is_a_suite_after_the_input() -> None:
    names = [suite.name for suite in read(sample())]
    assert names == ["input", "team-nlp", "default", "team-<b>", "(no namespace)", "team-vision"]


def test_jobs_of_two_groups_are_two_classes() -> None:
    volcano = replace(FROM_A_FILE, api_version="batch.volcano.sh/v1alpha1")
    assert case_of(REFUSED).classname != case_of(replace(REFUSED, owner=volcano)).classname


def test_two_versions_of_a_group_are_one_class_and_one_case() -> None:
    older = replace(FROM_A_FILE, api_version="batch/v1beta1")
    assert len(case_of(REFUSED, replace(REFUSED, owner=older, message="asks for 9")).result) == 1


def test_input_that_cannot_be_read_is_an_error() -> None:
    broken = next(case for case in cases(sample_of_files()) if case.classname == "manifests/broken.yaml")
    (error,) = broken.result
    assert (broken.is_error, error.message) == (True, "a git conflict marker; resolve the conflict")
    assert place_of(broken) == ("manifests/broken.yaml", "17")


def test_what_a_cluster_did_not_tell_is_no_file() -> None:
    refused = DocumentError("apis/kubeflow.org/v1/pytorchjobs", 0, None, "forbidden")
    (case,) = cases(replace(empty(), is_of_cluster=True, errors=(refused,)))
    assert (case.is_error, place_of(case)) == (True, (None, None))


def test_every_entry_that_could_not_be_read_is_a_case_of_its_own() -> None:
    pods = [DocumentError("", 0, None, f"Pod team/{name}: spec.containers: found a map") for name in "ab"]
    items = [DocumentError("list.yaml", 1, 3, "kind: found 'pod'")] * 2
    written = read(replace(empty(), errors=(*pods, *items)))
    found = [(case.classname, case.name) for suite in written for case in suite]
    assert written.errors == len(set(found)) == 4
    assert found[0] == ("cluster", "Pod team/a: spec.containers: found a map")
    assert found[3] == ("list.yaml", "document 1: kind: found 'pod' (2)")


def test_a_report_without_findings_has_a_case_since_some_take_none_for_a_fault() -> None:
    (case,) = cases(empty())
    assert (case.is_passed, case.name) == (True, "everything could be read")


@SOME
@given(REPORTS)
def test_any_report_is_read_with_its_counts(report: AuditReport) -> None:
    written = read(report)
    found = [case for suite in written for case in suite]
    assert written.tests == len(found)
    assert written.errors == len(report.errors) == sum(case.is_error for case in found)
    refused = {(f.owner.identity, f.rule, f.source.file) for f in report.at(Level.REFUSE)}
    assert written.failures == len(refused)
