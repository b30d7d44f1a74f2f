"""The GPU pods of a cluster: a watch keeps them current, and consistent lists read them at one moment.

Events of the watch may be late, so they admit no pod: they say which entries of a ledger may go, and the names of pods
for messages.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from functools import partial
from threading import Lock
from typing import Any

from webhook.facts.facts import FactsStatus
from webhook.facts.gpu_pods import COUNTING, stored_from_raw
from webhook.facts.live import STALE_AFTER_SECONDS, status_of
from webhook.facts.pod_cache import PodCache
from webhook.facts.pod_lists import PAGE, PODS, PodLists
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.watch import Watch, WatchedResource, WatchTiming
from webhook.ledger.ledger_store import GpuPod
from webhook.model.accelerators import BUILT_IN, Accelerators

_CLOSE_SECONDS = 1.5
_UNCERTAIN_SECONDS = 2.0
"""The API server reports its time in whole seconds, and answers take time."""


def _nothing() -> None:
    """The callback before `listen`."""


class LivePods:
    """Implements `webhook.ledger.ledger_store.Pods` for a cluster. Threads may share it.

    Before `start` only the consistent lists send requests.
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
        self._on_gone = _nothing
        self._lock = Lock()
        self._cache = PodCache(self._now, clock, partial(stored_from_raw, accelerators=accelerators))
        self._lists = PodLists(server, self._now, accelerators)
        self._started = self._closed = False
        resource = WatchedResource("pods", PODS, self._replace, self._change, page=PAGE, selector=COUNTING)
        self._watch = Watch(resource, server, clock, timing)
        self.watches = (self._watch,)

    def listen(self, gone: Callable[[], None]) -> None:
        """Call `gone` in the watch's thread after pods that counted were deleted or have finished. It has to be quick.

        It is not called for pods whose deletion is overdue, although `gone_among` has them.
        """
        self._on_gone = gone

    def start(self) -> None:
        """Begin to follow, in a new thread. Call it after the process has forked; another call does nothing."""
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
        return status_of((self._watch,), now, STALE_AFTER_SECONDS)

    def is_known(self) -> bool:
        health = self._watch.health
        return health.loaded and health.following and not self._closed

    def live_among(self, uids: Set[bytes]) -> Set[bytes]:
        return self._cache.live_among(uids)

    def gone_among(self, uids: Set[bytes]) -> Set[bytes]:
        return self._cache.gone_among(uids)

    def is_in(self, uid: bytes, namespace: str) -> bool:
        return self._cache.is_in(uid, namespace)

    def reserved_by(self, pods: Iterable[bytes]) -> Set[bytes]:
        return self._cache.reserved_by(pods)

    def has_any_in(self, namespace: str) -> bool:
        return self._cache.has_any_in(namespace)

    def seen(self, namespace: str | None = None) -> Iterable[GpuPod]:
        return self._cache.seen(namespace)

    def named(self, namespace: str, name: str) -> bytes | None:
        return self._cache.named(namespace, name)

    def stored_now(self, namespace: str, name: str, seconds: float) -> bytes | None:
        return self._lists.stored(namespace, name, seconds)

    def full_quota(self, namespace: str, gpus: Mapping[str, int], seconds: float) -> str:
        return self._lists.full_quota(namespace, gpus, seconds)

    def has_namespace(self, namespace: str, seconds: float) -> bool:
        return self._lists.has_namespace(namespace, seconds)

    def live_now(self, namespaces: Collection[str], seconds: float) -> frozenset[bytes]:
        return self._lists.live(namespaces, seconds)

    def list_now(self, patterns: Collection[str], seconds: float) -> Iterator[GpuPod]:
        """The GPU pods that count in these namespaces, read after the call began; some may come twice.

        Raises LedgerError, also while they are being read.
        """
        return self._lists.gpu_pods(patterns, seconds)

    def _now(self) -> float:
        """The API server's clock or a little behind it, so that no pod stops counting too early."""
        return self._server.now() - _UNCERTAIN_SECONDS

    def _replace(self, raws: Iterable[object]) -> None:
        if self._cache.replace(raws):
            self._on_gone()

    def _change(self, event: str, raw: Mapping[str, Any]) -> None:
        if self._cache.change(event, raw):
            self._on_gone()
