"""Which entries of a book are there in vain, because their pods count no more or never came."""

import logging
import random
from collections.abc import Set

from webhook.ledger.book import Book
from webhook.ledger.cached_ledger import CachedLedger
from webhook.ledger.context import LedgerContext
from webhook.ledger.ledger_store import LedgerError

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
