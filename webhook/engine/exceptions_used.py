"""What a policy would find without exceptions, so that it is told and recorded which exception let a pod through.

A pod for which exceptions hold is judged twice: under its policy with them, and without them. Whatever would refuse it
only without them is recorded with the name of the exception.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from webhook.engine.running_rules import edits_of, listed
from webhook.model.container import Container
from webhook.model.pod import Pod
from webhook.outcome import Finding, FindingKind
from webhook.policy.exceptions import AppliedException
from webhook.policy.policy_set import BoundRule, Policy
from webhook.rules.rule import Facts
from webhook.rules.rule_settings import Mode


def with_exceptions(
    findings: Iterable[Finding], usual: Iterable[Finding], policy: Policy, pod: Pod | None = None
) -> tuple[Finding, ...]:
    """The findings under a policy with exceptions, of which `usual` would be the findings without them.

    A refusal that is `usual` only stays one if it is about a container that the exception is not about. A pod that is
    refused anyway is told nothing of exceptions. `pod` is None for an object without containers.
    """
    found = list(findings)
    known = set(found)
    lifted: list[tuple[Finding, AppliedException]] = []
    for one in usual:
        if not one.refuses or one.kind is FindingKind.MISSING or one in known:
            continue
        exception = _exception_for(one.rule, policy)
        if exception is None:
            continue
        if _is_about(exception, one.field, pod):
            lifted.append((one, exception))
        else:
            found = [other for other in found if not _is_same(other, one)]
            found.append(one)
    if not lifted or any(one.refuses for one in found):
        return tuple(found)
    others = [one for one in found if not any(_is_same(one, other) for other, _ in lifted)]
    return (*others, *(excepted(one, exception) for one, exception in lifted))


def excepted(finding: Finding, exception: AppliedException, what: str = "admitted") -> Finding:
    """A finding that would refuse a pod, as it is recorded because of an exception."""
    told = exception.told(what)
    mode = exception.exception.mode if finding.rule in exception.exception.rules else Mode.AUDIT
    brief = finding.brief and f"{finding.brief}; {told}"
    message = f"{finding.message}; {told}"
    return replace(finding, mode=mode, message=message, brief=brief, refuses=False, exception=exception)


def with_excepted_injections(findings: list[Finding], pod: Pod, policy: Policy, facts: Facts) -> list[Finding]:
    """The findings about a new pod, with what the policy would inject without exceptions and does not inject."""
    if policy.usual is None:
        return findings
    told = {bound.rule.key for bound in policy.usual.injectors if policy.exception_to(bound.rule.key) is not None}
    others = [one for one in findings if one.kind is not FindingKind.INJECTION or one.rule not in told]
    return [*others, *_changed_injections(pod, policy, policy.usual, facts)]


def _changed_injections(pod: Pod, policy: Policy, usual: Policy, facts: Facts) -> Iterator[Finding]:
    for bound in usual.injectors:
        exception = policy.exception_to(bound.rule.key)
        if exception is None:
            continue
        before = edits_of(bound, pod, facts)
        now = next((one for one in policy.injectors if one.rule is bound.rule), None)
        if before and (now is None or edits_of(now, pod, facts) != before):
            yield excepted(_would_inject(bound, f"would add {listed(before)}"), exception, "left out")


def _would_inject(bound: BoundRule, message: str) -> Finding:
    return Finding(
        bound.rule.key, bound.mode, FindingKind.INJECTION, "spec", message, origin=bound.origin, line=bound.line
    )


def _exception_for(rule: str, policy: Policy) -> AppliedException | None:
    """The exception because of which a policy does not find what a rule finds without it.

    Rules that steer refuse a pod together, in the name of one of them.
    """
    own = policy.exception_to(rule)
    if own is not None or policy.usual is None:
        return own
    steering = {bound.rule.key for bound in policy.usual.steerers}
    if rule not in steering:
        return None
    return next((one for one in policy.exceptions if steering.intersection(one.rules)), None)


def _is_same(one: Finding, other: Finding) -> bool:
    """Whether two findings differ at most in what becomes of them."""
    return (one.rule, one.kind, one.field, one.message) == (other.rule, other.kind, other.field, other.message)


def _is_about(exception: AppliedException, field: str, pod: Pod | None) -> bool:
    """Whether an exception is about a place in a pod.

    A finding about the whole pod is excepted if the exception is about all containers with GPUs, or about all
    containers if none has GPUs.
    """
    match = exception.exception.match
    if pod is None or not match.is_about_containers:
        return True
    inside = [one for one in pod.containers if field == one.path or field.startswith(f"{one.path}.")]
    meant: Sequence[Container] = (
        inside or [one for one in pod.containers if one.gpu_count or one.has_claims] or pod.containers
    )
    return all(match.is_about(one.name, one.image) for one in meant)
