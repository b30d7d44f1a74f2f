"""How much of a ledger a namespace may fill. A ConfigMap holds 1 MiB, and all namespaces of a pot share one."""

from collections.abc import Mapping
from functools import lru_cache

import orjson

from webhook.ledger.book import kind_to_raw
from webhook.ledger.verdicts import Crowded
from webhook.ledger.window import is_shared
from webhook.quota.quotas import Demand, Quota

MOST_BYTES = 1200 * 1024
"""Of a book as text. What is long is packed: uids, of which most of it is, by a quarter."""
ENTRY_BYTES = 22
"""What an entry takes whose demand others have, too."""
_GROUP_BYTES = 16
"""What it takes to name the entries of one demand, beside the demand itself."""


def crowded(demand: Demand, taken: Mapping[str, int], quota: Quota, *, is_new: bool) -> Crowded | None:
    """Why there is no room for an entry; None where there is.

    `taken` are the bytes that each namespace takes. In a pot that namespaces share, one may take half of what others
    leave. `is_new` says that no entry has this demand yet.
    """
    own = taken.get(demand.namespace, 0)
    most = MOST_BYTES - (sum(taken.values()) - own)
    if is_shared(quota):
        most //= 2
    needed = own + ENTRY_BYTES + (demand_bytes(demand) if is_new else 0)
    return Crowded(needed, most) if needed > most else None


def taken_of(counts: Mapping[Demand, int]) -> dict[str, int]:
    """The bytes that each namespace takes of a book, by how many pods have equal demands."""
    taken: dict[str, int] = {}
    for demand, count in counts.items():
        known = taken.get(demand.namespace, 0)
        taken[demand.namespace] = known + count * ENTRY_BYTES + demand_bytes(demand)
    return taken


def demand_bytes(demand: Demand) -> int:
    """What a demand takes that no other entry of its namespace has."""
    return _kind_bytes(demand.gpus, demand.models) + _GROUP_BYTES


@lru_cache(maxsize=4096)
def _kind_bytes(gpus: tuple[tuple[str, int], ...], models: tuple[str, ...] | None) -> int:
    return len(orjson.dumps(kind_to_raw(gpus, models)))
