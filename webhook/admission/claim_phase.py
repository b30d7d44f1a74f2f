"""What is decided about ResourceClaims that are about to be created: by the rules of their namespace, and by quotas."""

from dataclasses import replace

from webhook import engine
from webhook.admission.admission_review import AdmissionRequest, AdmissionResponse
from webhook.admission.phases import NO_TIME, UNCONCERNED, Decision, decide, in_force
from webhook.engine.quota_claims import claims_of_claim, claims_of_extended
from webhook.facts.facts import ClusterFacts
from webhook.facts.stored_claims import is_for_extended_resources
from webhook.model.claims import CLAIM, GROUP
from webhook.outcome import Outcome
from webhook.policy.policy_set import PolicySet

SCHEDULER = "system:kube-scheduler"
"""The user that makes claims for extended resources."""


def claims(request: AdmissionRequest, policies: PolicySet, facts: ClusterFacts, now: float = NO_TIME) -> Decision:
    """Judge a ResourceClaim that is about to be created, and count it in the quotas of its namespace.

    The claim that a scheduler makes for extended resources of a pod is not judged, because the pod was, and takes
    the entry of the pod over. Who made it decides, because anybody who may create claims may write its annotation.
    """
    raw, namespace = request.object, request.namespace
    group, _, _ = request.api_version.rpartition("/")
    if (group, request.kind) != (GROUP, CLAIM) or request.operation != "CREATE" or raw is None:
        return UNCONCERNED
    held = in_force(request, policies, now)
    policy, bound = held.policy, held.quotas
    if request.user == SCHEDULER and is_for_extended_resources(raw):
        found = claims_of_extended(raw, namespace, bound, facts)
        return Decision(AdmissionResponse(is_allowed=True), Outcome(policy, raw, ()), found) if bound else UNCONCERNED
    decision = decide(outcome := engine.validate_claim(raw, namespace, policy, facts))
    if not bound or outcome.refusals:
        return decision
    return replace(decision, claims=claims_of_claim(raw, namespace, bound, facts))
