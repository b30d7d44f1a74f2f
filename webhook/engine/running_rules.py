"""Asking one rule, and what its answers are called: the one place where modes are applied.

The stamp is an annotation that says which version of which policy completed a pod.

Policies reach replicas at different moments: `judge` learns from it that the pod was completed by one that it does not
have yet. Whatever else stands in the annotation when the pod is completed is replaced.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby, islice

from webhook.facts.facts import ClusterFacts
from webhook.model import bounds
from webhook.model.draft import Draft
from webhook.model.edits import AddGpuLimit, Edit
from webhook.model.pod import Pod
from webhook.model.shape import CountError
from webhook.model.wording import PLATFORM_TEAM
from webhook.outcome import Finding, FindingKind, Injection
from webhook.policy.policy_set import BoundRule, Policy
from webhook.rules.rule import Advice, Facts, Violation
from webhook.rules.rule_settings import Mode

MOST_OF_A_RULE = 1_000
"""Findings of one rule about one pod that are kept; a refusal shows the first hundred."""
_MOST_LISTED = 20
"""Edits that a message spells out."""
_MOST_EDITS = bounds.MOST_OPERATIONS + 1
_FEW_OPERATIONS = 200
"""Of a patch, that nobody need measure."""


def facts_under(policy: Policy, facts: ClusterFacts) -> ClusterFacts:
    """The facts with the node pools that the policy declares."""
    return facts.with_pools(policy.node_pools, policy.accelerators) if policy.node_pools else facts


def ask_mutators(
    stage: Iterable[BoundRule], pod: Pod, facts: Facts, draft: Draft, findings: list[Finding]
) -> list[Injection]:
    """Write what the enforced rules of a stage inject to `draft`, and return it; the rest goes to `findings`.

    Raises CountError for a pod whose patch would be longer than what the API server takes.
    """
    injections: list[Injection] = []
    for bound in stage:
        values = _answers(bound, pod, facts)
        if not values:
            continue
        wanted = [value for value in values if not isinstance(value, Advice)]
        if len(wanted) < len(values):
            findings += [_advice(bound, value) for value in values if isinstance(value, Advice)]
        if wanted and bound.mode is Mode.ENFORCE:
            injections.append(Injection(bound.rule.key, tuple(wanted), bound.origin, bound.line))
        elif wanted:
            findings.append(_would_add(bound, wanted))
    for injection in injections:
        _write(injection.edits, draft)
    return injections


def _write(edits: Sequence[Edit], draft: Draft) -> None:
    size = 0
    for edit in edits:
        edit.write(draft)
        if len(draft.patch) > _FEW_OPERATIONS:
            size += len(str(edit))
            if len(draft.patch) > bounds.MOST_OPERATIONS:
                raise _too_much_to_add("changes", bounds.MOST_OPERATIONS)
            if size > bounds.LONGEST_PATCH:
                raise _too_much_to_add("bytes", bounds.LONGEST_PATCH)


def _too_much_to_add(what: str, most: int) -> CountError:
    found = f"so many containers that the policy adds more than {most} {what}"
    return CountError(found, f"{most}, since the API server accepts no longer patch", "spec")


def _would_add(bound: BoundRule, wanted: Sequence[Edit]) -> Finding:
    """What a rule that is not enforced would have injected; without a missing limit the API server refuses the pod.

    Of a rule whose injections ask nothing of people it is only recorded.
    """
    is_needed = any(isinstance(edit, AddGpuLimit) for edit in wanted)
    message = f"would add {listed(wanted)}"
    return Finding(
        bound.rule.key,
        bound.mode if bound.rule.warns_of_injections else Mode.AUDIT,
        FindingKind.INJECTION,
        "spec",
        message,
        fails_validation=is_needed,
        origin=bound.origin,
        line=bound.line,
    )


def violations(pod: Pod, validators: Sequence[BoundRule], facts: Facts) -> Iterator[Finding]:
    """What these rules have to say about a pod, in their modes, but no advice about what one of them objects to."""
    told: frozenset[str] | None = None
    for bound in validators:
        if bound.rule.validate is None:
            continue
        for value in bound.rule.validate(pod, bound.settings, facts):
            if isinstance(value, Advice) and value.fault:
                told = _faults_told(pod, validators, facts) if told is None else told
                if value.fault in told:
                    continue
            yield _finding(bound, value)


def _faults_told(pod: Pod, validators: Iterable[BoundRule], facts: Facts) -> frozenset[str]:
    """The faults of a pod that some of these rules object to, so that people hear of it."""
    telling = (bound for bound in validators if bound.rule.faults and bound.mode is not Mode.AUDIT)
    values = (one.rule.validate(pod, one.settings, facts) for one in telling if one.rule.validate is not None)
    return frozenset(value.fault for value in chain.from_iterable(values) if isinstance(value, Violation))


def told_once(findings: Sequence[Finding], pod: Pod, policy: Policy, facts: Facts) -> list[Finding]:
    """The findings of mutators without advice about what a validator will tell of the same pod, if it tells people."""
    if not any(finding.fault for finding in findings):
        return list(findings)
    told = _faults_told(pod, policy.validators, facts)
    return [finding for finding in findings if not finding.fault or finding.fault not in told]


def bounded(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings, of which those of one rule stand together; of very many one says how many more there are."""
    for _, of_a_rule in groupby(findings, key=lambda finding: finding.rule):
        more, refuses = 0, False
        for number, finding in enumerate(of_a_rule):
            if number < MOST_OF_A_RULE:
                yield finding
            else:
                more, refuses, last = more + 1, refuses or finding.refuses, finding
        if more:
            text = f"{more} more of these"
            yield replace(last, field="spec", message=text, brief="", remedy="", refuses=refuses, number=more)


