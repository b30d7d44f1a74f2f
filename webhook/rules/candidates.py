"""The nodes that a GPU pod could be scheduled to, on which several rules judge it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from webhook.model.accelerators import Vendor
from webhook.model.node import EVERYTHING, NodeClass
from webhook.model.pod import Pod, changed
from webhook.rules.claimed_nodes import claimed_nodes
from webhook.rules.rule import Facts


class SelectedNodes(NamedTuple):
    """Classes of all nodes that a pod selects, whatever their taints, and which of them are its `candidates`."""

    nodes: Sequence[NodeClass]
    are_candidates: tuple[bool, ...]


def candidates(pod: Pod, facts: Facts) -> Sequence[NodeClass]:
    """Classes of the nodes that the pod could be scheduled to.

    A pod that gets NVIDIA GPUs only by resource claims could be scheduled to the nodes that offer them. Taints are left
    out where they only wait for a toleration, as `released` says.
    """
    if pod.resource_claims and (claimed := _claimed(pod, facts, released)) is not None:
        return claimed
    return (facts.matching_nodes(pod) if not pod.is_held else ()) or facts.selected_nodes(pod)


def selectable(pod: Pod, facts: Facts) -> Sequence[NodeClass]:
    """Classes of the nodes that the pod selects, whatever their taints: tolerations may come later."""
    if pod.resource_claims and (claimed := _claimed(pod, facts, _tolerating)) is not None:
        return claimed
    return facts.selected_nodes(pod)


def selected(pod: Pod, facts: Facts) -> SelectedNodes:
    """The nodes that the pod selects, and which of them it could be scheduled to."""
    nodes, among = selectable(pod, facts), candidates(pod, facts)
    if len(among) == len(nodes):
        return SelectedNodes(nodes, (True,) * len(nodes))
    known = {id(one.labels) for one in among}
    return SelectedNodes(nodes, tuple([one.by_claim or bool(one.made_by) or id(one.labels) in known for one in nodes]))


def anywhere(pod: Pod, facts: Facts) -> SelectedNodes:
    """All nodes with the pod's GPUs, or with any where none has these yet, whatever it selects; none is a candidate."""
    placed = changed(pod, node_selector={}, required=None, node_name="", runtime_class=None)
    nodes = facts.selected_nodes(placed)
    if not nodes:
        nodes = [one for one in facts.selected_nodes(changed(placed, accelerators=())) if one.gpu_resources]
    return SelectedNodes(nodes, (False,) * len(nodes))


def released(pod: Pod, facts: Facts) -> Pod:
    """The pod as it may be let go, with further tolerations, if it has no candidates without them.

    Its queue, or whoever removes its scheduling gates, may add tolerations; and anybody who may update a pod may.
    """
    return pod if not pod.is_held and facts.matching_nodes(pod) else _tolerating(pod)


def _tolerating(pod: Pod, facts: Facts | None = None) -> Pod:
    return changed(pod, tolerations=EVERYTHING)


def _claimed(pod: Pod, facts: Facts, placing: Callable[[Pod, Facts], Pod]) -> Sequence[NodeClass] | None:
    """The nodes that offer what only claims bring the pod; None for other pods, and where nothing is known of them."""
    if pod.requests_gpus_of(Vendor.NVIDIA):
        return None
    claimed = claimed_nodes(placing(pod, facts), facts)
    return None if claimed is None else claimed.nodes
