"""The mutating phase.

Every GPU pod gets a stamp: an annotation with the name and version of the policy. Replicas get a new version of the
policies at different moments. By the stamp, `validate` recognises a pod that was completed under another version than
it is judged by. A stamp that the author of a pod wrote is replaced.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Any

from webhook.engine.joint_steering import steered
from webhook.engine.running_rules import (
    all_told,
    ask_mutators,
    bounded,
    facts_under,
    joined,
    violations,
    without_repeats,
    write,
)
from webhook.facts.facts import ClusterFacts
from webhook.model.edits import Annotate, Draft, Edit
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw
from webhook.model.requirements import placed
from webhook.outcome import Finding, FindingKind, Injection, Outcome
from webhook.policy.policy_set import Policy
from webhook.rules.rule import Stage

ANNOTATION = "gpupolicy.dev/injected"
"""Annotation with the rules that completed a pod. It informs people and is never read."""
STAMP = "gpupolicy.dev/policy"
"""Annotation with the policy, and its version, that completed a pod last."""


def mutate(raw: Mapping[str, Any], policy: Policy, facts: ClusterFacts, *, namespace: str = "") -> Outcome:
    """Inject what the enforced rules inject, and report what other rules would inject.

    A pod that the API server will refuse never reaches the validating phase, so it is validated here. All other pods
    are left to `validate`, because other webhooks may still change them. `namespace` is where the pod will be; if
    empty, the pod itself says it. Raises ShapeError for a malformed pod, and for a pod whose patch is longer than the
    API server accepts.
    """
    pod = pod_from_raw(raw, policy.accelerators, namespace)
    draft = Draft(raw)
    findings: list[Finding] = []
    facts = facts_under(policy, facts)
    injections: list[Injection] = []
    unseen: list[Edit] = []
    for stage, mutators in zip(Stage, policy.mutators, strict=True):
        is_steering = stage is Stage.STEERING and bool(policy.judging_nodes)
        if unseen and (mutators or is_steering):
            pod, unseen = placed(pod, unseen), []
        injected = ask_mutators(mutators, pod, facts, findings)
        if is_steering:
            injected += steered(policy, pod, facts, findings)
        for injection in joined(injected) if injected else ():
            write(injection.edits, draft)
            unseen += injection.edits
            injections.append(injection)
    findings = without_repeats(findings, pod, policy, facts)
    anticipating = [active for active in policy.validators if active.rule.may_fail_api_validation]
    if any(finding.fails_validation for finding in chain(findings, violations(pod, anticipating, facts))):
        found = violations(pod, policy.validators, facts)
        findings.extend(bounded(one for one in found if not one.is_kept_off))  # it would have been kept off
    if any(finding.refuses for finding in findings):
        return Outcome(policy, raw, all_told(one for one in findings if one.kind is not FindingKind.ADVICE))
    if injections and ANNOTATION not in pod.annotations:
        Annotate(ANNOTATION, ",".join(one.rule for one in injections)).write(draft)
    if _is_to_be_stamped(pod, policy, has_injected=bool(injections)):
        Annotate(STAMP, policy.stamp).write(draft)
    return Outcome(policy, draft.object, all_told(findings), tuple(draft.patch), tuple(injections))


def _is_to_be_stamped(pod: Pod, policy: Policy, *, has_injected: bool) -> bool:
    """Whether a pod was completed, has GPUs, or has a stamp of its author or of another release.

    A policy that only records leaves the stamp of a release that enforces.
    """
    if (found := pod.annotations.get(STAMP)) is not None:
        return found != policy.stamp and policy.is_enforcing
    return bool(has_injected or pod.accelerators or pod.resource_claims or pod.requests_classes)
