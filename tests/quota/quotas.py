"""Quotas of a namespace and of several, as policies have them."""

import json
from typing import Any

from webhook.policy.policy_quotas import ConfiguredQuota
from webhook.quota.quotas import Quota, QuotaScope
from webhook.rules.gpu_quota import Settings

TEAM = "team-vision"


def own(name: str = TEAM, **settings: Any) -> ConfiguredQuota:
    """The quota of a namespace."""
    return _bound(QuotaScope.NAMESPACE, name, (name,), settings)


def shared_quota(name: str = "research", *patterns: str, **settings: Any) -> ConfiguredQuota:
    """A shared quota of these namespaces."""
    return _bound(QuotaScope.SHARED, name, patterns or ("team-*",), settings)


def _bound(scope: QuotaScope, name: str, patterns: tuple[str, ...], settings: dict[str, Any]) -> ConfiguredQuota:
    written = json.dumps({"mode": "enforce", **settings})
    read = Settings.model_validate_json(written, by_alias=True)
    quota = Quota(scope, name, patterns, read.limits, read.counting)
    return ConfiguredQuota(quota, read.mode, read.on_ledger_failure, "file.yaml", 1)
