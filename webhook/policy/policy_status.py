"""What people without the files may know of the policy of their namespace: modes, limits, quotas and exceptions.

Whoever may view a namespace reads it, so it says nothing of other namespaces.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from webhook.policy.policy_quotas import BoundQuota
from webhook.policy.policy_set import BoundRule, Policy, PolicySet
from webhook.policy.show import settings_as_written
from webhook.quota.quota_wording import number
from webhook.rules import gpu_limits
from webhook.rules.rule_settings import Mode

MOST_SETTINGS = 4096
"""Most bytes of the settings of one rule, as JSON; larger ones are left out."""

_COUNTED = {Mode.ENFORCE: "enforced", Mode.WARN: "warned", Mode.AUDIT: "audited"}


class PolicyStatuses:
    """The statuses under one policy set. What namespaces with one policy have in common is made once."""

    def __init__(self, policies: PolicySet) -> None:
        self._policies = policies
        self._of_policies: dict[str, Mapping[str, Any]] = {}
        self._of_namespaces: dict[str, Mapping[str, Any]] = {}

    def of(self, namespace: str) -> Mapping[str, Any]:
        """The status of a namespace, of JSON values."""
        found = self._of_namespaces.get(namespace)
        if found is None:
            found = self._of_namespaces[namespace] = self._status(namespace)
        return found

    def _status(self, namespace: str) -> Mapping[str, Any]:
        policy = self._policies.for_namespace(namespace)
        common = self._of_policies.get(policy.name)
        if common is None:
            common = self._of_policies[policy.name] = orjson.loads(orjson.dumps(_common(policy)))
        quotas = [_quota(bound) for bound in self._policies.quotas_for(namespace)]
        status = {**common, "quotas": quotas, "exceptions": self._exceptions(namespace)}
        if quotas:
            status["quota"] = "; ".join(quota["limits"] for quota in quotas)
        return status

    def _exceptions(self, namespace: str) -> list[Mapping[str, Any]]:
        """The exceptions for a namespace, whether or not they hold at the moment."""
        found = self._policies.exceptions.of(namespace)
        return [{"name": one.name, "rules": list(one.concerned), "until": one.period.text} for one in found]


def _common(policy: Policy) -> dict[str, Any]:
    """What all namespaces with this policy have in common."""
    status: dict[str, Any] = {
        "policy": policy.name,
        "file": policy.files[-1] if policy.files else "",
        "files": list(policy.files),
        "hash": policy.short_hash,
        **dict.fromkeys(_COUNTED.values(), 0),
        "workloads": str(policy.workloads),
        "rules": [_rule(bound) for bound in policy.rules],
    }
    for bound in policy.rules:
        status[_COUNTED[bound.mode]] += 1
        if isinstance(bound.settings, gpu_limits.Settings):
            most = {"maxPerPod": bound.settings.max_per_pod, "maxPerContainer": bound.settings.max_per_container}
            status |= {key: value for key, value in most.items() if value is not None}
    if policy.contact:
        status["contact"] = policy.contact
    return status


def _rule(bound: BoundRule) -> dict[str, Any]:
    settings = {key: value for key, value in settings_as_written(bound).items() if key != "mode"}
    rule: dict[str, Any] = {"name": bound.rule.key, "mode": str(bound.mode), "file": bound.origin}
    if (size := len(orjson.dumps(settings, default=str))) > MOST_SETTINGS:
        return {**rule, "note": f"the settings have {size} bytes; gpu-policy policy show prints them"}
    return {**rule, "settings": settings} if settings else rule


def _quota(bound: BoundQuota) -> dict[str, str]:
    quota = bound.quota
    limits = ", ".join(
        f"{limit.name} {number(limit.hard)}" if limit.name else number(limit.hard) for limit in quota.limits
    )
    return {"quota": quota.name, "scope": str(quota.scope), "mode": str(bound.mode), "limits": limits}
