"""How much of a ledger a namespace may fill. A ConfigMap holds 1 MiB, and all namespaces of a pot share one.

A namespace may hold only a part of a pot with entries that have no stored pod yet. A pod is stored milliseconds after
its entry, so honest creates pass through this small window one after the other. Entries whose pods are refused by
another webhook fill the window of their namespace, and of no other.

`Unconfirmed` knows which entries have no stored pod, as far as this replica has seen. No entry is removed because of
it: it only decides how wide the window of a namespace is.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from threading import Lock

import orjson

from webhook.ledger.book import Book, kind_to_raw
from webhook.ledger.ledger_store import Pods
from webhook.ledger.verdicts import Claim, Crowded, Withheld
from webhook.model.globs import is_glob
from webhook.quota.amounts import amounts, used
from webhook.quota.quotas import Demand, Limit, Quota, QuotaScope

_MOST_DOUBLINGS = 5
_LONGEST_MEMORY = 64
"""So many times as long as an admission may last, it is remembered that entries went in vain."""


@dataclass(frozen=True, slots=True)
class OpenEntries:
    """What the entries of one namespace without a stored pod ask for: all of them, and those that are overdue."""

    all: dict[Demand, int] = field(default_factory=dict)
    overdue: dict[Demand, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Vain:
    """How often in a row entries of a namespace went in vain, and when they did last.

    `most` is the most that one of them asked for, by resource, as long as no pod with as much was stored.
    """

    times: int
    last: float
    most: dict[str, int] = field(default_factory=dict)


class Unconfirmed:
    """The entries of one book whose pods nobody has heard of yet. Threads may share it.

    `settling` is how long an entry may be there without a pod before it is overdue, `in_flight` how long an admission
    may last; both in seconds of the clock of `now`.
    """

    def __init__(self, pods: Pods, settling: float, in_flight: float) -> None:
        self._pods = pods
        self._settling, self._in_flight = settling, in_flight
        self._lock = Lock()
        self._open: dict[bytes, tuple[Demand, float]] = {}
        self._vain: dict[str, _Vain] = {}

    def entered(self, entries: Mapping[bytes, Demand], now: float) -> None:
        """Take note of entries that are new in the book."""
        with self._lock:
            self._open.update((uid, (demand, now)) for uid, demand in entries.items())

    def left(self, uids: Iterable[bytes], now: float) -> None:
        """Take note of entries that are no longer in the book; one that was there to the end went in vain."""
        with self._lock:
            self._hear()
            for uid in uids:
                demand, since = self._open.pop(uid, (None, now))
                if demand is not None and now - since > self._in_flight and self._pods.is_known():
                    self._went_in_vain(demand, now)

    def confirm(self, uids: Set[bytes]) -> None:
        """Take note of pods that are stored."""
        with self._lock:
            self._close(self._open.keys() & uids)

    def of(self, namespace: str, book: Book, now: float) -> OpenEntries:
        """The open entries of a namespace that are in a book."""
        found = OpenEntries()
        with self._lock:
            self._hear()
            for uid, (demand, since) in self._open.items():
                if demand.namespace == namespace and uid in book.entries:
                    _add(found.all, demand)
                    if now - since > self._settling:
                        _add(found.overdue, demand)
        return found

    def are_there(self, namespace: str) -> bool:
        """Whether a namespace has open entries."""
        with self._lock:
            self._hear()
            return any(demand.namespace == namespace for demand, _ in self._open.values())

    def by_namespace(self) -> dict[str, dict[Demand, int]]:
        """What all open entries ask for."""
        found: dict[str, dict[Demand, int]] = {}
        with self._lock:
            self._hear()
            for demand, _ in self._open.values():
                _add(found.setdefault(demand.namespace, {}), demand)
        return found

    def among(self, book: Book) -> int:
        """How many entries of a book are open."""
        with self._lock:
            self._hear()
            return len(self._open.keys() & book.entries.keys())

    def is_resting(self, namespace: str, now: float) -> bool:
        """Whether entries of a namespace went in vain at least twice in a row, and lately: the oftener, the longer."""
        vain = self._vain.get(namespace)
        if vain is None or vain.times < 2:
            return False
        rest: float = self._in_flight * 2 ** min(vain.times - 2, _MOST_DOUBLINGS)
        return now - vain.last < rest

    def _hear(self) -> None:
        if self._open:
            uids = set(self._open)
            self._close(self._pods.live_among(uids) | self._pods.gone_among(uids))

    def _close(self, uids: Iterable[bytes]) -> None:
        for uid in uids:
            demand, _ = self._open.pop(uid)
            self._was_stored(demand)

    def _was_stored(self, demand: Demand) -> None:
        """A pod that is stored makes up for what went in vain and asked for no more: small ones prove little."""
        vain = self._vain.get(demand.namespace)
        if vain is None:
            return
        asked = dict(demand.gpus)
        vain.most = {name: most for name, most in vain.most.items() if asked.get(name, 0) < most}
        if not vain.most:
            del self._vain[demand.namespace]

    def _went_in_vain(self, demand: Demand, now: float) -> None:
        """Entries that go within half the time that an admission may last are one time."""
        namespace = demand.namespace
        vain = self._vain.get(namespace)
        if vain is None:
            longest = self._in_flight * _LONGEST_MEMORY
            self._vain = {name: one for name, one in self._vain.items() if now - one.last < longest}
            vain = self._vain[namespace] = _Vain(0, -float("inf"))
        for name, count in demand.gpus:
            vain.most[name] = max(vain.most.get(name, 0), count)
        if now - vain.last > self._in_flight / 2:
            vain.times += 1
            vain.last = now


def _add(counts: dict[Demand, int], demand: Demand) -> None:
    counts[demand] = counts.get(demand, 0) + 1


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
