"""What the quotas of a replica are made of in a cluster, and for an inventory."""

from webhook.admission.quota_desk import QuotaParts
from webhook.cluster.api_server import ApiServer
from webhook.cluster.pods import LivePods
from webhook.cluster.static_pods import StaticPods
from webhook.installation.ledgers import ApiStore
from webhook.installation.quota_status import QuotaStatus
from webhook.installation.settings import QuotaSettings
from webhook.ledger.means import LedgerTiming
from webhook.ledger.memory import MemoryStore
from webhook.model.accelerators import BUILT_IN, Accelerators


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
