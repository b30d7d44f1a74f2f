"""Asks rules, and turns their answers into findings and injections. Modes are applied here and nowhere else."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby, islice

from webhook.facts.facts import ClusterFacts
from webhook.model.edits import (
    MOST_OPERATIONS,
    AddEnv,
    AddGpuLimit,
    AddMemoryVolume,
    AddMount,
    Draft,
    Edit,
)
from webhook.model.gpu_fractions import with_fractions
from webhook.model.pod import Container, Pod
from webhook.model.shape import SizeError, shortened
from webhook.model.wording import PLATFORM_TEAM, counted
from webhook.outcome import Finding, FindingKind, Injection
from webhook.policy.policy_set import ConfiguredRule, Policy
from webhook.rules.rule import Advice, Facts, Violation
from webhook.rules.rule_settings import Mode

MOST_OF_A_RULE = 1_000
"""Findings of one rule about one pod that are kept. A refusal shows the first hundred."""
_MOST_LISTED = 20
"""Edits that a message names."""
_MOST_EDITS = MOST_OPERATIONS + 1
_LONGEST_EXCEPTED = 1_000
"""Characters of what was found, so that a warning has room for what is said of the exception."""


def facts_under(policy: Policy, facts: ClusterFacts) -> ClusterFacts:
    """The facts with the taints that go away by themselves which the policy declares, and with all node pools."""
    if policy.transient_taints:
        facts = replace(facts, transient=policy.transient_taints)
    has_pools = policy.node_pools or facts.cluster.made
    return facts.with_pools(policy.node_pools, policy.accelerators) if has_pools else facts


def ask_mutators(stage: Iterable[ConfiguredRule], pod: Pod, facts: Facts, findings: list[Finding]) -> list[Injection]:
    """What the enforced rules of a stage inject. Everything else goes to `findings`."""
    injections: list[Injection] = []
    for active in stage:
        wanted: list[Edit] = []
        for value in _answers(active, pod, facts):
            if isinstance(value, Advice):
                findings.append(_finding(active, value))
            else:
                wanted.append(value)
        if wanted and active.mode is Mode.ENFORCE:
            injections.append(Injection(active.rule.key, tuple(wanted), active.origin, active.line))
        elif wanted:
            findings.append(would_add(active, wanted))
    return injections


def write(edits: Sequence[Edit], draft: Draft) -> None:
    """Write edits into `draft`. Raises ShapeError for a pod whose patch is longer than the API server accepts."""
    for edit in edits:
        edit.write(draft)
        if len(draft.patch) > MOST_OPERATIONS:
            found = "so many containers, or terms of node affinity, that the policy adds more than"
            allowed = f"{MOST_OPERATIONS}, since the API server accepts no longer patch"
            raise SizeError(f"{found} {MOST_OPERATIONS} changes", allowed, "spec")


def would_add(active: ConfiguredRule, wanted: Sequence[Edit]) -> Finding:
    """What a rule that is not enforced would inject. If that is a limit of GPUs, the API server refuses the pod.

    If the author of the pod need not act on the injection, the finding is only recorded.
    """
    is_needed = any(isinstance(edit, AddGpuLimit) for edit in wanted)
    message = f"would add {listed(wanted)}"
    return Finding(
        active.rule.key,
        active.mode if active.rule.warns_of_injections else Mode.AUDIT,
        FindingKind.INJECTION,
        "spec",
        message,
        fails_validation=is_needed,
        origin=active.origin,
        line=active.line,
        exception=active.exception if active.is_lifted else None,
    )


def violations(pod: Pod, validators: Sequence[ConfiguredRule], facts: Facts) -> Iterator[Finding]:
    """What these rules find in a pod, in their modes. Advice about a fault that a violation names is left out."""
    reported: frozenset[str] | None = None
    whole = with_fractions(pod) if pod.fractions else pod
    for active in validators:
        if active.rule.validate is None:
            continue
        for value in active.rule.validate(whole if active.rule.judges_fractions else pod, active.settings, facts):
            if isinstance(value, Advice) and value.fault:
                reported = _reported_faults(pod, validators, facts) if reported is None else reported
                if value.fault in reported:
                    continue
            if active.split_by is None or active.holds_for(_container_at(value.where, pod)):
                yield _finding(active, value)


def _reported_faults(pod: Pod, validators: Iterable[ConfiguredRule], facts: Facts) -> frozenset[str]:
    """The faults that violations of these rules name in a pod. Mode `audit` records them, and nobody hears of them."""
    telling = (active for active in validators if active.rule.faults)
    values = (one.rule.validate(pod, one.settings, facts) for one in telling if one.rule.validate is not None)
    return frozenset(value.fault for value in chain.from_iterable(values) if isinstance(value, Violation))


def without_repeats(findings: Sequence[Finding], pod: Pod, policy: Policy, facts: Facts) -> list[Finding]:
    """The findings of mutators, without advice about a fault that a violation of the pod will name."""
    if not any(finding.fault for finding in findings):
        return list(findings)
    reported = _reported_faults(pod, policy.validators, facts)
    return [finding for finding in findings if not finding.fault or finding.fault not in reported]


def bounded(findings: Iterable[Finding]) -> Iterator[Finding]:
    """At most a thousand findings of each rule, and one that says how many more there are. The findings of a rule have
    to stand together.
    """
    for _, of_a_rule in groupby(findings, key=lambda finding: finding.rule):
        more, refuses = 0, False
        for number, finding in enumerate(of_a_rule):
            if number < MOST_OF_A_RULE:
                yield finding
            else:
                more, refuses, last = more + 1, refuses or finding.refuses, finding
        if more:
            text, exception = f"{counted(more, 'more finding')} of this rule", None if refuses else last.exception
            yield replace(
                last, field="spec", message=text, remedy="", refuses=refuses, number=more, exception=exception
            )


def findings_of(
    active: ConfiguredRule, values: Iterable[Violation | Advice], pod: Pod | None = None
) -> Iterator[Finding]:
    """A rule's answers as findings, in its mode; `pod` is None for an object without containers."""
    for value in values:
        if active.split_by is None or active.holds_for(_container_at(value.where, pod)):
            yield _finding(active, value)


