"""What is wanted of a book, and what becomes of it: nothing here reads or writes."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from fractions import Fraction

from webhook.ledger.book import Book
from webhook.ledger.verdicts import Claim, Exceeded, Granted, Verdict
from webhook.quota.amounts import excesses, used
from webhook.quota.quota import Demand, Limit, Quota


@dataclass(slots=True)
class Reservation:
    """A pod that wants to be entered. `deadline` is of the monotonic clock; a dry run is judged and not entered."""

    uid: bytes
    claim: Claim
    deadline: float
    is_dry_run: bool = False
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


class Plan:
    """What becomes of a book when the reservations of one batch are considered one after the other."""

    def __init__(self, book: Book) -> None:
        """Begin with the book as it is; `verdicts` are by the id of their reservation."""
        self._book = book
        self._entered: dict[bytes, Demand] = {}
        self._used: list[tuple[Quota, dict[Limit, Fraction]]] = []
        self.verdicts: dict[int, Verdict] = {}
        self.has_unmet = False

    def consider(self, reservation: Reservation) -> None:
        """Enter the pod if it fits, or where it is to be entered anyway."""
        claim = reservation.claim
        if reservation.uid in self._book.entries or reservation.uid in self._entered:
            self.verdicts[id(reservation)] = Granted()
            return
        over = excesses(claim.demand, self._used_of(claim.quota), claim.quota)
        self.verdicts[id(reservation)] = Exceeded(over) if over else Granted()
        self.has_unmet = self.has_unmet or bool(over)
        if not reservation.is_dry_run and (not over or not claim.enforced):
            self._entered[reservation.uid] = claim.demand
            for quota, sums in self._used:
                for limit, amount in used({claim.demand: 1}, quota).items():
                    sums[limit] += amount

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
