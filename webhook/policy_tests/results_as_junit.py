"""Results for CI systems, as JUnit XML: a suite for each file, a test case for each case."""

from collections.abc import Iterator, Sequence

from webhook.audit.reports.as_junit import JUnitCase, JUnitSuite, Problem, junit_xml
from webhook.policy_tests.differences import Difference
from webhook.policy_tests.results import CaseResult, FileResult, Results
from webhook.yaml_files.file_errors import FileError


def render(results: Results) -> str:
    """The results; the same ones always give the same text."""
    return junit_xml("gpu-policy test", [JUnitSuite(file.file, tuple(_cases(file))) for file in results.files])


def _cases(file: FileResult) -> Iterator[JUnitCase]:
    if file.errors:
        name = "the test can be run"
        yield JUnitCase(file.file, name, file.file, _first_line(file.file, file.errors), errors=_errors(file.errors))
    for case in file.cases:
        yield _case(file, case)


def _case(file: FileResult, result: CaseResult) -> JUnitCase:
    case = result.case
    failures = tuple(map(_failure, result.differences))
    return JUnitCase(file.file, case.name, file.file, case.line, failures, _errors(result.errors))


def _failure(difference: Difference) -> Problem:
    sides = f"  - expected  {difference.expected}\n  + found     {difference.found}\n"
    text = f"{difference.about}\n{difference.place}\n{sides}"
    return Problem(difference.place.partition(" ")[0], str(difference), text)


def _errors(errors: Sequence[FileError]) -> tuple[Problem, ...]:
    return tuple(Problem("unusable", str(error), str(error)) for error in errors)


def _first_line(file: str, errors: Sequence[FileError]) -> int:
    return next((error.line for error in errors if error.path == file), 0)
