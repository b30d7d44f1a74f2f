"""What pods ask for beside what a book says of them. Books and pods are many, what they ask for is not, so whatever can
be said of equal demands is found out once.
"""

from collections.abc import Mapping, Sequence

from webhook.ledger.book import MOST_RESOURCES, Book
from webhook.ledger.ledger_store import GpuPod
from webhook.quota.gpu_demand import demand_of
from webhook.quota.quotas import Counting, Demand


def demands_of(pods: Sequence[GpuPod], counting: Counting) -> dict[bytes, Demand]:
    """What each pod that has GPUs asks for, by its uid."""
    known: dict[tuple[str, int], Demand | None] = {}
    found: dict[bytes, Demand] = {}
    for seen in pods:
        kind = seen.namespace, id(seen.pod)
        if kind not in known:
            known[kind] = entered_demand(seen, counting)
        demand = known[kind]
        if demand is not None:
            found[seen.uid] = demand
    return found


def entered_demand(seen: GpuPod, counting: Counting) -> Demand | None:
    """What a pod is entered with; None where it asks for no GPU, or for more kinds of them than any node has."""
    return demand_of(seen.pod, seen.namespace, counting) if len(seen.pod.gpus) <= MOST_RESOURCES else None


def counted_otherwise(book: Book, demands: Mapping[bytes, Demand]) -> dict[bytes, Demand]:
    """The demands of those that are entered with another one."""
    differs: dict[tuple[int, int], bool] = {}
    found: dict[bytes, Demand] = {}
    for uid, demand in demands.items():
        entered = book.entries.get(uid, demand)
        pair = id(entered), id(demand)
        if pair not in differs:
            differs[pair] = entered != demand
        if differs[pair]:
            found[uid] = demand
    return found


def by_namespace(pods: Sequence[GpuPod]) -> dict[str, list[GpuPod]]:
    """The pods of each namespace."""
    found: dict[str, list[GpuPod]] = {}
    for pod in pods:
        found.setdefault(pod.namespace, []).append(pod)
    return found
