"""Runs tests of policies. No case changes the policies or the cluster of another case."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from webhook import engine
from webhook.audit.documents import Warn
from webhook.audit.review_objects import ReviewContext, ReviewedObject, review_object, with_input_claims
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


def run(path: Path, sources: PolicyTestInputs, is_wanted: Callable[[str], bool], warn: Warn | None = None) -> Results:
    """Run the tests below a directory or in one file, but only the cases for whose name `is_wanted` is true.

    `warn` is called with a message about each key that stands twice in one map of a resource; without `warn` such a key
    is an error. Raises FileErrors if there is nothing to run.
    """
    results = (_run_file(file, sources, is_wanted, warn) for file in find(path))
    files = [result for result in results if result is not None]
    if not files:
        message = "no GPUPolicyTest in it; write one, or name another directory"
        raise FileErrors([FileError(str(path), 0, "", message)])
    return Results(tuple(file for file in files if file.cases or file.errors))


def _run_file(
    file: Path, sources: PolicyTestInputs, is_wanted: Callable[[str], bool], warn: Warn | None
) -> FileResult | None:
    try:
        suite = read_suite(file, warn)
    except FileErrors as errors:
        return FileResult(str(file), "", errors=errors.errors)
    if suite is None:
        return None
    wanted = [case for case in suite.cases if is_wanted(case.name)]
    if not wanted:
        return FileResult(str(file), suite.name)
    try:
        policies, inventory = _inputs_of(suite, sources)
    except FileErrors as errors:
        return FileResult(str(file), suite.name, errors=errors.errors)
    return FileResult(str(file), suite.name, tuple(_run_case(case, policies, inventory) for case in wanted))


def _inputs_of(suite: Suite, sources: PolicyTestInputs) -> tuple[PolicySet, Inventory]:
    """The policies and the cluster of a test. Raises FileErrors with the mistakes of both."""
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
    facts = with_input_claims(inventory.facts, case.documents, case.namespace)
    context = ReviewContext(policies, facts, ledgers, now=time.time() if case.at is None else case.at)
    items: list[ReviewedObject] = []
    errors: list[FileError] = []
    for document in case.documents:
        try:
            items.append(review_object(document, case.namespace, context))
        except ShapeError as error:
            errors.append(FileError(document.source, document.line, "", str(error)))
    if errors:
        return CaseResult(case, errors=tuple(errors))
    found = list(_compare(case, items, context))
    return CaseResult(
        case,
        tuple(items),
        tuple(one for one in found if isinstance(one, Difference)),
        tuple(one for one in found if isinstance(one, FileError)),
    )


def _compare(case: Case, every: Sequence[ReviewedObject], context: ReviewContext) -> Iterator[Difference | FileError]:
    """All differences from the expectations, and an error for each expectation about something that does not exist."""
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
            yield from _compare_one(_Expected(case, path, expected), item, context)
    others = [item for item in items if not set(names_of(item)) & set(named)]
    if not others and case.expect.says_something:
        yield case.error(("expect",), "applies to no resource, because each is named in resources; leave it out")
    for item in others:
        yield from _compare_one(_Expected(case, ("expect",), case.expect), item, context)


_ALLOWED = Expectation(allowed=True)


@dataclass(frozen=True, slots=True)
class _Expected:
    """What a case expects of a resource, and the place of this expectation in the case."""

    case: Case
    path: KeyPath
    what: ResourceExpectation


def _compare_one(expected: _Expected, item: ReviewedObject, context: ReviewContext) -> Iterator[Difference | FileError]:
    subject = subject_of(item)
    if expected.what.says_nothing_of_pods:
        yield from differences(_ALLOWED, without_groups(item, expected.what.groups or ()))
    else:
        yield from differences(expected.what, subject)
    if expected.what.applied is not None:
        applied, messages = _applied(item, context)
        if applied != expected.what.applied:
            yield Difference(subject.title, "applied", expected.what.applied, "; ".join((applied, *messages)))
    for name, of_group in (expected.what.groups or {}).items():
        group = group_of(item, name)
        if group is None:
            yield expected.case.error((*expected.path, "groups", name), f"{item.title} {_groups(item)}")
        else:
            yield from differences(of_group, group)


def _applied(item: ReviewedObject, context: ReviewContext) -> tuple[str, Sequence[str]]:
    """The answer when the object itself is applied, and the messages of that answer."""
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


def _groups(item: ReviewedObject) -> str:
    groups = dict.fromkeys(one.template.group for one in item.pods if one.template.group)
    if not groups:
        return "has pods of one group only; leave out groups"
    return f"has no such group; there are {', '.join(groups)}"
