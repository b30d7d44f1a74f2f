"""A shared quota of 16 GPUs that two namespaces share, and how pods are entered in it and stored."""

from collections.abc import Callable

from tests.ledger.bookkeeping import IN_FLIGHT, demand, shared_quota, uid
from tests.ledger.small_cluster import seen_pod
from webhook.ledger.context import LedgerTiming
from webhook.ledger.reconciler import QuotasInForce
from webhook.ledger.verdicts import QuotaRequest
from webhook.quota.quotas import Quota

SHARED_QUOTA = shared_quota(16, "vision", "speech")


TIMING = LedgerTiming(in_flight=IN_FLIGHT, longest_pause=0.0)


def enter(replica, number, gpus, namespace="vision", quota=SHARED_QUOTA, *, resource="nvidia.com/gpu", **how):
    """Have a pod entered in the shared quota."""
    name = f"pod-{number}"
    deadline = replica.clock() + 5
    claims = [QuotaRequest(quota, demand(gpus, namespace, resource))]
    return replica.ledgers.reserve(uid(number), claims, deadline, name=name, **how)[0]


def store(replica, number, gpus, namespace="vision"):
    """Have the API server store a pod; no watch has told of it yet."""
    replica.truth.store(seen_pod(number, namespace, gpus))


def only_this(quota: Quota = SHARED_QUOTA) -> Callable[[], QuotasInForce]:
    """Policies with one shared quota."""
    return lambda: QuotasInForce([quota], lambda _: None)
