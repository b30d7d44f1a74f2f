"""What a policy would find without exceptions, so that it is told and recorded which exception let a pod through.

A pod for which exceptions hold is judged twice: under its policy with them, and without them. Whatever would refuse it
only without them is recorded with the name of the exception.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from webhook.engine.running_rules import MOST_OF_A_RULE, edits_of, listed
from webhook.model.container import Container
from webhook.model.edits import AddEnv, AddGpuLimit, AddMemoryVolume, AddMount, Edit
from webhook.model.pod import Pod
from webhook.model.shape import shortened
from webhook.outcome import Finding, FindingKind, Injection
from webhook.policy.exceptions import AppliedException
from webhook.policy.policy_set import BoundRule, Policy
from webhook.rules.rule import Facts, Stage
from webhook.rules.rule_settings import Mode

_LONGEST_EXCEPTED = 1_000
"""Characters of what was found, so that a warning has room for what is said of the exception."""


def findings_under(policy: Policy, pod: Pod | None, find: Callable[[Policy], Iterable[Finding]]) -> tuple[Finding, ...]:
    """The findings of `find` under a policy, with what would refuse without exceptions recorded as excepted.

    An exception that says which containers are meant covers findings about these, and findings about the pod as a whole
    if all of its containers with GPUs are meant. `pod` is None for an object without containers.
    """
    found = tuple(find(policy))
    if policy.usual is None:
        return found
    usual = tuple(find(policy.usual))
    if pod is not None and policy.exceptions_to_containers:
        whole = found if policy.base is None else usual if policy.base is policy.usual else tuple(find(policy.base))
        found = tuple(_of_what_is_meant(found, whole, usual, policy, pod))
    return _with_exceptions(found, usual, policy)


def _of_what_is_meant(
    found: Sequence[Finding], whole: Sequence[Finding], usual: Sequence[Finding], policy: Policy, pod: Pod
) -> Iterator[Finding]:
    """The findings about containers that are meant, those about others, and those about the pod as a whole.

    Of a rule with so many findings that some are only counted, it is not known which containers these are about. So
    the count is that without exceptions.
    """
    meant = policy.exceptions_to_containers
    number = Counter(one.rule for one in usual)
    counted = {rule for rule in meant if number[rule] > MOST_OF_A_RULE}
    inside = {id(one): container_of(one.field, pod) for one in (*found, *whole, *usual)}
    for one in whole:
        is_apart = one.rule in meant and (inside[id(one)] is not None or one.rule in counted)
        if not is_apart and one.kind is not FindingKind.MISSING:
            yield one
    yield from (one for one in found if one.kind is FindingKind.MISSING)
    for findings, is_of_meant in ((found, True), (usual, False)):
        for one in findings:
            exception, container = meant.get(one.rule), inside[id(one)]
            if exception is not None and container is not None and exception.covers(container) is is_of_meant:
                yield one
    yield from (one for one in usual if one.rule in counted and inside[id(one)] is None)


def container_of(field: str, pod: Pod) -> Container | None:
    """The container of a pod that a place is in; None for a place elsewhere."""
    return next((one for one in pod.containers if field == one.path or field.startswith(f"{one.path}.")), None)


def _with_exceptions(found: Sequence[Finding], usual: Iterable[Finding], policy: Policy) -> tuple[Finding, ...]:
    """The findings, and what `usual` has more than they have, as it is recorded because of an exception.

    A pod that is refused anyway is told nothing of exceptions.
    """
    known = set(found)
    lifted = [
        (one, exception)
        for one in usual
        if one.refuses and one.kind is not FindingKind.MISSING and one not in known
        if (exception := _exception_for(one.rule, policy)) is not None
    ]
    if not lifted or any(one.refuses for one in found):
        return tuple(found)
    others = [one for one in found if not any(_is_same(one, other) for other, _ in lifted)]
    return (*others, *(excepted(one, exception) for one, exception in lifted))


def excepted(finding: Finding, exception: AppliedException, what: str = "admitted") -> Finding:
    """A finding that would refuse a pod, as it is recorded because of an exception."""
    mode = exception.exception.mode if finding.rule in exception.exception.rules else Mode.AUDIT
    message = f"{shortened(finding.message, _LONGEST_EXCEPTED)}; {exception.told(what)}"
    return replace(finding, mode=mode, message=message, refuses=False, exception=exception)


def with_excepted_injections(findings: list[Finding], pod: Pod, policy: Policy, facts: Facts) -> list[Finding]:
    """The findings about a new pod, with what the policy would inject without exceptions and does not inject."""
    if policy.usual is None:
        return findings
    lifted = {bound.rule.key for bound in policy.usual.injectors if policy.exception_to(bound.rule.key) is not None}
    others = [one for one in findings if one.kind is not FindingKind.INJECTION or one.rule not in lifted]
    return [*others, *_left_out(pod, policy, policy.usual, facts)]


def _left_out(pod: Pod, policy: Policy, usual: Policy, facts: Facts) -> Iterator[Finding]:
    for bound in usual.injectors:
        exception = policy.exception_to(bound.rule.key)
        if exception is None:
            continue
        before = edits_of(bound, pod, facts)
        now = edits_under(policy, bound.rule.key, pod, facts) if before else []
        if lost := [edit for edit in before if edit not in now]:
            yield excepted(_would_inject(bound, f"would add {listed(lost)}"), exception, "left out")


def edits_under(policy: Policy, key: str, pod: Pod, facts: Facts) -> list[Edit]:
    """What a rule injects into a pod under a policy.

    Under an exception that says which containers are meant, each edit of a container goes by whether it is meant.
    """
    exception = policy.exceptions_to_containers.get(key)
    if exception is None or policy.usual is None:
        return _edits(policy, key, pod, facts)
    changed, usual = _edits(policy, key, pod, facts), _edits(policy.usual, key, pod, facts)
    both = ((changed, True), (usual, False))
    kept = [edit for edits, is_of_meant in both for edit in edits if exception.covers(_container(edit)) is is_of_meant]
    volumes = {edit.name for edit in kept if isinstance(edit, AddMemoryVolume)}
    mounted = {edit.volume for edit in kept if isinstance(edit, AddMount)} - volumes
    return [*kept, *(edit for edit in usual if isinstance(edit, AddMemoryVolume) and edit.name in mounted)]


def for_each_container(
    injections: Sequence[Injection], stage: Stage, policy: Policy, pod: Pod, facts: Facts
) -> Sequence[Injection]:
    """The injections of a stage, in which rules with exceptions to containers inject what is due to each container."""
    found = {one.rule: one for one in injections}
    for key in policy.exceptions_to_containers:
        known = [
            bound
            for one in (policy, policy.usual)
            if one is not None
            for bound in one.injectors
            if bound.rule.key == key
        ]
        if not known or known[0].rule.stage is not stage or stage is Stage.STEERING:
            continue
        edits = edits_under(policy, key, pod, facts)
        found.pop(key, None)
        if edits:
            found[key] = Injection(key, tuple(edits), known[-1].origin, known[-1].line)
    return list(found.values())


def _edits(policy: Policy, key: str, pod: Pod, facts: Facts) -> list[Edit]:
    bound = next((one for one in policy.injectors if one.rule.key == key), None)
    return [] if bound is None else edits_of(bound, pod, facts)


def _container(edit: Edit) -> Container | None:
    return edit.container if isinstance(edit, AddMount | AddEnv | AddGpuLimit) else None


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
    return next((one for one in policy.as_a_whole.exceptions if steering.intersection(one.rules)), None)


def _is_same(one: Finding, other: Finding) -> bool:
    """Whether two findings differ at most in what becomes of them."""
    return (one.rule, one.kind, one.field, one.message) == (other.rule, other.kind, other.field, other.message)
