"""What is decided about ResourceClaims that are about to be created: by the rules of their namespace, and by quotas.

A claim that Kubernetes makes for a pod has the exceptions of the pod as well. Otherwise the pod would be admitted, and
wait for its claim for ever.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from webhook import engine
from webhook.admission.admission_review import AdmissionRequest, AdmissionResponse
from webhook.admission.phases import NO_TIME, UNCONCERNED, Decision, decide, in_force
from webhook.engine.quota_claims import claims_of_claim, claims_of_extended
from webhook.facts.facts import ClusterFacts
from webhook.facts.stored_claims import is_for_extended_resources
from webhook.model.claim_owner import ClaimOwner, claim_owner, subject_for_pod
from webhook.model.claims import CLAIM, GROUP
from webhook.model.subject import PodSubject
from webhook.outcome import Outcome
from webhook.policy.policy_set import InForce, PolicySet
from webhook.rules import gpu_quota, gpu_types

SCHEDULER = "system:kube-scheduler"
"""The user that makes claims for extended resources."""
CONTROLLERS = frozenset(
    ("system:serviceaccount:kube-system:resource-claim-controller", "system:kube-controller-manager")
)
"""The users that make claims from templates: of this controller (cmd/kube-controller-manager/app/resource.go), or of
all controllers together where they share credentials."""

_OF_QUOTAS = frozenset((gpu_quota.RULE.key, gpu_types.RULE.key))
"""The rules whose exceptions may change a quota, or what counts against it."""

PodOf = Callable[[ClaimOwner], PodSubject | None]
"""Looks up what exceptions are compared with for the pod that a claim was made for; None where that is not known."""


def claims(
    request: AdmissionRequest,
    policies: PolicySet,
    facts: ClusterFacts,
    now: float = NO_TIME,
    pod_of: PodOf = lambda _owner: None,
) -> Decision:
    """Judge a ResourceClaim that is about to be created, and count it in the quotas of its namespace.

    The claim that a scheduler makes for extended resources of a pod is not judged, because the pod was, and takes
    the entry of the pod over. Who made it decides, because anybody who may create claims may write its annotation.

    `pod_of` is asked only about a claim that Kubernetes has made for a pod, and only if an exception might change the
    decision.
    """
    raw, namespace = request.object, request.namespace
    group, _, _ = request.api_version.rpartition("/")
    if (group, request.kind) != (GROUP, CLAIM) or request.operation != "CREATE" or raw is None:
        return UNCONCERNED
    decision = _judged(request, raw, in_force(request, policies, now), facts)
    owner = _owner(request, raw)
    if owner is None or not policies.exceptions.may_hold(namespace, _in_question(decision), now):
        return decision
    pod = pod_of(owner)
    if pod is None:
        return decision
    held = policies.in_force(namespace, lambda: subject_for_pod(raw, pod), now)
    return _judged(request, raw, held, facts)


def _judged(request: AdmissionRequest, raw: Mapping[str, Any], held: InForce, facts: ClusterFacts) -> Decision:
    policy, bound, namespace = held.policy, held.quotas, request.namespace
    if request.user == SCHEDULER and is_for_extended_resources(raw):
        found = claims_of_extended(raw, namespace, bound, facts)
        return Decision(AdmissionResponse(is_allowed=True), Outcome(policy, raw, ()), found) if bound else UNCONCERNED
    decision = decide(outcome := engine.validate_claim(raw, namespace, policy, facts))
    if not bound or outcome.refusals:
        return decision
    return replace(decision, claims=claims_of_claim(raw, namespace, bound, facts))


def _owner(request: AdmissionRequest, raw: Mapping[str, Any]) -> ClaimOwner | None:
    """The pod that Kubernetes has made a claim for; None for claims of others, who may write any owner."""
    owner = claim_owner(raw)
    if owner is None or request.user not in (CONTROLLERS if owner.claim else (SCHEDULER,)):
        return None
    return owner if owner.claim or is_for_extended_resources(raw) else None


def _in_question(decision: Decision) -> frozenset[str]:
    """The rules whose exceptions might change a decision."""
    outcome, claims = decision.outcome, decision.claims
    if outcome is None:
        return frozenset()
    refusing = frozenset(one.rule for one in outcome.refusals)
    return refusing | _OF_QUOTAS if claims.claims or claims.findings else refusing
