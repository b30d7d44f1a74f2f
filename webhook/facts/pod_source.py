"""The GPU pods of a cluster: a watch keeps them current, and consistent lists read them at one moment.

`LivePods` has the watch. Its events may be late, so they admit no pod: they say which entries of a ledger may go, and
the names of pods for messages.

`PodLists` lists pods consistently: the API server answers from its storage, not from its caches. It also reads the
ResourceQuotas of Kubernetes, since one of them may refuse the next pod: the number of pods and requests of GPUs in
quotas without scopes. It compares their status, as the API server does (plugin/pkg/admission/resourcequota of
Kubernetes).
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from threading import Lock
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
from webhook.model.quantity import parse_quantity
from webhook.model.shape import FormatError


def too_full(raw: object, gpus: Mapping[str, int]) -> str:
    """The ResourceQuota that surely leaves too little for a pod with these GPUs, and what it leaves; empty for none.

    >>> status = {"hard": {"requests.nvidia.com/gpu": "4"}, "used": {"requests.nvidia.com/gpu": "3"}}
    >>> too_full({"metadata": {"name": "team"}, "spec": {}, "status": status}, {"nvidia.com/gpu": 2})
    'ResourceQuota team leaves 1 of requests.nvidia.com/gpu'
    """
    quota = _map(raw)
    spec, status = _map(quota.get("spec")), _map(quota.get("status"))
    if spec.get("scopes") or spec.get("scopeSelector"):
        return ""
    hard, used = _map(status.get("hard")), _map(status.get("used"))
    for name, asks in _asked(gpus):
        if name not in hard or name not in used:
            continue
        try:
            left = parse_quantity(hard[name]) - parse_quantity(used[name])
        except FormatError:
            continue
        if asks > left:
            return f"ResourceQuota {_map(quota.get('metadata')).get('name')} leaves {max(0, int(left))} of {name}"
    return ""


def _asked(gpus: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    yield from (("pods", 1), ("count/pods", 1))
    for resource, count in gpus.items():
        yield f"requests.{resource}", count


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


PODS = path_of(CORE, "pods")
PAGE = 250
"""Whole pods in one answer: one or two MiB. Parsing takes twice the time where a page has twice as many."""
_METADATA_PAGE = 1000
_FORBIDDEN = 403
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
        deadline = ListDeadline(seconds)
        uids: set[bytes] = set()
        for namespace in sorted(namespaces):
            for raw in self._listed(Listed(_path(namespace), _METADATA_PAGE, COUNTING, METADATA_LIST), deadline):
                uid = counting_uid(raw, self._now())
                if uid is not None:
                    uids.add(uid)
        return frozenset(uids)

    def stored(self, namespace: str, name: str, seconds: float) -> bytes | None:
        """The uid of one pod, finished or not, as it is now; None where there is none. Raises LedgerError."""
        path = path_of(CORE, "pods", namespace=namespace, name=name)
        found = self._found(path, name, seconds)
        try:
            return None if found is None else uid_of(found)
        except ValueError as error:
            raise _explained(path, AnswerError(str(error)), _UNREAD) from error

    def full_quota(self, namespace: str, gpus: Mapping[str, int], seconds: float) -> str:
        """The ResourceQuota that leaves too little for one more pod now; empty for none. Raises LedgerError."""
        path = path_of(CORE, "resourcequotas", namespace=namespace)
        try:
            for raw in self._listed(Listed(path, PAGE), ListDeadline(seconds), _UNREAD):
                if found := too_full(raw, gpus):
                    return found
        except LedgerError as error:
            if isinstance(error.__cause__, ApiServerError) and error.__cause__.status == _FORBIDDEN:
                _log.debug("%s", error)  # the right is one that the replicas can do without
                return ""
            raise
        return ""

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
        deadline = ListDeadline(seconds)
        for path in [PODS] if any(map(is_glob, patterns)) else map(_path, sorted(set(patterns))):
            for raw in self._listed(Listed(path, PAGE, COUNTING), deadline):
                pod = self._counting(raw)
                if pod is not None and is_covered(pod.namespace, patterns):
                    yield pod

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


def _path(namespace: str) -> str:
    return path_of(CORE, "pods", namespace=namespace)


def _explained(path: str, error: ApiServerError, fault: str) -> LedgerError:
    return LedgerError(f"{fault}: {error.sentence('GET', path)}", error.for_authors(fault))


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
        self._cache = PodCache(self._now, clock, accelerators)
        self._lists = PodLists(server, self._now, accelerators)
        self._started = self._closed = False
        resource = WatchedResource("pods", PODS, self._replace, self._change, page=PAGE, selector=COUNTING)
        self._watch = Watch(resource, server, clock, timing)

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
        """How far the pods can be trusted at `now`, in seconds of the monotonic clock."""
        return status_of((self._watch,), now, STALE_AFTER_SECONDS)

    def is_known(self) -> bool:
        """Whether pods were listed once and are being followed now."""
        health = self._watch.health
        return health.loaded and health.following and not self._closed

    def live_among(self, uids: Set[bytes]) -> Set[bytes]:
        """The uids of pods that counted when they were last reported."""
        return self._cache.live_among(uids)

    def gone_among(self, uids: Set[bytes]) -> Set[bytes]:
        """The uids of pods that were reported and no longer count, as far as they are kept."""
        return self._cache.gone_among(uids)

    def has_any_in(self, namespace: str) -> bool:
        """Whether a GPU pod is in a namespace, which then exists."""
        return self._cache.has_any_in(namespace)

    def seen(self, namespace: str | None = None) -> Iterable[GpuPod]:
        """The pods that counted when they were last reported."""
        return self._cache.seen(namespace)

    def named(self, namespace: str, name: str) -> bytes | None:
        """The uid of the GPU pod of this name that was last reported; None for none."""
        return self._cache.named(namespace, name)

    def stored_now(self, namespace: str, name: str, seconds: float) -> bytes | None:
        """The uid of the pod of this name, read after the call began; None where there is none. Raises LedgerError."""
        return self._lists.stored(namespace, name, seconds)

    def full_quota(self, namespace: str, gpus: Mapping[str, int], seconds: float) -> str:
        """The ResourceQuota that leaves too little for one more pod, read after the call began. Raises LedgerError."""
        return self._lists.full_quota(namespace, gpus, seconds)

    def has_namespace(self, namespace: str, seconds: float) -> bool:
        """Whether the namespace exists, read after the call began. Raises LedgerError."""
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
        """The API server's clock or a little behind it, so that no pod stops counting too early."""
        return self._server.now() - _UNCERTAIN_SECONDS

    def _replace(self, raws: Iterable[object]) -> None:
        if self._cache.replace(raws):
            self._on_gone()

    def _change(self, event: str, raw: Mapping[str, Any]) -> None:
        if self._cache.change(event, raw):
            self._on_gone()
