"""The results of tests of policies: as values, as text for people, and as JUnit XML for CI systems."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from webhook.audit.reports.as_junit import JUnitCase, JUnitSuite, Problem, junit_xml
from webhook.audit.review_objects import ReviewedObject
from webhook.model.wording import counted
from webhook.outcome import printable
from webhook.policy_tests.differences import Difference, Subject, subject_of
from webhook.policy_tests.format import Case
from webhook.yaml_files.file_errors import FileError


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of a case. `items` are its resources after review; `errors` are why it could not be run to its end."""

    case: Case
    items: tuple[ReviewedObject, ...] = ()
    differences: tuple[Difference, ...] = ()
    errors: tuple[FileError, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.differences and not self.errors


@dataclass(frozen=True, slots=True)
class FileResult:
    """The result of the test in one file. `errors` are why none of its cases was run."""

    file: str
    name: str
    cases: tuple[CaseResult, ...] = ()
    errors: tuple[FileError, ...] = ()


@dataclass(frozen=True, slots=True)
class Results:
    """All results, in the order of the files."""

    files: tuple[FileResult, ...]

    @property
    def cases(self) -> tuple[CaseResult, ...]:
        return tuple(case for file in self.files for case in file.cases)

    @property
    def counts(self) -> Mapping[str, int]:
        return Counter("unusable" if case.errors else "passed" if case.passed else "failed" for case in self.cases)

    @property
    def unusable_files(self) -> int:
        return sum(bool(file.errors) for file in self.files)

    @property
    def exit_status(self) -> int:
        """0 all passed, 1 a case failed, 2 unusable input, which beats 1."""
        return 2 if self.counts["unusable"] or self.unusable_files else int(self.counts["failed"] > 0)


def render_text(results: Results, console: Console, verbosity: int = 0) -> None:
    """Print one line for each case, for a failed case what was expected and found, and the totals last.

    `verbosity` is -1 for failed cases only, 0 for every case, and 1 also for what happened to the resources.
    """
    printed: set[str] = set()
    for file in results.files:
        _file(file, console, verbosity, printed)
    console.print(Text(_total(results), style="bold"), soft_wrap=True)


def _total(results: Results) -> str:
    counts, files = results.counts, results.unusable_files
    text = f"{counted(len(results.cases), 'case')}: {counts['passed']} passed, {counts['failed']} failed"
    if counts["unusable"]:
        text += f", {counts['unusable']} unusable"
    return f"{text}; {counted(files, 'unusable file')}" if files else text


def _file(file: FileResult, console: Console, verbosity: int, printed: set[str]) -> None:
    """Print one file. An error that several files share, such as a mistake in a policy, is printed in full once."""
    if verbosity < 0 and not file.errors and all(case.passed for case in file.cases):
        return
    head = Text(printable(file.file), style="bold")
    head.append(f"  {printable(file.name)}" if file.name else "", style="dim")
    console.print(head, soft_wrap=True)
    for error in map(str, file.errors):
        _line(console, "unusable", "bold red", error if error not in printed else f"{error} (as above)")
        printed.add(error)
    for case in file.cases:
        if not case.passed or verbosity >= 0:
            _case(case, console, verbosity)


def _case(result: CaseResult, console: Console, verbosity: int) -> None:
    case = result.case
    if result.passed:
        _line(console, "passed", "green", case.settings.name)
    else:
        word = "unusable" if result.errors else "failed"
        _line(console, word, "bold red", case.settings.name, f"  {case.node.file}:{case.node.line}")
    if (description := case.settings.description) and verbosity > 0:
        _print(console, f"    {' '.join(description.split())}", "dim")
    for error in result.errors:
        _print(console, f"    {error}", "red")
    about = ""
    for difference in result.differences:
        if difference.about != about:
            about = difference.about
            _print(console, f"    {about}", "bold")
        _print(console, f"      {difference.place}", "")
        _print(console, f"        - expected  {difference.expected}", "red")
        _print(console, f"        + found     {difference.found}", "green")
    if verbosity > 0:
        for item in result.items:
            _item(item, console)


def _item(item: ReviewedObject, console: Console) -> None:
    if item.policy is None:
        return
    subject = subject_of(item)
    _print(console, f"    {subject.title}: {_became(subject)}", "dim")
    for finding in item.findings:
        word = "refused" if finding.refuses else "warning" if finding.warns else "recorded"
        _print(console, f"      {word}: {finding}", "dim")


def _became(subject: Subject) -> str:
    if subject.refusals:
        return "refused"
    rules = dict.fromkeys(rule for pod in subject.completions for rule in pod.rules)
    return f"completed by {', '.join(rules)}" if rules else "allowed as it is"


def _line(console: Console, word: str, style: str, text: str, place: str = "") -> None:
    line = Text(f"  {word:<9} ", style=style)
    line.append(printable(text), style="bold" if place else "default")
    line.append(printable(place), style="dim")
    console.print(line, soft_wrap=True)


def _print(console: Console, text: str, style: str) -> None:
    console.print(Text(printable(text), style=style), soft_wrap=True)


def render_junit(results: Results) -> str:
    """JUnit XML for CI systems: a suite for each file, a test case for each case. Equal results give equal text."""
    return junit_xml("gpu-policy test", [JUnitSuite(file.file, tuple(_junit_cases(file))) for file in results.files])


def _junit_cases(file: FileResult) -> Iterator[JUnitCase]:
    if file.errors:
        line = next((error.line for error in file.errors if error.path == file.file), 0)
        yield JUnitCase(file.file, "the test can be run", file.file, line, tuple(map(_unusable, file.errors)))
    for result in file.cases:
        problems = (*map(_junit_failure, result.differences), *map(_unusable, result.errors))
        yield JUnitCase(file.file, result.case.settings.name, file.file, result.case.node.line, problems)


def _junit_failure(difference: Difference) -> Problem:
    sides = f"  - expected  {difference.expected}\n  + found     {difference.found}\n"
    text = f"{difference.about}\n{difference.place}\n{sides}"
    return Problem(difference.place.partition(" ")[0], str(difference), text)


def _unusable(error: FileError) -> Problem:
    return Problem("unusable", str(error), str(error), is_error=True)
