"""The ledger of one quota: which pods have an entry, and since when.

An entry is written before a pod is admitted, by compare-and-swap on one object, and the sum of the entries is the
usage. So no cache decides whether admitted pods stay within the quota; docs/decisions says why that is exact.
"""

import logging
import math
import random
import time
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from threading import Lock

from webhook.kubernetes.api_errors import ConflictError
from webhook.ledger.cached_ledger import LATE, CachedLedger
from webhook.ledger.context import LedgerContext
from webhook.ledger.entries import Entries
from webhook.ledger.ledger_store import LedgerError, StoredLedger, entered_demand
from webhook.ledger.plan import Asked, BatchPlan, BatchQueue, corrected, is_shared, too_many_unconfirmed
from webhook.ledger.remainders import joined
from webhook.ledger.verdicts import (
    Correction,
    Exceeded,
    Granted,
    PendingEntry,
    QuotaRequest,
    TooManyUnconfirmed,
    Unanswered,
    Verdict,
)
from webhook.quota.amounts import used
from webhook.quota.quota_wording import amount_of
from webhook.quota.quotas import Demand, Gated, Quota

_log = logging.getLogger("gpu_policy.quota")

_MOST_NAMED = 3
"""Most namespaces that the log names for one refusal."""
_LOG_SECONDS = 60.0
"""For each quota, refusals for entries without a stored pod are logged at most this often."""


