"""One ledger as this replica last read or wrote it, since when it has seen each entry, and which entries are stale."""

import logging
import random
from collections import Counter
from collections.abc import Set
from threading import Lock

from webhook.ledger.context import LedgerContext
from webhook.ledger.entries import Entries
from webhook.ledger.ledger_store import LedgerError, StoredLedger
from webhook.ledger.plan import Unconfirmed
from webhook.quota.quotas import Demand

_log = logging.getLogger("gpu_policy.quota")

_REST = 4
"""After a list of pods for a refusal, none is made for this many times as long as it took."""
_MOST_LISTED = 32
"""Most namespaces that are listed for a refusal; each takes a request."""
LATE = "the ledger did not answer in time"

_RESTS = 10
"""After a pod that was never stored, its namespace keeps to its window for this many times an admission's time."""


class CachedLedger:
    """One ledger, read and written through the store. One thread at a time may write; any thread may read.

    An entry is unconfirmed until this replica knows that its pod is stored, and has no scheduling gates left.
    """

    def __init__(self, key: str, context: LedgerContext) -> None:
        self.key = key
        self._store, self._timing, self._clock = context.store, context.timing, context.clock
        self._observer, self._pods = context.observer, context.pods
        self._first_seen: dict[bytes, float] = {}
        self._unconfirmed: set[bytes] = set()
        self._gave_up: dict[str, float] = {}  # namespace -> when a pod of it was last known not to come any more
        self._seen_lock = Lock()
        self.held: StoredLedger | None = None
        """The ledger as last read or written; None where there was none, or it was never read."""
        self.look_up_from = -float("inf")
        """The time from which pods may be listed for a refusal again."""
        self.counts_gated = False
        """Whether the quota counts pods with scheduling gates."""

    @property
    def entries(self) -> Entries:
        held = self.held  # another thread may remove it
        return Entries() if held is None else held.entries

    def covers(self, patterns: tuple[str, ...]) -> StoredLedger | None:
        """The held ledger, if it covers the namespaces with these names and globs."""
        held = self.held
        return held if held is not None and held.entries.patterns.issuperset(patterns) else None

    def read(self, deadline: float) -> bool:
        """Read the ledger; return whether it has changed. Else `held` stays the same object. Raises LedgerError."""
        held = self._store.read(self.key, self._seconds(deadline))
        if held is not None and self.held is not None and held.version == self.held.version:
            return False
        is_news = held is not self.held
        self.keep(held)
        return is_news

    def create(self, entries: Entries, deadline: float) -> None:
        """Create the ledger. Raises ConflictError and LedgerError."""
        self.keep(self._store.create(self.key, entries, self._seconds(deadline)))

    def replace(self, entries: Entries, over: StoredLedger, deadline: float) -> None:
        """Write entries over the ledger that was read, unless they are the same. Raises ConflictError, LedgerError."""
        if entries is over.entries and not over.damage:
            return
        written = self._store.replace(self.key, entries, over, self._seconds(deadline))
        if over.damage:
            _log.error("quota %s: the ledger was written anew: %s", self.key, over.damage)
            self._observer.repaired()
        self.keep(written)

    def note(self, held: StoredLedger | None, before: StoredLedger | None) -> None:
        """Take note of the ledger as it was read elsewhere, so that the age of its entries begins to count.

        `before` is what `held` was when that read began. Where it has changed meanwhile, it is newer than the read.
        """
        if self.held is before and (held is None or before is None or held.version != before.version):
            self.keep(held)

    def keep(self, held: StoredLedger | None) -> None:
        """Take note of the ledger, and of the time for new entries."""
        now = self._clock()
        with self._seen_lock:
            rounds, before = self.entries.rounds, self.entries.by_uid
            self.held = held
            by_uid = self.entries.by_uid
            new, gone = by_uid.keys() - self._first_seen.keys(), self._first_seen.keys() - by_uid.keys()
            new |= {uid for uid, number in self.entries.rounds.items() if rounds.get(uid) != number and uid in by_uid}
            self._forget_confirmed()
            for uid in gone:
                if uid in self._unconfirmed and self.outlasted(uid, now) and self._pods.is_known():
                    self._gave_up[before[uid].namespace] = now
                del self._first_seen[uid]
            self._first_seen.update(dict.fromkeys(new, now))
            self._unconfirmed = (self._unconfirmed - gone) | new

    def confirm(self, uids: Set[bytes]) -> None:
        with self._seen_lock:
            self._unconfirmed -= uids

    def unconfirmed(self, entries: Entries | None = None) -> Counter[Demand]:
        """How many of these entries, or of all, are unconfirmed, by demand; the remainders of groups always are."""
        entries = entries or self.entries
        by_uid, held = entries.by_uid, Counter[Demand]()
        for one in entries.remainders.values():
            held[one.demand] += one.left
        with self._seen_lock:
            self._forget_confirmed()
            return held + Counter(by_uid[uid] for uid in self._unconfirmed if uid in by_uid)

    def unconfirmed_in(self, namespace: str, entries: Entries) -> Unconfirmed:
        counts = self.unconfirmed(entries)
        rest = self._timing.in_flight * _RESTS
        return Unconfirmed(
            Counter({demand: count for demand, count in counts.items() if demand.namespace == namespace}),
            gave_up=self._clock() - self._gave_up.get(namespace, -float("inf")) < rest,
        )

    def _forget_confirmed(self) -> None:
        if self._unconfirmed:
            uids = self._unconfirmed
            self._unconfirmed = uids - self.live_among(uids) - self._pods.gone_among(uids)

    def live_among(self, uids: Set[bytes]) -> Set[bytes]:
        """The uids of pods that counted against this quota when they were last seen."""
        return self._pods.live_among(uids) - self._gated_among(uids)

    def _gated_among(self, uids: Set[bytes]) -> Set[bytes]:
        return frozenset() if self.counts_gated else self._pods.gated_among(uids)

    def not_renewed(self, uids: Set[bytes], since: float) -> Set[bytes]:
        """The entries that are not newer than `since`."""
        return {uid for uid in uids if self._first_seen.get(uid, since) <= since}

    def outlasted(self, uid: bytes, since: float) -> bool:
        """Whether at `since` an entry had been seen for longer than any admission takes."""
        seen = self._first_seen.get(uid)
        return seen is not None and since - seen > self._timing.in_flight

    def left(self, deadline: float) -> float:
        """Seconds until the deadline. Raises LedgerError where it is over."""
        left = deadline - self._clock()
        if left <= 0:
            raise LedgerError(LATE)
        return left

    def _seconds(self, deadline: float) -> float:
        return min(self.left(deadline), self._timing.one_call)

    # Entries whose pods no longer count, or never came

    def stale_before_refusal(self, asking: Set[str], deadline: float) -> Set[bytes]:
        """The stale entries by a consistent list; only what the watch knows if a list was made lately, or fails.

        The list may take half of the time that is left: the refusal has to be sent, too. `asking` are the namespaces
        with pods that are about to be refused.
        """
        now, entries = self._clock(), self.entries
        known = self._pods.gone_among(entries.by_uid.keys())
        if now < self.look_up_from:
            return known
        namespaces = _some(entries.namespaces, asking)
        try:
            return known | self.stale(entries, namespaces, now + min((deadline - now) / 2, self._timing.one_call))
        except LedgerError as error:
            _log.warning("quota %s: pods could not be listed before a refusal: %s", self.key, error)
            return known
        finally:
            took = self._clock() - now
            self.look_up_from = now + max(self._timing.look_up_every, took * (1 + _REST))

    def stale(self, entries: Entries, namespaces: frozenset[str], deadline: float) -> Set[bytes]:
        """The stale entries of these namespaces, by a list that begins now. Raises LedgerError.

        A pod that was stored once and is missing from the list is gone for good. A pod that was never seen is given up
        when its entry is older than any admission, and so is one that still has gates: another webhook refused to
        let it start.
        """
        since = self._clock()
        uids = {uid for uid, demand in entries.by_uid.items() if demand.namespace in namespaces}
        if not uids:
            return frozenset()
        stored = self._pods.live_among(uids) | self._pods.gone_among(uids)
        suspects = {uid for uid in uids if uid in stored or self.outlasted(uid, since)}
        live = self._pods.live_now(namespaces, self.left(deadline))
        self._observer.looked_up(self._clock() - since)
        gated = self._gated_among(uids)
        self.confirm(live - gated)
        waiting = {uid for uid in gated if self.outlasted(uid, since)}
        places = {entries.by_uid[uid].namespace for uid in waiting}
        found = self._pods.list_now(places, self.left(deadline)) if places else ()
        return (suspects - live) | (waiting & {pod.uid for pod in found if pod.is_gated})


def _some(namespaces: frozenset[str], first: Set[str]) -> frozenset[str]:
    """As many of the namespaces as may be listed: those in `first`, and a random choice of the others."""
    if len(namespaces) <= _MOST_LISTED:
        return namespaces
    asking = sorted(namespaces & first)[:_MOST_LISTED]
    others = sorted(namespaces - first)
    return frozenset([*asking, *random.sample(others, min(len(others), _MOST_LISTED - len(asking)))])