def told(bound: BoundRule, values: Iterable[Violation | Advice]) -> Iterator[Finding]:
    """What a rule said, in its mode."""
    for value in values:
        yield _finding(bound, value)


def _finding(bound: BoundRule, value: Violation | Advice) -> Finding:
    return _advice(bound, value) if isinstance(value, Advice) else _violation(bound, value)


def _violation(bound: BoundRule, violation: Violation) -> Finding:
    return Finding(
        bound.rule.key,
        bound.mode,
        FindingKind.VIOLATION,
        violation.where,
        f"{violation.found}; {violation.allowed}",
        addressed(bound, violation.remedy),
        refuses=bound.mode is Mode.ENFORCE,
        fails_validation=violation.fails_validation,
        origin=bound.origin,
        line=bound.line,
        brief=violation.brief,
        fault=violation.fault,
    )


def _advice(bound: BoundRule, advice: Advice) -> Finding:
    return Finding(
        bound.rule.key,
        bound.mode,
        FindingKind.ADVICE,
        advice.where,
        advice.found,
        addressed(bound, advice.remedy),
        origin=bound.origin,
        line=bound.line,
        brief=advice.brief,
        fault=advice.fault,
    )


def addressed(bound: BoundRule, remedy: str) -> str:
    """The remedy with whom the policy says people should turn to."""
    return remedy.replace(PLATFORM_TEAM, bound.contact) if bound.contact else remedy


def addressed_to(contact: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Findings of others than rules, with whom a policy says people should turn to; empty where it says nothing."""
    for finding in findings:
        is_open = contact and PLATFORM_TEAM in finding.remedy
        yield replace(finding, remedy=finding.remedy.replace(PLATFORM_TEAM, contact)) if is_open else finding


def edits_of(bound: BoundRule, pod: Pod, facts: Facts) -> list[Edit]:
    """What a rule would inject, whatever its mode; no more than would be refused for their number."""
    values = _answers(bound, pod, facts)
    return [value for value in values if not isinstance(value, Advice)] if values else []


def _answers(bound: BoundRule, pod: Pod, facts: Facts) -> list[Edit | Advice]:
    values = iter(bound.rule.mutate(pod, bound.settings, facts))  # type: ignore[misc]  # only rules that mutate are asked
    for first in values:
        return [first, *islice(values, _MOST_EDITS - 1)]
    return []  # as most rules answer


def listed(edits: Sequence[Edit]) -> str:
    """The edits in one text; of many, the first and how many more there are."""
    text = ", ".join(map(str, edits[:_MOST_LISTED]))
    more = len(edits) - _MOST_LISTED
    return f"{text} and {more} more" if more > 0 else text


STAMP = "gpupolicy.dev/policy"
"""Names the policy, with its version, by which a pod was last completed."""


def due_stamp(pod: Pod, policy: Policy, facts: Facts, earlier: Sequence[Policy], *, injected: bool) -> str | None:
    """What to write of the policy into a pod that it completed, or that another one would have; None for nothing.

    A pod whose own words contradict what would be injected gets no name to hide behind.
    """
    found = pod.annotations.get(STAMP)
    if found is None:
        is_due = injected or any(_completes(other, pod, facts) for other in earlier)
    else:
        is_due = any(one.is_injecting for one in (policy, *earlier))
    if not is_due:
        return None
    stamp = "" if _contradicts(pod, policy, facts) else stamp_of(policy)
    return None if stamp == (found or "") else stamp


def stamp_of(policy: Policy) -> str:
    """The policy with its version, as pods carry it."""
    return f"{policy.name}@{policy.short_hash}"


def _contradicts(pod: Pod, policy: Policy, facts: Facts) -> bool:
    """Whether the pod says something against what an enforced rule of the policy would inject."""
    return any(finding.kind is FindingKind.VIOLATION for finding in violations(pod, policy.contradicted, facts))


def _completes(policy: Policy, pod: Pod, facts: Facts) -> bool:
    """Whether an enforced rule of the policy would inject something."""
    return any(edits_of(bound, pod, facts) for bound in policy.injectors)
