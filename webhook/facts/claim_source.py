"""Resource claims as quotas count them: which of them exist, what they request, and whose room in ledgers they take.

A claim counts from its creation until it is deleted: its devices may be reserved all that time. `PodsAndClaims` are the
pods and the claims of a cluster together, as ledgers see them.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from functools import partial
from threading import Lock

from webhook.facts.facts import ClusterFacts, FactsStatus
from webhook.facts.gpu_pods import counted_once, placed, stored_claim, uid_or_none
from webhook.facts.live import CLAIMS, STALE_AFTER_SECONDS, claim_paths, status_of
from webhook.facts.pod_cache import PodCache, is_covered
from webhook.facts.pod_source import PAGE, LivePods, PodLists
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.watch import Watch, WatchedResource, WatchTiming
from webhook.ledger.ledger_store import GpuPod
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.claims import CLAIM

_CLOSE_SECONDS = 1.5


class LiveClaims(PodCache):
    """The resource claims of a cluster that may give GPUs, as last reported. Threads may share it."""

    def __init__(
        self,
        server: ApiServer,
        *,
        accelerators: Accelerators = BUILT_IN,
        timing: WatchTiming | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(server.now, clock, partial(stored_claim, accelerators=accelerators))
        self._lists = PodLists(server, server.now, accelerators)
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
        """The uids of the claims in these namespaces, read after the call began.

        Raises LedgerError. A claim that is being deleted exists, however long that takes: its devices are reserved.
        Where claims cannot be read, all that were seen are taken to exist.
        """
        if not self.watch.health.is_served:
            return {one.uid for name in namespaces for one in self.seen(name)}
        found = self._lists.metadata(self.watch.path, namespaces, seconds)
        return {uid for raw in found if (uid := uid_or_none(raw)) is not None}

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
        self._lock = Lock()
        self._started = self._closed = False
        self._pods = LivePods(server, accelerators=accelerators, timing=timing, clock=clock)
        self._claims = LiveClaims(server, accelerators=accelerators, timing=timing, clock=clock)
        self._cluster: Callable[[], ClusterFacts | None] = lambda: None

    def know(self, cluster: Callable[[], ClusterFacts | None]) -> None:
        self._cluster = cluster

    def listen(self, gone: Callable[[], None]) -> None:
        """Call `gone` in the thread of a watch after pods or claims are gone. It has to be quick."""
        self._pods.listen(gone)
        self._claims.listen(gone)

    def start(self) -> None:
        with self._lock:
            if self._started or self._closed:
                return
            self._started = True
        self._pods.start()
        self._claims.watch.start()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._claims.watch.stop()
        self._pods.close()
        if self._started:
            self._claims.watch.join(_CLOSE_SECONDS)

    def status(self, now: float) -> FactsStatus:
        return status_of((self._pods.watch, self._claims.watch), now, STALE_AFTER_SECONDS)

    def is_known(self) -> bool:
        return self._pods.is_known() and self._claims.is_known() and self._cluster() is not None

    def live_among(self, uids: Set[bytes]) -> Set[bytes]:
        """The uids of pods and claims that counted when they were last reported, and of reservations still needed."""
        return (self._pods.live_among(uids) | self._claims.live_among(uids)) - self._taken_over(uids)

    def gone_among(self, uids: Set[bytes]) -> Set[bytes]:
        """The uids of pods and claims that no longer count, and of reservations that are not needed any more."""
        return self._pods.gone_among(uids) | self._claims.gone_among(uids) | self._taken_over(uids)

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
        return pods | claims | (reserved - self._claims.taken_over(reserved))

    def list_now(self, patterns: Collection[str], seconds: float) -> Iterable[GpuPod]:
        """All that counts in these namespaces, read after the call began. Raises LedgerError, also in the middle."""
        until = self._clock() + seconds
        pods = list(self._pods.list_now(patterns, seconds))
        return self._counted(pods, self._claims.list_now(patterns, max(0.0, until - self._clock())))

    def named(self, namespace: str, name: str) -> bytes | None:
        return self._pods.named(namespace, name)

    def stored_now(self, namespace: str, name: str, seconds: float) -> bytes | None:
        return self._pods.stored_now(namespace, name, seconds)

    def has_namespace(self, namespace: str, seconds: float) -> bool:
        return self._pods.has_namespace(namespace, seconds)

    def _taken_over(self, uids: Set[bytes]) -> Set[bytes]:
        """Those of these entries whose room a claim has taken over, so that the claim counts in their place."""
        standing = self._claims.standing_for(uids)
        pods = {one.extends for one in standing if one.uid in uids and self._pods.is_in(one.extends, one.namespace)}
        return self._claims.taken_over(uids) | pods

    def _counted(self, pods: Iterable[GpuPod], claims: Iterable[GpuPod]) -> Iterator[GpuPod]:
        cluster = self._cluster()
        return counted_once(placed(pods, cluster), claims, cluster)
