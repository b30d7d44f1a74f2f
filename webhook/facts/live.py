"""The live cluster: watches keep its nodes, classes, claims and slices current for as long as the process lives.

Reviews never wait for the API server. They see the last known facts, and `status` says how far to trust them.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from webhook.facts.facts import ClusterFacts, FactsStatus
from webhook.facts.snapshot import EMPTY, Snapshot
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.watch import Watch, WatchedResource, WatchTiming
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.claims import CLAIM, GROUP, TEMPLATE

STALE_AFTER_SECONDS = 60.0
"""Time after which the facts count as stale while a watch fails and the API server answers."""

_CLOSE_SECONDS = 1.5

_VERSIONS = ("v1", "v1beta2", "v1beta1")
"""Versions of resource.k8s.io in which DeviceClasses may have an extendedResourceName, the newest first."""

CLAIMS = {CLAIM: "resourceclaims", TEMPLATE: "resourceclaimtemplates"}
"""Kind of claims and of templates of claims -> resource name."""
SLICES = "resourceslices"


def claim_paths(resource: str) -> tuple[str, ...]:
    """The paths of a resource of resource.k8s.io, one for each version."""
    return tuple(f"/apis/{GROUP}/{version}/{resource}" for version in _VERSIONS)


def status_of(watches: Iterable[Watch], now: float, stale_after: float) -> FactsStatus:
    """How far the facts of these watches can be trusted at `now`, in seconds of their clock."""
    watches = tuple(watches)
    health = {watch.resource.name: watch.health for watch in watches}
    needed = [watch.health for watch in watches if not watch.resource.is_dispensable]
    return FactsStatus(
        loaded=not any(watch.is_waited_for for watch in watches),
        stale=any(
            one.loaded and one.failing_since is not None and now - one.failing_since > stale_after for one in needed
        ),
        age_seconds=max(0.0, now - min(one.confirmed for one in health.values())),
        server_reachable=any(one.reachable for one in health.values()),
        detail="; ".join(f"{name}: {one.detail}" for name, one in health.items()),
    )


class LiveFacts:
    """Facts that follow a cluster: of a kubeconfig file, or the cluster in which the process runs.

    Nothing is sent before `start`. Raises ClusterConfigError where it is not known how to reach the cluster.
    """

    def __init__(  # noqa: PLR0913  # how to reach the cluster, and what tests replace
        self,
        kubeconfig: Path | str | None = None,
        context: str | None = None,
        *,
        accelerators: Accelerators = BUILT_IN,
        stale_after: float = STALE_AFTER_SECONDS,
        timing: WatchTiming | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.server = server = ApiServer(kubeconfig, context)
        """The connection to the cluster."""
        self.now = server.now
        """The API server's clock, in seconds since 1970."""
        self._stale_after = stale_after
        self._snapshot = EMPTY.with_accelerators(accelerators)
        self._lock = Lock()
        device_classes = claim_paths("deviceclasses")
        resources = (
            WatchedResource(
                "nodes", "/api/v1/nodes", self._replace_nodes, self._changed(Snapshot.with_node, Snapshot.without_node)
            ),
            WatchedResource(
                "runtimeclasses",
                "/apis/node.k8s.io/v1/runtimeclasses",
                self._replaced(Snapshot.with_runtime_classes),
                self._changed(Snapshot.with_runtime_class, Snapshot.without_runtime_class),
                optional=True,
            ),
            WatchedResource(
                "priorityclasses",
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                self._replaced(Snapshot.with_priority_classes),
                self._changed(Snapshot.with_priority_class, Snapshot.without_priority_class),
                optional=True,
            ),
            WatchedResource(
                "deviceclasses",
                device_classes[0],
                self._replaced(Snapshot.with_device_classes),
                self._changed(Snapshot.with_device_class, Snapshot.without_device_class),
                optional=True,
                elsewhere=device_classes[1:],
                refused=self._without_device_classes,
            ),
            *(self._of_claims(kind) for kind in CLAIMS),
            self._dispensable(
                SLICES, EMPTY.with_slices, Snapshot.with_slices_of, Snapshot.with_slice, Snapshot.without_slice
            ),
        )
        self._watches = tuple(Watch(resource, server, clock, timing) for resource in resources)

    @property
    def facts(self) -> ClusterFacts | None:
        """The cluster as last reported; None until nodes and classes have been listed."""
        return None if any(watch.is_waited_for for watch in self._watches) else ClusterFacts(self._snapshot)

    def status(self, now: float) -> FactsStatus:
        return status_of(self._watches, now, self._stale_after)

    def start(self) -> None:
        for watch in self._watches:
            watch.start()

    def close(self) -> None:
        for watch in self._watches:
            watch.stop()
        deadline = time.monotonic() + _CLOSE_SECONDS
        for watch in self._watches:
            watch.join(max(0.0, deadline - time.monotonic()))

    def _replace_nodes(self, raws: Iterable[object]) -> None:
        listed = self._snapshot.with_nodes(raws)  # waits for the API server; no other thread changes nodes
        with self._lock:
            self._snapshot = self._snapshot.with_nodes_of(listed)

    def _without_device_classes(self) -> None:
        with self._lock:
            self._snapshot = self._snapshot.with_device_classes(None)

    def _of_claims(self, kind: str) -> WatchedResource:
        return self._dispensable(
            CLAIMS[kind],
            partial(EMPTY.with_claims, kind),
            lambda snapshot, other: snapshot.with_claims_of(kind, other),
            lambda snapshot, raw: snapshot.with_claim(kind, raw),
            lambda snapshot, raw: snapshot.without_claim(kind, raw["metadata"]["namespace"], raw["metadata"]["name"]),
        )

    def _dispensable(
        self,
        resource: str,
        read: Callable[[Iterable[object]], Snapshot],
        taking: Callable[[Snapshot, Snapshot], Snapshot],
        with_one: Callable[[Snapshot, Mapping[str, Any]], Snapshot],
        without: Callable[[Snapshot, Mapping[str, Any]], Snapshot],
    ) -> WatchedResource:
        """A watch of a resource of resource.k8s.io, for which no review waits. `taking` takes over what was `read`."""

        def take(other: Snapshot) -> None:
            with self._lock:
                self._snapshot = taking(self._snapshot, other)

        def changed(event: str, raw: Mapping[str, Any]) -> None:
            with self._lock:
                self._snapshot = (without if event == "DELETED" else with_one)(self._snapshot, raw)

        path, *elsewhere = claim_paths(resource)
        return WatchedResource(
            resource,
            path,
            lambda raws: take(read(raws)),  # reading waits for the API server
            changed,
            optional=True,
            elsewhere=tuple(elsewhere),
            refused=lambda: take(EMPTY),
            is_dispensable=True,
        )

    def _replaced(
        self, replaced: Callable[[Snapshot, Iterable[object]], Snapshot]
    ) -> Callable[[Iterable[object]], None]:

        def replace(raws: Iterable[object]) -> None:
            listed = list(raws)
            with self._lock:
                self._snapshot = replaced(self._snapshot, listed)

        return replace

    def _changed(
        self, changed: Callable[[Snapshot, object], Snapshot], deleted: Callable[[Snapshot, str], Snapshot]
    ) -> Callable[[str, Mapping[str, Any]], None]:

        def change(event: str, raw: Mapping[str, Any]) -> None:
            with self._lock:
                if event == "DELETED":
                    self._snapshot = deleted(self._snapshot, raw["metadata"]["name"])
                else:
                    self._snapshot = changed(self._snapshot, raw)

        return change
