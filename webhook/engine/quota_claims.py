"""Quotas: what a pod claims of them, and the findings that the verdicts of ledgers become.

Nothing here reads or writes a ledger, because that waits: the caller does so with a function of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from heapq import nsmallest
from typing import Any

from webhook.engine.running_rules import addressed_to
from webhook.facts.gpu_pods import counted_pod
from webhook.ledger.entries import MOST_RESOURCES
from webhook.ledger.ledger_store import GpuPod, entered_demand
from webhook.ledger.verdicts import (
    AlreadyStored,
    Claim,
    Crowded,
    Exceeded,
    Granted,
    InTreeExceeded,
    Unanswered,
    Verdict,
    Withheld,
)
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw
from webhook.model.shape import shortened
from webhook.model.wording import PLATFORM_TEAM
from webhook.outcome import Finding, FindingKind, Outcome
from webhook.policy.policy_quotas import BoundQuota
from webhook.quota import quota_wording
from webhook.quota.amounts import amounts
from webhook.quota.demand import demand_of
from webhook.quota.pod_demand import PodDemand, ResourceClaims, claimed_demands, pod_demand, uncounted
from webhook.quota.quota_wording import Objection, is_unspecified, objections
from webhook.quota.quotas import ClaimsMode, Excess, Limit, OnLedgerFailure, Quota, QuotaScope
from webhook.rules import gpu_quota
from webhook.rules.rule_settings import Mode

KEY = gpu_quota.RULE.key
"""The rule that findings about quotas belong to."""
_MOST_NAMES = 3
"""Pods that a refusal names."""
_LONGEST_NAME = 40
"""Characters of a pod's name in a refusal. A warning has room for 256 in all."""


_KeptOut = Withheld | Crowded | AlreadyStored | InTreeExceeded
"""Verdicts on a pod that is kept out because of other pods in its namespace."""


@dataclass(frozen=True, slots=True)
class BoundClaim:
    """What a pod claims of one quota, and the quota as a policy declares it."""

    claim: Claim
    bound: BoundQuota


@dataclass(frozen=True, slots=True)
class QuotaClaims:
    """What a pod claims of the quotas of its namespace. `findings` hold whatever else is in use."""

    claims: tuple[BoundClaim, ...] = ()
    findings: tuple[Finding, ...] = ()


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
    counted = counted_pod({**raw, "metadata": {}}, accelerators)
    findings = list(uncounted_of_pots(pod, quotas, known))
    if counted is None and not pod.resource_claims:
        return QuotaClaims(findings=tuple(findings)) if findings else NO_CLAIMS
    if counted is not None and len(counted.gpus) > MOST_RESOURCES:
        return QuotaClaims(findings=tuple(finding_of(bound, _too_many_kinds(pod)) for bound in quotas))
    claims: list[BoundClaim] = []
    for bound in quotas:
        counting = bound.quota.counting
        own = None if counted is None else demand_of(counted, namespace, counting)
        parts = PodDemand(own, tuple(claimed_demands(pod, namespace, counting, known)))
        demand = parts.all
        if demand is None:
            continue
        is_enforced = bound.mode is Mode.ENFORCE
        claims.append(
            BoundClaim(Claim(bound.quota, demand, is_enforced, parts.reserved, own if parts.reserved else None), bound)
        )
        if bound.quota.scope is QuotaScope.POT:  # the rule reports objections of the namespace's own quota
            findings += [finding_of(bound, objection) for objection in objections(demand, bound.quota)]
    return QuotaClaims(tuple(claims), tuple(findings))


