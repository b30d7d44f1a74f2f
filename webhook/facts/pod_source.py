"""The GPU pods of a cluster: a watch keeps them current, and consistent lists read them at one moment.

Events of the watch may be late, so they admit no pod: they say which entries of a ledger may go, and the names of pods
for messages.
"""

import time
from collections.abc import Callable
from functools import partial

from webhook.facts.facts import FactsStatus
from webhook.facts.gpu_pods import COUNTING, stored_from_raw
from webhook.facts.live import STALE_AFTER_SECONDS, status_of
from webhook.facts.pod_cache import PodCache
from webhook.facts.pod_lists import PAGE, PODS, PodLists
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.watch import Watch, WatchedResource, WatchTiming
from webhook.model.accelerators import BUILT_IN, Accelerators

_CLOSE_SECONDS = 1.5
_UNCERTAIN_SECONDS = 2.0
"""The API server reports its time in whole seconds, and answers take time."""


class LivePods(PodCache):
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
        def now() -> float:
            """The API server's clock or a little behind it, so that no pod stops counting too early."""
            return server.now() - _UNCERTAIN_SECONDS

        super().__init__(now, clock, partial(stored_from_raw, accelerators=accelerators))
        lists = PodLists(server, now, accelerators)
        self.stored_now, self.has_namespace = lists.stored, lists.has_namespace
        self.live_now, self.list_now = lists.live, lists.gpu_pods
        self._started = self._closed = False
        resource = WatchedResource("pods", PODS, self.replace, self.change, page=PAGE, selector=COUNTING)
        self.watch = Watch(resource, server, clock, timing)

    def start(self) -> None:
        """Begin to follow, in a new thread. Call it after the process has forked; another call does nothing."""
        with self._lock:
            if self._started or self._closed:
                return
            self._started = True
        self.watch.start()

    def close(self) -> None:
        """Stop following, within 2 seconds."""
        with self._lock:
            self._closed = True
        self.watch.stop()
        self.watch.join(_CLOSE_SECONDS)

    def status(self, now: float) -> FactsStatus:
        return status_of((self.watch,), now, STALE_AFTER_SECONDS)

    def is_known(self) -> bool:
        health = self.watch.health
        return health.loaded and health.following and not self._closed
