"""Stored pods with the nodes that they are on, where units of their GPUs may be parts."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from webhook.gpus.gpu_shares import SHAREABLE, share_of
from webhook.ledger.ledger_store import GpuPod
from webhook.model.node import NodeClass
from webhook.quota.claimed_devices import DeviceClasses


class Placing(Protocol):
    """What is known about the nodes of a cluster."""

    def node_class(self, name: str) -> NodeClass | None:
        """The class of the node of this name; None where it is not known."""
        ...


class KnownCluster(DeviceClasses, Placing, Protocol):
    """What is known about a cluster whose pods and claims count against quotas."""


def placed(pods: Iterable[GpuPod], cluster: Placing | None) -> Iterator[GpuPod]:
    """The pods, each with the class of its node where the labels of the node say what units of its GPUs are.

    A pod that waits for a node gets none: its units count whole where nothing was entered at its admission, which knew
    the node pools of its policy as well.
    """
    tells: dict[int, bool] = {}
    for pod in pods:
        is_concerned = cluster is not None and pod.node and not SHAREABLE.isdisjoint(pod.pod.gpus)
        kind = cluster.node_class(pod.node) if cluster is not None and is_concerned else None
        if kind is None:
            yield pod
            continue
        if id(kind) not in tells:
            tells[id(kind)] = share_of(kind.labels).is_known
        yield replace(pod, kind=kind) if tells[id(kind)] else pod
