"""Quotas and workloads: what can be said of their pods before the first one comes, whatever is in use by then."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from webhook.engine.quota_claims import KEY, finding_of, uncounted_of_pots
from webhook.model.pod import Pod
from webhook.model.workloads import Template
from webhook.outcome import Finding, FindingKind
from webhook.policy.bound_quotas import BoundQuota
from webhook.quota import quota_wording
from webhook.quota.amounts import amounts
from webhook.quota.gpu_demand import demand_of
from webhook.quota.objections import is_unspecified, objections
from webhook.quota.quotas import Excess, Limit, QuotaScope
from webhook.rules.rule import Mode


@dataclass(frozen=True, slots=True)
class Group:
    """The pods of one template, each of which will be like `pod`."""

    template: Template
    pod: Pod


@dataclass(frozen=True, slots=True)
class QuotaTotal:
    """What is told of a quota that the pods of a workload pass together, and never one of them alone.

    `key` is the same however many they are. `first` are the pods that it is about, or the first of them; where they are
    the only ones, `finding` has the place in such a pod, otherwise in the object.
    """

    key: tuple[str, Limit]
    finding: Finding
    first: Group
    is_only: bool


def pot_findings(pod: Pod, namespace: str, quotas: Sequence[BoundQuota]) -> Iterator[Finding]:
    """Why a pod never fits into a pot; what the namespace's own quota says of it is left to the rule."""
    yield from uncounted_of_pots(pod, quotas)
    for bound in quotas:
        demand = demand_of(pod, namespace, bound.quota.counting)
        if demand is not None and bound.quota.scope is QuotaScope.POT:
            yield from (finding_of(bound, objection) for objection in objections(demand, bound.quota))


def totals(groups: Sequence[Group], namespace: str, quotas: Sequence[BoundQuota]) -> Iterator[QuotaTotal]:
    """The limits that all pods of a workload pass together, each once.

    A template that does not say how many pods it makes counts as none.
    """
    counted = [group for group in groups if group.template.pods and group.pod.gpus]
    for bound in quotas:
        for limit in bound.quota.limits if counted else ():
            found = _total(bound, limit, counted, namespace)
            if found is not None:
                yield found


def _total(bound: BoundQuota, limit: Limit, groups: Sequence[Group], namespace: str) -> QuotaTotal | None:
    shares: list[tuple[Group, Fraction]] = []
    is_open = False
    for group in groups:
        demand = demand_of(group.pod, namespace, bound.quota.counting)
        if demand is not None and (one := amounts(demand, bound.quota)[limit]):
            shares.append((group, one))
            is_open |= is_unspecified(demand, bound.quota)
    asks = sum((one * (group.template.pods or 0) for group, one in shares), Fraction(0))
    if asks <= limit.hard or any(one > limit.hard for _, one in shares):
        return None
    is_only, (first, one) = len(shares) == 1, shares[0]
    pods = sum(group.template.pods or 0 for group, _ in shares)
    if is_only:
        excess = Excess(limit, one, Fraction(0))
        told = quota_wording.too_many_pods(bound.quota, excess, pods, is_unspecified=is_open)
    else:
        excess = Excess(limit, asks, Fraction(0))
        names = [group.template.group for group, _ in shares]
        told = quota_wording.too_many_kinds_of_pods(bound.quota, excess, pods, names, is_unspecified=is_open)
    mode = Mode.AUDIT if bound.mode is Mode.AUDIT else Mode.WARN
    finding = Finding(KEY, mode, FindingKind.VIOLATION, "spec", *told, origin=bound.origin, line=bound.line)
    return QuotaTotal((bound.quota.key, limit), finding, first, is_only)
