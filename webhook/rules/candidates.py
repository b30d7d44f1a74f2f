"""The nodes that a GPU pod could be scheduled to, on which several rules judge it.

Nodes count by resource claims (DRA) only where it is certain that a container gets an NVIDIA GPU: each alternative of a
request is for one, and no claim for monitoring (`adminAccess`) or for virtual machines counts.
"""

from collections.abc import Sequence
from functools import cache, partial
from typing import NamedTuple

from webhook.model.accelerators import Vendor
from webhook.model.claims import TOO_LARGE, DeviceRequest, claims_of
from webhook.model.node import EVERYTHING, NodeClass
from webhook.model.pod import Container, Pod, changed
from webhook.rules.rule import Facts


class SelectedNodes(NamedTuple):
    """Classes of all nodes that a pod selects, whatever their taints, and which of them are its `candidates`."""

    nodes: Sequence[NodeClass]
    are_candidates: tuple[bool, ...]


class ClaimedNodes(NamedTuple):
    """`whole` names the claims that bring a GPU to a container which uses the whole claim. `parts` names the claims
    whose every request brings a GPU. `nodes` are the nodes that offer such GPUs.
    """

    whole: frozenset[str]
    parts: frozenset[str]
    nodes: Sequence[NodeClass]

    def are_used_by(self, container: Container) -> bool:
        return any(used.name in (self.parts if used.request else self.whole) for used in container.claims)


def claimed_nodes(pod: Pod, facts: Facts) -> ClaimedNodes | None:
    """The pod's claims that bring NVIDIA GPUs, and the nodes for them; None if none does, or no such node is known."""
    whole, parts = set(), set()
    nodes: Sequence[NodeClass] = ()
    offering = cache(partial(facts.nodes_offering, pod=pod))

    def nodes_for(request: DeviceRequest) -> Sequence[NodeClass]:
        """The nodes for a request; empty where it may bring something else, or none is known."""
        of_each = [() if one.is_administrative else offering(one.device_class) for one in request]
        return of_each[-1] if of_each and all(of_each) else ()

    for named in claims_of(pod.resource_claims):
        requests = facts.claim(named, pod.namespace) or ()
        found = [] if requests == TOO_LARGE else [one for one in map(nodes_for, requests) if one]
        if found:
            nodes = found[0]
            whole.add(named.name)
        if found and len(found) == len(requests):
            parts.add(named.name)
    return ClaimedNodes(frozenset(whole), frozenset(parts), nodes) if whole else None


def candidates(pod: Pod, facts: Facts) -> Sequence[NodeClass]:
    """Classes of the nodes that the pod could be scheduled to.

    A pod that gets NVIDIA GPUs only by resource claims could be scheduled to the nodes that offer them. Taints are left
    out where they only wait for a toleration, as `released` says.
    """
    gets_claimed = pod.resource_claims and not pod.requests_gpus_of(Vendor.NVIDIA)
    if gets_claimed and (claimed := claimed_nodes(released(pod, facts), facts)) is not None:
        return claimed.nodes
    return (facts.matching_nodes(pod) if not pod.is_held else ()) or facts.selected_nodes(pod)


def selectable(pod: Pod, facts: Facts) -> Sequence[NodeClass]:
    """Classes of the nodes that the pod selects, whatever their taints: tolerations may come later."""
    gets_claimed = pod.resource_claims and not pod.requests_gpus_of(Vendor.NVIDIA)
    if gets_claimed and (claimed := claimed_nodes(changed(pod, tolerations=EVERYTHING), facts)) is not None:
        return claimed.nodes
    return facts.selected_nodes(pod)


def selected(pod: Pod, facts: Facts) -> SelectedNodes:
    """The nodes that the pod selects, and which of them it could be scheduled to."""
    nodes, among = selectable(pod, facts), candidates(pod, facts)
    if len(among) == len(nodes):
        return SelectedNodes(nodes, (True,) * len(nodes))
    known = {id(one.labels) for one in among}
    return SelectedNodes(nodes, tuple([one.by_claim or bool(one.made_by) or id(one.labels) in known for one in nodes]))


def anywhere(pod: Pod, facts: Facts) -> SelectedNodes:
    """All nodes with the pod's GPUs, whatever it selects, or with any GPUs if none has these; none is a candidate."""
    placed = changed(pod, node_selector={}, required=None, node_name="", runtime_class=None)
    nodes = facts.selected_nodes(placed)
    if not nodes:
        nodes = [one for one in facts.selected_nodes(changed(placed, accelerators=())) if one.gpu_resources]
    return SelectedNodes(nodes, (False,) * len(nodes))


def released(pod: Pod, facts: Facts) -> Pod:
    """The pod as it may be released: with tolerations of all taints if it is held, or matches no node without them.

    Its queue, or whoever removes its scheduling gates, may add tolerations; and anybody who may update a pod may.
    """
    return pod if not pod.is_held and facts.matching_nodes(pod) else changed(pod, tolerations=EVERYTHING)
