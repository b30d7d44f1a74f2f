"""Stored pods with the nodes that they are on."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from webhook.facts.facts import ClusterFacts
from webhook.ledger.ledger_store import GpuPod


def placed(pods: Iterable[GpuPod], cluster: ClusterFacts | None) -> Iterator[GpuPod]:
    """The pods, each with the class of its node. A pod that waits for a node gets none: it counts as at its admission,
    which knew the node pools of its policy as well.
    """
    for pod in pods:
        kind = cluster.node_class(pod.node) if cluster is not None and pod.node and pod.pod.gpus else None
        yield pod if kind is None else replace(pod, kind=kind)
