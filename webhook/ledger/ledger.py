"""The ledger of one quota: who is entered, and for how long.

An entry is written before a pod is admitted, by compare-and-swap on one object, and the sum of the entries is the
usage. So it depends on no cache that what is admitted stays within the quota; docs/decisions says why that is exact.
"""

import logging
import random
import time
from collections.abc import Sequence, Set
from dataclasses import dataclass
from threading import Lock

from webhook.kubernetes.api_errors import ConflictError
from webhook.ledger.book import Book
from webhook.ledger.cached_ledger import LATE, CachedLedger, Vanished
from webhook.ledger.context import LedgerContext
from webhook.ledger.ledger_store import LedgerError, StoredLedger, entered_demand
from webhook.ledger.plan import BatchPlan, Correction, Reservation, SharedWrites, corrected
from webhook.ledger.settling import Settling
from webhook.ledger.space import OpenEntries, Unconfirmed, is_shared, withheld
from webhook.ledger.verdicts import Claim, Granted, Unanswered, Verdict
from webhook.quota.amounts import excesses, used
from webhook.quota.quotas import Demand, Quota

_log = logging.getLogger("gpu_policy.quota")


class Ledger:
    """The ledger of the quota with this key. Threads share it; all that they want is written together."""

    def __init__(self, key: str, means: LedgerContext) -> None:
        self.key = key
        self._pods, self._timing, self._is_bounded = means.pods, means.timing, means.is_bounded
        self._observer, self._clock = means.observer, means.clock
        self._copy = CachedLedger(key, means)
        self._settling = Settling(key, means, self._copy.unconfirmed)
        self._preparing = Lock()
        self._expects_company = False
        self._failed_at = -float("inf")
        self.vanished = Vanished(key, means, self._copy)
        """The entries that are there in vain."""
        self._asked_at = self._clock()
        self._writes = SharedWrites[Reservation | Correction](
            self.settle, lambda: self._timing.gathering if self._expects_company else 0.0
        )

    @property
    def held(self) -> StoredLedger | None:
        """The book as last read or written here; None where it was never, or there was none."""
        return self._copy.held

    @property
    def waiting(self) -> int:
        """How many wait for the next write."""
        return self._writes.waiting

    def is_idle(self, seconds: float) -> bool:
        """Whether there is no book, and nobody has asked for as long."""
        return self.held is None and self._clock() - self._asked_at > seconds

    @property
    def unconfirmed(self) -> Unconfirmed:
        """Which entries have no stored pod, as far as this replica knows."""
        return self._copy.unconfirmed

    @property
    def is_in_want(self) -> bool:
        """Whether the last claim was not answered, which may be so because its pods take too long to be listed."""
        return self._failed_at > -float("inf")

    def reserve(self, reservation: Reservation) -> Verdict:
        """Enter a pod, and say whether it may be admitted."""
        begun = self._asked_at = self._clock()
        if begun - self._failed_at < self._timing.after_fault:
            reservation.deadline = min(reservation.deadline, begun + self._timing.hurry)
        verdict = self._settling.settled(reservation, lambda: self._asked(reservation))
        self._observer.reserved(self.key, self._clock() - begun)
        if isinstance(verdict, Unanswered):
            self._failed_at = self._clock()
            self._observer.failed(self.key)
            return verdict
        self._failed_at = -float("inf")
        if reservation.claim.enforced and not isinstance(verdict, Granted):
            self._observer.refused(self.key)
            self._settling.tell(reservation.claim, verdict)
        return verdict

    def _asked(self, reservation: Reservation) -> Verdict:
        reservation.verdict = None
        self._writes.pass_through(reservation, max(0.0, reservation.deadline - self._clock()))
        return reservation.verdict or Unanswered(LATE)

    def correct(self, correction: Correction) -> bool:
        """Write what a reconciliation found, with the next write; False where that was not possible."""
        self._writes.pass_through(correction, max(0.0, correction.deadline - self._clock()))
        return correction.is_done

    def would_exceed(self, claim: Claim) -> bool:
        """Whether the claim would be refused by the book as it was last seen, which may be old."""
        held = self.held
        if held is None:
            return False
        in_use = used(held.book.counts, claim.quota)
        if excesses(claim.demand, in_use, claim.quota):
            return True
        if not self._is_bounded or not is_shared(claim.quota):
            return False
        return withheld(claim, in_use, self._open(claim.demand.namespace, held.book), is_cleared=True) is not None

    def _open(self, namespace: str, book: Book) -> OpenEntries:
        return self._copy.unconfirmed.of(namespace, book, self._clock())

    def show(self, held: StoredLedger | None, before: StoredLedger | None) -> None:
        """Take note of the book as it was read elsewhere, so that the time of its entries begins to count.

        `before` is what `held` was when that reading began: where it is something else now, that is newer.
        """
        if self.held is before and (held is None or before is None or held.version != before.version):
            self._copy.keep(held)

    def outlasted(self, uid: bytes, since: float) -> bool:
        """Whether an entry had been watched for longer than any admission is in flight, at `since`."""
        return self._copy.outlasted(uid, since)

    def prepare(self, quota: Quota, deadline: float) -> Book:
        """The book, with an entry for every pod that was there before it. Raises LedgerError."""
        self._copy.read(deadline)
        return self._prepared(quota, deadline).book

    # One batch

    def settle(self, batch: Sequence[Reservation | Correction]) -> None:
        """Give each reservation its verdict, and write everything with one write where the store lets it."""
        reservations = [one for one in batch if isinstance(one, Reservation)]
        corrections = [one for one in batch if isinstance(one, Correction)]
        is_dry_run = any(one.is_dry_run for one in reservations)  # which no write shows to go by an old book
        until = max(one.deadline for one in reservations or corrections)  # nobody waits longer for a correction
        state = _Attempts(until, is_read_due=self._expects_company or is_dry_run)
        while (now := self._clock()) < until:
            waiting = [one for one in reservations if now < one.deadline]  # nobody is entered who has gone by now
            try:
                if self._attempt(waiting, corrections, state):
                    break
            except ConflictError:
                self._observer.conflicted(self.key)
                state.is_read_due = self._expects_company = True
                self._pause(state)
            except LedgerError as error:
                state.fault, state.details = error.told, str(error)
                state.faults += 1
                state.is_read_due = True
                if state.faults >= self._timing.attempts_at_faults:
                    break
                self._pause(state)
        if state.details != state.fault and any(one.verdict is None for one in reservations):
            _log.error("quota %s: %s", self.key, state.details)  # of which the authors of pods hear less
        for reservation in reservations:
            if reservation.verdict is None:
                reservation.verdict = Unanswered(
                    state.fault or ("too many wrote at the same time" if state.pauses else LATE)
                )

    def _attempt(
        self, reservations: Sequence[Reservation], corrections: Sequence[Correction], state: "_Attempts"
    ) -> bool:
        """Try once to settle everything; whether it is settled."""
        deadline = state.until
        if state.is_read_due or self.held is None:
            self._expects_company = self._copy.read(deadline)
            state.is_read_due = False
        writes = bool(corrections) or not all(one.is_dry_run for one in reservations)
        held = (
            self._basis(reservations, deadline) if writes else StoredLedger("", self._imagined(reservations, deadline))
        )
        if held is None:  # corrections of what is no longer there; to reservations it has happened just now
            return not reservations
        book = held.book.changed({}, state.ghosts)
        for correction in corrections:
            book = corrected(book, correction)
        plan = BatchPlan(book, (lambda namespace: self._open(namespace, book)) if self._is_bounded else None)
        for reservation in reservations:
            plan.consider(reservation)
        if self._learns_more(plan, reservations, state):
            return False
        if writes:
            self._copy.replace(plan.book(), held, deadline)
        for correction in corrections:
            correction.is_done = True
        for reservation in reservations:
            reservation.verdict = plan.verdicts[id(reservation)]
        return True

    def _learns_more(self, plan: BatchPlan, reservations: Sequence[Reservation], state: "_Attempts") -> bool:
        """Read the book anew before somebody is refused, and for a quota that is full list the pods."""
        if plan.has_unmet and not state.is_verified:
            state.is_verified = True
            self._copy.read(state.until)
            if (known := self.held) is not None:
                asking = {one.claim.demand.namespace for one in reservations}
                state.ghosts |= self.vanished.before_refusal(known.book, asking, state.until)
            return True
        if plan.has_withheld and not state.is_up_to_date:
            state.is_up_to_date = state.is_read_due = True
            return True
        return False

    def _basis(self, reservations: Sequence[Reservation], deadline: float) -> StoredLedger | None:
        """The book that a change is made to; there is one where somebody is to be entered."""
        for reservation in reservations:
            self._prepared(reservation.claim.quota, deadline)
        return self.held

    def _pause(self, state: "_Attempts") -> None:
        state.pauses = min(state.pauses + 1, 20)
        time.sleep(random.uniform(0, self._timing.longest_pause))  # noqa: S311  # apart from other replicas

    # What was there before

    def _prepared(self, quota: Quota, deadline: float) -> StoredLedger:
        """The book as last seen, once it covers the namespaces of the quota."""
        if (held := self._copy.covers(quota.patterns)) is not None:
            return held
        if not self._preparing.acquire(timeout=max(0.0, deadline - self._clock())):
            raise LedgerError("its pods are being counted for the first time; try again in a moment")
        try:
            self._copy.read(deadline)
            return self._enter_all(quota, deadline)
        finally:
            self._preparing.release()

    def _enter_all(self, quota: Quota, deadline: float) -> StoredLedger:
        """Enter the pods of the namespaces that the book does not cover yet, all at once."""
        covered = frozenset[str]() if self.held is None else self.held.book.patterns
        missing = frozenset(quota.patterns) - covered
        found = self._listed(missing, quota, deadline)
        self._copy.listed(found.keys())
        state = _Attempts(deadline)
        while True:
            held = self.held
            try:
                if held is None:
                    return self._copy.create(Book(found, frozenset(quota.patterns)), deadline)
                book = held.book.changed(found, patterns=held.book.patterns | missing)
                return self._copy.replace(book, held, deadline)
            except ConflictError:
                self._pause(state)
                self._copy.read(deadline)

    def _imagined(self, reservations: Sequence[Reservation], deadline: float) -> Book:
        """The book as it would be if it covered what these go by, for dry runs, because of which nothing is written."""
        book = Book() if self.held is None else self.held.book
        for quota in [one.claim.quota for one in reservations]:
            missing = frozenset(quota.patterns) - book.patterns
            book = book.changed(self._listed(missing, quota, deadline), patterns=book.patterns | missing)
        return book

    def _listed(self, patterns: frozenset[str], quota: Quota, deadline: float) -> dict[bytes, Demand]:
        """What the pods of these namespaces ask for, as they are now."""
        found: dict[bytes, Demand] = {}
        same: dict[Demand, Demand] = {}
        for seen in self._pods.list_now(patterns, self._copy.left(deadline)) if patterns else ():
            demand = entered_demand(seen, quota.counting)
            if demand is not None:
                found[seen.uid] = same.setdefault(demand, demand)
        return found


@dataclass(slots=True)
class _Attempts:
    """How far one batch has come."""

    until: float
    is_read_due: bool = False
    is_verified: bool = False
    is_up_to_date: bool = False
    ghosts: Set[bytes] = frozenset()
    pauses: int = 0
    faults: int = 0
    fault: str = ""
    details: str = ""
    """The fault in the words for administrators."""
