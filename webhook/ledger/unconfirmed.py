"""Unconfirmed entries: entries whose pods are not stored yet, as far as this replica knows.

They decide how much more of a pot their namespace may hold (`webhook.ledger.plan`). No entry is removed because it is
unconfirmed. A pod that would fit without them waits for a moment, because honest pods are stored within milliseconds.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from fractions import Fraction
from threading import Lock

from webhook.ledger.context import LedgerContext
from webhook.ledger.entries import Entries
from webhook.ledger.ledger_store import LedgerError, Pods
from webhook.ledger.plan import UnconfirmedUsage, is_shared
from webhook.ledger.verdicts import AlreadyStored, Claim, Exceeded, InTreeExceeded, PendingEntry, Verdict, Withheld
from webhook.quota.amounts import used
from webhook.quota.quota_wording import amount_of
from webhook.quota.quotas import Demand

_MOST_DOUBLINGS = 5
_LONGEST_MEMORY = 64
"""Failures are remembered for this many times the longest time of an admission."""


@dataclass(slots=True)
class _Failures:
    """How often in a row entries of a namespace were removed unconfirmed, and when that was last.

    `most` is resource -> the most that one of them requested, until a pod with as much is stored; a share of a GPU is
    less than a GPU.
    """

    times: int
    last: float
    most: dict[str, Fraction] = field(default_factory=dict)


class UnconfirmedEntries:
    """The unconfirmed entries of one ledger. Threads may share it.

    `overdue_after` is the time after which an unconfirmed entry is overdue, `in_flight` the longest time of an
    admission; both in seconds of the clock of `now`.
    """

    def __init__(self, pods: Pods, overdue_after: float, in_flight: float) -> None:
        self._pods = pods
        self._overdue_after, self._in_flight = overdue_after, in_flight
        self._lock = Lock()
        self._open: dict[bytes, tuple[Demand, float]] = {}
        self._failures: dict[str, _Failures] = {}

    def added(self, entries: Mapping[bytes, Demand], now: float) -> None:
        """Take note of new entries of the ledger."""
        with self._lock:
            self._open.update((uid, (demand, now)) for uid, demand in entries.items())

    def removed(self, uids: Iterable[bytes], now: float) -> None:
        """Take note of entries that were removed. An entry that stayed unconfirmed to the end is a failure."""
        with self._lock:
            self._update()
            for uid in uids:
                demand, since = self._open.pop(uid, (None, now))
                if demand is not None and now - since > self._in_flight and self._pods.is_known():
                    self._failed(demand, now)

    def confirm(self, uids: Set[bytes]) -> None:
        """Take note of pods that are stored."""
        with self._lock:
            self._close(self._open.keys() & uids)

    def usage(self, namespace: str, entries: Entries, now: float) -> UnconfirmedUsage:
        """The usage of a namespace's unconfirmed entries, of these entries only."""
        found = UnconfirmedUsage()
        with self._lock:
            self._update()
            for uid, (demand, since) in self._open.items():
                if demand.namespace == namespace and uid in entries.by_uid:
                    _count(found.all, demand)
                    if now - since > self._overdue_after:
                        _count(found.overdue, demand)
        return found

    def exist_in(self, namespace: str) -> bool:
        """Whether a namespace has unconfirmed entries."""
        with self._lock:
            self._update()
            return any(demand.namespace == namespace for demand, _ in self._open.values())

    def by_namespace(self) -> dict[str, dict[Demand, int]]:
        """Namespace -> demand -> number of unconfirmed entries."""
        found: dict[str, dict[Demand, int]] = {}
        with self._lock:
            self._update()
            for demand, _ in self._open.values():
                _count(found.setdefault(demand.namespace, {}), demand)
        return found

    def count(self, entries: Entries) -> int:
        """How many of these entries are unconfirmed."""
        with self._lock:
            self._update()
            return len(self._open.keys() & entries.by_uid.keys())

    def backs_off(self, namespace: str, now: float) -> bool:
        """Whether entries of a namespace failed at least twice in a row, and lately. Each failure doubles the time."""
        failures = self._failures.get(namespace)
        if failures is None or failures.times < 2:
            return False
        backoff: float = self._in_flight * 2 ** min(failures.times - 2, _MOST_DOUBLINGS)
        return now - failures.last < backoff

    def _update(self) -> None:
        if self._open:
            uids = set(self._open)
            self._close(self._pods.live_among(uids) | self._pods.gone_among(uids))

    def _close(self, uids: Iterable[bytes]) -> None:
        for uid in uids:
            demand, _ = self._open.pop(uid)
            self._was_stored(demand)

    def _was_stored(self, demand: Demand) -> None:
        """A stored pod makes up for failures that requested no more than this pod; small pods prove little."""
        failures = self._failures.get(demand.namespace)
        if failures is None:
            return
        asked = demand.sizes
        failures.most = {name: most for name, most in failures.most.items() if asked.get(name, 0) < most}
        if not failures.most:
            del self._failures[demand.namespace]

    def _failed(self, demand: Demand, now: float) -> None:
        """Count a failure. Failures within half the longest time of an admission count once."""
        namespace = demand.namespace
        failures = self._failures.get(namespace)
        if failures is None:
            longest = self._in_flight * _LONGEST_MEMORY
            self._failures = {name: one for name, one in self._failures.items() if now - one.last < longest}
            failures = self._failures[namespace] = _Failures(0, -float("inf"))
        for name, count in demand.sizes.items():
            failures.most[name] = max(failures.most.get(name, count), count)
        if now - failures.last > self._in_flight / 2:
            failures.times += 1
            failures.last = now


def _count(counts: dict[Demand, int], demand: Demand) -> None:
    counts[demand] = counts.get(demand, 0) + 1


_log = logging.getLogger("gpu_policy.quota")