class Ledger:
    """The ledger of the quota with this key. Threads share it; one write carries what all of them want."""

    def __init__(self, key: str, context: LedgerContext) -> None:
        self.key = key
        self._pods, self._timing, self._is_bounded = context.pods, context.timing, context.is_bounded
        self._observer, self._clock = context.observer, context.clock
        self.cache = CachedLedger(key, context)
        self._preparing = Lock()
        self._expects_others = False
        self._failed_at = -float("inf")
        self._asked_at = self._clock()
        self._log_from = -float("inf")
        self.queue = BatchQueue[PendingEntry | Correction](
            self.settle, lambda: self._timing.batch_window if self._expects_others else 0.0
        )

    def is_idle(self, seconds: float) -> bool:
        """Whether no ledger is stored, and no pod has asked for this long."""
        return self.cache.held is None and self._clock() - self._asked_at > seconds

    @property
    def has_failed(self) -> bool:
        """Whether the last request was not answered, possibly because its pods take too long to be listed."""
        return self._failed_at > -float("inf")

    def reserve(self, pending: PendingEntry) -> Verdict:
        """Enter a pod, and say whether it may be admitted."""
        begun = self._asked_at = self._clock()
        self.heed(pending.request.quota)
        if begun - self._failed_at < self._timing.after_fault:
            pending.deadline = min(pending.deadline, begun + self._timing.wait_after_fault)
        self.queue.submit(pending, max(0.0, pending.deadline - begun))
        verdict = pending.verdict or Unanswered(LATE)
        self._observer.reserved(self.key, self._clock() - begun)
        if isinstance(verdict, Unanswered):
            self._failed_at = self._clock()
            self._observer.failed(self.key)
            return verdict
        self._failed_at = -float("inf")
        if pending.request.enforced and not isinstance(verdict, Granted):
            self._observer.refused(self.key)
            if isinstance(verdict, Exceeded):
                self._name_blockers(pending.request, verdict)
        return verdict

    def heed(self, quota: Quota) -> None:
        """Take over how the quota counts."""
        self.cache.counts_gated = quota.counting.gated is Gated.NOW

    def _name_blockers(self, request: QuotaRequest, verdict: Exceeded) -> None:
        """Log the namespaces that keep the request out of a shared quota by unconfirmed entries alone."""
        now, mine = self._clock(), request.demand.namespace
        if now < self._log_from or not is_shared(request.quota):
            return
        excess = max(verdict.excesses, key=lambda one: one.used + one.asks - one.limit.hard)
        held: dict[str, Fraction] = {}
        for demand, count in self.cache.unconfirmed().items():
            amount = used({demand: count}, request.quota)[excess.limit]
            if amount and demand.namespace != mine:
                held[demand.namespace] = held.get(demand.namespace, Fraction(0)) + amount
        if sum(held.values()) < excess.used + excess.asks - excess.limit.hard:
            return
        self._log_from = now + _LOG_SECONDS
        largest = sorted(held, key=lambda name: (-held[name], name))[:_MOST_NAMED]
        named = ", ".join(f"{name} {amount_of(held[name], excess.limit)}" for name in largest)
        why = "does not fit because of entries whose pods are not stored"
        _log.warning("quota %s: a pod of namespace %s %s: %s", self.key, mine, why, named)

    def correct(self, correction: Correction) -> bool:
        """Apply a correction with the next write; return whether that was possible."""
        self.queue.submit(correction, max(0.0, correction.deadline - self._clock()))
        return correction.is_done

    def would_exceed(self, request: QuotaRequest) -> bool:
        """Whether the ledger as last seen, which may be old, would refuse the request."""
        entries = self.cache.entries
        in_use, before = used(entries.counts, request.quota), entries.remainders
        asked = Asked.by(request, joined(request.group, b"", before), before)
        if asked.excesses(in_use):
            return True
        if not self._is_bounded or not is_shared(request.quota):
            return False
        mine = self.cache.unconfirmed_in(request.demand.namespace, entries)
        return too_many_unconfirmed(asked, in_use, mine) is not None

    # One batch

    def settle(self, batch: Sequence[PendingEntry | Correction]) -> None:
        """Give each pending entry its verdict, and write all changes with one write, if the store takes it."""
        all_pending = [one for one in batch if isinstance(one, PendingEntry)]
        corrections = [one for one in batch if isinstance(one, Correction)]
        is_dry_run = any(one.is_dry_run for one in all_pending)  # no write would show that the cached ledger is old
        until = max(one.deadline for one in all_pending or corrections)  # corrections keep no pod waiting
        state = _Attempts(until, is_read_due=self._expects_others or is_dry_run)
        while (now := self._clock()) < until:
            waiting = [one for one in all_pending if now < one.deadline]  # the others' senders have gone: no entry
            try:
                if self._attempt(waiting, corrections, state):
                    break
            except ConflictError:
                self._observer.conflicted(self.key)
                self._expects_others = state.has_conflicted = True
            except LedgerError as error:
                state.faults.append(error)
                if len(state.faults) >= self._timing.attempts_at_faults:
                    break
            else:
                continue
            state.is_read_due = True
            self._pause()
        fault = LedgerError("too many wrote at the same time" if state.has_conflicted else LATE)
        fault = state.faults[-1] if state.faults else fault
        if fault.for_authors != str(fault) and any(one.verdict is None for one in all_pending):
            _log.error("quota %s: %s", self.key, fault)  # authors of pods see less
        for pending in all_pending:
            if pending.verdict is None:
                pending.verdict = Unanswered(fault.for_authors, fault.code)

    def _attempt(
        self, all_pending: Sequence[PendingEntry], corrections: Sequence[Correction], state: "_Attempts"
    ) -> bool:
        """Try once to settle a batch; return whether it is settled."""
        deadline = state.until
        if state.is_read_due or self.cache.held is None:
            self._expects_others = self.cache.read(deadline)
            state.is_read_due = False
        writes = bool(corrections) or not all(one.is_dry_run for one in all_pending)
        if writes:
            for pending in all_pending:
                self.prepare(pending.request.quota, deadline)
        held = self.cache.held if writes else StoredLedger("", self._imagined(all_pending, deadline))
        if held is None:  # removed just now: nothing is left to correct, but pending entries need a ledger
            return not all_pending
        entries = held.entries.changed({}, self.cache.not_renewed(state.stale, state.decided))
        for correction in corrections:
            removed = self.cache.not_renewed(correction.removed, correction.decided)
            entries = corrected(entries, replace(correction, removed=removed))
        plan = BatchPlan(entries, self.cache.unconfirmed_in if self._is_bounded else None, state.stale)
        for pending in all_pending:
            plan.consider(pending)
        if self._learns_more(plan, all_pending, state):
            return False
        if writes:
            self.cache.replace(plan.entries(), held, deadline)
        for correction in corrections:
            correction.is_done = True
        for pending in all_pending:
            pending.verdict = plan.verdicts[id(pending)]
        return True

    def _learns_more(self, plan: BatchPlan, all_pending: Sequence[PendingEntry], state: "_Attempts") -> bool:
        """Before a refusal, read the ledger anew, and list the pods; return whether it did."""
        is_refused = any(isinstance(one, Exceeded | TooManyUnconfirmed) for one in plan.verdicts.values())
        if not is_refused or state.is_verified:
            return False
        state.is_verified = True
        self.cache.read(state.until)
        asking = {one.request.demand.namespace for one in all_pending}
        state.decided = self._clock()
        state.stale |= self.cache.stale_before_refusal(asking, state.until)
        return True

    def _pause(self) -> None:
        time.sleep(random.uniform(0, self._timing.longest_pause))  # noqa: S311  # apart from other replicas

    # Pods that are older than the quota

    def prepare(self, quota: Quota, deadline: float) -> StoredLedger:
        """The ledger as last seen, once it has the pods of all namespaces of the quota. Raises LedgerError."""
        while (held := self.cache.covers(quota.patterns)) is None:
            if not self._preparing.acquire(timeout=max(0.0, deadline - self._clock())):
                raise LedgerError("its pods are being counted")
            try:
                self.cache.read(deadline)
                self._enter_missing(quota, deadline)
            finally:
                self._preparing.release()
        return held

    def _enter_missing(self, quota: Quota, deadline: float) -> None:
        """Enter at once the pods of all namespaces that the ledger does not cover yet."""
        missing = frozenset(quota.patterns) - self.cache.entries.patterns
        found = self._listed(missing, quota, deadline)
        while True:
            held, before = self.cache.held, self.cache.entries
            entries = before.changed(found, patterns=before.patterns | missing)
            try:
                if held is None:
                    self.cache.create(entries, deadline)
                else:
                    self.cache.replace(entries, held, deadline)
                break
            except ConflictError:
                self._pause()
                self.cache.read(deadline)
        self.cache.confirm(found.keys())

    def _imagined(self, all_pending: Sequence[PendingEntry], deadline: float) -> Entries:
        """The entries as if the ledger covered the quotas of these pods. Dry runs need them, and write nothing."""
        entries = self.cache.entries
        for quota in [one.request.quota for one in all_pending]:
            missing = frozenset(quota.patterns) - entries.patterns
            entries = entries.changed(self._listed(missing, quota, deadline), patterns=entries.patterns | missing)
        return entries

    def _listed(self, patterns: frozenset[str], quota: Quota, deadline: float) -> dict[bytes, Demand]:
        """Uid -> demand of the pods of these namespaces, as they are now."""
        pods = self._pods.list_now(patterns, self.cache.left(deadline)) if patterns else ()
        demands = ((pod.uid, entered_demand(pod, quota.counting)) for pod in pods)
        return {uid: demand for uid, demand in demands if demand is not None}


@dataclass(slots=True)
class _Attempts:
    """How far one batch has come."""

    until: float
    is_read_due: bool = False
    is_verified: bool = False
    has_conflicted: bool = False
    stale: Set[bytes] = frozenset()
    decided: float = math.inf
    faults: list[LedgerError] = field(default_factory=list)
