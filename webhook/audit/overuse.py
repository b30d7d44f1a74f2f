"""Quotas of which more is in use than they allow, as findings of an audit."""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from heapq import nsmallest

from webhook.audit.gathering import MOST_NAMES
from webhook.audit.quota_report import InUse
from webhook.audit.report import AuditFinding, Level, ObjectReference, Running
from webhook.ledger.ledger_store import GpuPod
from webhook.outcome import FindingKind
from webhook.policy.bound_quotas import BoundQuota
from webhook.policy.policy_set import PolicySet
from webhook.policy.schema import API_VERSION
from webhook.quota.amounts import amounts
from webhook.quota.gpu_demand import demand_of
from webhook.quota.quota_wording import amount_of, number
from webhook.quota.quotas import Limit, Quota, QuotaScope
from webhook.rules import gpu_quota
from webhook.rules.rule import Mode

_LEVELS = {Mode.ENFORCE: Level.REFUSE, Mode.WARN: Level.WARN}


def overused(quotas: Iterable[InUse], pods: Sequence[GpuPod], policies: PolicySet) -> Iterator[AuditFinding]:
    """One finding for each limit that is passed, about the namespace or the pot; `pods` are what uses them."""
    for one in quotas:
        for limit, used in (one.standing.used or {}).items():
            if used > limit.hard:
                yield _finding(one.bound, limit, used, _running(pods, limit, one.bound.quota), policies)


def _finding(bound: BoundQuota, limit: Limit, used: Fraction, running: Running, policies: PolicySet) -> AuditFinding:
    quota, over = bound.quota, used - limit.hard
    about, policy = ObjectReference("", "Namespace", quota.name, "v1"), policies.for_namespace(quota.name).name
    if quota.scope is QuotaScope.POT:
        about, policy = ObjectReference("", "Pot", quota.name, API_VERSION), bound.origin.removesuffix(".yaml")
    allowed = amount_of(limit.hard, limit)
    return AuditFinding(
        level=_LEVELS.get(bound.mode, Level.AUDIT),
        rule=gpu_quota.RULE.key,
        mode=bound.mode,
        kind=FindingKind.VIOLATION,
        object=about,
        owner=about,
        field="spec",
        message=f"GPU quota '{quota.name}' is used beyond its limit: {number(used)} of {allowed} ({number(over)} over)",
        remedy=f"Free {amount_of(over, limit)}, or raise the quota",
        policy=policy,
        file=bound.origin,
        line=bound.line,
        running=running,
    )


def _running(pods: Iterable[GpuPod], limit: Limit, quota: Quota) -> Running:
    """The pods that count against a limit, those that count most by name."""
    found = [(-amount, pod.name) for pod in pods if (amount := _amount(pod, limit, quota))]
    return Running(len(found), tuple(name for _, name in nsmallest(MOST_NAMES, found)))


def _amount(pod: GpuPod, limit: Limit, quota: Quota) -> Fraction:
    demand = demand_of(pod.pod, pod.namespace, quota.counting) if quota.covers(pod.namespace) else None
    return Fraction(0) if demand is None else amounts(demand, quota).get(limit, Fraction(0))
