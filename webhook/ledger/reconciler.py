"""Reconciles ledgers with the pods of the cluster.

It removes entries whose pods are gone or never came, adds entries for pods that were admitted without one, and removes
ledgers that no quota uses. Every replica does this, at different moments. No admission depends on it.
"""

import logging
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from threading import Event, Thread

from webhook.kubernetes.api_errors import ConflictError
from webhook.ledger.context import ReconcileIntervals
from webhook.ledger.entries import Entries
from webhook.ledger.ledger import Ledger
from webhook.ledger.ledger_store import (
    GpuPod,
    LedgerError,
    StoredLedger,
    by_namespace,
    demands_of,
    gated_demands,
    recounted,
)
from webhook.ledger.ledgers import Ledgers
from webhook.ledger.plan import corrected
from webhook.ledger.remainders import Remainder
from webhook.ledger.verdicts import Correction
from webhook.periodic_task import Attempts
from webhook.quota.amounts import Usage
from webhook.quota.quotas import Demand, Quota, QuotaScope

_log = logging.getLogger("gpu_policy.quota")

_CLOSE_SECONDS = 1.5
_MOST_READ = 16
"""Most objects of groups that are read in one round for one ledger."""
_READ_SECONDS = 2.0
_OF_NAMESPACE = f"{QuotaScope.NAMESPACE}."


@dataclass(frozen=True, slots=True)
class QuotasInForce:
    """The quotas of the policies in force: shared ones, and what gives the quota of one namespace alone.

    `namespaces` are those that policies name. `are_settled` says that no replica can still use earlier policies.
    """

    shared: Sequence[Quota]
    of: Callable[[str], Quota | None]
    namespaces: Collection[str] = ()
    are_settled: bool = True
    exist: bool = True


