"""The mutating phase."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from webhook.engine.running_rules import STAMP, ask_mutators, bounded, due_stamp, facts_under, told_once, violations
from webhook.facts.facts import ClusterFacts
from webhook.model.draft import Draft
from webhook.model.edits import Annotate, Edit
from webhook.model.pod_reader import pod_from_raw
from webhook.model.requirements import placed
from webhook.outcome import Finding, FindingKind, Injection, Outcome
from webhook.policy.policy_set import Policy

ANNOTATION = "gpupolicy.dev/injected"
"""Names the rules that completed a pod. It informs people and is never read back."""


def complete(
    raw: Mapping[str, Any], policy: Policy, facts: ClusterFacts, *, earlier: Sequence[Policy] = (), namespace: str = ""
) -> Outcome:
    """The mutating phase: inject what the enforced rules inject, and say what the others would.

    A pod that `policy` leaves alone is stamped all the same where one of the `earlier` policies would complete it. One
    that the API server will refuse on its own never reaches the validating phase, so it is judged here too; any other
    is left to `judge`, because other webhooks may still change it. `namespace` is where the pod will be; empty: where
    it says. Raises ShapeError for a malformed pod, or one whose patch would be longer than what the API server takes.
    """
    pod = original = pod_from_raw(raw, policy.accelerators, namespace)
    draft = Draft(raw)
    findings: list[Finding] = []
    facts = facts_under(policy, facts)
    injections: list[Injection] = []
    unseen: list[Edit] = []
    for stage in policy.mutators:
        if stage and unseen:
            pod, unseen = placed(pod, unseen), []
        injected = ask_mutators(stage, pod, facts, draft, findings)
        unseen += [edit for injection in injected for edit in injection.edits]
        injections += injected
    findings = told_once(findings, pod, policy, facts)
    if any(finding.fails_validation for finding in chain(findings, violations(pod, policy.anticipators, facts))):
        findings.extend(bounded(violations(pod, policy.validators, facts)))
    if any(finding.refuses for finding in findings):
        return Outcome(policy, raw, tuple(finding for finding in findings if finding.kind is not FindingKind.ADVICE))
    if injections and ANNOTATION not in pod.annotations:
        Annotate(ANNOTATION, ",".join(one.rule for one in injections)).write(draft)
    stamp = due_stamp(original, policy, facts, earlier, injected=bool(injections))
    if stamp is not None:
        Annotate(STAMP, stamp).write(draft)
    return Outcome(policy, draft.object, tuple(findings), tuple(draft.patch), tuple(injections))
