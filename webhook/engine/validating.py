"""The validating phase of pods, and resource claims and their templates.

`simulate` runs the mutating and the validating phase of a pod that is about to be created.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from webhook.engine.joint_steering import refusal, steered
from webhook.engine.mutating import STAMP, mutate
from webhook.engine.running_rules import (
    addressed,
    all_told,
    bounded,
    edits_of,
    facts_under,
    findings_of,
    listed,
    violations,
)
from webhook.facts.claim_index import bounded as bounded_requests
from webhook.facts.facts import ClusterFacts
from webhook.model.claims import CLAIM, GROUP, TEMPLATE, ClaimObject, place_of_requests, requested_classes, requests_of
from webhook.model.pod import Pod, changed
from webhook.model.pod_reader import pod_from_raw
from webhook.outcome import Finding, FindingKind, Outcome
from webhook.policy.policy_set import Policy
from webhook.rules.rule import Facts
from webhook.rules.rule_settings import IfMissing, InjectionSettings, Mode


def validate(  # noqa: PLR0913  # all that decides
    raw: Mapping[str, Any],
    policy: Policy,
    facts: ClusterFacts,
    *,
    old: Mapping[str, Any] | None = None,
    namespace: str = "",
    of_old: Policy | None = None,
    completing: Policy | None = None,
) -> Outcome:
    """Report the violations of a pod. `completing` is as in `simulate`.

    On CREATE (`old` is None), injections that the pod lacks are reported, too. If another policy completed the pod, as
    its stamp says, what is about injections is only recorded. On UPDATE, only violations that the old pod did not have
    are reported. If no image changed, a violation of a rule that softens on updates is a warning: a scheduler or a
    queue may narrow the nodes down. `of_old` is the policy of the old pod at this moment, where the namespace has
    exceptions: what these allowed the old image does not count as a violation that the pod had. `namespace` is where
    the pod is; if empty, the pod itself says it. Raises ShapeError for a malformed pod.
    """
    pod = pod_from_raw(raw, policy.accelerators, namespace)
    found = _violations(pod, policy, facts_under(policy, facts))
    if old is None:
        found = chain(_told_once(bounded(found), completing or policy, pod, facts), _missing(pod, policy, facts))
        if pod.annotations.get(STAMP) not in (None, "", policy.stamp):
            found = _recorded(found, policy)
    else:
        found = bounded(_new(found, pod, old, policy, of_old or policy, facts))
    return Outcome(policy, raw, all_told(found), pod=pod)


def _violations(pod: Pod, policy: Policy, facts: Facts) -> Iterable[Finding]:
    """What the rules of a policy find in a pod, each by itself and all of them together.

    Where no node is left, that alone is said: findings about some of the nodes are left out.
    """
    found = violations(pod, policy.validators, facts)
    if len(policy.steerers) < 2 or not (pod.accelerators or pod.resource_claims or pod.fractions):
        return found
    steering = {active.rule.key for active in policy.steerers}
    each, jointly = list(found), list(refusal(policy.steerers, pod, facts))
    of_nodes = [one for one in each if one.follows_nodes and one.rule in steering]
    if not jointly and all(one.kind is FindingKind.ADVICE or one.is_kept_off for one in of_nodes):
        return each
    of_some = [one for one in of_nodes if one.is_kept_off or (jointly and one.kind is FindingKind.ADVICE)]
    return [one for one in each if one not in of_some] + jointly


def _told_once(found: Iterable[Finding], completing: Policy, pod: Pod, facts: ClusterFacts) -> list[Finding]:
    """The findings, without advice about nodes that a rule would keep the pod off: its injection says so already."""
    each, added = list(found), list[Finding]()
    if any(one.is_kept_off and one.kind is FindingKind.ADVICE for one in each):
        steered(completing, pod, facts_under(completing, facts), added)
    said = {one.rule for one in added if one.is_kept_off}
    return [one for one in each if one.rule not in said or one.kind is not FindingKind.ADVICE or not one.is_kept_off]


def _new(  # noqa: PLR0913, PLR0917  # both pods, and the policy of each
    found: Iterable[Finding], pod: Pod, old: Mapping[str, Any], policy: Policy, of_old: Policy, facts: ClusterFacts
) -> Iterator[Finding]:
    """The findings that the old pod did not have. Only hashes of the old findings are kept, because there may be many.

    Controllers change labels, and may, so the old pod is judged with the exceptions of the new one. Where an image has
    changed, each pod has its own exceptions: otherwise a pod that an exception let through could get any image a moment
    later.
    """
    known: set[int] | None = None
    softens = False
    for finding in found:
        if known is None:
            before = pod_from_raw(old, policy.accelerators, pod.namespace)
            softens = _images(pod) == _images(before)
            judging = policy if softens else of_old
            known = set(map(hash, _violations(before, judging, facts_under(judging, facts))))
        if hash(finding) not in known:
            yield replace(finding, refuses=False) if softens and finding.softens_on_update else finding


def _images(pod: Pod) -> list[tuple[str, str]]:
    return [(container.path, container.image) for container in pod.containers]


def _recorded(found: Iterable[Finding], policy: Policy) -> Iterator[Finding]:
    """The findings about a pod that another policy completed. What that policy may have caused is only recorded: an
    injection that is missing, a field that this policy injects, too, or nodes that it kept the pod off.
    """
    injecting = {
        active.rule.key
        for active in policy.rules
        if active.rule.validates_own_injection or active.rule.depends_on_cluster_state
    }
    for one in found:
        is_caused = one.kind is FindingKind.MISSING or one.rule in injecting
        yield replace(one, mode=Mode.AUDIT, refuses=False) if is_caused else one


def _missing(pod: Pod, policy: Policy, facts: ClusterFacts) -> Iterator[Finding]:
    """Injections that the pod lacks.

    What follows from resource claims is never missed: `mutate` may not have known the claims.
    """
    own = facts_under(policy, facts)
    if pod.resource_claims:
        pod = changed(pod, resource_claims=None)
    for active in policy.injectors:
        if active.rule.depends_on_cluster_state:
            continue
        lost = edits_of(active, pod, own)
        if not lost:
            continue
        if_missing = active.settings.if_missing if isinstance(active.settings, InjectionSettings) else IfMissing.WARN
        yield Finding(
            active.rule.key,
            active.mode,
            FindingKind.MISSING,
            "spec",
            f"{listed(lost)} should have been injected but is missing; another webhook removed it or added "
            "the GPUs later, or mutate.gpupolicy.dev was not called",
            addressed("Create the pod again, or tell the platform team", active.contact),
            refuses=if_missing is IfMissing.REFUSE and not all(edit.is_preference for edit in lost),
            origin=active.origin,
            line=active.line,
        )


def simulate(
    raw: Mapping[str, Any],
    policy: Policy,
    facts: ClusterFacts,
    *,
    completing: Policy | None = None,
    namespace: str = "",
) -> Outcome:
    """The outcome of `mutate` and then `validate`, in one. Raises ShapeError for a malformed pod.

    `completing` is the policy that completes the pod, if not `policy` itself. `namespace` is as in `mutate`.
    """
    completed = mutate(raw, completing or policy, facts, namespace=namespace)
    if completed.refusals:
        return completed
    judged = validate(completed.object, policy, facts, namespace=namespace, completing=completing)
    findings = tuple(dict.fromkeys((*completed.findings, *judged.findings)))
    return replace(completed, findings=findings, pod=judged.pod)


def is_claim(raw: Mapping[str, Any]) -> bool:
    """Whether an object is a ResourceClaim or a ResourceClaimTemplate, of whatever version."""
    return raw.get("kind") in (CLAIM, TEMPLATE) and str(raw.get("apiVersion")).startswith(f"{GROUP}/")


def validate_claim(raw: Mapping[str, Any], namespace: str, policy: Policy, facts: ClusterFacts) -> Outcome:
    """Judge a claim or template (DRA) that is applied. Nothing is found in an object of another kind.

    A claim that Kubernetes makes for a pod is judged like any other, so that it makes no difference which template
    stood there when the pod was created. Exceptions about single containers of a pod do not hold for its claims.
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
