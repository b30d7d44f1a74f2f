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

from webhook.ledger.book import Book
from webhook.ledger.comparing import entered_demand
from webhook.ledger.means import Means
from webhook.ledger.own_copy import LATE, OwnCopy
from webhook.ledger.plan import Correction, Plan, Reservation, corrected
from webhook.ledger.queue import SharedWrites
from webhook.ledger.store import Held, LedgerChangedError, LedgerError
from webhook.ledger.verdicts import Claim, Exceeded, Unanswered, Verdict
from webhook.quota.amounts import excesses, used
from webhook.quota.quota import Demand, Quota

_log = logging.getLogger("gpu_policy.quota")

_REST = 4
"""So many times as long as a list took that was made for a refusal, none is made for the next ones."""
_MOST_LISTED = 32
"""Namespaces that are listed for a refusal, each with a request of its own."""


class Ledger:
    """The ledger of the quota with this key. Threads share it; all that they want is written together."""

    def __init__(self, key: str, means: Means) -> None:
        self.key = key
        self._pods, self._timing = means.pods, means.timing
        self._observer, self._clock = means.observer, means.clock
        self._copy = OwnCopy(key, means)
        self._preparing = Lock()
        self._expects_company = False
        self._look_up_from = self._failed_at = -float("inf")
        self._writes = SharedWrites[Reservation | Correction](self._settle)

    @property
    def held(self) -> Held | None:
        """The book as last read or written here; None where it was never, or there was none."""
        return self._copy.held

    @property
    def is_in_want(self) -> bool:
        """Whether the last claim was not answered, which may be so because its pods take too long to be listed."""
        return self._failed_at > -float("inf")

    def reserve(self, reservation: Reservation) -> Verdict:
        """Enter a pod, and say whether it may be admitted."""
        begun = self._clock()
        if begun - self._failed_at < self._timing.after_fault:
            reservation.deadline = min(reservation.deadline, begun + self._timing.hurry)
        self._writes.pass_through(reservation, max(0.0, reservation.deadline - begun))
        verdict = reservation.verdict or Unanswered(LATE)
        self._observer.reserved(self.key, self._clock() - begun)
        if isinstance(verdict, Unanswered):
            self._failed_at = self._clock()
            self._observer.failed(self.key)
            return verdict
        self._failed_at = -float("inf")
        if isinstance(verdict, Exceeded) and reservation.claim.enforced:
            self._observer.refused(self.key)
        return verdict

    def correct(self, correction: Correction) -> bool:
        """Write what a reconciliation found, with the next write; False where that was not possible."""
        self._writes.pass_through(correction, max(0.0, correction.deadline - self._clock()))
        return correction.is_done

    def would_exceed(self, claim: Claim) -> bool:
        """Whether the claim passes a limit by the book as it was last seen, which may be old."""
        held = self.held
        return held is not None and bool(excesses(claim.demand, used(held.book.counts, claim.quota), claim.quota))

    def show(self, held: Held | None, before: Held | None) -> None:
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

    def _settle(self, batch: Sequence[Reservation | Correction]) -> None:
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
            except LedgerChangedError:
                self._observer.conflicted(self.key)
                state.is_read_due = self._expects_company = True
                self._pause(state)
            except LedgerError as error:
                state.fault = str(error)
                state.faults += 1
                state.is_read_due = True
                if state.faults >= self._timing.attempts_at_faults:
                    break
                self._pause(state)
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
        held = self._basis(reservations, deadline) if writes else Held("", self._imagined(reservations, deadline))
        if held is None:  # corrections of what is no longer there; to reservations it has happened just now
            return not reservations
        book = held.book.changed({}, state.ghosts)
        for correction in corrections:
            book = corrected(book, correction)
        plan = Plan(book)
        for reservation in reservations:
            plan.consider(reservation)
        if plan.has_unmet and not state.is_verified:
            state.is_verified = True
            self._copy.read(deadline)
            if (known := self.held) is not None:
                state.ghosts |= self._ghosts(known.book, reservations, deadline)
            return False
        if writes:
            self._copy.replace(plan.book(), held, deadline)
        for correction in corrections:
            correction.is_done = True
        for reservation in reservations:
            reservation.verdict = plan.verdicts[id(reservation)]
        return True

    def _basis(self, reservations: Sequence[Reservation], deadline: float) -> Held | None:
        """The book that a change is made to; there is one where somebody is to be entered."""
        for reservation in reservations:
            self._prepared(reservation.claim.quota, deadline)
        return self.held

    def _pause(self, state: "_Attempts") -> None:
        state.pauses = min(state.pauses + 1, 20)
        time.sleep(random.uniform(0, self._timing.longest_pause))  # noqa: S311  # apart from other replicas

    # What was there before

    def _prepared(self, quota: Quota, deadline: float) -> Held:
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

    def _enter_all(self, quota: Quota, deadline: float) -> Held:
        """Enter the pods of the namespaces that the book does not cover yet, all at once."""
        covered = frozenset[str]() if self.held is None else self.held.book.patterns
        missing = frozenset(quota.patterns) - covered
        found = self._listed(missing, quota, deadline)
        state = _Attempts(deadline)
        while True:
            held = self.held
            try:
                if held is None:
                    return self._copy.create(Book(found, frozenset(quota.patterns)), deadline)
                book = held.book.changed(found, patterns=held.book.patterns | missing)
                return self._copy.replace(book, held, deadline)
            except LedgerChangedError:
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

    # What is no longer there

    def _ghosts(self, book: Book, reservations: Sequence[Reservation], deadline: float) -> Set[bytes]:
        """The entries whose pods a consistent list does not show; none where one was made a moment ago, or fails.

        Half of the time is left for the answer, which is a refusal all the same where the list takes too long.
        """
        now = self._clock()
        known = self._pods.gone_among(book.entries.keys())
        if now < self._look_up_from:
            return known
        namespaces = _some(book.namespaces, {one.claim.demand.namespace for one in reservations})
        try:
            return known | self.vanished(book, namespaces, now + min((deadline - now) / 2, self._timing.one_call))
        except LedgerError as error:
            _log.warning("quota %s: pods could not be listed before a refusal: %s", self.key, error)
            return known
        finally:
            took = self._clock() - now
            self._look_up_from = now + max(self._timing.look_up_every, took * (1 + _REST))

    def vanished(self, book: Book, namespaces: frozenset[str], deadline: float) -> Set[bytes]:
        """The entries of these namespaces that are there in vain, by a list that begins now. Raises LedgerError.

        Their pods count no more or never came: those that were stored once are gone for good, those that were not had
        longer than any admission is in flight.
        """
        since = self._clock()
        uids = {uid for uid, demand in book.entries.items() if demand.namespace in namespaces}
        stored = self._pods.live_among(uids) | self._pods.gone_among(uids)
        suspects = {uid for uid in uids if uid in stored or self.outlasted(uid, since)}
        if not suspects:
            return frozenset()
        live = self._pods.live_now(namespaces, self._copy.left(deadline))
        self._observer.looked_up(self._clock() - since)
        return suspects - live


@dataclass(slots=True)
class _Attempts:
    """How far one batch has come."""

    until: float
    is_read_due: bool = False
    is_verified: bool = False
    ghosts: Set[bytes] = frozenset()
    pauses: int = 0
    faults: int = 0
    fault: str = ""


def _some(namespaces: frozenset[str], first: Set[str]) -> frozenset[str]:
    """As many of the namespaces as may be listed, others each time: those of `first`, and what luck brings."""
    if len(namespaces) <= _MOST_LISTED:
        return namespaces
    asking = sorted(namespaces & first)[:_MOST_LISTED]
    others = sorted(namespaces - first)
    return frozenset([*asking, *random.sample(others, min(len(others), _MOST_LISTED - len(asking)))])
