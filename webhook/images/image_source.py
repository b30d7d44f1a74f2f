"""What rules may ask about images, beside the facts about the cluster."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from webhook.model.claims import PodResourceClaim, Requests
from webhook.model.image import ImageInfo
from webhook.model.node import NodeClass, PriorityClass, RuntimeClass
from webhook.model.pod import Pod
from webhook.rules.rule import Facts


class ImageSource(Protocol):
    """Whoever looks images up."""

    def sight(self, text: str, asker: str = "") -> ImageInfo:
        """What is known of the image at this moment; never waits. `asker` is on whose behalf, such as a namespace."""
        ...


class Memory(ImageSource, Protocol):
    """Whoever looks images up, and can be asked without anything following from it."""

    def recall(self, text: str) -> ImageInfo:
        """What is known of the image at this moment; no look-up follows."""
        ...


class Recalled:
    """Sights for dry runs, which leave no trace: what is known already. Implements Sights."""

    __slots__ = ("_memory",)

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def sight(self, text: str, asker: str = "") -> ImageInfo:  # noqa: ARG002  # nothing is done on anybody's behalf
        """What is known of the image at this moment."""
        return self._memory.recall(text)


class WithImages:
    """Facts that also know images. Implements Facts."""

    __slots__ = ("_asker", "_facts", "_images")

    def __init__(self, facts: Facts, images: ImageSource, asker: str = "") -> None:
        self._facts = facts
        self._images = images
        self._asker = asker

    def runtime_class(self, name: str) -> RuntimeClass | None:
        """The RuntimeClass of this name, None where the cluster has none."""
        return self._facts.runtime_class(name)

    def matching_nodes(self, pod: Pod) -> Sequence[NodeClass]:
        """Classes of the nodes that the pod, as it stands, could be scheduled to; empty where none is known."""
        return self._facts.matching_nodes(pod)

    def feasible_nodes(self, pod: Pod) -> Sequence[NodeClass]:
        """Classes of those candidates that have room for all the pod asks for, were nothing else on them."""
        return self._facts.feasible_nodes(pod)

    def knows_nodes(self) -> bool:
        """Whether any node, or node pool, is known at all."""
        return self._facts.knows_nodes()

    def gpu_resources(self) -> frozenset[str]:
        """The GPU resources that some node or node pool has."""
        return self._facts.gpu_resources()

    def largest(self, resource: str, pod: Pod | None = None) -> int | None:
        """The most of a resource that one node has, None where one has an unknown amount."""
        return self._facts.largest(resource, pod)

    def label_values(self, key: str) -> Sequence[str]:
        """The values that a label has, sorted."""
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
        """What is known of the image at this moment; asking has it looked up."""
        return self._images.sight(reference, self._asker)
