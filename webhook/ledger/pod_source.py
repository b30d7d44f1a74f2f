"""The GPU pods and the resource claims of a cluster, as ledgers see them.

Watches keep them current, and consistent lists read them at one moment: the API server answers these lists from its
storage, not from its caches.

Events of a watch may be late, so they admit no pod: they say which entries of a ledger may go, and the names of pods
for messages.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from functools import partial
from typing import Any

from webhook.facts.facts import ClusterFacts
from webhook.facts.live import CLAIMS, claim_paths
from webhook.kubernetes.api_errors import AnswerError, ApiServerError
from webhook.kubernetes.api_paths import CORE, path_of
from webhook.kubernetes.api_server import METADATA, METADATA_LIST, ApiServer
from webhook.kubernetes.paged_list import ListDeadline, Listed, PagedList
from webhook.kubernetes.watch import Watch, WatchedResource, WatchTiming
from webhook.ledger.gpu_pods import (
    COUNTING,
    StoredPod,
    counted_once,
    counting_uid,
    placed,
    stored_claim,
    stored_from_raw,
    uid_of,
)
from webhook.ledger.group_reader import GroupReader
from webhook.ledger.ledger_store import GpuPod, LedgerError
from webhook.ledger.pod_cache import Member, PodCache, is_covered
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.claims import CLAIM
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
            try:
                stored = stored_from_raw(raw, self._accelerators)
            except ValueError as error:
                _log.debug("a pod is ignored: %s", error)
                continue
            pod = stored.gpu_pod
            if pod is not None and self._now() <= stored.ends and is_covered(pod.namespace, patterns):
                yield pod

    def objects(self, path: str, patterns: Collection[str], seconds: float, selector: str = "") -> Iterator[object]:
        """The objects below `path` in the namespaces with these names; with a glob, in all namespaces.

        If the list starts again in the middle, objects come twice. Raises LedgerError, also in the middle.
        """
        deadline = ListDeadline(seconds)
        every = any(map(is_glob, patterns))
        for place in [path] if every else [_path(namespace, path) for namespace in sorted(set(patterns))]:
            yield from self._listed(Listed(place, PAGE, selector), deadline)

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
    """The path of the objects of one namespace; `path` is for all namespaces."""
    api, _, resource = path.rpartition("/")
    return path_of(api, resource, namespace=namespace)


def _explained(path: str, error: ApiServerError, fault: str) -> LedgerError:
    return LedgerError(f"{fault}: {error.sentence('GET', path)}", error.for_authors(fault), error.code)


_CLOSE_SECONDS = 1.5
_UNCERTAIN_SECONDS = 2.0
"""The API server reports its time in whole seconds, and answers take time."""


class _Followed(PodCache):
    """Objects that a watch keeps current. Threads may share it. Before `start` only the consistent lists send requests.

    `now` is the API server's clock.
    """

    watch: Watch

    def __init__(
        self,
        server: ApiServer,
        now: Callable[[], float],
        clock: Callable[[], float],
        accelerators: Accelerators,
        read: Callable[..., StoredPod],
    ) -> None:
        super().__init__(now, clock, partial(read, accelerators=accelerators))
        self._lists = PodLists(server, now, accelerators)
        self._started = self._closed = False

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


class LivePods(_Followed):
    """Implements `webhook.ledger.ledger_store.Pods` for the pods of a cluster."""

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

        super().__init__(server, now, clock, accelerators, stored_from_raw)
        self.stored_now, self.has_namespace = self._lists.stored, self._lists.has_namespace
        self.live_now, self.list_now = self._lists.live, self._lists.gpu_pods
        resource = WatchedResource("pods", PODS, self.replace, self.change, page=PAGE, selector=COUNTING)
        self.watch = Watch(resource, server, clock, timing)

    def is_known(self) -> bool:
        health = self.watch.health
        return health.loaded and health.following and not self._closed


class LiveClaims(_Followed):
    """The resource claims of a cluster that may give GPUs, as last reported.

    A claim counts from its creation until it is deleted: its devices may be reserved all that time.
    """

    def __init__(
        self, server: ApiServer, accelerators: Accelerators, timing: WatchTiming | None, clock: Callable[[], float]
    ) -> None:
        super().__init__(server, server.now, clock, accelerators, stored_claim)
        path, *elsewhere = claim_paths(CLAIMS[CLAIM])
        resource = WatchedResource(
            CLAIMS[CLAIM],
            path,
            self.replace,
            self.change,
            optional=True,
            page=PAGE,
            elsewhere=tuple(elsewhere),
            refused=lambda: None,
            is_dispensable=True,
        )
        self.watch = Watch(resource, server, clock, timing)

    def is_known(self) -> bool:
        """Whether claims are followed now, or cannot be: the API server does not have them, or does not show them."""
        health = self.watch.health
        return health.loaded and (health.following or not health.is_served)

    def live_now(self, namespaces: Collection[str], seconds: float) -> Set[bytes]:
        """The uids of the claims in these namespaces, read after the call began. Raises LedgerError.

        A claim that is being deleted exists, however long that takes: its devices are reserved. Where claims cannot be
        read, all that were seen are taken to exist.
        """
        if not self.watch.health.is_served:
            return {one.uid for name in namespaces for one in self.seen(name)}
        found = self._lists.metadata(self.watch.path, namespaces, seconds)
        return {uid for raw in found if (uid := counting_uid(raw)) is not None}

    def list_now(self, patterns: Collection[str], seconds: float) -> Iterator[GpuPod]:
        """The claims in namespaces with these names and globs, read after the call began. Raises LedgerError."""
        if not self.watch.health.is_served:
            yield from (claim for claim in self.seen() if is_covered(claim.namespace, patterns))
            return
        for raw in self._lists.objects(self.watch.path, patterns, seconds):
            try:
                claim = self._read_object(raw).gpu_pod
            except ValueError:
                continue
            if claim is not None and is_covered(claim.namespace, patterns):
                yield claim


class PodsAndClaims:
    """Implements `webhook.ledger.ledger_store.Pods` for the pods and the resource claims of a cluster.

    Before `start` only the consistent lists send requests. Threads may share it.
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        accelerators: Accelerators = BUILT_IN,
        timing: WatchTiming | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._pods = pods = LivePods(server, accelerators=accelerators, timing=timing, clock=clock)
        self._claims = LiveClaims(server, accelerators, timing, clock)
        self._cluster: Callable[[], ClusterFacts | None] = lambda: None
        self.named, self.stored_now, self.has_namespace = pods.named, pods.stored_now, pods.has_namespace
        self.gated_among = pods.gated_among
        self.groups = GroupReader(server, self.members)

    def know(self, cluster: Callable[[], ClusterFacts | None]) -> None:
        self._cluster = cluster

    def members(self, namespace: str, group: str) -> Mapping[bytes, Member]:
        """The stored pods of a group, which need no more room. Raises LedgerError until pods were listed once."""
        if not self._pods.watch.health.loaded:
            raise LedgerError("pods are being listed")
        return self._pods.members(namespace, group)

    def listen(self, gone: Callable[[], None]) -> None:
        """Call `gone` in the thread of a watch after pods or claims are gone. It has to be quick."""
        self._pods.listen(gone)
        self._claims.listen(gone)

    def start(self) -> None:
        self._pods.start()
        self._claims.start()

    def close(self) -> None:
        self._claims.watch.stop()
        self._pods.close()
        self._claims.close()

    def is_known(self) -> bool:
        return self._pods.is_known() and self._claims.is_known() and self._cluster() is not None

    def live_among(self, uids: Set[bytes]) -> Set[bytes]:
        """The uids of pods and claims that counted when they were last reported, and of reservations still needed."""
        return (self._pods.live_among(uids) | self._claims.live_among(uids)) - self._taken_over(uids)

    def gone_among(self, uids: Set[bytes]) -> Set[bytes]:
        """The uids of pods and claims that no longer count, and of reservations that are not needed any more."""
        claims = self._claims.gone_among(uids)
        return self._pods.gone_among(uids) | (claims - self._outlived(claims, uids)) | self._taken_over(uids)

    def has_any_in(self, namespace: str) -> bool:
        return self._pods.has_any_in(namespace) or self._claims.has_any_in(namespace)

    def seen(self, namespace: str | None = None) -> Iterable[GpuPod]:
        return list(self._counted(self._pods.seen(namespace), self._claims.seen(namespace)))

    def live_now(self, namespaces: Collection[str], seconds: float) -> frozenset[bytes]:
        """The uids of all that counts in these namespaces, read after the call began. Raises LedgerError."""
        until = self._clock() + seconds
        pods = self._pods.live_now(namespaces, seconds)
        claims = self._claims.live_now(namespaces, max(0.0, until - self._clock()))
        reserved = self._pods.reserved_by(pods)
        outlived = {one.uid for one in self._claims.gone_extending(frozenset(), pods)}
        return pods | claims | outlived | (reserved - self._claims.taken_over(reserved))

    def list_now(self, patterns: Collection[str], seconds: float) -> Iterable[GpuPod]:
        """All that counts in these namespaces, read after the call began. Raises LedgerError, also in the middle."""
        until = self._clock() + seconds
        pods = list(self._pods.list_now(patterns, seconds))
        return self._counted(pods, self._claims.list_now(patterns, max(0.0, until - self._clock())))

    def _taken_over(self, uids: Set[bytes]) -> Set[bytes]:
        """The entries among these that a claim has taken over, so that the claim counts in their place."""
        standing = self._claims.standing_for(uids)
        pods = {one.extends for one in standing if one.uid in uids and self._pods.is_in(one.extends, one.namespace)}
        return self._claims.taken_over(uids) | pods

    def _outlived(self, gone: Set[bytes], uids: Set[bytes]) -> Set[bytes]:
        """The claims for extended resources whose pods live on, and have no entry now: theirs holds the room so long.

        The scheduler deletes the claim of a binding that failed, and makes another one.
        """
        made = [one for one in self._claims.gone_extending(gone) if one.extends not in uids]
        pods = self._pods.live_among({one.extends for one in made}) if made else frozenset()
        pods -= {one.extends for one in self._claims.standing_for(pods) if one.uid in uids}
        return {one.uid for one in made if one.extends in pods and self._pods.is_in(one.extends, one.namespace)}

    def _counted(self, pods: Iterable[GpuPod], claims: Iterable[GpuPod]) -> Iterator[GpuPod]:
        cluster = self._cluster()
        return counted_once(placed(pods, cluster), claims, cluster)
