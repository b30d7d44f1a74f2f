"""How much of a ledger a namespace may fill. A ConfigMap holds 1 MiB, and all namespaces of a pot share one.

A namespace may hold only a part of a pot with entries that have no stored pod yet.

A pod is stored milliseconds after its entry, so honest creates pass through a small window one after the other. Entries
whose pods somebody refuses after us fill the window of their namespace and nothing else.
"""

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

import orjson

from webhook.ledger.book import kind_to_raw
from webhook.ledger.unconfirmed import OpenEntries
from webhook.ledger.verdicts import Claim, Crowded, Withheld
from webhook.model.globs import is_glob
from webhook.quota.amounts import amounts, used
from webhook.quota.quotas import Demand, Limit, Quota, QuotaScope

SHARE = Fraction(1, 2)
"""Of what is free for a namespace, what its entries without a stored pod may take together."""


def is_shared(quota: Quota) -> bool:
    """Whether a quota is one in which a namespace could take something from another."""
    return quota.scope is QuotaScope.POT and (len(quota.patterns) > 1 or any(map(is_glob, quota.patterns)))


def withheld(
    claim: Claim, in_use: dict[Limit, Fraction], mine: OpenEntries, *, is_cleared: bool = False
) -> Withheld | None:
    """Why a pod that would fit has to wait; None where it may be entered.

    `in_use` is the usage of the whole quota, `mine` are the open entries of the pod's namespace. A single pod that is
    larger than the share may be entered as the only open one of its namespace, once it `is_cleared`.
    """
    quota = claim.quota
    every, overdue = used(mine.all, quota), used(mine.overdue, quota)
    for limit, asks in amounts(claim.demand, quota).items():
        free = limit.hard - (in_use[limit] - every[limit])
        if asks <= 0 or every[limit] + asks <= free * SHARE or (not every[limit] and is_cleared):
            continue
        left = free - (every[limit] - overdue[limit])
        settles = not overdue[limit] or overdue[limit] + asks <= left * SHARE
        return Withheld(limit, asks, every[limit], free * SHARE, settles=settles)
    return None


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
