"""Runs tests of policies. No case changes the policies or the cluster of another case.

The results are values, text for people, and JUnit XML for CI systems.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.text import Text

from webhook import engine
from webhook.audit.documents import Warn
from webhook.audit.reports.as_junit import JUnitCase, JUnitSuite, Problem, junit_xml
from webhook.audit.review_objects import ReviewContext, ReviewedObject, review_object, with_input_claims
from webhook.ledger.context import LedgerContext
from webhook.ledger.inventory import Inventory
from webhook.ledger.ledger_store import MemoryStore
from webhook.ledger.ledgers import Ledgers
from webhook.model.shape import ShapeError
from webhook.model.wording import counted
from webhook.outcome import printable
from webhook.policy.policy_set import PolicySet
from webhook.policy_tests.differences import Difference, differences, group_of, names_of, subject_of
from webhook.policy_tests.files import PolicyTestInputs, find, read_suite
from webhook.policy_tests.format import Case, Expectation, ResourceExpectation, Suite
from webhook.yaml_files.file_errors import FileError, FileErrors, KeyPath


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
    counts, files = results.counts, results.unusable_files
    total = f"{counted(len(results.cases), 'case')}: {counts['passed']} passed, {counts['failed']} failed"
    total += f", {counts['unusable']} unusable" if counts["unusable"] else ""
    total += f"; {counted(files, 'unusable file')}" if files else ""
    console.print(Text(total, style="bold"), soft_wrap=True)


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
    rules = dict.fromkeys(rule for pod in subject.completions for rule in pod.rules)
    became = "refused" if subject.refusals else f"completed by {', '.join(rules)}" if rules else "allowed as it is"
    _print(console, f"    {subject.title}: {became}", "dim")
    for finding in item.findings:
        word = "refused" if finding.refuses else "warning" if finding.warns else "recorded"
        _print(console, f"      {word}: {finding}", "dim")


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


def run(path: Path, sources: PolicyTestInputs, is_wanted: Callable[[str], bool], warn: Warn | None = None) -> Results:
    """Run the tests below a directory or in one file, but only the cases for whose name `is_wanted` is true.

    `warn` is called with a message about each key that stands twice in one map of a resource; without `warn` such a key
    is an error. Raises FileErrors if there is nothing to run.
    """
    files: list[FileResult] = []
    for file in find(path):
        try:
            suite = read_suite(file, warn)
        except FileErrors as errors:
            files.append(FileResult(str(file), "", errors=errors.errors))
            continue
        if suite is None:
            continue
        wanted = [case for case in suite.cases if is_wanted(case.settings.name)]
        try:
            policies, inventory = _inputs_of(suite, sources) if wanted else (None, None)
        except FileErrors as errors:
            files.append(FileResult(str(file), suite.name, errors=errors.errors))
        else:
            results = (_run_case(case, policies, inventory) for case in wanted if policies and inventory)
            files.append(FileResult(str(file), suite.name, tuple(results)))
    if not files:
        raise FileErrors.of(str(path), "no GPUPolicyTest in it; write one, or name another directory")
    return Results(tuple(file for file in files if file.cases or file.errors))


def _inputs_of(suite: Suite, sources: PolicyTestInputs) -> tuple[PolicySet, Inventory]:
    try:
        policies = sources.policies_of(suite)
    except FileErrors as errors:
        try:
            sources.inventory_of(suite)
        except FileErrors as others:
            raise FileErrors([*errors.errors, *others.errors]) from None
        raise
    return policies, sources.inventory_of(suite, policies.accelerators)


def _run_case(case: Case, policies: PolicySet, inventory: Inventory) -> CaseResult:
    if case.errors:
        return CaseResult(case, errors=case.errors)
    namespace = case.settings.namespace
    ledgers = Ledgers(LedgerContext(MemoryStore(), inventory.pods))
    facts = with_input_claims(inventory.facts, case.documents, namespace)
    context = ReviewContext(policies, facts, ledgers, now=time.time() if case.at is None else case.at)
    items: list[ReviewedObject] = []
    errors: list[FileError] = []
    for document in case.documents:
        try:
            items.append(review_object(document, namespace, context))
        except ShapeError as error:
            errors.append(FileError(document.source, document.line, "", str(error)))
    if errors:
        return CaseResult(case, errors=tuple(errors))
    found = list(_compare(case, [item for item in items if item.policy is not None], context))
    return CaseResult(
        case,
        tuple(items),
        tuple(one for one in found if isinstance(one, Difference)),
        tuple(one for one in found if isinstance(one, FileError)),
    )


def _compare(case: Case, items: Sequence[ReviewedObject], context: ReviewContext) -> Iterator[Difference | FileError]:
    """All differences from the expectations, and an error for each expectation about something that does not exist."""
    expect = case.settings.expect
    if not items:
        message = "none of them makes pods, so nothing can be expected; write a pod or a workload"
        yield case.error(("resources",), message)
        return
    named = expect.resources or {}
    for name, expected in named.items():
        path: KeyPath = ("expect", "resources", name)
        meant = [item for item in items if name in names_of(item)]
        if not meant:
            known = ", ".join(dict.fromkeys(names_of(item)[0] for item in items))
            yield case.error(path, f"no such resource in this case; there are {known}")
        for item in meant:
            yield from _compare_one(case, path, expected, item, context)
    others = [item for item in items if not set(names_of(item)) & set(named)]
    if not others and expect.says_something:
        yield case.error(("expect",), "applies to no resource, because each is named in resources; leave it out")
    for item in others:
        yield from _compare_one(case, ("expect",), expect, item, context)


def _compare_one(
    case: Case, path: KeyPath, expected: ResourceExpectation, item: ReviewedObject, context: ReviewContext
) -> Iterator[Difference | FileError]:
    """The differences of one resource from the expectation that stands at `path` of the case."""
    groups = expected.groups or {}
    if expected.is_empty and expected.applied is None:  # only groups: all other pods have to be allowed
        yield from differences(Expectation(allowed=True), subject_of(item, without=groups))
    else:
        yield from differences(expected, subject_of(item))
    if expected.applied is not None:
        applied, messages = _applied(item, context)
        if applied != expected.applied:
            yield Difference(item.title, "applied", expected.applied, "; ".join((applied, *messages)))
    known = dict.fromkeys(one.template.group for one in item.pods if one.template.group)
    for name, of_group in groups.items():
        if name in known:
            yield from differences(of_group, group_of(item, name))
        else:
            there = f"has no such group; there are {', '.join(known)}"
            message = there if known else "has pods of one group only; leave out groups"
            yield case.error((*path, "groups", name), f"{item.title} {message}")


def _applied(item: ReviewedObject, context: ReviewContext) -> tuple[str, Sequence[str]]:
    found = item.findings
    if item.outcome is None and item.policy is not None:
        quotas = context.policies.quotas_for(item.namespace)
        excepting = partial(context.policies.in_force, item.namespace, now=context.now)
        found = engine.validate_workload(
            item.document.object, item.namespace, item.policy, context.facts, quotas, excepting=excepting
        ).findings
    refusals = [finding for finding in found if finding.refuses]
    messages = refusals or [finding for finding in found if finding.warns]
    return ("refused" if refusals else "warned" if messages else "accepted"), tuple(map(str, messages))
