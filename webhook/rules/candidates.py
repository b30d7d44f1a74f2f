"""The nodes that a GPU pod could be scheduled to, on which several rules judge it."""

from collections.abc import Sequence
from dataclasses import replace

from webhook.model.accelerators import Vendor
from webhook.model.node import EVERYTHING, NodeClass
from webhook.model.pod import Pod
from webhook.rules.claimed_nodes import claimed_nodes
from webhook.rules.rule import Facts


def candidates(pod: Pod, facts: Facts) -> Sequence[NodeClass]:
    """Classes of the nodes that the pod could be scheduled to.

    A pod that is held back could be scheduled to all nodes that its labels select, because its queue may still add
    tolerations. A pod that gets NVIDIA GPUs only by resource claims could be scheduled to the nodes that offer them.
    """
    placed = released(pod)
    is_claiming = bool(pod.resource_claims) and not pod.requests_gpus_of(Vendor.NVIDIA)
    claimed = claimed_nodes(placed, facts) if is_claiming else None
    return facts.matching_nodes(placed) if claimed is None else claimed.nodes


def released(pod: Pod) -> Pod:
    """The pod as its queue, or whoever removes its scheduling gates, may let it go: with further tolerations."""
    return replace(pod, tolerations=EVERYTHING) if pod.is_held else pod
