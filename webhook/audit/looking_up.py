"""Images looked up in their registries before the objects that name them are judged."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from webhook.audit.documents import Document, DocumentError
from webhook.audit.review_objects import ReviewContext, look
from webhook.model.image import ImageInfo

Ask = Callable[[Iterable[str]], Mapping[str, ImageInfo]]
"""Asks registries about images, and waits for the answers."""

MOST_IMAGES = 2_000
"""Images that one audit asks about."""

_AT_A_TIME = 200
_TOO_MANY = ImageInfo(problem=f"an audit looks up {MOST_IMAGES} images at most, and this image comes after them")


class LookedUp:
    """Implements `webhook.images.image_source.ImageSource`: it knows what registries said about images in the last
    look-up, and remembers which others it was asked for.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._known: dict[str, ImageInfo] = {}
        self._wanted: dict[str, None] = {}

    def info(self, text: str, asker: str = "") -> ImageInfo:  # noqa: ARG002  # nobody else waits
        """What is known of an image."""
        found = self._known.get(text)
        if found is not None:
            return found
        if len(self._known) + len(self._wanted) >= MOST_IMAGES:
            return _TOO_MANY
        self._wanted[text] = None
        return ImageInfo(is_pending=True)

    def look_up(self) -> None:
        """Ask about the images that are not known yet."""
        if self._wanted:
            self._known.update(self._ask(list(self._wanted)))
            self._wanted.clear()


def looked_up(
    documents: Iterable[Document | DocumentError],
    namespace: str,
    judges: Sequence[ReviewContext],
    images: LookedUp,
) -> Iterator[Document | DocumentError]:
    """The same documents, once it is known what rules ask about their images; `judges` have `images` among their facts.

    As many of them are held back as are asked about at a time.
    """
    documents = iter(documents)
    while batch := list(islice(documents, _AT_A_TIME)):
        for document in batch:
            if isinstance(document, DocumentError):
                continue
            for surroundings in judges:
                with suppress(ValueError):  # said when it is judged
                    look(document, namespace, surroundings, is_running=True)
        images.look_up()
        yield from batch