_REST = 4
"""After a list of pods, no other list is made for this many times as long as it took."""
_MOST_NAMED = 3
_LOG_SECONDS = 60.0
"""For each quota, refusals because of unconfirmed entries are logged at most this often."""


class ConfirmationWait:
    """Has pods of one ledger wait until other pods of their namespace are stored. Threads may share it."""

    def __init__(self, key: str, context: LedgerContext, unconfirmed: UnconfirmedEntries) -> None:
        self._key = key
        self._context = context
        self._unconfirmed = unconfirmed
        self._list_from: dict[str, float] = {}
        self._log_from = -float("inf")

    def verdict(self, pending: PendingEntry, ask: Callable[[], Verdict]) -> Verdict:
        """The verdict of `ask`, which is called again while pods of the last seconds may still be stored."""
        verdict = ask()
        if not isinstance(verdict, Withheld) or not pending.claim.enforced:
            return verdict
        verdict = self._after_a_look(pending, verdict, ask)
        namespace = pending.claim.demand.namespace
        if not isinstance(verdict, Withheld) or not self._context.slots.acquire(namespace):
            return verdict
        try:
            for pause in self._context.timing.waits:
                if not isinstance(verdict, Withheld) or not verdict.settles:
                    break
                if self._context.clock() + pause >= pending.deadline:
                    break
                time.sleep(pause)
                verdict = self._after_a_look(pending, verdict, ask)
        finally:
            self._context.slots.release(namespace)
        return verdict

    def _after_a_look(self, pending: PendingEntry, verdict: Withheld, ask: Callable[[], Verdict]) -> Verdict:
        """The verdict after looking which pods of the namespace are stored, and whether this one can be."""
        latest: Verdict = verdict
        if verdict.held:
            self._confirm(pending.claim.demand.namespace, pending.deadline)
            latest = ask()
        if isinstance(latest, Withheld) and not latest.held and not pending.is_cleared:
            latest = self._cleared(pending) or ask()
        return latest

    def _cleared(self, pending: PendingEntry) -> Verdict | None:
        """Clear a pod that would have the only unconfirmed entry of its namespace; a verdict if it cannot be stored."""
        demand = pending.claim.demand
        try:
            refusal = self._later_refusal(pending, demand)
        except LedgerError as error:
            _log.warning("quota %s: %s", self._key, error)
        else:
            if refusal is not None:
                return refusal
        pending.is_cleared = not self._unconfirmed.backs_off(demand.namespace, self._context.clock())
        return None

    def _later_refusal(self, pending: PendingEntry, demand: Demand) -> Verdict | None:
        """Why the API server would refuse the pod after this webhook: its name, or a ResourceQuota.

        Raises LedgerError.
        """
        pods, name = self._context.pods, pending.name
        if name and pods.stored_now(demand.namespace, name, self._seconds(pending.deadline)) not in (
            None,
            pending.uid,
        ):
            return AlreadyStored(name)
        full = pods.full_quota(demand.namespace, demand.own_units, self._seconds(pending.deadline))
        return InTreeExceeded(full) if full else None

    def _confirm(self, namespace: str, deadline: float) -> None:
        """List the pods of a namespace, to learn which are stored before the watch tells."""
        now = self._context.clock()
        if now < self._list_from.get(namespace, now) or not self._unconfirmed.exist_in(namespace):
            return
        try:
            self._unconfirmed.confirm(self._context.pods.live_now([namespace], self._seconds(deadline)))
        except LedgerError as error:
            _log.warning("quota %s: %s", self._key, error)
        took = self._context.clock() - now
        self._list_from = {name: until for name, until in self._list_from.items() if until > now}
        self._list_from[namespace] = now + max(self._context.timing.confirm_every, took * (1 + _REST))

    def _seconds(self, deadline: float) -> float:
        """Half of the time that is left; the other half is for the answer."""
        return max(0.0, min((deadline - self._context.clock()) / 2, self._context.timing.one_call))

    def report(self, claim: Claim, verdict: Verdict) -> None:
        """Tell operators whose unconfirmed entries a claim was refused for, if it was."""
        if isinstance(verdict, Withheld):
            self._context.observer.withheld(self._key, claim.demand.namespace)
            held = f"{amount_of(verdict.held, verdict.limit)} of {amount_of(verdict.most, verdict.limit)}"
            namespace = claim.demand.namespace
            self._warn(f"a pod of {namespace} is refused for its own namespace's entries without a stored pod: {held}")
        elif isinstance(verdict, Exceeded) and is_shared(claim.quota):
            self._report_blockers(claim, verdict)

    def _report_blockers(self, claim: Claim, verdict: Exceeded) -> None:
        """Report the namespaces without whose unconfirmed entries the claim would fit."""
        limit, over = max(
            ((one.limit, one.used + one.asks - one.limit.hard) for one in verdict.excesses), key=lambda one: one[1]
        )
        held: dict[str, Fraction] = {}
        for namespace, counts in self._unconfirmed.by_namespace().items():
            amount = used(counts, claim.quota)[limit]
            if amount and namespace != claim.demand.namespace:
                held[namespace] = amount
        if sum(held.values()) < over:
            return
        largest = sorted(held, key=lambda name: (-held[name], name))
        for namespace in largest[:_MOST_NAMED]:
            self._context.observer.blocked(self._key, namespace)
        named = ", ".join(f"{name} {amount_of(held[name], limit)}" for name in largest[:_MOST_NAMED])
        self._warn(f"a pod of {claim.demand.namespace} is refused for entries without a stored pod: {named}")

    def _warn(self, text: str) -> None:
        now = self._context.clock()
        if now >= self._log_from:
            self._log_from = now + _LOG_SECONDS
            _log.warning("quota %s: %s", self._key, text)
