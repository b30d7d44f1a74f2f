"""The ledgers of all quotas, and pods that count against several of them.

Only namespaces that are known to exist get ledgers, because anybody who reaches the port can make up others.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import NamedTuple

from webhook.ledger.cached_ledger import LATE
from webhook.ledger.context import LedgerContext
from webhook.ledger.entries import Entries
from webhook.ledger.ledger import Ledger
from webhook.ledger.ledger_store import GpuPod, LedgerError, demands_of
from webhook.ledger.verdicts import AlreadyStored, Granted, PendingEntry, QuotaRequest, Unanswered, Verdict
from webhook.quota.quotas import Demand, Quota, QuotaScope

_log = logging.getLogger("gpu_policy.quota")

_KNOWN_SECONDS = 600.0


class InUse(NamedTuple):
    """What is in use of a quota: how many pods and claims have each demand, and the pods of one namespace.

    `tells`: whether authors of pods may know.
    """

    counts: Mapping[Demand, int]
    pods: Sequence[GpuPod]
    tells: bool = True


class Ledgers:
    """One ledger for each quota that was asked about. Threads share it."""

    def __init__(self, context: LedgerContext) -> None:
        self.context = context
        self._lock = Lock()
        self._ledgers: dict[str, Ledger] = {}
        self._exist_until: dict[str, float] = {}  # namespace -> when to look it up again
        self._look_up_failed_at = -float("inf")
        self._listed: dict[str, list[GpuPod]] = {}  # by namespace, where no pods are watched

    def of(self, key: str) -> Ledger:
        with self._lock:
            if key not in self._ledgers:
                self._ledgers[key] = Ledger(key, self.context)
            return self._ledgers[key]

    @property
    def known(self) -> Mapping[str, Ledger]:
        with self._lock:
            return dict(self._ledgers)

    def forget(self, key: str) -> None:
        with self._lock:
            self._ledgers.pop(key, None)

    def forget_idle(self, seconds: float) -> None:
        """Forget the ledgers that are not stored and that no pod has asked for this long."""
        with self._lock:
            self._ledgers = {key: ledger for key, ledger in self._ledgers.items() if not ledger.is_idle(seconds)}

    def reserve(  # noqa: PLR0913  # all but three by name
        self,
        uid: bytes,
        requests: Sequence[QuotaRequest],
        deadline: float,
        *,
        is_dry_run: bool = False,
        name: str = "",
        takes_over: bytes = b"",
        stands_for: bool = False,
        starts: bool = False,
    ) -> tuple[Verdict, ...]:
        """Enter a pod in the ledger of every request, and return the verdicts in the order of `requests`.

        `name` is the pod's, empty where it is not known. `takes_over`, `stands_for` and `starts` are as in
        PendingEntry. Ledgers are written one after the other, starting with those that seem full. After the first
        refusal, the other ledgers only give verdicts. Entries that were written before it stay until the pod is known
        not to come: another replica may be admitting the same pod now.
        """
        if self.context.is_bounded and (objection := self._objection_to(uid, requests, deadline, name)) is not None:
            return (objection,) * len(requests)
        verdicts: dict[int, Verdict] = {}
        is_refused = False
        for index in sorted(range(len(requests)), key=lambda index: not self._seems_full(requests[index])):
            request = requests[index]
            pending = PendingEntry(uid, request, deadline, is_dry_run or is_refused, takes_over, stands_for, starts)
            verdict = verdicts[index] = self.of(request.quota.key).reserve(pending)
            is_refused = is_refused or (request.enforced and not isinstance(verdict, Granted | Unanswered))
        return tuple(verdicts[index] for index in range(len(requests)))

    def in_use(self, quota: Quota, namespace: str, seconds: float = 0.0) -> InUse | None:
        """What is in use as this replica knows it; None where it knows nothing.

        Pods of the namespace that are stored count at once, before the ledger of another replica's making is read here.
        With `seconds`, pods that were never read are listed, once. Raises LedgerError only then.
        """
        ledger, pods = self.of(quota.key), list(self.context.pods.seen(namespace))
        if seconds:
            ledger.prepare(quota, self.context.clock() + seconds)
            if not self.context.pods.is_known() and namespace not in self._listed:
                self._listed[namespace] = list(self.context.pods.list_now([namespace], seconds))
            pods = pods or self._listed.get(namespace, [])
        held = ledger.cache.covers(quota.patterns)
        if held is None and (quota.scope is not QuotaScope.NAMESPACE or not self.context.pods.is_known()):
            return None
        entries = Entries() if held is None else held.entries
        missing = [one for one in pods if one.uid not in entries.by_uid and one.pod.gpus and not one.extends]
        counts = Counter(entries.counts)
        counts.update(demands_of(missing, quota.counting).values())
        return InUse(counts, pods, self.context.tells_usage)

    def _objection_to(self, uid: bytes, requests: Sequence[QuotaRequest], deadline: float, name: str) -> Verdict | None:
        """Why no ledger need be asked: the namespace does not exist, or another pod has the name."""
        pods = self.context.pods
        for namespace in {request.demand.namespace for request in requests}:
            if objection := self._objection_to_namespace(namespace, deadline):
                return objection
            if not name or pods.named(namespace, name) in (None, uid):
                continue
            seconds = max(0.0, min((deadline - self.context.clock()) / 2, self.context.timing.one_call))
            try:
                stored = pods.stored_now(namespace, name, seconds)
            except LedgerError:
                continue  # the pod is entered, like one whose name is not known
            if stored not in (None, uid):
                return AlreadyStored(name)
        return None

    def _objection_to_namespace(self, namespace: str, deadline: float) -> Unanswered | None:
        """The answer where a namespace does not exist, which is looked up every ten minutes; None where it does.

        While the API server cannot be asked, a namespace that existed counts as existing.
        """
        now, timing = self.context.clock(), self.context.timing
        if self._exist_until.get(namespace, now) > now:
            return None
        if deadline <= now:
            return Unanswered(LATE)
        has_failed = now - self._look_up_failed_at < timing.after_fault
        seconds = min(deadline - now, timing.wait_after_fault if has_failed else timing.one_call)
        try:
            if not self.context.pods.has_namespace(namespace, seconds):
                self._exist_until.pop(namespace, None)
                return Unanswered(f"there is no namespace {namespace}", 500)
        except LedgerError as error:
            self._look_up_failed_at = now
            _log.warning("%s", error)  # authors of pods see less
            return None if namespace in self._exist_until else Unanswered(error.for_authors, error.code)
        self._exist_until[namespace] = now + _KNOWN_SECONDS
        return None

    def _seems_full(self, request: QuotaRequest) -> bool:
        return request.enforced and self.of(request.quota.key).would_exceed(request)
