"""Facts that are those of another but for some questions: whoever adds something answers only what that changes."""

from collections.abc import Mapping, Sequence

from webhook.model.claims import PodResourceClaim, Requests
from webhook.model.image import ImageInfo
from webhook.model.node import NodeClass, PriorityClass, RuntimeClass
from webhook.model.pod import Pod
from webhook.rules.rule import Facts


class ForwardedFacts:
    """Implements Facts by asking others. `webhook.rules.rule.Facts` says what each question means."""

    __slots__ = ("_facts",)

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def runtime_class(self, name: str) -> RuntimeClass | None:
        """The RuntimeClass of this name, None where the cluster has none."""
        return self._facts.runtime_class(name)

    def matching_nodes(self, pod: Pod) -> Sequence[NodeClass]:
        """Classes of the nodes that the pod, as it stands, could be scheduled to."""
        return self._facts.matching_nodes(pod)

    def feasible_nodes(self, pod: Pod) -> Sequence[NodeClass]:
        """Classes of those matching nodes that have room for the pod, were nothing else on them."""
        return self._facts.feasible_nodes(pod)

    def knows_nodes(self) -> bool:
        """Whether any node is known at all."""
        return self._facts.knows_nodes()

    def gpu_resources(self) -> frozenset[str]:
        """The GPU resources that some node has."""
        return self._facts.gpu_resources()

    def largest(self, resource: str, pod: Pod | None = None) -> int | None:
        """The largest amount of a resource on one node, None where one has an unknown amount."""
        return self._facts.largest(resource, pod)

    def label_values(self, key: str) -> Sequence[str]:
        """The values that a label has on nodes, sorted."""
        return self._facts.label_values(key)

    def priority_classes(self) -> Mapping[str, PriorityClass]:
        """The PriorityClasses by name; empty where they are not known."""
        return self._facts.priority_classes()

    def claim(self, named: PodResourceClaim, namespace: str) -> Requests | None:
        """What a claim that a pod names asks for; None where it is not known."""
        return self._facts.claim(named, namespace)

    def extended_resource(self, device_class: str) -> str:
        """The extended resource that a DeviceClass gives; empty where it gives none, or is not known."""
        return self._facts.extended_resource(device_class)

    def image(self, reference: str) -> ImageInfo:
        """What is known of an image."""
        return self._facts.image(reference)
