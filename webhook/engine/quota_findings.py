"""The findings that verdicts of ledgers and objections of quotas become."""

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from heapq import nsmallest
from http import HTTPStatus

from webhook.engine.running_rules import told
from webhook.ledger.ledger_store import GpuPod, entered_demand
from webhook.ledger.verdicts import (
    AlreadyStored,
    Exceeded,
    Granted,
    KeptOut,
    LedgerFull,
    TooManyUnconfirmed,
    Unanswered,
    Verdict,
)
from webhook.model.shape import shortened
from webhook.model.wording import PLATFORM_TEAM
from webhook.outcome import Finding, FindingKind
from webhook.policy.policy_quotas import BoundQuota
from webhook.quota import quota_wording
from webhook.quota.amounts import amounts
from webhook.quota.quota_wording import Objection, is_unspecified
from webhook.quota.quotas import Demand, Limit, OnLedgerFailure, Quota
from webhook.rules import gpu_quota
from webhook.rules.rule_settings import Mode

KEY = gpu_quota.RULE.key
"""The rule that findings about quotas belong to."""
_MOST_NAMES = 3
"""Pods that a refusal names."""
_LONGEST_NAME = 40
"""Characters of a pod's name in a refusal. A warning has room for 256 in all."""


def advice_of(bound: BoundQuota, objection: Objection) -> Finding:
    """The advice that an objection is, which refuses nothing."""
    return replace(_objected(bound, objection), kind=FindingKind.ADVICE, refuses=False)


def finding_for(bound: BoundQuota, demand: Demand, verdict: Verdict, pods: Iterable[GpuPod] | None) -> Finding | None:
    """The finding that the verdict on a demand becomes; None for a pod that fits.

    `pods` is as in `webhook.engine.quota_claims.entered`.
    """
    if isinstance(verdict, Granted):
        return None
    found = _finding_for(bound, demand, verdict, pods)
    return found if isinstance(verdict, Unanswered) else told(replace(found, exception=bound.exception))


def _finding_for(
    bound: BoundQuota, demand: Demand, verdict: Exceeded | Unanswered | KeptOut, pods: Iterable[GpuPod] | None
) -> Finding:
    if isinstance(verdict, KeptOut):
        found = finding_of(bound, _WITHOUT_USAGE if pods is None else _objection(verdict, bound.quota))
        passes = isinstance(verdict, TooManyUnconfirmed) and verdict.excess.used  # those pods are stored in a moment
        return replace(found, code=HTTPStatus.TOO_MANY_REQUESTS) if passes else found
    if isinstance(verdict, Exceeded):
        largest = None if pods is None else _largest(pods, verdict.excesses[0].limit, bound.quota)
        is_open = is_unspecified(demand, bound.quota)
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
        f"Try again in a moment, or tell {PLATFORM_TEAM}" if verdict.code == 503 else f"Tell {PLATFORM_TEAM}",
        refuses=bound.mode is Mode.ENFORCE and bound.on_ledger_failure is OnLedgerFailure.DENY,
        origin=bound.origin,
        line=bound.line,
        code=verdict.code,
    )


def _objection(verdict: KeptOut, quota: Quota) -> Objection:
    """The objection to a pod that is kept out because of other pods in its namespace."""
    if isinstance(verdict, AlreadyStored):
        found = f"there is already a pod {verdict.name}"
        return Objection("metadata.name", found, "no two pods of a namespace have one name", "Choose another name")
    if isinstance(verdict, LedgerFull):
        return Objection("spec", *quota_wording.ledger_full(quota, verdict.demands, verdict.most))
    return Objection("spec", *quota_wording.too_many_unconfirmed(quota, verdict.excess, verdict.most))


_WITHOUT_USAGE = Objection(
    "spec", "does not fit beside the pods of its namespace", "a GPU quota is used up", "Free some or request less"
)
"""The objection in place of a particular one, if refusals tell nothing of what is in use."""


def finding_of(bound: BoundQuota, objection: Objection) -> Finding:
    """The finding that an objection is, in the mode of its quota."""
    return told(replace(_objected(bound, objection), exception=bound.exception))


def _objected(bound: BoundQuota, objection: Objection) -> Finding:
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


def _largest(pods: Iterable[GpuPod], limit: Limit, quota: Quota) -> list[tuple[str, Fraction]]:
    """The pods that count most against a limit, and by name if several count alike."""
    known: dict[tuple[int, int, int], Fraction] = {}

    def counted(seen: GpuPod) -> Fraction:
        key = id(seen.pod), id(seen.requests), id(seen.kind)
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
