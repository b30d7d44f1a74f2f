"""Quotas: what a pod claims of them, and what people are told of the ledger's verdicts.

The ledger itself is asked by whoever admits the pod, because that waits and writes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from heapq import nsmallest
from typing import Any

from webhook.ledger.store import SeenPod
from webhook.ledger.verdicts import Claim, Exceeded, Granted, Unanswered, Verdict
from webhook.model.pod import Pod, pod_from_raw
from webhook.model.workload import pods_at_once, template_of
from webhook.outcome import Finding, Kind, Outcome
from webhook.policy.quotas import BoundQuota
from webhook.quota import wording
from webhook.quota.amounts import amounts
from webhook.quota.demand import demand_of
from webhook.quota.objections import Objection, is_unspecified, objections
from webhook.quota.quota import Excess, Limit, OnLedgerFailure, Quota, Scope
from webhook.rules import gpu_quota
from webhook.rules.rule import Mode

_KEY = gpu_quota.RULE.key
_MOST_NAMES = 3
"""Pods that a refusal names."""


@dataclass(frozen=True, slots=True)
class BoundClaim:
    """What a pod claims of one quota, and what the policy says about that quota."""

    claim: Claim
    bound: BoundQuota


@dataclass(frozen=True, slots=True)
class Claims:
    """What a pod claims of the quotas of its namespace, and what is wrong with it whoever else uses them."""

    claims: tuple[BoundClaim, ...] = ()
    findings: tuple[Finding, ...] = ()


NO_CLAIMS = Claims()


def claims_of(raw: Mapping[str, Any], namespace: str, quotas: Sequence[BoundQuota]) -> Claims:
    """What a pod claims. Raises ShapeError for a malformed pod."""
    if not quotas:
        return NO_CLAIMS
    pod = pod_from_raw(raw)
    if not pod.gpus:
        return NO_CLAIMS
    claims: list[BoundClaim] = []
    findings: list[Finding] = []
    for bound in quotas:
        demand = demand_of(pod, namespace, bound.quota.counting)
        if demand is None:
            continue
        claims.append(BoundClaim(Claim(bound.quota, demand, bound.mode is Mode.ENFORCE), bound))
        if bound.quota.scope is Scope.POT:  # of the namespace's own quota the rule says it
            findings += [_finding(bound, objection) for objection in objections(pod, demand, bound.quota)]
    return Claims(tuple(claims), tuple(findings))


def workload_findings(
    raw: Mapping[str, Any],
    path: tuple[str, ...],
    namespace: str,
    quotas: Sequence[BoundQuota],
) -> Iterator[Finding]:
    """What a workload should know whose pods do not all fit into a quota, whatever else is in use.

    It is only told: its pods are judged one by one when they come. Raises ShapeError for a malformed template.
    """
    replicas = pods_at_once(raw, path)
    if not quotas or replicas is None or replicas < 2:
        return  # what one pod asks is judged of the template
    pod = pod_from_raw(template_of(raw, path), ".".join((*path, "spec")))
    for bound in quotas:
        demand = demand_of(pod, namespace, bound.quota.counting)
        if demand is None:
            continue
        for limit, one in amounts(demand, bound.quota).items():
            if one <= limit.hard < one * replicas:
                found, remedy = wording.too_many_pods(bound.quota, Excess(limit, one, Fraction(0)), replicas)
                mode = Mode.AUDIT if bound.mode is Mode.AUDIT else Mode.WARN
                yield Finding(_KEY, mode, Kind.VIOLATION, ".".join(path[:-1]), found, remedy)


def _with_verdicts(
    outcome: Outcome, claims: Sequence[BoundClaim], verdicts: Sequence[Verdict], pods: Iterable[SeenPod]
) -> Outcome:
    """The outcome, and what the ledgers said. `pods` are those of the pod's own namespace, to name the largest."""
    findings = [
        _found(one, verdict, pods)
        for one, verdict in zip(claims, verdicts, strict=True)
        if not isinstance(verdict, Granted)
    ]
    return replace(outcome, findings=(*outcome.findings, *findings)) if findings else outcome


def reserved(
    outcome: Outcome,
    namespace: str,
    bound: Sequence[BoundQuota],
    ask: Callable[[Sequence[Claim]], Sequence[Verdict]],
    seen: Callable[[str], Iterable[SeenPod]],
) -> Outcome:
    """The outcome of a pod that is about to be admitted, once its quotas have had their say.

    `ask` enters it in their ledgers, which is done only for a pod that nothing refuses; `seen` gives the pods of its
    namespace. Raises ShapeError for a malformed pod.
    """
    if outcome.refusals or not bound:
        return outcome
    claims = claims_of(outcome.object, namespace, bound)
    if claims.findings:
        outcome = replace(outcome, findings=(*outcome.findings, *claims.findings))
    if outcome.refusals or not claims.claims:
        return outcome
    verdicts = ask([one.claim for one in claims.claims])
    is_over = any(isinstance(verdict, Exceeded) for verdict in verdicts)
    return _with_verdicts(outcome, claims.claims, verdicts, seen(namespace) if is_over else ())


def _found(one: BoundClaim, verdict: Exceeded | Unanswered, pods: Iterable[SeenPod]) -> Finding:
    bound = one.bound
    if isinstance(verdict, Exceeded):
        largest = _largest(pods, verdict.excesses[0].limit, bound.quota)
        is_open = is_unspecified(one.claim.demand, bound.quota)
        message = wording.exceeded(bound.quota, verdict.excesses, largest, is_unspecified=is_open)
        return Finding(_KEY, bound.mode, Kind.VIOLATION, "spec", message, refuses=bound.mode is Mode.ENFORCE)
    return Finding(
        _KEY,
        bound.mode,
        Kind.VIOLATION,
        "spec",
        f"the ledger of GPU quota '{bound.quota.name}' cannot be reached, so what is free is not known: "
        f"{verdict.reason}",
        "Try again in a moment, or tell the platform team",
        refuses=bound.mode is Mode.ENFORCE and bound.on_ledger_failure is OnLedgerFailure.DENY,
    )


def _finding(bound: BoundQuota, objection: Objection) -> Finding:
    return Finding(
        _KEY,
        bound.mode,
        Kind.VIOLATION,
        objection.where,
        f"{objection.found}; {objection.allowed}",
        objection.remedy,
        refuses=bound.mode is Mode.ENFORCE,
    )


def _largest(pods: Iterable[SeenPod], limit: Limit, quota: Quota) -> list[tuple[str, Fraction]]:
    """The pods that count most against a limit, by name where they count alike."""
    known: dict[int, Fraction] = {}

    def counted(seen: SeenPod) -> Fraction:
        amount = known.get(id(seen.pod))
        if amount is None:
            amount = known[id(seen.pod)] = _amount(seen.pod, seen.namespace, limit, quota)
        return amount

    counting = ((counted(seen), seen.name) for seen in pods)
    first = nsmallest(_MOST_NAMES, ((-amount, name) for amount, name in counting if amount))
    return [(name, -amount) for amount, name in first]


def _amount(pod: Pod, namespace: str, limit: Limit, quota: Quota) -> Fraction:
    demand = demand_of(pod, namespace, quota.counting)
    return Fraction(0) if demand is None else amounts(demand, quota).get(limit, Fraction(0))