def _with_verdicts(
    outcome: Outcome, claims: Sequence[BoundClaim], verdicts: Sequence[Verdict], pods: Iterable[GpuPod] | None
) -> Outcome:
    """The outcome with the findings that the verdicts of ledgers become.

    `pods` are the pods of the namespace, of which messages name the largest. If None, messages tell nothing of what is
    in use.
    """
    findings = [
        _finding_for(one, verdict, pods)
        for one, verdict in zip(claims, verdicts, strict=True)
        if not isinstance(verdict, Granted)
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


def _finding_for(one: BoundClaim, verdict: Exceeded | Unanswered | _KeptOut, pods: Iterable[GpuPod] | None) -> Finding:
    bound = one.bound
    if isinstance(verdict, Withheld | Crowded | AlreadyStored | InTreeExceeded):
        return finding_of(bound, _WITHOUT_USAGE if pods is None else _objection(verdict, bound.quota))
    if isinstance(verdict, Exceeded):
        largest = None if pods is None else _largest(pods, verdict.excesses[0].limit, bound.quota)
        is_open = is_unspecified(one.claim.demand, bound.quota)
        message = quota_wording.exceeded(bound.quota, verdict.excesses, largest, is_unspecified=is_open)
        return Finding(
            KEY,
            bound.mode,
            FindingKind.VIOLATION,
            "spec",
            message,
            refuses=bound.mode is Mode.ENFORCE,
            origin=bound.origin,
            line=bound.line,
        )
    return Finding(
        KEY,
        bound.mode,
        FindingKind.VIOLATION,
        "spec",
        f"the ledger of GPU quota '{bound.quota.name}' cannot be reached, so it is not known what is free: "
        f"{verdict.reason}",
        f"Try again in a moment, or tell {PLATFORM_TEAM}",
        refuses=bound.mode is Mode.ENFORCE and bound.on_ledger_failure is OnLedgerFailure.DENY,
        origin=bound.origin,
        line=bound.line,
    )


def _objection(verdict: _KeptOut, quota: Quota) -> Objection:
    """The objection to a pod that is kept out because of other pods in its namespace."""
    if isinstance(verdict, AlreadyStored):
        found = f"there is already a pod {verdict.name}"
        return Objection("metadata.name", found, "no two pods of a namespace have one name", "Choose another name")
    if isinstance(verdict, InTreeExceeded):
        return Objection("spec", verdict.found, "the API server refuses pods beyond it", "Free some or request less")
    if isinstance(verdict, Crowded):
        return Objection("spec", *quota_wording.crowded(quota, verdict.bytes, verdict.most))
    return Objection(
        "spec", *quota_wording.withheld(quota, Excess(verdict.limit, verdict.asks, verdict.held), verdict.most)
    )


_WITHOUT_USAGE = Objection(
    "spec", "does not fit beside the pods of its namespace", "a GPU quota is used up", "Free some or request less"
)
"""The objection in place of a particular one, if refusals tell nothing of what is in use."""


def _too_many_kinds(pod: Pod) -> Objection:
    """The objection to a pod whose entry would fill the ledger, which the whole quota shares."""
    found = f"requests {len(pod.gpus)} different GPU resources"
    return Objection("spec", found, f"at most {MOST_RESOURCES} are counted", "Request GPUs of one node only")


def finding_of(bound: BoundQuota, objection: Objection) -> Finding:
    """The finding that an objection is, in the mode of its quota."""
    return Finding(
        KEY,
        bound.mode,
        FindingKind.VIOLATION,
        objection.where,
        f"{objection.found}; {objection.allowed}",
        objection.remedy,
        refuses=bound.mode is Mode.ENFORCE,
        origin=bound.origin,
        line=bound.line,
    )


def uncounted_of_pots(pod: Pod, quotas: Sequence[BoundQuota], known: ResourceClaims) -> Iterator[Finding]:
    """The GPUs of a pod that pots cannot count. The rule reports these for the namespace's own quota."""
    for bound in quotas:
        if bound.quota.scope is QuotaScope.POT:
            is_denied = bound.quota.counting.claims is ClaimsMode.DENY
            for objection in uncounted(pod, bound.quota, known):
                found = finding_of(bound, objection)
                yield found if is_denied else replace(found, kind=FindingKind.ADVICE, refuses=False)


def pot_findings(pod: Pod, namespace: str, quotas: Sequence[BoundQuota], known: ResourceClaims) -> Iterator[Finding]:
    """Why a pod never fits into a pot. The rule reports this for the namespace's own quota."""
    yield from uncounted_of_pots(pod, quotas, known)
    for bound in quotas:
        demand = pod_demand(pod, namespace, bound.quota.counting, known).all
        if demand is not None and bound.quota.scope is QuotaScope.POT:
            yield from (finding_of(bound, objection) for objection in objections(demand, bound.quota))


def _largest(pods: Iterable[GpuPod], limit: Limit, quota: Quota) -> list[tuple[str, Fraction]]:
    """The pods that count most against a limit, and by name if several count alike."""
    known: dict[tuple[int, int], Fraction] = {}

    def counted(seen: GpuPod) -> Fraction:
        key = id(seen.pod), id(seen.requests)
        if key not in known:
            known[key] = amount_of_stored(seen, limit, quota)
        return known[key]

    counting = ((counted(seen), seen.called) for seen in pods)
    first = nsmallest(_MOST_NAMES, ((-amount, name) for amount, name in counting if amount))
    return [(shortened(name, _LONGEST_NAME), -amount) for amount, name in first]


def amount_of_stored(seen: GpuPod, limit: Limit, quota: Quota) -> Fraction:
    """What a stored pod or claim counts against a limit."""
    demand = entered_demand(seen, quota.counting)
    return Fraction(0) if demand is None else amounts(demand, quota).get(limit, Fraction(0))
