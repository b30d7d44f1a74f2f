"""Entries without a stored pod, as far as this replica knows: whose they are, and whose went in vain.

Nothing is struck because of it. It only says how much more of a pot a namespace may enter (`window`).
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from threading import Lock

from webhook.ledger.book import Book
from webhook.ledger.ledger_store import Pods
from webhook.quota.quotas import Demand

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
