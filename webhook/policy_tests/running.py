"""Runs tests of policies. No case changes the policies or the cluster of another case."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from webhook import engine
from webhook.audit.documents import Warn
from webhook.audit.review_objects import ReviewContext, ReviewedObject, review_object, with_input_claims
from webhook.ledger.context import LedgerContext
from webhook.ledger.inventory import Inventory
from webhook.ledger.ledger_store import MemoryStore
from webhook.ledger.ledgers import Ledgers
from webhook.model.shape import ShapeError
from webhook.policy.policy_set import PolicySet
from webhook.policy_tests.differences import Difference, differences, group_of, names_of, subject_of
from webhook.policy_tests.files import PolicyTestInputs, find, read_suite
from webhook.policy_tests.format import Case, Expectation, ResourceExpectation, Suite
from webhook.policy_tests.results import CaseResult, FileResult, Results
from webhook.yaml_files.file_errors import FileError, FileErrors, KeyPath


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
