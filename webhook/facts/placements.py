"""Stored pods with the nodes that they are on, or could be scheduled to, where units of their GPUs may be parts."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from webhook.gpus.gpu_shares import SHAREABLE, share_of
from webhook.ledger.ledger_store import GpuPod
from webhook.model.node import NodeClass
from webhook.quota.claimed_devices import DeviceClasses
from webhook.quota.unit_parts import DividedNodes


class Placing(DividedNodes, Protocol):
    """What is known about the nodes of a cluster."""

    def node_class(self, name: str) -> NodeClass | None:
        """The class of the node of this name; None where it is not known."""
        ...


class KnownCluster(DeviceClasses, Placing, Protocol):
    """What is known about a cluster whose pods and claims count against quotas."""


def placed(pods: Iterable[GpuPod], cluster: Placing | None) -> Iterator[GpuPod]:
    """The pods, each with the classes of nodes that say what units of its GPUs are.

    These are the class of its own node, or else of the nodes that it could be scheduled to. A pod on a node whose
    labels say nothing gets none.
    """
    own: dict[int, tuple[NodeClass, ...]] = {}
    possible: dict[int, tuple[NodeClass, ...]] = {}
    for pod in pods:
        if cluster is None or SHAREABLE.isdisjoint(pod.pod.gpus):
            yield pod
        elif pod.node:
            kind = cluster.node_class(pod.node)
            if kind is None:
                yield pod
                continue
            kinds = own.get(id(kind))
            if kinds is None:
                kinds = own[id(kind)] = (kind,) if share_of(kind.labels).is_known else ()
            yield replace(pod, kinds=kinds, is_placed=True) if kinds else pod
        else:
            kinds = possible.get(id(pod.pod))
            if kinds is None:
                kinds = possible[id(pod.pod)] = tuple(cluster.dividing_nodes(pod.pod))
            yield replace(pod, kinds=kinds) if kinds else pod
