"""Stored pods with the nodes that they are on."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol

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
    """The pods, each with the class of its node. A pod that waits for a node gets none: it counts as at its admission,
    which knew the node pools of its policy as well.
    """
    for pod in pods:
        kind = cluster.node_class(pod.node) if cluster is not None and pod.node and pod.pod.gpus else None
        yield pod if kind is None else replace(pod, kind=kind)
