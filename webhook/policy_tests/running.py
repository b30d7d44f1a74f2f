"""Runs tests of policies: every case against policies and a cluster that no other case has touched."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from webhook.audit.documents import Tell
from webhook.audit.input_claims import knowing_claims
from webhook.audit.review_objects import Item, ReviewContext, look
from webhook.engine import check_workload
from webhook.facts.inventory import Inventory
from webhook.ledger.context import LedgerContext
from webhook.ledger.ledger_store import MemoryStore
from webhook.ledger.ledgers import Ledgers
from webhook.model.shape import ShapeError
from webhook.policy.policy_set import PolicySet
from webhook.policy_tests.differences import Difference, differences, group_of, names_of, subject_of, without_groups
from webhook.policy_tests.files import find, read_suite
from webhook.policy_tests.fixtures import PolicyTestInputs
from webhook.policy_tests.format import Case, Expectation, ResourceExpectation, Suite
from webhook.policy_tests.results import CaseResult, FileResult, Results
from webhook.yaml_files.file_errors import FileError, FileErrors, KeyPath


def run(path: Path, sources: PolicyTestInputs, is_wanted: Callable[[str], bool], tell: Tell | None = None) -> Results:
    """Run the tests below a directory, or in one file: the cases whose name is wanted.

    `tell` hears of keys that stand twice in one map of a resource; without it they are errors. Raises PolicyErrors
    where there is nothing to run.
    """
    results = (_run_file(file, sources, is_wanted, tell) for file in find(path))
    files = [result for result in results if result is not None]
    if not files:
        message = "no GPUPolicyTest in it; write one, or name another directory"
        raise FileErrors([FileError(str(path), 0, "", message)])
    return Results(tuple(file for file in files if file.cases or file.errors))


def _run_file(
    file: Path, sources: PolicyTestInputs, is_wanted: Callable[[str], bool], tell: Tell | None
) -> FileResult | None:
    try:
        suite = read_suite(file, tell)
    except FileErrors as errors:
        return FileResult(str(file), "", errors=errors.errors)
    if suite is None:
        return None
    wanted = [case for case in suite.cases if is_wanted(case.name)]
    if not wanted:
        return FileResult(str(file), suite.name)
    try:
        policies, inventory = _surroundings(suite, sources)
    except FileErrors as errors:
        return FileResult(str(file), suite.name, errors=errors.errors)
    return FileResult(str(file), suite.name, tuple(_run_case(case, policies, inventory) for case in wanted))


def _surroundings(suite: Suite, sources: PolicyTestInputs) -> tuple[PolicySet, Inventory]:
    """What a test is run against. Raises PolicyErrors with what is wrong in both."""
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
    ledgers = Ledgers(LedgerContext(MemoryStore(), inventory.pods))
    facts = knowing_claims(inventory.facts, case.documents, case.namespace)
    surroundings = ReviewContext(policies, facts, ledgers)
    items: list[Item] = []
    errors: list[FileError] = []
    for document in case.documents:
        try:
            items.append(look(document, case.namespace, surroundings))
        except ShapeError as error:
            errors.append(FileError(document.source, document.line, "", str(error)))
    if errors:
        return CaseResult(case, errors=tuple(errors))
    found = list(_compare(case, items, surroundings))
    return CaseResult(
        case,
        tuple(items),
        tuple(one for one in found if isinstance(one, Difference)),
        tuple(one for one in found if isinstance(one, FileError)),
    )


def _compare(case: Case, every: Sequence[Item], surroundings: ReviewContext) -> Iterator[Difference | FileError]:
    """What is not as expected, and what is expected of things that are not there."""
    items = [item for item in every if item.policy is not None]
    if not items:
        yield case.error(
            ("resources",), "none of them makes pods, so nothing can be expected; write a pod or a workload"
        )
        return
    named = case.expect.resources or {}
    for name, expected in named.items():
        path: KeyPath = ("expect", "resources", name)
        meant = [item for item in items if name in names_of(item)]
        if not meant:
            known = ", ".join(dict.fromkeys(names_of(item)[0] for item in items))
            yield case.error(path, f"no such resource in this case; there are {known}")
        for item in meant:
            yield from _compare_one(_Expected(case, path, expected), item, surroundings)
    others = [item for item in items if not set(names_of(item)) & set(named)]
    if not others and case.expect.says_something:
        yield case.error(("expect",), "applies to no resource, because each is named in resources; leave it out")
    for item in others:
        yield from _compare_one(_Expected(case, ("expect",), case.expect), item, surroundings)


_ALLOWED = Expectation(allowed=True)


@dataclass(frozen=True, slots=True)
class _Expected:
    """What a case expects of a resource, and where in the case it says so."""

    case: Case
    path: KeyPath
    what: ResourceExpectation


def _compare_one(expected: _Expected, item: Item, surroundings: ReviewContext) -> Iterator[Difference | FileError]:
    subject = subject_of(item)
    if expected.what.says_nothing_of_pods:
        yield from differences(_ALLOWED, without_groups(item, expected.what.groups or ()))
    else:
        yield from differences(expected.what, subject)
    if expected.what.applied is not None:
        applied, told = _applied(item, surroundings)
        if applied != expected.what.applied:
            yield Difference(subject.title, "applied", expected.what.applied, "; ".join((applied, *told)))
    for name, of_group in (expected.what.groups or {}).items():
        group = group_of(item, name)
        if group is None:
            yield expected.case.error((*expected.path, "groups", name), f"{item.title} {_groups(item)}")
        else:
            yield from differences(of_group, group)


def _applied(item: Item, surroundings: ReviewContext) -> tuple[str, Sequence[str]]:
    """What becomes of the object itself, and what is said of it."""
    found = item.findings
    if item.outcome is None and item.policy is not None:
        quotas = surroundings.policies.quotas_for(item.namespace)
        found = check_workload(item.document.object, item.namespace, item.policy, surroundings.facts, quotas).findings
    refusals = [finding for finding in found if finding.refuses]
    told = refusals or [finding for finding in found if finding.warns]
    return ("refused" if refusals else "warned" if told else "accepted"), tuple(map(str, told))


def _groups(item: Item) -> str:
    groups = dict.fromkeys(one.template.group for one in item.pods if one.template.group)
    return f"has no such group; there are {', '.join(groups)}" if groups else "makes pods of one sort; leave out groups"
