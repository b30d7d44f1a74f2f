"""What becomes of a ledger's entries in one batch. Nothing here reads or writes a ledger.

A quota has to have room for a pod, and so does the ledger, which is one ConfigMap of 1 MiB for all namespaces of a pot.
A namespace may also hold only a part of a pot with unconfirmed entries, whose pods are not stored yet. A pod is stored
milliseconds after its entry, so honest creates pass through this small window one after the other. Pods that another
webhook refuses after this one fill the window of their own namespace only.

`BatchQueue` collects what threads want while a write is under way; the next write carries all of it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from threading import Event, Lock
from typing import Generic, TypeVar

import orjson

from webhook.ledger.entries import Entries, Kind, kind_of, kind_to_raw
from webhook.ledger.verdicts import Claim, Correction, Crowded, Exceeded, Granted, PendingEntry, Verdict, Withheld
from webhook.model.globs import is_glob
from webhook.quota.amounts import amounts, excesses, used
from webhook.quota.quotas import Demand, Limit, Quota, QuotaScope

WINDOW = Fraction(1, 2)
"""Share of what is free for a namespace that its unconfirmed entries may hold together."""

MOST_BYTES = 1200 * 1024
"""Most bytes of a ledger as JSON. Large ones are compressed, which makes uids, and so most of it, a quarter shorter."""
ENTRY_BYTES = 22
"""Bytes of an entry whose demand another entry has, too."""
_GROUP_BYTES = 16
"""Bytes that name the entries of one demand, besides the demand itself."""


@dataclass(frozen=True, slots=True)
class UnconfirmedUsage:
    """Demand -> number of unconfirmed entries of one namespace: all of them, and the overdue ones."""

    all: dict[Demand, int] = field(default_factory=dict)
    overdue: dict[Demand, int] = field(default_factory=dict)


class BatchPlan:
    """What becomes of entries when the pods of one batch are considered one after the other.

    `usage_of` gives the usage of a namespace's unconfirmed entries. Without it, only quotas bound a namespace.
    `verdicts` are by the id of their pending entry.
    """

    def __init__(self, entries: Entries, usage_of: Callable[[str], UnconfirmedUsage] | None = None) -> None:
        self._entries = entries
        self._usage_of = usage_of
        self._unconfirmed: dict[str, UnconfirmedUsage] = {}
        self._taken: dict[str, int] | None = None
        self._added: dict[bytes, Demand] = {}
        self._removed: set[bytes] = set()
        self._used: list[tuple[Quota, dict[Limit, Fraction]]] = []
        self.verdicts: dict[int, Verdict] = {}
        self.has_exceeded = False
        self.has_withheld = False

    def consider(self, pending: PendingEntry) -> None:
        """Add an entry for the pod if it fits, or if its claim is not enforced."""
        claim = pending.claim
        written = claim.entries(pending.uid)
        if all(key in self._entries.by_uid or key in self._added for key in written):
            self.verdicts[id(pending)] = Granted()
            return
        in_use = self._used_of(claim.quota)
        taken_over = self._held(pending.takes_over)
        has_room = taken_over is not None and _is_within(claim.demand, taken_over, claim.quota)
        if pending.stands_for:
            taken_over = taken_over if has_room else None
            written = written if taken_over is None else {pending.uid: taken_over}
        if taken_over is not None:
            in_use = _less(in_use, taken_over, claim.quota)
        over = () if has_room else excesses(claim.demand, in_use, claim.quota)
        verdict = Exceeded(over) if over else Granted() if has_room else self._withheld(pending, in_use)
        if not has_room and (isinstance(verdict, Granted) or (over and not claim.enforced)):
            verdict = self._crowded(claim, written) or verdict
        if claim.usual is not None and isinstance(verdict, Granted):
            verdict = Granted(excesses(claim.demand, self._used_of(claim.usual), claim.usual))
        self.verdicts[id(pending)] = verdict
        self.has_exceeded = self.has_exceeded or isinstance(verdict, Exceeded)
        self.has_withheld = self.has_withheld or isinstance(verdict, Withheld)
        is_let_in = isinstance(verdict, Granted) or (isinstance(verdict, Exceeded) and not claim.enforced)
        if is_let_in and not pending.is_dry_run:
            if taken_over is not None:
                self._remove(pending.takes_over, taken_over)
            for key, demand in written.items():
                self._add(key, demand)

    def _held(self, key: bytes) -> Demand | None:
        """The entry with this key, as the batch leaves it so far."""
        return None if key in self._removed else self._added.get(key) or self._entries.by_uid.get(key)

    def _remove(self, key: bytes, demand: Demand) -> None:
        self._removed.add(key)
        self._added.pop(key, None)
        for quota, sums in self._used:
            sums.update(_less(sums, demand, quota))
        if (mine := self._unconfirmed.get(demand.namespace)) is not None and mine.all.get(demand, 0):
            mine.all[demand] -= 1

    def _add(self, key: bytes, demand: Demand) -> None:
        if self._taken is not None:
            needed = ENTRY_BYTES + (demand_bytes(demand) if self._is_new(demand) else 0)
            self._taken[demand.namespace] = self._taken.get(demand.namespace, 0) + needed
        self._added[key] = demand
        for quota, sums in self._used:
            for limit, amount in used({demand: 1}, quota).items():
                sums[limit] += amount
        if (mine := self._unconfirmed.get(demand.namespace)) is not None:
            mine.all[demand] = mine.all.get(demand, 0) + 1

    def _withheld(self, pending: PendingEntry, in_use: dict[Limit, Fraction]) -> Verdict:
        """Withheld or Granted. Dry runs hold nothing, and a claim that is not enforced is never withheld."""
        claim = pending.claim
        if self._usage_of is None or pending.is_dry_run or not claim.enforced or not is_shared(claim.quota):
            return Granted()
        mine = self._unconfirmed.get(claim.demand.namespace)
        if mine is None:
            mine = self._unconfirmed[claim.demand.namespace] = self._usage_of(claim.demand.namespace)
            for demand in self._added.values():
                if demand.namespace == claim.demand.namespace:
                    mine.all[demand] = mine.all.get(demand, 0) + 1
        return withheld(claim, in_use, mine, is_cleared=pending.is_cleared) or Granted()

    def _crowded(self, claim: Claim, written: Mapping[bytes, Demand]) -> Crowded | None:
        if self._usage_of is None:
            return None
        if self._taken is None:
            self._taken = bytes_by_namespace(self.entries().counts)
        new = {demand for demand in written.values() if self._is_new(demand)}
        needed = len(written) * ENTRY_BYTES + sum(map(demand_bytes, new))
        return crowded(claim.demand.namespace, needed, self._taken, claim.quota)

    def _is_new(self, demand: Demand) -> bool:
        return demand not in self._entries.counts and demand not in self._added.values()

    def _used_of(self, quota: Quota) -> dict[Limit, Fraction]:
        """What is in use of a quota. While policies change, two quotas may have one name."""
        for known, sums in self._used:
            if known is quota:
                return sums
        sums = used((self.entries() if self._added else self._entries).counts, quota)
        self._used.append((quota, sums))
        return sums

    def entries(self) -> Entries:
        """The entries afterwards; the object from the beginning where nothing changes."""
        return self._entries.changed(self._added, self._removed)


def _less(in_use: dict[Limit, Fraction], demand: Demand, quota: Quota) -> dict[Limit, Fraction]:
    """What is in use of a quota without an entry of this demand."""
    return {limit: amount - freed for limit, amount in in_use.items() for freed in [used({demand: 1}, quota)[limit]]}


def _is_within(demand: Demand, other: Demand, quota: Quota) -> bool:
    """Whether a demand counts no more than another against any limit of the quota."""
    room = amounts(other, quota)
    return all(asks <= room[limit] for limit, asks in amounts(demand, quota).items())


def corrected(entries: Entries, correction: Correction) -> Entries:
    """The entries after a correction. They never cover new namespaces, because nobody has listed their pods."""
    patterns = None if correction.patterns is None else entries.patterns & correction.patterns
    return entries.changed(correction.added, correction.removed - correction.added.keys(), patterns)


def is_shared(quota: Quota) -> bool:
    """Whether one namespace could use up what another namespace may use."""
    return quota.scope is QuotaScope.POT and (len(quota.patterns) > 1 or any(map(is_glob, quota.patterns)))


def withheld(
    claim: Claim, in_use: dict[Limit, Fraction], mine: UnconfirmedUsage, *, is_cleared: bool = False
) -> Withheld | None:
    """Why a pod that would fit has to wait; None where it may get an entry.

    `in_use` is the usage of the whole quota, `mine` that of the unconfirmed entries of the pod's namespace. A pod that
    is larger than the window may get the only unconfirmed entry of its namespace, once it `is_cleared`.
    """
    quota = claim.quota
    every, overdue = used(mine.all, quota), used(mine.overdue, quota)
    for limit, asks in amounts(claim.demand, quota).items():
        free = limit.hard - (in_use[limit] - every[limit])
        if asks <= 0 or every[limit] + asks <= free * WINDOW or (not every[limit] and is_cleared):
            continue
        left = free - (every[limit] - overdue[limit])
        settles = not overdue[limit] or overdue[limit] + asks <= left * WINDOW
        return Withheld(limit, asks, every[limit], free * WINDOW, settles=settles)
    return None


def crowded(namespace: str, bytes_needed: int, taken: Mapping[str, int], quota: Quota) -> Crowded | None:
    """Why a ledger has no room for so many more bytes of a namespace; None where it has.

    `taken` is namespace -> bytes. In a shared quota, a namespace may take half of what the others leave.
    """
    own = taken.get(namespace, 0)
    most = MOST_BYTES - (sum(taken.values()) - own)
    if is_shared(quota):
        most //= 2
    needed = own + bytes_needed
    return Crowded(needed, most) if needed > most else None


def bytes_by_namespace(counts: Mapping[Demand, int]) -> dict[str, int]:
    """Namespace -> bytes of its entries in JSON, from the number of entries of each demand."""
    taken: dict[str, int] = {}
    for demand, count in counts.items():
        known = taken.get(demand.namespace, 0)
        taken[demand.namespace] = known + count * ENTRY_BYTES + demand_bytes(demand)
    return taken


def demand_bytes(demand: Demand) -> int:
    """The bytes of a demand that no other entry of its namespace has."""
    return _kind_bytes(kind_of(demand)) + _GROUP_BYTES


@lru_cache(maxsize=4096)
def _kind_bytes(kind: Kind) -> int:
    return len(orjson.dumps(kind_to_raw(kind)))


T = TypeVar("T")


class _Queued(Generic[T]):
    __slots__ = ("is_leading", "item", "signal")

    def __init__(self, item: T) -> None:
        self.item = item
        self.signal = Event()
        self.is_leading = False


class BatchQueue(Generic[T]):
    """Settles items in batches, one batch at a time. One of the waiting threads settles the batch for all of them.

    `window` gives the seconds for which a batch waits for more items. It is asked only where the last batch had several
    items: a thread that works alone would only wait.
    """

    def __init__(self, settle: Callable[[Sequence[T]], None], window: Callable[[], float] = lambda: 0.0) -> None:
        self._settle = settle
        self._window = window
        self._is_busy = False
        self._lock = Lock()
        self._waiting: list[_Queued[T]] = []
        self._is_led = False

    @property
    def waiting(self) -> int:
        """How many items wait for the next batch."""
        return len(self._waiting)

    def submit(self, item: T, seconds: float) -> None:
        """Return when the batch of `item` is settled, or after `seconds`.

        A thread that settles a batch returns when that is done, so `settle` itself has to mind the time.
        """
        queued = _Queued(item)
        with self._lock:
            self._waiting.append(queued)
            queued.is_leading = not self._is_led
            self._is_led = True
        if not queued.is_leading:
            queued.signal.wait(seconds)
        if queued.is_leading and self._is_busy:
            time.sleep(min(seconds, self._window()))
        with self._lock:
            if not queued.is_leading:
                if queued in self._waiting:
                    self._waiting.remove(queued)
                return
            batch, self._waiting = self._waiting, []
        try:
            self._settle([each.item for each in batch])
        finally:
            self._hand_over(batch)

    def _hand_over(self, batch: Sequence[_Queued[T]]) -> None:
        for queued in batch:
            queued.signal.set()
        with self._lock:
            self._is_led = bool(self._waiting)
            self._is_busy = len(batch) > 1 or self._is_led
            if self._waiting:
                self._waiting[0].is_leading = True
                self._waiting[0].signal.set()
