"""Images that tests look up, and helpers that wait for the results."""

from tests.images.replicas import config
from webhook.images.lookups import LookupService
from webhook.model.image import ImageInfo

PENDING = ImageInfo(is_pending=True)
APP = "docker.io/team/app:1"
PINNED = f"docker.io/team/app@{config().digest}"


class Counts(list[str]):
    """Counts the results of look-ups."""

    def __call__(self, result: str) -> None:
        self.append(result)


def seen(images: LookupService, text: str = APP) -> ImageInfo:
    """What is known about an image once every look-up is settled."""
    images.info(text)
    assert images.wait(20)
    return images.info(text)
