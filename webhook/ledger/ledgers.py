"""The ledgers of all quotas, and a pod that has to go by several of them.

Only namespaces that are known to exist get ledgers: whoever reaches the port can make up reviews of others.
"""

import logging
from collections.abc import Mapping, Sequence
from threading import Lock

from webhook.ledger.cached_ledger import LATE
from webhook.ledger.context import LedgerContext
from webhook.ledger.ledger import Ledger
from webhook.ledger.ledger_store import LedgerError
from webhook.ledger.plan import Reservation
from webhook.ledger.verdicts import AlreadyStored, Claim, Granted, Unanswered, Verdict

_log = logging.getLogger("gpu_policy.quota")

_MOST_KNOWN = 20_000
_KNOWN_SECONDS = 600.0


class Places:
    """Asks once in ten minutes for each namespace that has a claim. Threads may share it.

    While nobody can be asked, a namespace that was there is taken to be there still.
    """

    def __init__(self, means: LedgerContext) -> None:
        self._means = means
        self._lock = Lock()
        self._known: dict[str, float] = {}
        self._failed_at = -float("inf")

    def objection_to(self, namespace: str, deadline: float) -> str:
        """Why no ledger is asked for a namespace; empty where there is such a namespace."""
        now = self._means.clock()
        if self._known.get(namespace, now) > now:
            return ""
        if deadline <= now:
            return LATE
        timing = self._means.timing
        patience = timing.hurry if now - self._failed_at < timing.after_fault else timing.one_call
        try:
            if not self._means.pods.has_namespace(namespace, min(deadline - now, patience)):
                self._known.pop(namespace, None)
                return f"there is no namespace {namespace}"
        except LedgerError as error:
            self._failed_at = now
            _log.warning("%s", error)  # of which the authors of pods hear less
            return "" if namespace in self._known else error.told
        with self._lock:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[namespace] = now + _KNOWN_SECONDS
        return ""


_MOST_EMPTY = 1000
"""Ledgers without a book that are remembered."""


class Ledgers:
    """One ledger for each quota that has been asked about. Threads share it."""

    def __init__(self, means: LedgerContext) -> None:
        self.means = means
        self._places = Places(means)
        self._lock = Lock()
        self._ledgers: dict[str, Ledger] = {}

    def of(self, key: str) -> Ledger:
        """The ledger of the quota with this key."""
        with self._lock:
            ledger = self._ledgers.get(key)
            if ledger is None:
                self._forget_some()
                ledger = self._ledgers[key] = Ledger(key, self.means)
            return ledger

    def _forget_some(self) -> None:
        """Forget the oldest ledgers without a book, where there are too many: whoever asks for one again gets it."""
        if len(self._ledgers) < _MOST_EMPTY:
            return
        empty = [key for key, ledger in self._ledgers.items() if ledger.held is None]
        for key in empty[: max(0, len(empty) + 1 - _MOST_EMPTY)]:
            del self._ledgers[key]

    @property
    def known(self) -> Mapping[str, Ledger]:
        """The ledgers that have been asked about, by key."""
        with self._lock:
            return dict(self._ledgers)

    def forget(self, key: str) -> None:
        """Drop what is known of a ledger that has been removed."""
        with self._lock:
            self._ledgers.pop(key, None)

    def forget_idle(self, seconds: float) -> None:
        """Drop the ledgers without a book that nobody has asked about for so long; whoever asks again begins them."""
        with self._lock:
            self._ledgers = {key: ledger for key, ledger in self._ledgers.items() if not ledger.is_idle(seconds)}

    def reserve(
        self, uid: bytes, claims: Sequence[Claim], deadline: float, *, is_dry_run: bool = False, name: str = ""
    ) -> tuple[Verdict, ...]:
        """Enter a pod in every ledger that it concerns, and give the verdicts in the order of `claims`.

        `name` is the pod's, empty where nobody knows it yet.

        Ledgers are written one after the other, those that seem full first. After one that refuses the pod the others
        are only asked. What was entered before stays until it is known that no such pod came, because somebody else may
        be admitting the same pod at the same time.
        """
        if self.means.is_bounded and (objection := self._objection_to(uid, claims, deadline, name)) is not None:
            return (objection,) * len(claims)
        verdicts: dict[int, Verdict] = {}
        is_refused = False
        for index in sorted(range(len(claims)), key=lambda index: not self._seems_full(claims[index])):
            claim = claims[index]
            reservation = Reservation(uid, claim, deadline, is_dry_run or is_refused, name)
            verdict = verdicts[index] = self.of(claim.quota.key).reserve(reservation)
            is_refused = is_refused or (claim.enforced and not isinstance(verdict, Granted | Unanswered))
        return tuple(verdicts[index] for index in range(len(claims)))

    def _objection_to(self, uid: bytes, claims: Sequence[Claim], deadline: float, name: str) -> Verdict | None:
        """What makes it useless to ask any ledger: a namespace that is not there, or a name that is taken."""
        pods = self.means.pods
        for namespace in {claim.demand.namespace for claim in claims}:
            if objection := self._places.objection_to(namespace, deadline):
                return Unanswered(objection)
            if not name or pods.named(namespace, name) in (None, uid):
                continue
            seconds = max(0.0, min((deadline - self.means.clock()) / 2, self.means.timing.one_call))
            try:
                stored = pods.stored_now(namespace, name, seconds)
            except LedgerError:
                continue  # the pod is entered, as one whose name nobody knows
            if stored not in (None, uid):
                return AlreadyStored(name)
        return None

    def _seems_full(self, claim: Claim) -> bool:
        return claim.enforced and self.of(claim.quota.key).would_exceed(claim)
