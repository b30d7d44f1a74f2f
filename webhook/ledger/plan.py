"""What becomes of a ledger's entries in one batch. Nothing here reads or writes a ledger.

A quota has to have room for a pod, and so does the ledger, which is one ConfigMap of 1 MiB for all namespaces of a
shared quota. A namespace may also hold only a part of a shared quota with unconfirmed entries, whose pods are not
stored yet. A pod is stored milliseconds after its entry, so honest creates pass through this small window one after the
other. Pods that another webhook refuses after this one fill the window of their own namespace only.

`BatchQueue` collects what threads want while a write is under way; the next write carries all of it.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from threading import Event, Lock
from typing import Generic, TypeVar

from webhook.ledger.entries import Entries
from webhook.ledger.remainders import Remainder, joined
from webhook.ledger.verdicts import (
    Correction,
    Exceeded,
    Granted,
    LedgerFull,
    PendingEntry,
    QuotaRequest,
    TooManyUnconfirmed,
    Verdict,
)
from webhook.model.globs import is_glob
from webhook.quota.amounts import amounts, unit_of, used
from webhook.quota.quotas import Demand, Excess, Limit, Quota, QuotaScope

WINDOW = Fraction(1, 2)
"""Share of what is free for a namespace that its unconfirmed entries may hold together."""

MOST_DEMANDS = 500
"""Most different demands of one namespace in a ledger, each of up to 330 bytes. Tenants write them."""


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """The unconfirmed entries of one namespace: how many of each demand. `gave_up`: lately, a pod was never stored."""

    counts: Counter[Demand] = field(default_factory=Counter)
    gave_up: bool = False


class BatchPlan:
    """What becomes of entries when the pods of one batch are considered one after the other.

    `unconfirmed_in` says which entries of a namespace are unconfirmed. Without it, only quotas bound a namespace.
    `gone` are pods that a list has just shown to be gone.
    `verdicts` are by the id of their pending entry.
    """

    def __init__(
        self,
        entries: Entries,
        unconfirmed_in: Callable[[str, Entries], Unconfirmed] | None = None,
        gone: Set[bytes] = frozenset(),
    ) -> None:
        self._before, self._gone = entries, gone
        self._ask_unconfirmed = unconfirmed_in
        self._unconfirmed: dict[str, Unconfirmed] = {}
        self._counts = Counter(entries.counts)
        self._used: list[tuple[Quota, dict[Limit, Fraction]]] = []
        self._added: dict[bytes, Demand] = {}
        self._removed: set[bytes] = set()
        self._renewed: set[bytes] = set()
        self._remainders: dict[bytes, Remainder] = dict(entries.remainders)
        self.verdicts: dict[int, Verdict] = {}

    def consider(self, pending: PendingEntry) -> None:
        """Give a pod or request its verdict, and its entries if it is let in."""
        entries = pending.request.entries(pending.uid)
        room = self._entry(pending.takes_over)
        if all(self._entry(key) is not None for key in entries):
            verdict: Verdict = Granted()  # it is asked about again
            if pending.starts and not pending.is_dry_run:
                self._renewed |= entries.keys()
        elif room is not None and self._is_within(pending.request, room):
            verdict = self._take_over(pending, room)
        else:
            verdict = self._admit(pending, entries)
        self.verdicts[id(pending)] = verdict

    def entries(self) -> Entries:
        changed = {key: one for key, one in self._remainders.items() if self._before.remainders.get(key) is not one}
        return self._before.changed(self._added, self._removed, renewed=self._renewed, remainders=changed)

    def _entry(self, key: bytes) -> Demand | None:
        return None if key in self._removed else self._added.get(key) or self._before.by_uid.get(key)

    def _is_within(self, request: QuotaRequest, room: Demand) -> bool:
        free = amounts(room, request.quota)
        return all(asks <= free[limit] for limit, asks in amounts(request.demand, request.quota).items())

    def _take_over(self, pending: PendingEntry, room: Demand) -> Verdict:
        """Put the entry of a request in the place of an entry that counts at least as much, whatever else is in use."""
        if not pending.is_dry_run:
            self._added.pop(pending.takes_over, None)
            self._removed.add(pending.takes_over)
            self._count(room, -1)
            self._add(pending.uid, room if pending.stands_for else pending.request.demand)
            for key, one in self._remainders.items():
                if pending.takes_over in one.members:
                    members = one.members - {pending.takes_over} | {pending.uid}
                    self._remainders[key] = replace(one, members=members)
        return Granted()

    def _admit(self, pending: PendingEntry, entries: Mapping[bytes, Demand]) -> Verdict:
        request = pending.request
        rooms = joined(request.group, pending.uid, self._remainders, self._gone)
        asked = Asked.by(request, rooms, self._remainders)
        over = asked.excesses(self._used_of(request.quota))
        if over and request.enforced:
            is_first = asked.pods > 1 and request.group is not None
            return Exceeded(over, request.group.name, asked.pods) if is_first and request.group else Exceeded(over)
        kept_out = None
        if self._ask_unconfirmed is not None:
            new: set[Demand | bytes] = {*entries.values(), *asked.units, *(rooms.keys() - self._remainders.keys())}
            kept_out = self._kept_out(pending, asked, new, self._ask_unconfirmed)
        if kept_out is not None:
            return kept_out
        if not pending.is_dry_run:
            for key, demand in entries.items():
                self._add(key, demand)
            self._remainders |= rooms
            for demand, units in asked.units.items():
                self._count(demand, units)
                if demand.namespace in self._unconfirmed:
                    self._unconfirmed[demand.namespace].counts[demand] += units
        return Exceeded(over) if over else Granted()

    def _kept_out(
        self,
        pending: PendingEntry,
        asked: "Asked",
        new: set[Demand | bytes],
        ask: Callable[[str, Entries], Unconfirmed],
    ) -> TooManyUnconfirmed | LedgerFull | None:
        """Why a pod that would fit is kept out because of others in its namespace. Dry runs hold nothing."""
        request, namespace = pending.request, pending.request.demand.namespace
        if request.enforced and not pending.is_dry_run and is_shared(request.quota):
            if namespace not in self._unconfirmed:
                self._unconfirmed[namespace] = ask(namespace, self._before)
            if too_many := too_many_unconfirmed(asked, self._used_of(request.quota), self._unconfirmed[namespace]):
                return too_many
        return self._full(new, namespace)

    def _add(self, key: bytes, demand: Demand) -> None:
        self._added[key] = demand
        self._count(demand, 1)
        if demand.namespace in self._unconfirmed:
            self._unconfirmed[demand.namespace].counts[demand] += 1

    def _count(self, demand: Demand, entries: int) -> None:
        self._counts[demand] += entries
        for quota, sums in self._used:
            for limit, amount in used({demand: entries}, quota).items():
                sums[limit] += amount

    def _used_of(self, quota: Quota) -> dict[Limit, Fraction]:
        """What is in use of a quota. While policies change, two quotas may have one name."""
        for known, sums in self._used:
            if known is quota:
                return sums
        sums = used(self._counts, quota)
        self._used.append((quota, sums))
        return sums

    def _full(self, demands: set[Demand | bytes], namespace: str) -> LedgerFull | None:
        """Why the ledger takes no entries with these demands, or keys of remainders, from a namespace; None if it does.

        A remainder counts as a demand: it takes as much room.
        """
        new = [one for one in demands if isinstance(one, bytes) or not self._counts[one]]
        if not new:
            return None
        own = sum(1 for demand, count in self._counts.items() if count and demand.namespace == namespace)
        own += sum(1 for one in self._remainders.values() if one.demand.namespace == namespace)
        return LedgerFull(own + len(new), MOST_DEMANDS) if own + len(new) > MOST_DEMANDS else None


def corrected(entries: Entries, correction: Correction) -> Entries:
    """The entries after a correction. They never cover new namespaces, because nobody has listed their pods."""
    patterns = None if correction.patterns is None else entries.patterns & correction.patterns
    known = entries.remainders
    remainders = {key: now for key, (judged, now) in correction.remainders.items() if known.get(key) == judged}
    return entries.changed(
        correction.added, correction.removed - correction.added.keys(), patterns, remainders=remainders
    )


def is_shared(quota: Quota) -> bool:
    """Whether one namespace could use up what another namespace may use."""
    return quota.scope is QuotaScope.SHARED and (len(quota.patterns) > 1 or any(map(is_glob, quota.patterns)))


@dataclass(frozen=True, slots=True)
class Asked:
    """What a pod asks of a quota, together with the pods of its group that are still to come.

    `units` is demand -> how many pods more, or fewer, the group has room for from now on. `spared` is what its room
    held of each limit for the pod. `pods` are how many pods ask for room together.
    """

    quota: Quota
    asks: Mapping[Limit, Fraction]
    spared: Mapping[Limit, Fraction] = field(default_factory=dict)
    units: Mapping[Demand, int] = field(default_factory=dict)
    pods: int = 1
    of: Demand | None = None

    @classmethod
    def by(cls, request: QuotaRequest, rooms: Mapping[bytes, Remainder], before: Mapping[bytes, Remainder]) -> "Asked":
        """What a request asks whose remainders change from those before to `rooms`."""
        quota, demand = request.quota, request.demand
        if not rooms:
            return cls(quota, amounts(demand, quota), of=demand)
        pods = 1
        units: Counter[Demand] = Counter()
        for key, one in rooms.items():
            change = one.left - (before[key].left if key in before else 0)
            units[one.demand] += change
            pods += max(0, change)
        more, fewer = +units, -units
        asks, spared = used(more + Counter([demand]), quota), used(fewer, quota)
        return cls(quota, asks, spared, units, pods, demand if set(more) <= {demand} else None)

    def excesses(self, in_use: Mapping[Limit, Fraction]) -> tuple[Excess, ...]:
        """The limits that would be exceeded, in the order of the quota."""
        return tuple(
            Excess(limit, asks, free_of, None if self.of is None else unit_of(self.of, limit, self.quota))
            for limit, asks in self.asks.items()
            if asks > (spared := self.spared.get(limit, Fraction(0)))
            and (free_of := in_use[limit] - spared) + asks > limit.hard
        )


def too_many_unconfirmed(
    asked: Asked, in_use: Mapping[Limit, Fraction], mine: Unconfirmed
) -> TooManyUnconfirmed | None:
    """Why a pod that would fit is kept out of a shared quota; None if it may get an entry.

    `in_use` is the usage of the whole quota, `mine` what is unconfirmed in the pod's namespace. A pod that is larger
    than the window may get the only unconfirmed entry of its namespace, unless the namespace gave pods up lately.
    """
    held = used(mine.counts, asked.quota)
    for limit, amount in asked.asks.items():
        asks = amount - asked.spared.get(limit, Fraction(0))
        most = (limit.hard - in_use[limit] + held[limit]) * WINDOW
        if asks > 0 and held[limit] + asks > most and (held[limit] or mine.gave_up):
            return TooManyUnconfirmed(Excess(limit, asks, held[limit]), most)
    return None


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