class Reconciler:
    """Reconciles all ledgers, in a thread of its own.

    `begin` is called once, when the policies have quotas. `listener` gets quota key -> usage after each reconciliation.
    """

    def __init__(
        self,
        ledgers: Ledgers,
        in_force: Callable[[], QuotasInForce],
        *,
        intervals: ReconcileIntervals | None = None,
        begin: Callable[[], None] = lambda: None,
        listener: Callable[[Mapping[str, Usage]], None] = lambda _: None,
    ) -> None:
        self._ledgers = ledgers
        self._store, self._pods, self._clock = ledgers.context.store, ledgers.context.pods, ledgers.context.clock
        self._in_force = in_force
        self._intervals = intervals or ReconcileIntervals()
        self._begin = begin
        self._listener = listener
        self._missing_last: dict[str, Set[bytes]] = {}  # quota key -> pods without an entry in the last round
        self._unchanged: dict[str, tuple[str, float]] = {}  # quota key -> version of the ledger, since when
        self._attempts: dict[str, Attempts] = {}
        self._reconciled: float | None = None
        self._news = Event()
        self._stop = Event()
        self._thread = Thread(target=self._run, name="quota-reconciler", daemon=True)
        self.usage: Mapping[str, Usage] = {}
        """Quota key -> usage at the last reconciliation."""

    @property
    def age(self) -> float | None:
        """Seconds since all ledgers were last reconciled, or since the start; None while there are no quotas."""
        return None if self._reconciled is None else max(0.0, self._clock() - self._reconciled)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the thread, without waiting for a request that hangs."""
        self._stop.set()
        self._news.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_SECONDS)

    def wake(self) -> None:
        """Tell the thread that a pod is gone. Returns at once."""
        self._news.set()

    def _run(self) -> None:
        if not self._in_force().exist:
            self._listener({})
        while not self._in_force().exist:
            if self._stop.wait(1.0):
                return
        self.attempt(self._begin)
        self._reconciled = self._clock()
        while not self._stop.is_set():
            self.attempt(self.reconcile)
            until = self._clock() + self._intervals.round * random.uniform(0.67, 1.33)  # noqa: S311  # apart from others
            while (left := until - self._clock()) > 0 and not self._stop.is_set() and self._news.wait(left):
                self._stop.wait(random.uniform(0.1, 1) * self._intervals.after_news)  # noqa: S311  # apart from others
                self._news.clear()
                self.attempt(self.remove_gone)

    def attempt(self, work: Callable[[], None]) -> None:
        """Do one step of the thread, such as `reconcile`. A fault is logged once, and does not end the thread."""
        attempts = self._attempts.setdefault(work.__name__, Attempts(_log, "ledgers of quotas", (LedgerError,)))
        attempts.make(work)

    def remove_gone(self) -> None:
        for ledger in self._ledgers.known.values():
            if gone := self._pods.gone_among(ledger.cache.entries.by_uid.keys()):
                ledger.correct(Correction(removed=gone, deadline=self._deadline()))

    def reconcile(self) -> None:
        """Reconcile every ledger once. Raises LedgerError where ledgers cannot be read at all."""
        before = {key: ledger.cache.held for key, ledger in self._ledgers.known.items()}
        found = self._store.read_all(self._intervals.one_round)
        for key in before.keys() | found.keys():
            self._ledgers.of(key).cache.note(found.get(key), before.get(key))
        begun, is_complete = self._clock(), self._pods.is_known()
        seen = by_namespace(self._pods.seen()) if is_complete else {}
        in_force = self._in_force()
        quotas = self._all_quotas(in_force, seen.keys(), found.keys())
        for quota in quotas.values():
            try:
                self._correct(quota, _of(quota, seen), are_settled=in_force.are_settled)
            except LedgerError as error:
                _log.warning("quota %s: the ledger is not reconciled: %s", quota.key, error)
                is_complete = False
        self.usage = {
            key: self._usage(quota, in_force.namespaces, gated_demands(_of(quota, seen), quota.counting))
            for key, quota in quotas.items()
        }
        self._listener(self.usage)
        self._clean_up(quotas, found, are_settled=in_force.are_settled)
        if is_complete:
            self._reconciled = begun

    def _all_quotas(
        self, in_force: QuotasInForce, namespaces: Iterable[str], stored: Iterable[str]
    ) -> dict[str, Quota]:
        """Key -> quota: shared ones, and own ones of namespaces with pods or a ledger, or that policies name."""
        failed = [key for key, ledger in self._ledgers.known.items() if ledger.has_failed]
        of_ledgers = {key.removeprefix(_OF_NAMESPACE) for key in (*stored, *failed) if key.startswith(_OF_NAMESPACE)}
        own = map(in_force.of, sorted({*namespaces, *of_ledgers, *in_force.namespaces}))
        return {quota.key: quota for quota in (*in_force.shared, *own) if quota is not None}

    def _usage(self, quota: Quota, known: Collection[str], gated: Mapping[Demand, int]) -> Usage:
        cache = self._ledgers.of(quota.key).cache
        held, entries = cache.held, cache.entries
        version = "" if held is None else held.version
        unconfirmed = cache.unconfirmed(entries).total()
        return Usage.of(entries.counts, quota, known, gated, version=version, unconfirmed=unconfirmed)

    def _correct(self, quota: Quota, seen: Sequence[GpuPod], *, are_settled: bool) -> None:
        ledger = self._ledgers.of(quota.key)
        ledger.heed(quota)
        demands, held = demands_of(seen, quota.counting), ledger.cache.held
        if held is None and quota.scope is QuotaScope.NAMESPACE and not demands and not ledger.has_failed:
            return  # its first pod creates it
        entries = ledger.cache.entries
        if held is None or not entries.patterns.issuperset(quota.patterns):
            entries = ledger.prepare(quota, self._deadline()).entries
        added, decided = self._missing(ledger.key, entries, demands), self._clock()
        correction = Correction(
            added=added | recounted(entries, seen, demands, quota.counting) if are_settled else added,
            removed=self._pods.gone_among(entries.by_uid.keys()) | self._stale(ledger, entries),
            patterns=frozenset(quota.patterns) if are_settled else None,
            remainders=self._remainders(ledger, entries),
            deadline=self._deadline(),
            decided=decided,
        )
        if corrected(entries, correction) is not entries:
            ledger.correct(correction)

    def _remainders(self, ledger: Ledger, entries: Entries) -> dict[bytes, tuple[Remainder, Remainder | None]]:
        """The remainders of groups that end or change: what they are, and what becomes of them; None for nothing.

        A remainder ends when all its pods are stored, and with its object, of which a few are read. It holds nothing
        after its lease.
        """
        found: dict[bytes, tuple[Remainder, Remainder | None]] = {}
        groups = self._ledgers.context.groups
        every = entries.remainders.values()
        waiting = {one.group for one in every if one.left or one.members - ledger.cache.live_among(one.members)}
        living = {one.group for one in every if one.members & entries.by_uid.keys()}
        for key, one in entries.remainders.items():
            if one.has_expired(self._ledgers.context.wall()):  # until its last pod goes, others enter one by one
                found[key] = one, replace(one, size=0) if one.group in living else None
            elif one.group not in waiting:
                found[key] = one, None
        held = [item for item in entries.remainders.items() if item[1].left and item[0] not in found]
        for key, one in random.sample(held, min(len(held), _MOST_READ)):
            if groups is None:
                break
            try:
                now = groups.now(key, one, _READ_SECONDS)
            except LedgerError as error:
                _log.warning("quota %s: %s is not known: %s", ledger.key, one.of, error)
                continue
            if now != one:
                found[key] = one, now
        return found

    def _stale(self, ledger: Ledger, entries: Entries) -> Set[bytes]:
        """Entries that are older than any admission, and whose pods neither the watch nor a list has seen to count."""
        now, uids = self._clock(), entries.by_uid.keys()
        suspects = [uid for uid in uids - ledger.cache.live_among(uids) if ledger.cache.outlasted(uid, now)]
        namespaces = frozenset(entries.by_uid[uid].namespace for uid in suspects)
        return ledger.cache.stale(entries, namespaces, self._deadline()) if suspects else frozenset()

    def _missing(self, key: str, entries: Entries, demands: Mapping[bytes, Demand]) -> dict[bytes, Demand]:
        """Pods without an entry in this round and the last, as far as a list shows them: the watch may be late."""
        missing = demands.keys() - entries.by_uid.keys()
        lasting = missing & self._missing_last.get(key, frozenset())
        self._missing_last[key] = missing
        if not lasting:
            return {}
        namespaces = frozenset(demands[uid].namespace for uid in lasting)
        live = self._pods.live_now(namespaces, self._intervals.one_round)
        return {uid: demands[uid] for uid in lasting if uid in live}

    def _deadline(self) -> float:
        return self._clock() + self._intervals.one_round

    def _clean_up(self, quotas: Mapping[str, Quota], found: Mapping[str, StoredLedger], *, are_settled: bool) -> None:
        """Remove the ledgers of quotas that no longer exist, and of namespaces without GPU pods."""
        now = self._clock()
        self._missing_last = {key: uids for key, uids in self._missing_last.items() if key in quotas}
        before, self._unchanged = self._unchanged, {}
        for key, held in found.items():
            version, since = before.get(key, ("", now))
            if version != held.version:
                since = now
            self._unchanged[key] = (held.version, since)
            is_idle = not held.entries.by_uid and key.startswith(_OF_NAMESPACE)
            is_orphaned = key not in quotas and are_settled  # only other replicas may know the quota yet
            if (is_idle or is_orphaned) and now - since > self._intervals.idle:
                self._remove(key, held)
        self._ledgers.forget_idle(self._intervals.idle)

    def _remove(self, key: str, held: StoredLedger) -> None:
        try:
            self._store.remove(key, held, self._intervals.one_round)
        except ConflictError:
            return  # a pod uses it
        except LedgerError as error:
            _log.warning("quota %s: its ledger is not needed any more and cannot be removed: %s", key, error)
        else:
            self._ledgers.forget(key)


def _of(quota: Quota, seen: Mapping[str, list[GpuPod]]) -> list[GpuPod]:
    if quota.scope is QuotaScope.NAMESPACE:
        return seen.get(quota.name, [])
    return [pod for name, pods in seen.items() if quota.covers(name) for pod in pods]
