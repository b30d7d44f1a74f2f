"""The book as this replica knows it: read and written last, and since when each entry has been seen.

`Vanished` finds entries whose pods no longer count, or never came.
"""

import logging
import random
from collections.abc import Mapping, Set
from threading import Lock

from webhook.ledger.book import Book
from webhook.ledger.context import LedgerContext
from webhook.ledger.ledger_store import LedgerError, StoredLedger
from webhook.ledger.space import Unconfirmed
from webhook.quota.quotas import Demand

LATE = "the ledger did not answer in time"


class CachedLedger:
    """What is known of one book, through the store. One thread writes at a time; any may ask."""

    def __init__(self, key: str, means: LedgerContext) -> None:
        self.key = key
        self._store, self._timing, self._clock = means.store, means.timing, means.clock
        self._first_seen: dict[bytes, float] = {}
        self._listed: frozenset[bytes] = frozenset()
        self._seen_lock = Lock()
        self.unconfirmed = Unconfirmed(means.pods, means.timing.settling, means.timing.in_flight)
        """Which of the entries have no stored pod, as far as is known."""
        self.held: StoredLedger | None = None
        """The book as last read or written; None where it was never, or there was none."""

    def covers(self, patterns: tuple[str, ...]) -> StoredLedger | None:
        """What is held, where it covers the namespaces with these names and globs."""
        held = self.held
        return held if held is not None and held.book.patterns.issuperset(patterns) else None

    def read(self, deadline: float) -> bool:
        """Bring it up to date; the same object stays where nothing has changed, which is told. Raises LedgerError."""
        held = self._store.read(self.key, self._seconds(deadline))
        if held is not None and self.held is not None and held.version == self.held.version:
            return False
        is_news = held is not self.held
        self.keep(held)
        return is_news

    def create(self, book: Book, deadline: float) -> StoredLedger:
        """Begin a book. Raises ConflictError and LedgerError."""
        written = self._store.create(self.key, book, self._seconds(deadline))
        self.keep(written)
        return written

    def replace(self, book: Book, over: StoredLedger, deadline: float) -> StoredLedger:
        """Write over what is held, where the book is another. Raises ConflictError and LedgerError."""
        if book is over.book:
            return over
        written = self._store.replace(self.key, book, over, self._seconds(deadline))
        self.keep(written)
        return written

    def keep(self, held: StoredLedger | None) -> None:
        """Take note of the book, and of the moment for entries that are new."""
        self.held = held
        entries: Mapping[bytes, Demand] = {} if held is None else held.book.entries
        now = self._clock()
        with self._seen_lock:
            new, left = entries.keys() - self._first_seen.keys(), self._first_seen.keys() - entries.keys()
            for uid in new:
                self._first_seen[uid] = now
            for uid in left:
                del self._first_seen[uid]
            self.unconfirmed.entered({uid: entries[uid] for uid in new}, now)
            self.unconfirmed.left(left, now)
            self.unconfirmed.confirm(self._listed)
            self._listed -= entries.keys()

    def listed(self, uids: Set[bytes]) -> None:
        """Take note of pods that are stored, and about to be entered."""
        with self._seen_lock:
            self._listed |= uids

    def outlasted(self, uid: bytes, since: float) -> bool:
        """Whether an entry had been seen for longer than any admission is in flight, at `since`."""
        seen = self._first_seen.get(uid)
        return seen is not None and since - seen > self._timing.in_flight

    def left(self, deadline: float) -> float:
        """Seconds until then. Raises LedgerError where there are none."""
        left = deadline - self._clock()
        if left <= 0:
            raise LedgerError(LATE)
        return left

    def _seconds(self, deadline: float) -> float:
        return min(self.left(deadline), self._timing.one_call)


_log = logging.getLogger("gpu_policy.quota")

_REST = 4
"""So many times as long as a list took that was made for a refusal, none is made for the next ones."""
_MOST_LISTED = 32
"""Namespaces that are listed for a refusal, each with a request of its own."""


class Vanished:
    """Finds out by lists of pods which entries may be struck."""

    def __init__(self, key: str, means: LedgerContext, copy: CachedLedger) -> None:
        self._key = key
        self._copy = copy
        self._pods, self._timing = means.pods, means.timing
        self._observer, self._clock = means.observer, means.clock
        self.look_up_from = -float("inf")
        """From when on another list may be made for a refusal."""

    def before_refusal(self, book: Book, asking: Set[str], deadline: float) -> Set[bytes]:
        """The entries whose pods a consistent list does not show; none where one was made a moment ago, or fails.

        Half of the time is left for the answer, which is a refusal all the same where the list takes too long. `asking`
        are the namespaces that are about to be refused.
        """
        now = self._clock()
        known = self._pods.gone_among(book.entries.keys())
        if now < self.look_up_from:
            return known
        namespaces = _some(book.namespaces, asking)
        try:
            return known | self.among(book, namespaces, now + min((deadline - now) / 2, self._timing.one_call))
        except LedgerError as error:
            _log.warning("quota %s: pods could not be listed before a refusal: %s", self._key, error)
            return known
        finally:
            took = self._clock() - now
            self.look_up_from = now + max(self._timing.look_up_every, took * (1 + _REST))

    def among(self, book: Book, namespaces: frozenset[str], deadline: float) -> Set[bytes]:
        """The entries of these namespaces that are there in vain, by a list that begins now. Raises LedgerError.

        Their pods count no more or never came: those that were stored once are gone for good, those that were not had
        longer than any admission is in flight.
        """
        since = self._clock()
        uids = {uid for uid, demand in book.entries.items() if demand.namespace in namespaces}
        stored = self._pods.live_among(uids) | self._pods.gone_among(uids)
        suspects = {uid for uid in uids if uid in stored or self._copy.outlasted(uid, since)}
        if not suspects:
            return frozenset()
        live = self._pods.live_now(namespaces, self._copy.left(deadline))
        self._observer.looked_up(self._clock() - since)
        return suspects - live


def _some(namespaces: frozenset[str], first: Set[str]) -> frozenset[str]:
    """As many of the namespaces as may be listed, others each time: those of `first`, and what luck brings."""
    if len(namespaces) <= _MOST_LISTED:
        return namespaces
    asking = sorted(namespaces & first)[:_MOST_LISTED]
    others = sorted(namespaces - first)
    return frozenset([*asking, *random.sample(others, min(len(others), _MOST_LISTED - len(asking)))])
