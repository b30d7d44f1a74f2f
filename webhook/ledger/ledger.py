"""The ledger of one quota: who is entered, and for how long.

An entry is written before a pod is admitted, by compare-and-swap on one object, and the sum of the entries is the
usage. So it depends on no cache that what is admitted stays within the quota; docs/decisions says why that is exact.
"""

import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from threading import Lock

from webhook.ledger.book import Book
from webhook.ledger.comparing import entered_demand
from webhook.ledger.plan import Correction, Plan, Reservation, corrected
from webhook.ledger.queue import SharedWrites
from webhook.ledger.store import Held, LedgerChangedError, LedgerError, Pods, Store
from webhook.ledger.verdicts import Claim, Exceeded, Observer, Unanswered, Unobserved, Verdict
from webhook.quota.amounts import excesses, used
from webhook.quota.quota import Demand, Quota

_log = logging.getLogger("gpu_policy.quota")

Clock = Callable[[], float]

_LATE = "the ledger did not answer in time"

_REST = 4
"""So many times as long as a list took that was made for a refusal, none is made for the next ones."""
_MOST_LISTED = 32
"""Namespaces that are listed for a refusal, each with a request of its own."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things may take, in seconds."""

    in_flight: float = 90.0
    """Longer than any admission takes from our answer to the stored pod: the API server gives a request up after its
    `--request-timeout`, 60 seconds unless set otherwise, and half as much is added for what is slow to give up."""
    look_up_every: float = 2.0
    """Pods are listed for refusals at most this often, and less often where that takes long."""
    one_call: float = 5.0
    """The longest that one call may take where nobody waits for the answer."""
    longest_pause: float = 0.004
    """The longest wait before another attempt: about as long as a write takes. It does not grow, for whoever has waited
    longest would then be the last to write."""
    after_fault: float = 10.0
    """For so long after a claim that was not answered, further ones are given little time."""
    hurry: float = 0.5
    """The longest that these may wait: threads that wait for a store which is away cannot answer anybody else."""
    attempts_at_faults: int = 3
    """How often one write is tried where the store does not answer."""


@dataclass(frozen=True, slots=True)
class Means:
    """What ledgers work with, the same for all. `clock` is monotonic, in seconds."""

    store: Store
    pods: Pods
    timing: Timing = field(default_factory=Timing)
    observer: Observer = field(default_factory=Unobserved)
    clock: Clock = time.monotonic


