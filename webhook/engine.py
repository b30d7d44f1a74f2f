"""The one place where rules are asked and modes applied. Webhook, command line and audit all end here.

A pod passes two phases, as in the API server. `complete` asks the mutators and gives a patch; `judge` asks the
validators about the final pod and notices injections that got lost on the way.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from webhook.model.edits import AddGpuLimit, Annotate, Draft, Edit
from webhook.model.pod import Pod, placed, pod_from_raw
from webhook.model.workload import template_of
from webhook.outcome import Finding, Kind, Outcome
from webhook.policy.policy_set import BoundRule, Policy
from webhook.rules.rule import Advice, Facts, IfMissing, InjectionSettings, Mode, Violation

ANNOTATION = "gpupolicy.dev/injected"
"""Names the rules that completed a pod. It informs people and is never read back."""

STAMP = "gpupolicy.dev/policy"
"""Names the policy, with its version, by which a pod was last completed. Policies reach replicas at different moments:
`judge` learns from it that the pod was completed by one that it does not have yet. Whatever else stands in it when the
pod is completed is replaced."""


def complete(raw: Mapping[str, Any], policy: Policy, facts: Facts, *, earlier: Sequence[Policy] = ()) -> Outcome:
    """The mutating phase: inject what the enforced rules inject, and say what the others would.

    A pod that `policy` leaves alone is stamped all the same where one of the `earlier` policies would complete it. One
    that the API server will refuse on its own never reaches the validating phase, so it is judged here too; any other
    is left to `judge`, because other webhooks may still change it. Raises ShapeError for a malformed pod.
    """
    pod = original = pod_from_raw(raw)
    draft = Draft(raw)
    findings: list[Finding] = []
    placement, completion = policy.mutators
    injected = _ask_mutators(placement, pod, facts, draft, findings)
    if injected:
        pod = placed(pod, draft.object)
    injected += _ask_mutators(completion, pod, facts, draft, findings)
    if any(finding.fails_validation for finding in (*findings, *_violations(pod, policy.anticipators, facts))):
        findings.extend(_violations(pod, policy.validators, facts))
    if any(finding.refuses for finding in findings):
        return Outcome(policy, raw, tuple(finding for finding in findings if finding.kind is not Kind.ADVICE))
    if injected and ANNOTATION not in pod.annotations:
        Annotate(ANNOTATION, ",".join(injected)).write(draft)
    stamp = _due_stamp(original, policy, facts, earlier, injected=bool(injected))
    if stamp is not None:
        Annotate(STAMP, stamp).write(draft)
    return Outcome(policy, draft.object, tuple(findings), tuple(draft.patch), tuple(injected))


def judge(
    raw: Mapping[str, Any],
    policy: Policy,
    facts: Facts,
    *,
    old: Mapping[str, Any] | None = None,
    earlier: Sequence[Policy] = (),
) -> Outcome:
    """The validating phase.

    On CREATE (`old` is None) also report enforced injections that the final pod lacks under `policy` and under every
    one of the `earlier` policies. What one of those injected is not held against the pod, and neither is what comes of
    a policy that is not known here. On UPDATE report only what the new pod violates and the old one did not. Raises
    ShapeError for a malformed pod.
    """
    pod = pod_from_raw(raw)
    findings = list(_violations(pod, policy.validators, facts))
    if old is None:
        findings = list(_of_a_new_pod(pod, findings, policy, facts, earlier))
    elif findings:
        known = set(_violations(pod_from_raw(old), policy.validators, facts))
        findings = [finding for finding in findings if finding not in known]
    return Outcome(policy, raw, tuple(findings))


def check_template(
    raw: Mapping[str, Any],
    path: tuple[str, ...],
    policy: Policy,
    facts: Facts,
    *,
    old: Mapping[str, Any] | None = None,
) -> Outcome:
    """Judge the pod template that stands at `path` of a workload, which is never completed, only repaired.

    The only edit is a missing GPU limit, where the policy repairs those. On UPDATE (`old` is given) report only what is
    new. Raises ShapeError for a malformed template.
    """
    draft = Draft(raw, path)
    findings: list[Finding] = []
    injected = _repair(_template_pod(raw, path), policy, facts, draft, findings)
    findings.extend(_violations(_template_pod(draft.object, path), policy.validators, facts))
    if old is not None and findings:
        before = _template_pod(old, path)
        known = list(_violations(before, policy.validators, facts))
        _repair(before, policy, facts, Draft(old, path), known)
        findings = [finding for finding in findings if finding not in known]
    if any(finding.refuses and finding.fails_validation for finding in findings):
        return Outcome(policy, raw, tuple(findings))
    return Outcome(policy, draft.object, tuple(findings), tuple(draft.patch), tuple(injected))


def _template_pod(raw: Mapping[str, Any], path: tuple[str, ...]) -> Pod:
    return pod_from_raw(template_of(raw, path), ".".join((*path, "spec")))


def _repair(template: Pod, policy: Policy, facts: Facts, draft: Draft, findings: list[Finding]) -> list[str]:
    """Write missing GPU limits where the mode is enforce, say so where it is not; the keys of the rules that wrote."""
    injected: list[str] = []
    for stage in policy.mutators:
        for bound in stage:
            repairs = [edit for edit in _edits(bound, template, facts) if isinstance(edit, AddGpuLimit)]
            if repairs and bound.mode is Mode.ENFORCE:
                injected.append(bound.rule.key)
                for edit in repairs:
                    edit.write(draft)
            elif repairs:
                findings.append(_would_add(bound, template, repairs))
    return injected


def _ask_mutators(
    stage: Iterable[BoundRule], pod: Pod, facts: Facts, draft: Draft, findings: list[Finding]
) -> list[str]:
    """Write what the enforced rules of a stage inject to `draft`, the rest to `findings`; the keys of those rules."""
    injected: list[str] = []
    edits: list[Edit] = []
    for bound in stage:
        wanted: list[Edit] = []
        for value in bound.rule.mutate(pod, bound.settings, facts):  # type: ignore[misc]  # a stage holds rules that mutate
            if isinstance(value, Advice):
                findings.append(_advice(bound, value))
            else:
                wanted.append(value)
        if wanted and bound.mode is Mode.ENFORCE:
            edits.extend(wanted)
            injected.append(bound.rule.key)
        elif wanted:
            findings.append(_would_add(bound, pod, wanted))
    for edit in edits:
        edit.write(draft)
    return injected


def _would_add(bound: BoundRule, pod: Pod, wanted: Sequence[Edit]) -> Finding:
    """What a rule that is not enforced would have injected; without a missing limit the API server refuses the pod."""
    is_needed = any(isinstance(edit, AddGpuLimit) for edit in wanted)
    message = f"would add {_list(wanted)}"
    return Finding(bound.rule.key, bound.mode, Kind.INJECTION, pod.spec_path, message, fails_validation=is_needed)


def _violations(pod: Pod, validators: Iterable[BoundRule], facts: Facts) -> Iterator[Finding]:
    for bound in validators:
        for value in bound.rule.validate(pod, bound.settings, facts):  # type: ignore[misc]  # validators only hold rules that validate
            if isinstance(value, Advice):
                yield _advice(bound, value)
            else:
                yield _violation(bound, value)


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
    )


def _advice(bound: BoundRule, advice: Advice) -> Finding:
    return Finding(bound.rule.key, bound.mode, Kind.ADVICE, advice.where, advice.found, advice.remedy)


def _missing(pod: Pod, policy: Policy, facts: Facts, earlier: Sequence[Policy]) -> Iterator[Finding]:
    """Enforced injections that the pod lacks under every policy that may have completed it."""
    for bound in _enforced_mutators(policy):
        lost = _edits(bound, pod, facts)
        if not lost or not all(_lost_under(past, bound.rule.key, pod, facts) for past in earlier):
            continue
        if_missing = bound.settings.if_missing if isinstance(bound.settings, InjectionSettings) else IfMissing.WARN
        yield Finding(
            bound.rule.key,
            bound.mode,
            Kind.MISSING,
            pod.spec_path,
            f"{_list(lost)} should have been injected and is missing; another webhook removed it or added "
            "the GPUs later, or mutate.gpupolicy.dev was not called",
            "Create the pod again, or tell the platform team",
            refuses=if_missing is IfMissing.REFUSE and not all(edit.is_preference for edit in lost),
        )


def _due_stamp(pod: Pod, policy: Policy, facts: Facts, earlier: Sequence[Policy], *, injected: bool) -> str | None:
    """What to write of the policy into a pod that it completed, or that another one would have; None for nothing.

    A pod whose own words contradict what would be injected gets no name to hide behind.
    """
    found = pod.annotations.get(STAMP)
    if found is None:
        is_due = injected or any(_completes(other, pod, facts) for other in earlier)
    else:
        is_due = any(_enforced_mutators(one) for one in (policy, *earlier))
    if not is_due:
        return None
    stamp = "" if _contradicts(pod, policy, facts) else _stamp_of(policy)
    return None if stamp == (found or "") else stamp


def _stamp_of(policy: Policy) -> str:
    return f"{policy.name}@{policy.short_hash}"


def _of_a_new_pod(
    pod: Pod, violations: Iterable[Finding], policy: Policy, facts: Facts, earlier: Sequence[Policy]
) -> Iterator[Finding]:
    """What holds of a pod that is created, by whatever policy it was completed.

    A violation of what a rule injects counts only if every policy that may have completed the pod finds it too. Where
    none of those known here did, this and what is missing is only recorded.
    """
    stamp = pod.annotations.get(STAMP)
    authors = [author for author in (policy, *earlier) if not stamp or stamp == _stamp_of(author)]
    judging = {bound.rule.key for bound in policy.validators if bound.rule.judges_injections}
    for finding in violations:
        if finding.rule not in judging:
            yield finding
        elif not authors:
            yield _only_recorded(finding)
        elif all(_finds(author, finding.rule, pod, facts) for author in authors):
            yield finding
    for finding in _missing(pod, policy, facts, earlier):
        yield finding if authors else _only_recorded(finding)


def _only_recorded(finding: Finding) -> Finding:
    return replace(finding, mode=Mode.AUDIT, refuses=False)


def _finds(policy: Policy, key: str, pod: Pod, facts: Facts) -> bool:
    """Whether the rule of this key has something against the pod under the policy."""
    validators = [bound for bound in policy.validators if bound.rule.key == key]
    return any(finding.kind is Kind.VIOLATION for finding in _violations(pod, validators, facts))


def _contradicts(pod: Pod, policy: Policy, facts: Facts) -> bool:
    """Whether the pod says something against what an enforced rule of the policy would inject."""
    judging = [bound for bound in policy.validators if bound.rule.judges_injections and bound.mode is Mode.ENFORCE]
    return any(finding.kind is Kind.VIOLATION for finding in _violations(pod, judging, facts))


def _enforced_mutators(policy: Policy) -> list[BoundRule]:
    return [bound for stage in policy.mutators for bound in stage if bound.mode is Mode.ENFORCE]


def _completes(policy: Policy, pod: Pod, facts: Facts) -> bool:
    """Whether an enforced rule of the policy would inject something."""
    return any(_edits(bound, pod, facts) for bound in _enforced_mutators(policy))


def _edits(bound: BoundRule, pod: Pod, facts: Facts) -> list[Edit]:
    """What a rule would inject, whatever its mode."""
    values = bound.rule.mutate(pod, bound.settings, facts)  # type: ignore[misc]  # mutators only hold rules that mutate
    return [value for value in values if not isinstance(value, Advice)]


def _lost_under(policy: Policy, key: str, pod: Pod, facts: Facts) -> bool:
    for stage in policy.mutators:
        for bound in stage:
            if bound.rule.key == key and bound.mode is Mode.ENFORCE:
                return bool(_edits(bound, pod, facts))
    return False


def _list(edits: Iterable[Edit]) -> str:
    return ", ".join(str(edit) for edit in edits)
