"""How quotas stand, and what each namespace is to see of it, as values. Tenants read it, so it names no pods."""

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
"""Namespace and name of an object; the name is the key of the quota."""
Status = Mapping[str, Any]
"""The field `status` of an object of kind GPUQuota."""


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """How a quota stands. `used` is None where that is not known at the moment.

    `namespaces` are those that are known to be there, also ones that the quota does not cover. `version` is that of the
    ledger that `used` was counted from, empty for none.
    """

    quota: Quota
    mode: Mode
    used: Mapping[Limit, Fraction] | None
    namespaces: Iterable[str] = field(default=())
    version: str = ""


def standings_of(usage: Mapping[str, Usage], policies: PolicySet) -> list[QuotaUsage]:
    """How every quota of the policies stands that ledgers tell of, by its key.

    What is left out is a quota that has gone since it was counted.
    """
    bound = {one.quota.key: one for one in policies.pots}
    for one in usage.values():
        bound |= {found.quota.key: found for found in policies.quotas_for(one.quota.name)}
    return [
        QuotaUsage(one.quota, bound[key].mode, one.used, {*one.namespaces, *policies.names}, one.version)
        for key, one in usage.items()
        if key in bound
    ]


def statuses(standings: Iterable[QuotaUsage]) -> dict[Place, Status | None]:
    """What each namespace is to see of each of its quotas; None where nobody knows, so that what is there stays.

    A quota is seen in the namespaces that it names, and in those that a glob of it covers and that are known.
    """
    found: dict[Place, Status | None] = {}
    for standing in standings:
        status = None if standing.used is None else _status(standing, standing.used)
        for namespace in _seen_in(standing):
            found[namespace, standing.quota.key] = status
    return found


def _seen_in(standing: QuotaUsage) -> set[str]:
    quota = standing.quota
    named = {pattern for pattern in quota.patterns if not is_glob(pattern)}
    return named | {namespace for namespace in standing.namespaces if quota.covers(namespace)}


def _status(standing: QuotaUsage, used: Mapping[Limit, Fraction]) -> Status:
    quota = standing.quota
    status: dict[str, Any] = {
        "quota": quota.name,
        "scope": str(quota.scope),
        "mode": str(standing.mode),
        "ledger": standing.version,
    }
    by_name: dict[Measure, list[dict[str, str]]] = {Measure.MODEL: [], Measure.RESOURCE: []}
    for limit in quota.limits:
        amount = {"hard": number(limit.hard), "used": number(used.get(limit, Fraction(0)))}
        if limit.measure is Measure.GPUS:
            status["gpus"] = amount
        else:
            by_name[limit.measure].append({"name": limit.name, **amount})
    for measure, amounts in by_name.items():
        if amounts:
            status[f"by{measure.capitalize()}"] = amounts
            status[f"{measure}s"] = ", ".join(f"{one['name']} {one['used']} of {one['hard']}" for one in amounts)
    return status
