"""What is wanted of a book, and what becomes of it: nothing here reads or writes.

Threads that come while a write is under way wait, and go with the next write.
"""

import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from fractions import Fraction
from threading import Event, Lock
from typing import Generic, TypeVar

from webhook.ledger.book import Book
from webhook.ledger.space import ENTRY_BYTES, OpenEntries, crowded, demand_bytes, is_shared, taken_of, withheld
from webhook.ledger.verdicts import Claim, Crowded, Exceeded, Granted, Verdict, Withheld
from webhook.quota.amounts import excesses, used
from webhook.quota.quotas import Demand, Limit, Quota


@dataclass(slots=True)
class Reservation:
    """A pod that wants to be entered. `deadline` is of the monotonic clock; a dry run is judged and not entered.

    `name` is the pod's, empty where nobody knows it. `is_cleared` says that it may hold more of a pot than other pods
    before it is stored.
    """

    uid: bytes
    claim: Claim
    deadline: float
    is_dry_run: bool = False
    name: str = ""
    is_cleared: bool = False
    verdict: Verdict | None = None


@dataclass(slots=True)
class Correction:
    """What a reconciliation found: entries to add and to strike, and which namespaces the book still has to cover.

    `is_done` is False until it has been written.
    """

    entered: Mapping[bytes, Demand] = field(default_factory=dict)
    struck: Set[bytes] = frozenset()
    patterns: frozenset[str] | None = None
    deadline: float = 0.0
    is_done: bool = False


class BatchPlan:
    """What becomes of a book when the reservations of one batch are considered one after the other."""

    def __init__(self, book: Book, open_of: Callable[[str], OpenEntries] | None = None) -> None:
        """Begin with the book as it is; `verdicts` are by the id of their reservation.

        `open_of` gives the entries of a namespace in this book that have no stored pod. Without it nothing is bounded
        but the quotas.
        """
        self._book = book
        self._open_of = open_of
        self._open: dict[str, OpenEntries] = {}
        self._taken: dict[str, int] | None = None
        self._entered: dict[bytes, Demand] = {}
        self._used: list[tuple[Quota, dict[Limit, Fraction]]] = []
        self.verdicts: dict[int, Verdict] = {}
        self.has_unmet = False
        self.has_withheld = False

    def consider(self, reservation: Reservation) -> None:
        """Enter the pod if it fits, or where it is to be entered anyway."""
        claim = reservation.claim
        if reservation.uid in self._book.entries or reservation.uid in self._entered:
            self.verdicts[id(reservation)] = Granted()
            return
        in_use = self._used_of(claim.quota)
        over = excesses(claim.demand, in_use, claim.quota)
        verdict = Exceeded(over) if over else self._withheld(reservation, in_use)
        if isinstance(verdict, Granted) or (over and not claim.enforced):
            verdict = self._crowded(claim) or verdict
        self.verdicts[id(reservation)] = verdict
        self.has_unmet = self.has_unmet or isinstance(verdict, Exceeded)
        self.has_withheld = self.has_withheld or isinstance(verdict, Withheld)
        is_let_in = isinstance(verdict, Granted) or (isinstance(verdict, Exceeded) and not claim.enforced)
        if is_let_in and not reservation.is_dry_run:
            self._enter(reservation)

    def _enter(self, reservation: Reservation) -> None:
        demand = reservation.claim.demand
        if self._taken is not None:
            added = ENTRY_BYTES + (demand_bytes(demand) if self._is_new(demand) else 0)
            self._taken[demand.namespace] = self._taken.get(demand.namespace, 0) + added
        self._entered[reservation.uid] = demand
        for quota, sums in self._used:
            for limit, amount in used({demand: 1}, quota).items():
                sums[limit] += amount
        if (mine := self._open.get(demand.namespace)) is not None:
            mine.all[demand] = mine.all.get(demand, 0) + 1

    def _withheld(self, reservation: Reservation, in_use: dict[Limit, Fraction]) -> Verdict:
        """Dry runs hold nothing, and nobody is kept out by a quota that is not enforced."""
        claim = reservation.claim
        if self._open_of is None or reservation.is_dry_run or not claim.enforced or not is_shared(claim.quota):
            return Granted()
        mine = self._open.get(claim.demand.namespace)
        if mine is None:
            mine = self._open[claim.demand.namespace] = self._open_of(claim.demand.namespace)
            for demand in self._entered.values():
                if demand.namespace == claim.demand.namespace:
                    mine.all[demand] = mine.all.get(demand, 0) + 1
        return withheld(claim, in_use, mine, is_cleared=reservation.is_cleared) or Granted()

    def _crowded(self, claim: Claim) -> Crowded | None:
        if self._open_of is None:
            return None
        if self._taken is None:
            self._taken = taken_of(self.book().counts)
        return crowded(claim.demand, self._taken, claim.quota, is_new=self._is_new(claim.demand))

    def _is_new(self, demand: Demand) -> bool:
        return demand not in self._book.counts and demand not in self._entered.values()

    def _used_of(self, quota: Quota) -> dict[Limit, Fraction]:
        """What is in use of a quota; during a change of policies there may be two of one name."""
        for known, sums in self._used:
            if known is quota:
                return sums
        sums = used((self.book() if self._entered else self._book).counts, quota)
        self._used.append((quota, sums))
        return sums

    def book(self) -> Book:
        """The book afterwards; the same one where nothing changes."""
        return self._book.changed(self._entered)


