"""The GPU pods of a cluster, followed for as long as the process lives.

What was heard last may be old, so no pod is admitted by it: it says which entries of a ledger may go, and names pods to
people. Where the present counts, pods are listed anew.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from threading import Lock
from typing import Any

from webhook.facts.facts_source import FactsStatus
from webhook.facts.gpu_pods import COUNTING
from webhook.facts.live import STALE_AFTER_SECONDS, status_of
from webhook.facts.pod_cache import PodCache
from webhook.facts.pod_lists import PAGE, PODS, PodLists
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.watch import Watch, WatchedResource, WatchTiming
from webhook.ledger.ledger_store import GpuPod
from webhook.model.accelerators import BUILT_IN, Accelerators

_CLOSE_SECONDS = 1.5
_UNCERTAIN_SECONDS = 2.0
"""The API server tells its time in whole seconds."""


def _nothing() -> None:
    """For those who want no word of pods that are gone."""


class LivePods:
    """Implements `webhook.ledger.ledger_store.Pods` for a cluster. Threads may share it.

    Nothing is sent before `start`, but for the consistent lists.
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        accelerators: Accelerators = BUILT_IN,
        timing: WatchTiming | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._tell = _nothing
        self._lock = Lock()
        self._heard = PodCache(self._now, clock, accelerators)
        self._lists = PodLists(server, self._now, accelerators)
        self._started = self._closed = False
        resource = WatchedResource("pods", PODS, self._replace, self._change, page=PAGE, selector=COUNTING)
        self._watch = Watch(resource, server, clock, timing)

    def listen(self, gone: Callable[[], None]) -> None:
        """Have `gone` called, in the thread that hears of it, after pods that counted were deleted or have finished.

        It has to be quick. Of pods whose deletion is overdue nobody is told: they are gone for those who ask.
        """
        self._tell = gone

    def start(self) -> None:
        """Begin to follow, in a thread of its own. Call it after the process has forked; once more does nothing."""
        with self._lock:
            if self._started or self._closed:
                return
            self._started = True
        self._watch.start()

    def close(self) -> None:
        """Stop following, within 2 seconds."""
        with self._lock:
            self._closed = True
        self._watch.stop()
        self._watch.join(_CLOSE_SECONDS)

    def status(self, now: float) -> FactsStatus:
        """How far what was heard can be trusted at `now`, in seconds of the clock given (time.monotonic())."""
        return status_of((self._watch,), now, STALE_AFTER_SECONDS)

    def is_known(self) -> bool:
        """Whether pods were listed once, and are being followed at this moment."""
        health = self._watch.health
        return health.loaded and health.following and not self._closed

    def live_among(self, uids: Set[bytes]) -> Set[bytes]:
        """Those of the pods that were last heard of as some that count."""
        return self._heard.live_among(uids)

    def gone_among(self, uids: Set[bytes]) -> Set[bytes]:
        """Those of the pods that were stored and count no more, as far as that is remembered."""
        return self._heard.gone_among(uids)

    def has_any_in(self, namespace: str) -> bool:
        """Whether a pod was heard of that is in a namespace, which is there then."""
        return self._heard.has_any_in(namespace)

    def seen(self, namespace: str | None = None) -> Iterable[GpuPod]:
        """The pods last heard of that count."""
        return self._heard.seen(namespace)

    def named(self, namespace: str, name: str) -> bytes | None:
        """The uid of the GPU pod of this name that was last heard of, None for none."""
        return self._heard.named(namespace, name)

    def stored_now(self, namespace: str, name: str, seconds: float) -> bytes | None:
        """The uid of the pod of this name, read after the call began; None where there is none. Raises LedgerError."""
        return self._lists.stored(namespace, name, seconds)

    def full_quota(self, namespace: str, gpus: Mapping[str, int], seconds: float) -> str:
        """Which ResourceQuota leaves too little for one more pod, read after the call began. Raises LedgerError."""
        return self._lists.full_quota(namespace, gpus, seconds)

    def has_namespace(self, namespace: str, seconds: float) -> bool:
        """Whether there is this namespace, read after the call began. Raises LedgerError."""
        return self._lists.has_namespace(namespace, seconds)

    def live_now(self, namespaces: Collection[str], seconds: float) -> frozenset[bytes]:
        """The uids of the pods that count in these namespaces, read after the call began. Raises LedgerError."""
        return self._lists.live(namespaces, seconds)

    def list_now(self, patterns: Collection[str], seconds: float) -> Iterator[GpuPod]:
        """The GPU pods that count in these namespaces, read after the call began; some may come twice.

        Raises LedgerError, also while they are being read.
        """
        return self._lists.gpu_pods(patterns, seconds)

    def _now(self) -> float:
        """The API server's clock, and certainly not ahead of it: no pod ceases to count before its time."""
        return self._server.now() - _UNCERTAIN_SECONDS

    def _replace(self, raws: Iterable[object]) -> None:
        if self._heard.replace(raws):
            self._tell()

    def _change(self, event: str, raw: Mapping[str, Any]) -> None:
        if self._heard.change(event, raw):
            self._tell()
