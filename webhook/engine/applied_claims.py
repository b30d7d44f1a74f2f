"""Resource claims and templates of claims (DRA), judged by the rules of their namespace when they are applied.

A claim that Kubernetes makes for a pod is judged like any other, so that it makes no difference which template stood
there when the pod was created.
"""

from collections.abc import Mapping
from typing import Any

from webhook.engine.running_rules import all_told, bounded, facts_under, findings_of
from webhook.facts.claim_index import bounded as bounded_requests
from webhook.facts.facts import ClusterFacts
from webhook.model.claims import CLAIM, GROUP, TEMPLATE, ClaimObject, place_of_requests, requested_classes, requests_of
from webhook.outcome import Finding, Outcome
from webhook.policy.policy_set import Policy


def is_claim(raw: Mapping[str, Any]) -> bool:
    """Whether an object is a ResourceClaim or a ResourceClaimTemplate, of whatever version."""
    return raw.get("kind") in (CLAIM, TEMPLATE) and str(raw.get("apiVersion")).startswith(f"{GROUP}/")


def validate_claim(raw: Mapping[str, Any], namespace: str, policy: Policy, facts: ClusterFacts) -> Outcome:
    """Judge a claim or template that is applied. Nothing is found in an object of another kind.

    Exceptions about single containers of a pod do not hold for its claims.
    """
    if not is_claim(raw):
        return Outcome(policy, raw)
    kind, own = raw["kind"], facts_under(policy, facts)
    requests, classes = bounded_requests(requests_of(kind, raw)), tuple(requested_classes(kind, raw))
    claim = ClaimObject(namespace, place_of_requests(kind), requests, classes, policy.accelerators)
    findings: list[Finding] = []
    for active in policy.rules:
        if active.rule.validate_claim is not None:
            findings += bounded(findings_of(active, active.rule.validate_claim(claim, active.settings, own)))
    return Outcome(policy, raw, all_told(findings))
