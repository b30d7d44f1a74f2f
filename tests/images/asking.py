"""What tests of look-ups ask for, and how they wait for the answer."""

from tests.images.replicas import config
from webhook.images.lookups import LookupService
from webhook.model.image import ImageInfo

PENDING = ImageInfo(is_pending=True)
APP = "docker.io/team/app:1"
PINNED = f"docker.io/team/app@{config().digest}"


class Counts(list[str]):
    """What became of each look-up."""

    def __call__(self, result: str) -> None:
        self.append(result)


def seen(images: LookupService, text: str = APP) -> ImageInfo:
    """What is known once everything that was asked for is settled."""
    images.info(text)
    assert images.wait(20)
    return images.info(text)
