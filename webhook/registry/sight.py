"""What rules may ask about images, beside the facts about the cluster."""

from collections.abc import Sequence
from typing import Protocol

from webhook.model.image import ImageSight
from webhook.model.node import NodeClass, RuntimeClass
from webhook.model.pod import Pod
from webhook.rules.rule import Facts


class Sights(Protocol):
    """Whoever looks images up."""

    def sight(self, text: str, asker: str = "") -> ImageSight:
        """What is known of the image at this moment; never waits. `asker` is on whose behalf, such as a namespace."""
        ...


class WithImages:
    """Facts that also know images. Implements Facts."""

    __slots__ = ("_asker", "_facts", "_images")

    def __init__(self, facts: Facts, images: Sights, asker: str = "") -> None:
        self._facts = facts
        self._images = images
        self._asker = asker

    def runtime_class(self, name: str) -> RuntimeClass | None:
        """The RuntimeClass of this name, None where the cluster has none."""
        return self._facts.runtime_class(name)

    def candidates(self, pod: Pod) -> Sequence[NodeClass]:
        """Classes of the nodes that the pod, as it stands, could be scheduled to; empty where none is known."""
        return self._facts.candidates(pod)

    def image(self, reference: str) -> ImageSight:
        """What is known of the image at this moment; asking has it looked up."""
        return self._images.sight(reference, self._asker)
