"""What is told of a pod that no node could run, and what has to be known of nodes to tell it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from webhook.model.node import NodeClass, RuntimeClass
from webhook.model.pod import Pod

TELL = "tell the platform team"
"""The remedy of what the author of a pod cannot mend."""


class Reason(NamedTuple):
    """Where in the pod, what was found there, what nodes have instead, and what to do; `brief` as in a Violation."""

    where: str
    found: str
    allowed: str
    remedy: str
    brief: str = ""


class NodeFacts(Protocol):
    """What has to be known of the nodes: some of the Facts that rules have."""

    def feasible_nodes(self, pod: Pod) -> Sequence[NodeClass]:
        """Classes of the nodes that could run the pod, were nothing else on them."""
        ...

    def largest(self, resource: str, pod: Pod | None = None) -> int | None:
        """The most of a resource that one node has, of those that the pod could be scheduled to; None: not known."""
        ...

    def gpu_resources(self) -> frozenset[str]:
        """The GPU resources that some node has."""
        ...

    def label_values(self, key: str) -> Sequence[str]:
        """The values of a label, sorted."""
        ...

    def runtime_class(self, name: str) -> RuntimeClass | None:
        """The RuntimeClass of this name."""
        ...
