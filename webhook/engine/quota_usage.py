"""The usage of quotas, and the status that each namespace sees of it. Tenants read the status, so it names no pods."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from webhook.ledger.reconciler import Usage
from webhook.model.globs import is_glob
from webhook.policy.policy_set import PolicySet
from webhook.quota.quota_wording import number
from webhook.quota.quotas import Limit, Measure, Quota
from webhook.rules.rule_settings import Mode

Place = tuple[str, str]
"""Namespace and name of an object of kind GPUQuota. The name is the key of the quota."""
Status = Mapping[str, Any]
"""The field `status` of an object of kind GPUQuota."""


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """The usage of a quota. `used` is None while it is not known.

    `namespaces` are all namespaces that are known to exist, whether or not the quota covers them. `version` is the
    version of the ledger that `used` was counted from; empty without a ledger. `by_claims` is the part of `used` that
    claims count. `units` is how many units of GPU resources and devices are used; None while that is not known.
    """

    quota: Quota
    mode: Mode
    used: Mapping[Limit, Fraction] | None
    namespaces: Iterable[str] = field(default=())
    version: str = ""
    by_claims: Mapping[Limit, Fraction] = field(default_factory=dict)
    units: int | None = None


def quota_usages(counted: Mapping[str, Usage], policies: PolicySet) -> list[QuotaUsage]:
    """The usage of every quota in the policies that was counted; `counted` has the usage by the key of the quota.

    A quota that the policies no longer have is left out.
    """
    bound = {one.quota.key: one for one in policies.shared_quotas}
    for one in counted.values():
        bound |= {found.quota.key: found for found in policies.quotas_for(one.quota.name)}
    return [
        QuotaUsage(
            one.quota,
            bound[key].mode,
            one.used,
            {*one.namespaces, *policies.names},
            one.version,
            one.by_claims,
            one.units,
        )
        for key, one in counted.items()
        if key in bound
    ]


def statuses(usages: Iterable[QuotaUsage]) -> dict[Place, Status | None]:
    """The status of each quota in each of its namespaces; None while the usage is not known, so that the old one stays.

    A quota is seen in the namespaces that it names, and in the known namespaces that one of its globs covers.
    """
    found: dict[Place, Status | None] = {}
    for usage in usages:
        status = None if usage.used is None else _status(usage, usage.used)
        for namespace in _seen_in(usage):
            found[namespace, usage.quota.key] = status
    return found


def _seen_in(usage: QuotaUsage) -> set[str]:
    quota = usage.quota
    named = {pattern for pattern in quota.patterns if not is_glob(pattern)}
    return named | {namespace for namespace in usage.namespaces if quota.covers(namespace)}


def _status(usage: QuotaUsage, used: Mapping[Limit, Fraction]) -> Status:
    quota = usage.quota
    status: dict[str, Any] = {
        "quota": quota.name,
        "scope": str(quota.scope),
        "mode": str(usage.mode),
        "ledger": usage.version,
    }
    by_name: dict[Measure, list[dict[str, str]]] = {Measure.MODEL: [], Measure.RESOURCE: []}
    for limit in quota.limits:
        amount = {"hard": number(limit.hard), "used": number(used.get(limit, Fraction(0)))}
        if claimed := usage.by_claims.get(limit):
            amount["byClaims"] = number(claimed)
        if limit.measure is Measure.GPUS and usage.units is not None and usage.units != used.get(limit, 0):
            amount["units"] = str(usage.units)
        if limit.measure is Measure.GPUS:
            status["gpus"] = amount
        else:
            by_name[limit.measure].append({"name": limit.name, **amount})
    for measure, amounts in by_name.items():
        if amounts:
            status[f"by{measure.capitalize()}"] = amounts
            status[f"{measure}s"] = ", ".join(f"{one['name']} {one['used']} of {one['hard']}" for one in amounts)
    return status
