"""The templates of workloads: judged, never completed."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from webhook.engine.asking import edits_of, facts_under, violations, would_add
from webhook.engine.completing import complete
from webhook.model.edits import AddGpuLimit, Draft
from webhook.model.pod import Pod, pod_from_raw
from webhook.model.workload import template_of
from webhook.outcome import Finding, Outcome
from webhook.policy.policy_set import Policy
from webhook.rules.rule import Facts, Mode, Stage


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
    facts = facts_under(policy, facts)
    draft = Draft(raw, path)
    findings: list[Finding] = []
    injected = _repair(_template_pod(raw, path), policy, facts, draft, findings)
    findings.extend(_judged(draft.object, path, policy, facts))
    if old is not None and findings:
        known = list(_judged(old, path, policy, facts))
        _repair(_template_pod(old, path), policy, facts, Draft(old, path), known)
        findings = [finding for finding in findings if finding not in known]
    if any(finding.refuses and finding.fails_validation for finding in findings):
        return Outcome(policy, raw, tuple(findings))
    return Outcome(policy, draft.object, tuple(findings), tuple(draft.patch), tuple(injected))


def _judged(raw: Mapping[str, Any], path: tuple[str, ...], policy: Policy, facts: Facts) -> Iterator[Finding]:
    """What a template violates. Where its pods will land is judged of the pods that it will make."""
    template = _template_pod(raw, path)
    yield from violations(template, (one for one in policy.validators if not one.rule.judges_placement), facts)
    judging = [bound for bound in policy.validators if bound.rule.judges_placement]
    if judging and template.gpus:
        yield from violations(completed_template(raw, path, policy, facts), judging, facts)


def completed_template(raw: Mapping[str, Any], path: tuple[str, ...], policy: Policy, facts: Facts) -> Pod:
    """A template as its pods will be. Raises ShapeError for a malformed one."""
    completed = complete(template_of(raw, path), _completing(raw, policy), facts).object
    return pod_from_raw(completed, ".".join((*path, "spec")))


def _completing(raw: Mapping[str, Any], policy: Policy) -> Policy:
    """What completes the pods of a workload: those of a DaemonSet are made for one node each, and cannot be steered."""
    if raw.get("kind") != "DaemonSet":
        return policy
    return replace(policy, rules=tuple(bound for bound in policy.rules if bound.rule.stage is not Stage.STEERING))


def _template_pod(raw: Mapping[str, Any], path: tuple[str, ...]) -> Pod:
    return pod_from_raw(template_of(raw, path), ".".join((*path, "spec")))


def _repair(template: Pod, policy: Policy, facts: Facts, draft: Draft, findings: list[Finding]) -> list[str]:
    """Write missing GPU limits where the mode is enforce, say so where it is not; the keys of the rules that wrote."""
    injected: list[str] = []
    for stage in policy.mutators:
        for bound in stage:
            repairs = [edit for edit in edits_of(bound, template, facts) if isinstance(edit, AddGpuLimit)]
            if repairs and bound.mode is Mode.ENFORCE:
                injected.append(bound.rule.key)
                for edit in repairs:
                    edit.write(draft)
            elif repairs:
                findings.append(would_add(bound, template, repairs))
    return injected