def corrected(book: Book, correction: Correction) -> Book:
    """The book after a reconciliation; it never covers more namespaces than before, whose pods somebody has to list."""
    patterns = None if correction.patterns is None else book.patterns & correction.patterns
    return book.changed(correction.entered, correction.struck - correction.entered.keys(), patterns)


T = TypeVar("T")


class _Place(Generic[T]):
    __slots__ = ("is_leading", "item", "signal")

    def __init__(self, item: T) -> None:
        self.item = item
        self.signal = Event()
        self.is_leading = False


class SharedWrites(Generic[T]):
    """Settles items in batches, one batch at a time, in the thread of one of those that wait for it.

    `gathering` says for how many seconds a batch waits for more items; it is asked where the last batch was not of one
    item alone, since whoever comes one after the other would only wait.
    """

    def __init__(self, settle: Callable[[Sequence[T]], None], gathering: Callable[[], float] = lambda: 0.0) -> None:
        self._settle = settle
        self._gathering = gathering
        self._is_busy = False
        self._lock = Lock()
        self._waiting: list[_Place[T]] = []
        self._is_led = False

    @property
    def waiting(self) -> int:
        """How many items wait for the next batch."""
        return len(self._waiting)

    def pass_through(self, item: T, seconds: float) -> None:
        """Return when the item's batch is settled, or after `seconds` if that has not happened by then.

        Whoever is made to settle a batch stays until that is done; `settle` itself has to mind the time.
        """
        place = _Place(item)
        with self._lock:
            self._waiting.append(place)
            place.is_leading = not self._is_led
            self._is_led = True
        if not place.is_leading:
            place.signal.wait(seconds)
        if place.is_leading and self._is_busy:
            time.sleep(min(seconds, self._gathering()))
        with self._lock:
            if not place.is_leading:
                if place in self._waiting:
                    self._waiting.remove(place)
                return
            batch, self._waiting = self._waiting, []
        try:
            self._settle([each.item for each in batch])
        finally:
            self._hand_over(batch)

    def _hand_over(self, batch: Sequence[_Place[T]]) -> None:
        for place in batch:
            place.signal.set()
        with self._lock:
            self._is_led = bool(self._waiting)
            self._is_busy = len(batch) > 1 or self._is_led
            if self._waiting:
                self._waiting[0].is_leading = True
                self._waiting[0].signal.set()
