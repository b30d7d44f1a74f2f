"""Asking one rule, and what its answers are called: the one place where modes are applied."""

from collections.abc import Iterable, Iterator, Sequence

from webhook.cluster.pools import WithPools
from webhook.model.draft import Draft
from webhook.model.edits import AddGpuLimit, Edit
from webhook.model.pod import Pod
from webhook.outcome import Finding, Injection, Kind
from webhook.policy.policy_set import BoundRule, Policy
from webhook.rules.rule import Advice, Facts, Mode, Violation


def facts_under(policy: Policy, facts: Facts) -> Facts:
    """The facts with the node pools that the policy declares."""
    return WithPools(facts, policy.node_pools) if policy.node_pools else facts


def ask_mutators(
    stage: Iterable[BoundRule], pod: Pod, facts: Facts, draft: Draft, findings: list[Finding]
) -> list[Injection]:
    """Write what the enforced rules of a stage inject to `draft`, and return it; the rest goes to `findings`."""
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
        for edit in injection.edits:
            edit.write(draft)
    return injections


def _would_add(bound: BoundRule, wanted: Sequence[Edit]) -> Finding:
    """What a rule that is not enforced would have injected; without a missing limit the API server refuses the pod."""
    is_needed = any(isinstance(edit, AddGpuLimit) for edit in wanted)
    message = f"would add {listed(wanted)}"
    return Finding(
        bound.rule.key,
        bound.mode,
        Kind.INJECTION,
        "spec",
        message,
        fails_validation=is_needed,
        origin=bound.origin,
        line=bound.line,
    )


def violations(pod: Pod, validators: Iterable[BoundRule], facts: Facts) -> Iterator[Finding]:
    """What these rules have to say about a pod, in their modes."""
    for bound in validators:
        for value in bound.rule.validate(pod, bound.settings, facts):  # type: ignore[misc]  # validators only hold rules that validate
            yield _finding(bound, value)


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
        Kind.VIOLATION,
        violation.where,
        f"{violation.found}; {violation.allowed}",
        violation.remedy,
        refuses=bound.mode is Mode.ENFORCE,
        fails_validation=violation.fails_validation,
        origin=bound.origin,
        line=bound.line,
    )


def _advice(bound: BoundRule, advice: Advice) -> Finding:
    return Finding(
        bound.rule.key,
        bound.mode,
        Kind.ADVICE,
        advice.where,
        advice.found,
        advice.remedy,
        origin=bound.origin,
        line=bound.line,
    )


def edits_of(bound: BoundRule, pod: Pod, facts: Facts) -> list[Edit]:
    """What a rule would inject, whatever its mode."""
    values = _answers(bound, pod, facts)
    return [value for value in values if not isinstance(value, Advice)] if values else []


def _answers(bound: BoundRule, pod: Pod, facts: Facts) -> list[Edit | Advice]:
    return list(bound.rule.mutate(pod, bound.settings, facts))  # type: ignore[misc]  # only rules that mutate are asked


def listed(edits: Iterable[Edit]) -> str:
    """The edits in one text."""
    return ", ".join(str(edit) for edit in edits)
