"""Quotas: what a pod claims of them, and the findings that the verdicts of ledgers become.

Nothing here reads or writes a ledger, because that waits: the caller does so with a function of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from webhook.engine.quota_findings import advice_of, finding_for, finding_of
from webhook.engine.running_rules import addressed_to
from webhook.facts.claim_index import bounded
from webhook.facts.gpu_pods import counted_pod, extended_pod, reservation_of
from webhook.ledger.entries import MOST_RESOURCES
from webhook.ledger.ledger_store import GpuPod
from webhook.ledger.verdicts import (
    Claim,
    Exceeded,
    Verdict,
)
from webhook.model.claims import CLAIM, Requests, claim_of_kind
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw
from webhook.outcome import Finding, Outcome
from webhook.policy.policy_quotas import BoundQuota
from webhook.quota.claimed_devices import claims_demand, is_uncounted, looked_up
from webhook.quota.demand import demand_of
from webhook.quota.pod_demand import (
    ResourceClaims,
    nodes_for,
    pod_demand,
    too_large,
    uncountable,
    uncounted,
    with_claims,
)
from webhook.quota.quota_wording import Objection, objections
from webhook.quota.quotas import ClaimsMode, OnLedgerFailure, QuotaScope
from webhook.quota.unit_parts import unit_parts
from webhook.rules.rule_settings import Mode


@dataclass(frozen=True, slots=True)
class BoundClaim:
    """What a pod claims of one quota, and the quota as a policy declares it."""

    claim: Claim
    bound: BoundQuota


@dataclass(frozen=True, slots=True)
class QuotaClaims:
    """What a pod claims of the quotas of its namespace. `findings` hold whatever else is in use.

    `takes_over` is the key of the entry whose room the entry of a claim takes; empty for a pod. `stands_for` says that
    it is the entry of a pod.
    """

    claims: tuple[BoundClaim, ...] = ()
    findings: tuple[Finding, ...] = ()
    takes_over: bytes = b""
    stands_for: bool = False


NO_CLAIMS = QuotaClaims()


def claims_of(
    raw: Mapping[str, Any],
    namespace: str,
    quotas: Sequence[BoundQuota],
    known: ResourceClaims,
    read: Pod | None = None,
) -> QuotaClaims:
    """What a pod claims. `read` is the pod, if it was read before. Raises ShapeError for a malformed pod."""
    if not quotas:
        return NO_CLAIMS
    accelerators = quotas[0].quota.counting.accelerators
    pod = read or pod_from_raw(raw, accelerators)
    counted = counted_pod(pod)
    findings = list(uncounted_of_shared_quotas(pod, quotas, known))
    if counted is None and not pod.resource_claims:
        return QuotaClaims(findings=tuple(findings)) if findings else NO_CLAIMS
    if counted is not None and len(counted.gpus) > MOST_RESOURCES:
        return QuotaClaims(findings=tuple(finding_of(bound, _too_many_kinds(pod)) for bound in quotas))
    parts = unit_parts(pod, known, quotas[0].quota.counting.catalogue.table)  # one for all quotas of a policy set
    nodes = nodes_for(pod, known)
    claims: list[BoundClaim] = []
    for bound in quotas:
        counting = bound.quota.counting
        own = None if counted is None else demand_of(counted, namespace, counting, parts, nodes)
        whole = with_claims(own, pod, namespace, counting, known)
        if whole.is_too_large:
            return QuotaClaims(findings=tuple(finding_of(one, too_large()) for one in quotas))
        demand = whole.all
        if demand is None:
            continue
        is_enforced = bound.mode is Mode.ENFORCE
        remaining = own if whole.reserved else None
        claims.append(BoundClaim(Claim(bound.quota, demand, is_enforced, whole.reserved, remaining), bound))
        if bound.quota.scope is QuotaScope.SHARED:  # the rule reports objections of the namespace's own quota
            findings += [finding_of(bound, objection) for objection in objections(demand, bound.quota)]
    return QuotaClaims(tuple(claims), tuple(findings))


def claims_of_claim(
    raw: Mapping[str, Any], namespace: str, quotas: Sequence[BoundQuota], known: ResourceClaims
) -> QuotaClaims:
    """What a ResourceClaim claims that is about to be created."""
    claim = claim_of_kind(CLAIM, raw)
    requests = looked_up(bounded(claim.requests), known) if claim is not None else ()
    claims: list[BoundClaim] = []
    findings: list[Finding] = []
    for bound in quotas:
        findings += _uncounted_in(requests, bound)
        demand = claims_demand([requests], namespace, bound.quota.counting)
        if demand is not None:
            claims.append(BoundClaim(Claim(bound.quota, demand, bound.mode is Mode.ENFORCE), bound))
            findings += [finding_of(bound, one) for one in objections(demand, bound.quota, namespace)]
    return QuotaClaims(tuple(claims), tuple(findings), reservation_of(raw))


def claims_of_extended(
    raw: Mapping[str, Any], namespace: str, quotas: Sequence[BoundQuota], known: ResourceClaims
) -> QuotaClaims:
    """What a ResourceClaim claims that the scheduler makes for extended resources of a pod.

    It takes the entry of the pod over. If the pod was deleted meanwhile, its entry is gone, and the claim has to fit.
    While ledgers are away it is admitted: the pod was, and waits for it.
    """
    found = claims_of_claim(raw, namespace, quotas, known)
    lenient = (replace(one.bound, on_ledger_failure=OnLedgerFailure.ALLOW) for one in found.claims)
    claims = tuple(BoundClaim(one.claim, bound) for one, bound in zip(found.claims, lenient, strict=True))
    return QuotaClaims(claims, takes_over=extended_pod(raw), stands_for=True)


def _uncounted_in(requests: Requests, bound: BoundQuota) -> Iterator[Finding]:
    """That a claim may give GPUs which the quota cannot count, unless the quota allows that."""
    if bound.quota.counting.claims is not ClaimsMode.ALLOW and is_uncounted(requests, bound.quota.counting):
        objection = Objection("spec.devices.requests", *uncountable(bound.quota))
        is_refused = bound.quota.counting.claims is ClaimsMode.DENY
        yield finding_of(bound, objection) if is_refused else advice_of(bound, objection)


def _with_verdicts(
    outcome: Outcome, claims: Sequence[BoundClaim], verdicts: Sequence[Verdict], pods: Iterable[GpuPod] | None
) -> Outcome:
    """The outcome with the findings that the verdicts of ledgers become.

    `pods` are the pods of the namespace, of which messages name the largest. If None, messages tell nothing of what is
    in use.
    """
    findings = [
        finding
        for one, verdict in zip(claims, verdicts, strict=True)
        if (finding := finding_for(one.bound, one.claim.demand, verdict, pods)) is not None
    ]
    return _with_findings(outcome, findings) if findings else outcome


def _with_findings(outcome: Outcome, findings: Iterable[Finding]) -> Outcome:
    """The outcome with more findings, which name the contact of the policy."""
    return replace(outcome, findings=(*outcome.findings, *addressed_to(outcome.policy.contact, findings)))


def reserved(  # noqa: PLR0913, PLR0917  # what is reserved, and who is asked
    outcome: Outcome,
    namespace: str,
    bound: Sequence[BoundQuota],
    known: ResourceClaims,
    ask: Callable[[Sequence[Claim]], Sequence[Verdict]],
    seen: Callable[[str], Iterable[GpuPod]] | None,
) -> Outcome:
    """The outcome of a pod after its claims were entered in the ledgers of its quotas, as by `entered`.

    A pod that is refused already claims nothing. Raises ShapeError for a malformed pod.
    """
    if outcome.refusals or not bound:
        return outcome
    return entered(outcome, namespace, claims_of(outcome.object, namespace, bound, known), ask, seen)


def entered(
    outcome: Outcome,
    namespace: str,
    claims: QuotaClaims,
    ask: Callable[[Sequence[Claim]], Sequence[Verdict]],
    seen: Callable[[str], Iterable[GpuPod]] | None,
) -> Outcome:
    """The outcome of a pod after its claims were entered in their ledgers.

    `ask` enters claims and returns the verdicts; it is called only for a pod that nothing refuses. `seen` returns the
    pods of a namespace; if it is None, a refusal tells nothing of what is in use.
    """
    if claims.findings:
        outcome = _with_findings(outcome, claims.findings)
    if outcome.refusals or not claims.claims:
        return outcome
    verdicts = ask([one.claim for one in claims.claims])
    is_over = any(isinstance(verdict, Exceeded) for verdict in verdicts)
    pods = None if seen is None else seen(namespace) if is_over else ()
    return _with_verdicts(outcome, claims.claims, verdicts, pods)


def _too_many_kinds(pod: Pod) -> Objection:
    """The objection to a pod whose entry would fill the ledger, which the whole quota shares."""
    found = f"requests {len(pod.gpus)} different GPU resources"
    return Objection("spec", found, f"at most {MOST_RESOURCES} are counted", "Request GPUs of one node only")


def uncounted_of_shared_quotas(pod: Pod, quotas: Sequence[BoundQuota], known: ResourceClaims) -> Iterator[Finding]:
    """The GPUs of a pod that shared quotas cannot count. The rule reports these for the namespace's own quota."""
    for bound in quotas:
        if bound.quota.scope is QuotaScope.SHARED:
            is_denied = bound.quota.counting.claims is ClaimsMode.DENY
            for objection in uncounted(pod, bound.quota, known):
                yield finding_of(bound, objection) if is_denied else advice_of(bound, objection)


def shared_quota_findings(
    pod: Pod, namespace: str, quotas: Sequence[BoundQuota], known: ResourceClaims
) -> Iterator[Finding]:
    """Why a pod never fits into a shared quota. The rule reports this for the namespace's own quota."""
    yield from uncounted_of_shared_quotas(pod, quotas, known)
    for bound in quotas:
        demand = pod_demand(pod, namespace, bound.quota.counting, known).all
        if demand is not None and bound.quota.scope is QuotaScope.SHARED:
            yield from (finding_of(bound, objection) for objection in objections(demand, bound.quota))
