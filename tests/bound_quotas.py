"""Quotas of a namespace and of several, as policies bind them."""

import json
from typing import Any

from webhook.policy.policy_quotas import BoundQuota
from webhook.quota.quotas import QuotaScope
from webhook.rules.gpu_quota import Settings

TEAM = "team-vision"


def own(name: str = TEAM, **settings: Any) -> BoundQuota:
    """The quota of a namespace."""
    return _bound(QuotaScope.NAMESPACE, name, (name,), settings)


def shared_quota(name: str = "research", *patterns: str, **settings: Any) -> BoundQuota:
    """A shared quota of these namespaces."""
    return _bound(QuotaScope.SHARED, name, patterns or ("team-*",), settings)


def _bound(scope: QuotaScope, name: str, patterns: tuple[str, ...], settings: dict[str, Any]) -> BoundQuota:
    written = json.dumps({"mode": "enforce", **settings})
    return BoundQuota.of(scope, name, patterns, Settings.model_validate_json(written, by_alias=True), "file.yaml", 1)
