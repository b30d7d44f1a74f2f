"""Quotas by model count each bound pod as the model of its node: minutes after policies were loaded."""

from collections.abc import Callable
from uuid import UUID

from tests.e2e.eventually import eventually
from tests.e2e.quota_site import QuotaSite
from tests.e2e.test_denied_gpus import bound, site
from webhook.ledger.entries import entries_in
from webhook.policy.policy_store import HELD_SECONDS

__all__ = ["site"]
MODELS = {"t4": "T4", "t4-1": "T4", "shared": "T4", "l4": "L4"}
"""The model of each node that a pod may be bound to where H100 is denied."""


def test_models_count_what_was_bound(site: QuotaSite, make_namespace: Callable[[str], str]) -> None:
    namespace = make_namespace("denying")

    def counted_otherwise(nodes: dict[str, str]) -> dict[str, tuple[str, ...] | None]:
        entries = entries_in(site.ledger(f"namespace.{namespace}")).by_uid
        counted = {uid: entries[UUID(uid).bytes].models for uid in nodes}
        return {
            nodes[uid]: models for uid, models in counted.items() if models != (MODELS[nodes[uid].partition("-0")[0]],)
        }

    with bound(site, namespace, "denying") as nodes:
        assert len(set(nodes.values())) > 1
        eventually(lambda: not counted_otherwise(nodes), seconds=2 * HELD_SECONDS)
