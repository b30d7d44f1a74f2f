"""What rules may ask about images, beside the facts about the cluster."""

from typing import Protocol

from webhook.facts.forwarded_facts import ForwardedFacts
from webhook.model.image import ImageInfo
from webhook.rules.rule import Facts


class ImageSource(Protocol):
    """Whoever looks images up."""

    def info(self, text: str, asker: str = "") -> ImageInfo:
        """What is known of the image at this moment; never waits. `asker` is on whose behalf, such as a namespace."""
        ...


class Memory(ImageSource, Protocol):
    """Whoever looks images up, and can be asked without anything following from it."""

    def recall(self, text: str) -> ImageInfo:
        """What is known of the image at this moment; no look-up follows."""
        ...


class Recalled:
    """An ImageSource for dry runs, which leave no trace: it answers with what is known already."""

    __slots__ = ("_memory",)

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def info(self, text: str, asker: str = "") -> ImageInfo:  # noqa: ARG002  # nothing is done on anybody's behalf
        """What is known of the image at this moment."""
        return self._memory.recall(text)


class WithImages(ForwardedFacts):
    """Facts that also know images."""

    __slots__ = ("_asker", "_images")

    def __init__(self, facts: Facts, images: ImageSource, asker: str = "") -> None:
        super().__init__(facts)
        self._images = images
        self._asker = asker

    def image(self, reference: str) -> ImageInfo:
        """What is known of the image at this moment; asking has it looked up."""
        return self._images.info(reference, self._asker)
