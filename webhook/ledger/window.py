"""How much of a pot a namespace may hold with entries that have no stored pod yet.

A pod is stored milliseconds after its entry, so honest creates pass through a small window one after the other. Entries
whose pods somebody refuses after us fill the window of their namespace and nothing else.
"""

from fractions import Fraction

from webhook.ledger.unconfirmed import OpenEntries
from webhook.ledger.verdicts import Claim, Withheld
from webhook.model.globs import is_glob
from webhook.quota.amounts import amounts, used
from webhook.quota.quotas import Limit, Quota, QuotaScope

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
