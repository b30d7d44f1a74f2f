"""The status of quotas that each namespace sees. Tenants read it, so it names no pods."""

from collections.abc import Iterable, Mapping
from typing import Any

from webhook.model.globs import is_glob
from webhook.policy.policy_quotas import ConfiguredQuota
from webhook.policy.policy_set import PolicySet
from webhook.quota.amounts import Usage
from webhook.quota.quota_wording import number
from webhook.quota.quotas import Measure

Place = tuple[str, str]
"""Namespace and name of an object of kind GPUQuota. The name is the key of the quota."""
Status = Mapping[str, Any]
"""The field `status` of an object of kind GPUQuota."""


def quota_usages(counted: Mapping[str, Usage], policies: PolicySet) -> list[tuple[ConfiguredQuota, Usage]]:
    """Each quota of the policies that was counted, and its usage; `counted` has the usage by the key of the quota.

    A quota that the policies no longer have is left out.
    """
    active = {one.quota.key: one for one in policies.shared_quotas}
    for usage in counted.values():
        active |= {found.quota.key: found for found in policies.quotas_for(usage.quota.name)}
    return [(active[key], usage) for key, usage in counted.items() if key in active]


def statuses(usages: Iterable[tuple[ConfiguredQuota, Usage]]) -> dict[Place, Status]:
    """The status of each quota in the namespaces that it names, and in the known ones that one of its globs covers."""
    found: dict[Place, Status] = {}
    for active, usage in usages:
        status = _status(active, usage)
        named = {pattern for pattern in usage.quota.patterns if not is_glob(pattern)}
        found |= {(namespace, usage.quota.key): status for namespace in named | usage.namespaces}
    return found


def _status(active: ConfiguredQuota, usage: Usage) -> Status:
    quota = usage.quota
    status: dict[str, Any] = {
        "quota": quota.name,
        "scope": str(quota.scope),
        "mode": str(active.mode),
        "ledger": usage.version,
    }
    by_name: dict[Measure, list[dict[str, str]]] = {Measure.MODEL: [], Measure.RESOURCE: []}
    for limit in quota.limits:
        amount = {"hard": number(limit.hard), "used": number(usage.used[limit])}
        if claimed := usage.by_claims[limit]:
            amount["byClaims"] = number(claimed)
        if gated := usage.gated.get(limit):
            amount["gated"] = number(gated)
        if limit.measure is not Measure.GPUS:
            by_name[limit.measure].append({"name": limit.name, **amount})
            continue
        if usage.units != usage.used[limit]:
            amount["units"] = str(usage.units)
        status["gpus"] = amount
    for measure, amounts in by_name.items():
        if amounts:
            status[f"by{measure.capitalize()}"] = amounts
            status[f"{measure}s"] = ", ".join(f"{one['name']} {one['used']} of {one['hard']}" for one in amounts)
    return status
