"""What the quotas of a replica are made of in a cluster, and for an inventory."""

from webhook.admission.quota_service import QuotaParts
from webhook.facts.pod_source import LivePods
from webhook.facts.static_pods import StaticPods
from webhook.kubernetes.api_server import ApiServer
from webhook.ledger.context import LedgerTiming
from webhook.ledger.memory_store import MemoryStore
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.replica.ledger_config_maps import ApiStore
from webhook.replica.quota_status import QuotaStatus
from webhook.replica.settings import QuotaSettings


def quota_parts_of(
    settings: QuotaSettings, accelerators: Accelerators = BUILT_IN, *, tells_usage: bool = True
) -> QuotaParts:
    """Ledgers in the API server, and what is shown of them. Raises ClusterConfigError."""
    server = ApiServer(settings.kubeconfig)
    return QuotaParts(
        ApiStore(server, settings.namespace),
        LivePods(server, accelerators=accelerators),
        QuotaStatus(server, settings.namespace),
        LedgerTiming(in_flight=settings.in_flight_seconds),
        is_bounded=True,
        tells_usage=tells_usage,
    )


def quota_parts_from(pods: StaticPods, *, tells_usage: bool = True) -> QuotaParts:
    """Ledgers in memory, for the pods of an inventory."""
    return QuotaParts(MemoryStore(), pods, tells_usage=tells_usage)
