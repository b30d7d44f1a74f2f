"""Looking up images now, for commands: in no more threads, and no more gently, than a replica does it."""

import logging
from collections.abc import Callable, Iterable

from webhook.images.lookup_queue import LookupQueue
from webhook.images.lookups import Client, Images
from webhook.images.shared_results import ResultStore, StoreError
from webhook.model.image import ImageInfo, ImageReference

_log = logging.getLogger("gpu_policy.images")


def resolve(
    references: Iterable[str],
    client: Client,
    admits: Callable[[ImageReference], bool],
    store: ResultStore | None = None,
) -> dict[str, ImageInfo]:
    """What the registries say about each of the references, as they were given; none is pending.

    With a store the results are shared with the replicas; where that fails, the log says why.
    """
    texts = list(dict.fromkeys(references))
    images = Images(client, admits, waiting=LookupQueue(len(texts)))
    for text in texts:
        images.sight(text)
    images.start()
    images.wait()
    images.close()
    if store is not None:
        try:
            images.share(store)
        except StoreError as error:
            _log.warning("the results are not shared with the replicas: %s", error)
    return {text: images.sight(text) for text in texts}