def _container_at(field: str, pod: Pod | None) -> Container | None:
    """The container of a pod that a place is in; None for a place elsewhere."""
    containers = pod.containers if pod is not None else ()
    return next((one for one in containers if field == one.path or field.startswith(f"{one.path}.")), None)


def told(finding: Finding) -> Finding:
    """The finding; its message names the exception because of which it refuses nothing."""
    if finding.exception is None:
        return finding
    what = "left out" if finding.kind is FindingKind.INJECTION else "admitted"
    message = f"{shortened(finding.message, _LONGEST_EXCEPTED)}; {finding.exception.told(what)}"
    return replace(finding, message=message)


def all_told(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings about a pod, with exceptions in their messages. For a pod that is refused anyway they name none."""
    found = tuple(findings)
    if all(finding.exception is None for finding in found):
        return found
    is_refused = any(finding.refuses for finding in found)
    return tuple([replace(one, exception=None) if is_refused else told(one) for one in found])


def _finding(active: ConfiguredRule, value: Violation | Advice) -> Finding:
    is_enforced = active.mode is Mode.ENFORCE
    remedy = addressed(value.remedy, active.contact)
    follows_nodes = value.follows_nodes or active.rule.softens_on_update
    if isinstance(value, Advice) or (value.is_kept_off and not (is_enforced or active.is_lifted)):
        return Finding(
            active.rule.key,
            active.mode,
            FindingKind.ADVICE,
            value.where,
            value.found,
            remedy,
            origin=active.origin,
            line=active.line,
            fault=value.fault,
            follows_nodes=follows_nodes,
            is_kept_off=isinstance(value, Violation),
        )
    return Finding(
        active.rule.key,
        active.mode,
        FindingKind.VIOLATION,
        value.where,
        value.message,
        remedy,
        refuses=is_enforced,
        fails_validation=value.fails_validation,
        follows_nodes=follows_nodes,
        softens_on_update=value.softens_on_update or active.rule.softens_on_update,
        is_kept_off=value.is_kept_off,
        exception=active.exception if active.is_lifted else None,
        origin=active.origin,
        line=active.line,
        fault=value.fault,
    )


def addressed(remedy: str, contact: str) -> str:
    """The remedy, with the contact of a policy, if it has one, in the place of the platform team."""
    return remedy.replace(PLATFORM_TEAM, contact) if contact else remedy


def edits_of(active: ConfiguredRule, pod: Pod, facts: Facts) -> list[Edit]:
    """What a rule would inject in mode `enforce`; at most one edit more than a patch may have."""
    return [value for value in _answers(active, pod, facts) if not isinstance(value, Advice)]


def _answers(active: ConfiguredRule, pod: Pod, facts: Facts) -> list[Edit | Advice]:
    values = list(islice(active.rule.mutate(pod, active.settings, facts), _MOST_EDITS))  # type: ignore[misc]  # of mutators
    return values if active.split_by is None else list(_held(active, values, pod))


def _held(active: ConfiguredRule, values: Sequence[Edit | Advice], pod: Pod) -> Iterator[Edit | Advice]:
    """What a rule says of the containers that it holds for, and the volumes that these mount."""
    mounted = {one.volume for one in values if isinstance(one, AddMount) and active.holds_for(one.container)}
    for value in values:
        if isinstance(value, AddMemoryVolume):
            if value.name in mounted:
                yield value
        elif isinstance(value, Advice):
            if active.holds_for(_container_at(value.where, pod)):
                yield value
        elif active.holds_for(value.container if isinstance(value, AddMount | AddEnv | AddGpuLimit) else None):
            yield value


def joined(injections: Iterable[Injection]) -> list[Injection]:
    """One injection for each rule. Of volumes with one name, the first is added."""
    by_rule: dict[str, Injection] = {}
    for one in injections:
        before = by_rule.setdefault(one.rule, one)
        if before is not one:
            names = {edit.name for edit in before.edits if isinstance(edit, AddMemoryVolume)}
            more = [edit for edit in one.edits if not isinstance(edit, AddMemoryVolume) or edit.name not in names]
            by_rule[one.rule] = replace(before, edits=(*before.edits, *more))
    return list(by_rule.values())


def listed(edits: Sequence[Edit]) -> str:
    """The edits in one text: the first twenty, and how many more there are."""
    text = ", ".join(map(str, edits[:_MOST_LISTED]))
    more = len(edits) - _MOST_LISTED
    return f"{text} and {more} more" if more > 0 else text