class Ledger:
    """The ledger of the quota with this key. Threads share it; all that they want is written together."""

    def __init__(self, key: str, means: Means) -> None:
        self.key = key
        self._store, self._pods = means.store, means.pods
        self._timing, self._observer, self._clock = means.timing, means.observer, means.clock
        self._held: Held | None = None
        self._first_seen: dict[bytes, float] = {}
        self._seen_lock = Lock()
        self._preparing = Lock()
        self._expects_company = False
        self._look_up_from = self._failed_at = -float("inf")
        self._writes = SharedWrites[Reservation | Correction](self._settle)

    @property
    def held(self) -> Held | None:
        """The book as last read or written here; None where it was never, or there was none."""
        return self._held

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
        verdict = reservation.verdict or Unanswered(_LATE)
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
        held = self._held
        return held is not None and bool(excesses(claim.demand, used(held.book.counts, claim.quota), claim.quota))

    def show(self, held: Held | None, before: Held | None) -> None:
        """Take note of the book as it was read elsewhere, so that the time of its entries begins to count.

        `before` is what `held` was when that reading began: where it is something else now, that is newer.
        """
        if self._held is before and (held is None or before is None or held.version != before.version):
            self._keep(held)

    def outlasted(self, uid: bytes, since: float) -> bool:
        """Whether an entry had been watched for longer than any admission is in flight, at `since`."""
        seen = self._first_seen.get(uid)
        return seen is not None and since - seen > self._timing.in_flight

    def prepare(self, quota: Quota, deadline: float) -> Book:
        """The book, with an entry for every pod that was there before it. Raises LedgerError."""
        self._read(deadline)
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
                    state.fault or ("too many wrote at the same time" if state.pauses else _LATE)
                )

    def _attempt(
        self, reservations: Sequence[Reservation], corrections: Sequence[Correction], state: "_Attempts"
    ) -> bool:
        """Try once to settle everything; whether it is settled."""
        deadline = state.until
        if state.is_read_due or self._held is None:
            before = self._held
            self._read(deadline)
            self._expects_company = self._held is not before
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
            self._read(deadline)
            if self._held is not None:
                state.ghosts |= self._ghosts(self._held.book, reservations, deadline)
            return False
        if writes:
            self._write(plan.book(), held, deadline)
        for correction in corrections:
            correction.is_done = True
        for reservation in reservations:
            reservation.verdict = plan.verdicts[id(reservation)]
        return True

    def _basis(self, reservations: Sequence[Reservation], deadline: float) -> Held | None:
        """The book that a change is made to; there is one where somebody is to be entered."""
        for reservation in reservations:
            self._prepared(reservation.claim.quota, deadline)
        return self._held

    def _pause(self, state: "_Attempts") -> None:
        state.pauses = min(state.pauses + 1, 20)
        time.sleep(random.uniform(0, self._timing.longest_pause))  # noqa: S311  # apart from other replicas

    # The store

    def _seconds(self, deadline: float) -> float:
        return min(self._left(deadline), self._timing.one_call)

    def _left(self, deadline: float) -> float:
        left = deadline - self._clock()
        if left <= 0:
            raise LedgerError(_LATE)
        return left

    def _read(self, deadline: float) -> None:
        """Bring `held` up to date; the same object stays where nothing has changed."""
        held = self._store.read(self.key, self._seconds(deadline))
        if held is None or self._held is None or held.version != self._held.version:
            self._keep(held)

    def _write(self, book: Book, over: Held, deadline: float) -> Held:
        """Replace what is held, where the book is another."""
        if book is over.book:
            return over
        written = self._store.replace(self.key, book, over, self._seconds(deadline))
        self._keep(written)
        return written

    def _keep(self, held: Held | None) -> None:
        self._held = held
        self._watch_entries(held)

    def _watch_entries(self, held: Held | None) -> None:
        """Note since when each entry has been seen."""
        entries: Mapping[bytes, Demand] = {} if held is None else held.book.entries
        now = self._clock()
        with self._seen_lock:
            for uid in entries.keys() - self._first_seen.keys():
                self._first_seen[uid] = now
            for uid in self._first_seen.keys() - entries.keys():
                del self._first_seen[uid]

    # What was there before

    def _prepared(self, quota: Quota, deadline: float) -> Held:
        """The book as last seen, once it covers the namespaces of the quota."""
        held = self._held
        if held is not None and held.book.patterns.issuperset(quota.patterns):
            return held
        if not self._preparing.acquire(timeout=max(0.0, deadline - self._clock())):
            raise LedgerError("its pods are being counted for the first time; try again in a moment")
        try:
            self._read(deadline)
            return self._enter_all(quota, deadline)
        finally:
            self._preparing.release()

    def _enter_all(self, quota: Quota, deadline: float) -> Held:
        """Enter the pods of the namespaces that the book does not cover yet, all at once."""
        covered = self._held.book.patterns if self._held is not None else frozenset[str]()
        missing = frozenset(quota.patterns) - covered
        found = self._listed(missing, quota, deadline)
        state = _Attempts(deadline)
        while True:
            held = self._held
            try:
                if held is None:
                    book = Book(found, frozenset(quota.patterns))
                    written = self._store.create(self.key, book, self._seconds(deadline))
                    self._keep(written)
                    return written
                return self._write(held.book.changed(found, patterns=held.book.patterns | missing), held, deadline)
            except LedgerChangedError:
                self._pause(state)
                self._read(deadline)

    def _imagined(self, reservations: Sequence[Reservation], deadline: float) -> Book:
        """The book as it would be if it covered what these go by, for dry runs, because of which nothing is written."""
        book = Book() if self._held is None else self._held.book
        for quota in [one.claim.quota for one in reservations]:
            missing = frozenset(quota.patterns) - book.patterns
            book = book.changed(self._listed(missing, quota, deadline), patterns=book.patterns | missing)
        return book

    def _listed(self, patterns: frozenset[str], quota: Quota, deadline: float) -> dict[bytes, Demand]:
        """What the pods of these namespaces ask for, as they are now."""
        found: dict[bytes, Demand] = {}
        same: dict[Demand, Demand] = {}
        for seen in self._pods.list_now(patterns, self._left(deadline)) if patterns else ():
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
        live = self._pods.live_now(namespaces, self._left(deadline))
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
