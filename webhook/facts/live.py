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
from webhook.facts.snapshot import EMPTY, MAKING_KINDS, Snapshot
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.watch import Watch, WatchedResource, WatchTiming
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.claims import CLAIM, GROUP, TEMPLATE
from webhook.model.wording import counted

STALE_AFTER_SECONDS = 60.0
"""Time after which the facts count as stale while a watch fails and the API server answers."""

_CLOSE_SECONDS = 1.5

_VERSIONS = ("v1", "v1beta2", "v1beta1")
"""Versions of resource.k8s.io, the newest first."""

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

    def __init__(
        self,
        kubeconfig: Path | str | None = None,
        *,
        accelerators: Accelerators = BUILT_IN,
        stale_after: float = STALE_AFTER_SECONDS,
        timing: WatchTiming | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.server = server = ApiServer(kubeconfig)
        self.now = server.now
        """The API server's clock, in seconds since 1970."""
        self._stale_after = stale_after
        self._snapshot = EMPTY.with_accelerators(accelerators)
        self._lock = Lock()
        resources = (
            self._followed(
                ("/api/v1/nodes",),
                self._read_nodes,
                Snapshot.with_nodes_of,
                Snapshot.with_node,
                lambda snapshot, raw: snapshot.without_node(raw["metadata"]["name"]),
            ),
            self._of_classes("runtime_classes", ("/apis/node.k8s.io/v1/runtimeclasses",)),
            self._of_classes("priority_classes", ("/apis/scheduling.k8s.io/v1/priorityclasses",)),
            self._of_classes(
                "device_classes", claim_paths("deviceclasses"), EMPTY.with_classes("device_classes", None)
            ),
            *(self._of_claims(kind) for kind in CLAIMS),
            self._followed(
                claim_paths(SLICES),
                EMPTY.with_slices,
                Snapshot.with_slices_of,
                Snapshot.with_slice,
                Snapshot.without_slice,
                without_right=EMPTY,
                optional=True,
                is_dispensable=True,
            ),
            *(self._of_classes(kind, tuple(paths), EMPTY) for kind, (_, *paths) in MAKING_KINDS.items()),
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

    def _read_nodes(self, raws: Iterable[object]) -> Snapshot:
        return self._snapshot.with_nodes(raws)  # waits for the API server; no other thread changes nodes

    def _of_classes(self, kind: str, paths: tuple[str, ...], without_right: Snapshot | None = None) -> WatchedResource:
        return self._followed(
            paths,
            partial(EMPTY.with_classes, kind),
            lambda snapshot, other: snapshot.with_classes_of(kind, other),
            lambda snapshot, raw: snapshot.with_class(kind, raw),
            lambda snapshot, raw: snapshot.without_class(kind, raw["metadata"]["name"]),
            without_right=without_right,
            optional=True,
            is_dispensable=kind in MAKING_KINDS,
        )

    def _of_claims(self, kind: str) -> WatchedResource:
        return self._followed(
            claim_paths(CLAIMS[kind]),
            partial(EMPTY.with_claims, kind),
            lambda snapshot, other: snapshot.with_claims_of(kind, other),
            lambda snapshot, raw: snapshot.with_claim(kind, raw),
            lambda snapshot, raw: snapshot.without_claim(kind, raw["metadata"]["namespace"], raw["metadata"]["name"]),
            without_right=EMPTY,
            optional=True,
            is_dispensable=True,
        )

    def _followed(  # noqa: PLR0913  # how objects of a kind get into a snapshot
        self,
        paths: tuple[str, ...],
        read: Callable[[Iterable[object]], Snapshot],
        taking: Callable[[Snapshot, Snapshot], Snapshot],
        with_one: Callable[[Snapshot, Mapping[str, Any]], Snapshot],
        without: Callable[[Snapshot, Mapping[str, Any]], Snapshot],
        *,
        without_right: Snapshot | None = None,
        optional: bool = False,
        is_dispensable: bool = False,
    ) -> WatchedResource:
        """A watch of one kind, whose API has one of these `paths`. `taking` takes over what was `read` from a list.

        `without_right` is taken over where the list is forbidden; with None the watch waits until it is allowed.
        """

        def take(other: Snapshot) -> None:
            with self._lock:
                self._snapshot = taking(self._snapshot, other)

        def changed(event: str, raw: Mapping[str, Any]) -> None:
            with self._lock:
                self._snapshot = (without if event == "DELETED" else with_one)(self._snapshot, raw)

        return WatchedResource(
            paths[0].rpartition("/")[2],
            paths[0],
            lambda raws: take(read(raws)),  # reading waits for the API server
            changed,
            optional=optional,
            elsewhere=paths[1:],
            refused=None if without_right is None else lambda: take(without_right),
            is_dispensable=is_dispensable,
        )


class StaticFacts:
    """Facts that never change, such as those of an inventory file."""

    def __init__(self, facts: ClusterFacts, origin: str = "inventory") -> None:
        self._facts = facts
        nodes, classes = len(facts.cluster.nodes), len(facts.cluster.runtime_classes)
        self._detail = f"{origin}: {counted(nodes, 'node')}, {counted(classes, 'runtime class', 'runtime classes')}"

    @property
    def facts(self) -> ClusterFacts:
        return self._facts

    def status(self, now: float) -> FactsStatus:  # noqa: ARG002  # the age of a file's facts is 0 at any time
        return FactsStatus(True, False, 0.0, True, self._detail)

    def now(self) -> float:
        return time.time()

    def start(self) -> None:
        pass

    def close(self) -> None:
        pass
