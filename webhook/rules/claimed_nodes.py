"""The containers that get NVIDIA GPUs by resource claims (DRA), and the nodes that these GPUs may be on.

Only what is certain counts: a container gets a GPU if each alternative of a request is for one, and no claim for
monitoring (`adminAccess`) or for virtual machines counts.
"""

from collections.abc import Sequence
from typing import NamedTuple

from webhook.model.claims import TOO_LARGE, DeviceRequest, claims_of
from webhook.model.node import NodeClass
from webhook.model.pod import Container, Pod
from webhook.rules.rule import Facts


class ClaimedNodes(NamedTuple):
    """`whole` are the names of claims that bring a GPU to a container that uses the whole claim, `parts` those that do
    so to a container that uses any part of it. `nodes` are the nodes that offer such GPUs.
    """

    whole: frozenset[str]
    parts: frozenset[str]
    nodes: Sequence[NodeClass]

    def are_used_by(self, container: Container) -> bool:
        """Whether a container certainly gets a GPU by these claims."""
        return any(used.name in (self.parts if used.request else self.whole) for used in container.claims)


def claimed_nodes(pod: Pod, facts: Facts) -> ClaimedNodes | None:
    """The claims of the pod that bring NVIDIA GPUs, and the nodes for them; None where there is none, or none known."""
    whole, parts = set(), set()
    nodes: Sequence[NodeClass] = ()
    offering = _Offering(pod, facts)
    for named in claims_of(pod.resource_claims):
        requests = facts.claim(named, pod.namespace) or ()
        found = [] if requests == TOO_LARGE else [one for one in map(offering.nodes_for, requests) if one]
        if found:
            nodes = found[0]
            whole.add(named.name)
        if found and len(found) == len(requests):
            parts.add(named.name)
    return ClaimedNodes(frozenset(whole), frozenset(parts), nodes) if whole else None


class _Offering:
    """The nodes that offer NVIDIA GPUs for requests of a pod. Facts are asked once about each DeviceClass."""

    def __init__(self, pod: Pod, facts: Facts) -> None:
        self._pod, self._facts = pod, facts
        self._known: dict[str, Sequence[NodeClass]] = {}

    def nodes_for(self, request: DeviceRequest) -> Sequence[NodeClass]:
        """The nodes for a request; empty where it may bring something else, or none is known."""
        found: Sequence[NodeClass] = ()
        for devices in request:
            found = () if devices.is_administrative else self._nodes(devices.device_class)
            if not found:
                return ()
        return found

    def _nodes(self, device_class: str) -> Sequence[NodeClass]:
        if device_class not in self._known:
            self._known[device_class] = self._facts.nodes_offering(device_class, self._pod)
        return self._known[device_class]
