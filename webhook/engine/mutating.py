"""The mutating phase.

A pod that was completed gets a stamp: an annotation with the name and version of the policy. Replicas get a new version
of the policies at different moments. By the stamp, `validate` recognises a pod that was completed under a version which
this replica does not have yet. A stamp that the author of a pod wrote is replaced.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from webhook.engine.exceptions_used import for_each_container, with_excepted_injections
from webhook.engine.joint_steering import advice_without_room, jointly
from webhook.engine.running_rules import (
    ask_mutators,
    bounded,
    edits_of,
    facts_under,
    violations,
    without_repeats,
    write,
)
from webhook.facts.facts import ClusterFacts
from webhook.model.draft import Draft
from webhook.model.edits import Annotate, Edit
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw
from webhook.model.requirements import placed
from webhook.outcome import Finding, FindingKind, Injection, Outcome
from webhook.policy.policy_set import Policy
from webhook.rules.rule import Facts, Stage

ANNOTATION = "gpupolicy.dev/injected"
"""Annotation with the rules that completed a pod. It informs people and is never read."""
_STAGES = tuple(Stage)
STAMP = "gpupolicy.dev/policy"
"""Annotation with the policy, and its version, that completed a pod last."""


def mutate(
    raw: Mapping[str, Any], policy: Policy, facts: ClusterFacts, *, earlier: Sequence[Policy] = (), namespace: str = ""
) -> Outcome:
    """Inject what the enforced rules inject, and report what other rules would inject.

    A pod that `policy` leaves unchanged gets a stamp, too, if one of the `earlier` policies would complete it. A pod
    that the API server will refuse never reaches the validating phase, so it is validated here. All other pods are left
    to `validate`, because other webhooks may still change them. `namespace` is where the pod will be; if empty, the pod
    itself says it. Raises ShapeError for a malformed pod, and for a pod whose patch is longer than the API server
    accepts.
    """
    pod = original = pod_from_raw(raw, policy.accelerators, namespace)
    draft = Draft(raw)
    findings: list[Finding] = []
    facts = facts_under(policy, facts)
    injections: list[Injection] = []
    unseen: list[Edit] = []
    whole = policy.base or policy
    steerers = whole.steerers if pod.accelerators or pod.resource_claims else ()
    for kind, stage in zip(_STAGES, whole.mutators, strict=True):
        if stage and unseen:
            pod, unseen = placed(pod, unseen), []
        injected = ask_mutators(stage, pod, facts, findings)
        injected = injected if policy.usual is None else for_each_container(injected, kind, policy, pod, facts)
        if stage and stage[0].rule.stage is Stage.STEERING:
            injected = jointly(injected, steerers, pod, facts) if steerers else injected
            findings += advice_without_room(injected, stage, pod, facts) if injected else ()
        for injection in injected:
            write(injection.edits, draft)
        if injected:
            unseen += [edit for injection in injected for edit in injection.edits]
            injections += injected
    findings = with_excepted_injections(without_repeats(findings, pod, policy, facts), original, policy, facts)
    if any(finding.fails_validation for finding in chain(findings, violations(pod, policy.anticipators, facts))):
        found = violations(pod, policy.validators, facts)
        findings.extend(bounded(one for one in found if not one.is_kept_off))  # it would have been kept off
    if any(finding.refuses for finding in findings):
        return Outcome(policy, raw, tuple(finding for finding in findings if finding.kind is not FindingKind.ADVICE))
    if injections and ANNOTATION not in pod.annotations:
        Annotate(ANNOTATION, ",".join(one.rule for one in injections)).write(draft)
    stamp = _due_stamp(original, policy, facts, earlier, injected=bool(injections))
    if stamp is not None:
        Annotate(STAMP, stamp).write(draft)
    return Outcome(policy, draft.object, tuple(findings), tuple(draft.patch), tuple(injections))


def _due_stamp(pod: Pod, policy: Policy, facts: Facts, earlier: Sequence[Policy], *, injected: bool) -> str | None:
    """The stamp to write into a pod that the policy completed, or that an `earlier` one would complete; None for none.

    A pod that contradicts what would be injected gets an empty stamp, so that its violations count.
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
    """The policy and its version, as the stamp of pods has them."""
    return f"{policy.name}@{policy.short_hash}"


def _contradicts(pod: Pod, policy: Policy, facts: Facts) -> bool:
    """Whether the pod contradicts what an enforced rule of the policy would inject."""
    return any(
        finding.kind is FindingKind.VIOLATION
        for finding in violations(pod, (policy.base or policy).contradicted, facts)
    )


def _completes(policy: Policy, pod: Pod, facts: Facts) -> bool:
    """Whether an enforced rule of the policy would inject something."""
    return any(edits_of(bound, pod, facts) for bound in policy.injectors)
