"""The GPU pods of a cluster: a watch keeps them current, and consistent lists read them at one moment.

Events of the watch may be late, so they admit no pod: they say which entries of a ledger may go, and the names of pods
for messages.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any

from webhook.facts.facts import FactsStatus
from webhook.facts.gpu_pods import COUNTING, counting_uid, stored_from_raw, uid_of
from webhook.facts.live import STALE_AFTER_SECONDS, status_of
from webhook.facts.pod_cache import PodCache, is_covered
from webhook.kubernetes.api_errors import AnswerError, ApiServerError
from webhook.kubernetes.api_paths import CORE, path_of
from webhook.kubernetes.api_server import METADATA, METADATA_LIST, ApiServer
from webhook.kubernetes.paged_list import ListDeadline, Listed, PagedList
from webhook.kubernetes.watch import Watch, WatchedResource, WatchTiming
from webhook.ledger.ledger_store import GpuPod, LedgerError
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.globs import is_glob

PODS = path_of(CORE, "pods")
PAGE = 250
"""Whole pods in one answer: one or two MiB. Parsing takes twice the time where a page has twice as many."""
_METADATA_PAGE = 1000
_EXPIRED = 410
"""HTTP status when the rest of a list has expired; the API server keeps it for some minutes."""
_ATTEMPTS = 3
_UNLISTED = "pods cannot be listed"
_UNREAD = "what a pod depends on cannot be read"

_log = logging.getLogger("gpu_policy.quota")


class PodLists:
    """Consistent lists of the pods that count. Threads may share it. `now` is the API server's clock."""

    def __init__(self, server: ApiServer, now: Callable[[], float], accelerators: Accelerators = BUILT_IN) -> None:
        self._server = server
        self._accelerators = accelerators
        self._now = now

    def live(self, namespaces: Collection[str], seconds: float) -> frozenset[bytes]:
        """The uids of the pods that count in these namespaces, within `seconds` in all. Raises LedgerError."""
        found = (counting_uid(raw, self._now()) for raw in self.metadata(PODS, namespaces, seconds, COUNTING))
        return frozenset(uid for uid in found if uid is not None)

    def metadata(
        self, path: str, namespaces: Collection[str], seconds: float, selector: str = ""
    ) -> Iterator[Mapping[str, Any]]:
        """The objects below `path` in these namespaces, with their metadata only. Raises LedgerError."""
        deadline = ListDeadline(seconds)
        for namespace in sorted(namespaces):
            yield from self._listed(Listed(_path(namespace, path), _METADATA_PAGE, selector, METADATA_LIST), deadline)

    def stored(self, namespace: str, name: str, seconds: float) -> bytes | None:
        """The uid of one pod, finished or not, as it is now; None where there is none. Raises LedgerError."""
        path = path_of(CORE, "pods", namespace=namespace, name=name)
        found = self._found(path, name, seconds)
        try:
            return None if found is None else uid_of(found)
        except ValueError as error:
            raise _explained(path, AnswerError(str(error)), _UNREAD) from error

    def has_namespace(self, namespace: str, seconds: float) -> bool:
        """Whether the namespace exists now. Raises LedgerError."""
        return self._found(path_of(CORE, "namespaces", name=namespace), namespace, seconds) is not None

    def _found(self, path: str, name: str, seconds: float) -> dict[str, Any] | None:
        """The metadata of one object; None where the API server says that there is no object of this name."""
        try:
            return self._server.get(path, {}, seconds, METADATA)
        except ApiServerError as error:
            if error.is_about_missing(name):
                return None
            raise _explained(path, error, _UNREAD) from error

    def gpu_pods(self, patterns: Collection[str], seconds: float) -> Iterator[GpuPod]:
        """The GPU pods that count in the namespaces with these names and globs, as they arrive.

        If the list starts again in the middle, pods come twice. Raises LedgerError, also in the middle.
        """
        for raw in self.objects(PODS, patterns, seconds, COUNTING):
            pod = self._counting(raw)
            if pod is not None and is_covered(pod.namespace, patterns):
                yield pod

    def objects(self, path: str, patterns: Collection[str], seconds: float, selector: str = "") -> Iterator[object]:
        """The objects below `path` in the namespaces with these names; with a glob, those of all namespaces.

        If the list starts again in the middle, objects come twice. Raises LedgerError, also in the middle.
        """
        deadline = ListDeadline(seconds)
        every = any(map(is_glob, patterns))
        for place in [path] if every else [_path(namespace, path) for namespace in sorted(set(patterns))]:
            yield from self._listed(Listed(place, PAGE, selector), deadline)

    def _counting(self, raw: object) -> GpuPod | None:
        try:
            stored = stored_from_raw(raw, self._accelerators)
        except ValueError as error:
            _log.debug("a pod is ignored: %s", error)
            return None
        return stored.gpu_pod if self._now() <= stored.ends else None

    def _listed(self, listed: Listed, deadline: ListDeadline, fault: str = _UNLISTED) -> Iterator[Any]:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                yield from PagedList(self._server, listed, deadline.left)
            except ApiServerError as error:
                if error.status != _EXPIRED or attempt == _ATTEMPTS:
                    raise _explained(listed.path, error, fault) from error
            else:
                return


def _path(namespace: str, path: str = PODS) -> str:
    """The path of the objects of one namespace; `path` is that of the objects of all."""
    api, _, resource = path.rpartition("/")
    return path_of(api, resource, namespace=namespace)


def _explained(path: str, error: ApiServerError, fault: str) -> LedgerError:
    return LedgerError(f"{fault}: {error.sentence('GET', path)}", error.for_authors(fault), error.code)


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
