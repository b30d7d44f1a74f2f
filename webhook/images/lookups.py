"""Looks images up in the background. A caller gets what is known at once, and never waits for a registry.

The first caller finds an image pending, and has it queued. A tag is looked up again after an hour, a failure after 30
seconds to 10 minutes, but only when a caller asks for it. The earlier result stays in use until then.

Commands look images up and wait, with as many threads as a replica.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from webhook.images.cache import Entry, ImageCache, LookupResult
from webhook.images.lookup_limits import ImageLookupError
from webhook.images.lookup_queue import Backoff, LookupQueue, expiry, retry_delay
from webhook.images.packing import MOST_PROBLEM
from webhook.images.shared_results import ResultSharing, ResultStore, SyncLoop
from webhook.kubernetes.api_errors import ApiServerError
from webhook.model.image import (
    NOT_LOOKED_UP,
    ImageConfig,
    ImageInfo,
    ImageReference,
    parse_reference,
)
from webhook.model.shape import FormatError

WORKERS = 4

_CLOSE_SECONDS = 1.5
_QUIET_SECONDS = 3600.0
_MOST_COMPLAINTS = 1_000
_PENDING = ImageInfo(is_pending=True)

_log = logging.getLogger("gpu_policy.images")


class ImageClient(Protocol):
    """Queries registries. Every call may raise ImageLookupError."""

    def look_up(self, reference: ImageReference) -> ImageConfig:
        """The configuration of the image."""
        ...

    def digest_of(self, reference: ImageReference) -> str:
        """The digest of the image that the reference leads to now, with one cheap request."""
        ...


class LookupService:
    """The cache of images and the threads that look images up. Make and start a service after the fork."""

    def __init__(  # noqa: PLR0913  # all but three by name
        self,
        client: ImageClient,
        is_allowed: Callable[[ImageReference], bool],
        store: ResultStore | None = None,
        *,
        queue: LookupQueue | None = None,
        withheld: Callable[[str, str], ImageInfo | None] = lambda _image, _asker: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Only references that `is_allowed` accepts are looked up, or taken from the store.

        `withheld` says why an asker is not told of an image; None if it is told.
        """
        self._client = client
        self._is_allowed = is_allowed
        self._withheld = withheld
        self._clock = clock
        self._cache = ImageCache()
        self._queue = LookupQueue() if queue is None else queue  # an empty one is false
        self._sync_loop: SyncLoop | None = None
        if store is not None:
            sharing = ResultSharing(self._cache, store, expiry, is_wanted=self._is_wanted, clock=clock)
            self._sync_loop = SyncLoop(sharing)
        self._backoff = Backoff(clock)
        self._complaints: dict[tuple[str, str], float] = {}
        self._count: Callable[[str], None] = lambda _result: None
        self._threads = [
            threading.Thread(target=self._work, name=f"images-{number}", daemon=True) for number in range(WORKERS)
        ]

    def info(self, text: str, asker: str = "") -> ImageInfo:
        """What is known about an image now. Never waits for a registry and never raises.

        `asker` is the party that needs the image, such as a namespace. Askers do not delay each other.
        """
        reference = self._reference(text, asker)
        if isinstance(reference, ImageInfo):
            return reference
        entry = self._cache.get(str(reference))
        if entry is None:
            self._queue.add(reference, asker)
            return _PENDING
        entry.used = now = self._clock()
        if entry.due <= now:
            self._queue.add(reference, asker)
        return entry.info

    def recall(self, text: str, asker: str = "") -> ImageInfo:
        """What is known about an image now, without a look-up and without a longer stay in the cache."""
        reference = self._reference(text, asker)
        if isinstance(reference, ImageInfo):
            return reference
        entry = self._cache.get(str(reference))
        return _PENDING if entry is None else entry.info

    @property
    def known(self) -> int:
        """The number of references whose image is known."""
        return self._cache.known

    @property
    def pending(self) -> int:
        """The number of references that are queued or being looked up."""
        return len(self._queue)

    @property
    def is_shared(self) -> bool | None:
        """Whether the last exchange with the other replicas succeeded; None if results are not shared."""
        return None if self._sync_loop is None else self._sync_loop.is_well

    def start(self, count: Callable[[str], None] = lambda _result: None) -> None:
        """Start the threads. `count` gets the result of each look-up: found, unchanged, refused, failed, bug."""
        self._count = count
        if self._sync_loop is not None:
            self._sync_loop.start()
        for thread in self._threads:
            thread.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until every look-up is settled, at most `seconds` if given. Returns whether that is so."""
        return self._queue.wait_until_empty(seconds)

    def share(self, store: ResultStore) -> None:
        """Write every result into a store, once. Raises ApiServerError."""
        sharing = ResultSharing(self._cache, store, expiry, is_wanted=self._is_wanted, clock=self._clock)
        for key, _ in self._cache.entries():
            sharing.add(key)
        sharing.exchange()

    def close(self) -> None:
        """End the threads within 2 seconds. A look-up that hangs is abandoned."""
        self._queue.close()
        deadline = time.monotonic() + _CLOSE_SECONDS
        if self._sync_loop is not None:
            self._sync_loop.close(_CLOSE_SECONDS)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        if self._sync_loop is not None:
            self._sync_loop.wait_for_the_first()
        while (reference := self._queue.take()) is not None:
            try:
                self._settle(reference)
            except Exception:  # noqa: BLE001  # logged; a bug met with one image must not end the look-ups of others
                _log.exception("a bug in gpu-policy: the look-up of an image in %s has no result", reference.registry)
            finally:
                self._queue.done(reference)

    def _settle(self, reference: ImageReference) -> None:
        """Look a reference up, unless another replica has done so meanwhile."""
        known = self._cache.get(str(reference))
        if known is not None and known.due > self._clock():
            return
        if known is None and self._backoff.is_paused(reference.registry):
            return  # no request was made, so the image stays pending, and the next caller has it queued again
        try:
            config = self._query_registry(reference, known)
        except ImageLookupError as error:
            self._fail(reference, known, error, "refused" if error.is_lasting else "failed")
        except Exception as error:  # noqa: BLE001  # whatever it is, this image has a problem and others go on
            text = f"{reference.registry}: a bug in gpu-policy ({type(error).__name__})"
            self._fail(reference, known, ImageLookupError(text, is_lasting=False), "bug", error)
        else:
            self._succeed(reference, known, config)

    def _query_registry(self, reference: ImageReference, known: Entry | None) -> ImageConfig:
        """Query the registry, unless it has demanded a pause. Raises ImageLookupError."""
        self._backoff.check(reference.registry)
        try:
            return self._query_changes(reference, None if known is None else known.info.config)
        except ImageLookupError as error:
            self._backoff.note(reference.registry, error)
            raise

    def _query_changes(self, reference: ImageReference, before: ImageConfig | None) -> ImageConfig:
        """Query the digest first if the image was known: mostly it has not changed."""
        if before is None:
            return self._client.look_up(reference)
        digest = self._client.digest_of(reference)
        if digest == before.digest:
            return before
        return self._cache.config_of(digest) or self._client.look_up(reference)

    def _succeed(self, reference: ImageReference, known: Entry | None, config: ImageConfig) -> None:
        key = str(reference)
        self._cache.put(key, LookupResult(self._clock(), expiry(key), config))
        is_news = known is None or known.info.config != config
        if is_news and self._sync_loop is not None:
            self._sync_loop.add(key)
        self._count("found" if is_news else "unchanged")

    def _fail(
        self,
        reference: ImageReference,
        known: Entry | None,
        error: ImageLookupError,
        result: str,
        bug: Exception | None = None,
    ) -> None:
        """Keep an earlier configuration; without one, the problem becomes the result."""
        key, now = str(reference), self._clock()
        failures = 1 + (known.failures if known is not None else 0)
        again = retry_delay(failures, error)
        if known is not None and known.info.config is not None:
            self._cache.postpone(key, now + again, failures)
        else:
            problem = "".join(filter(str.isprintable, str(error)))[:MOST_PROBLEM] or "no reason was given"
            self._cache.put(key, LookupResult(now, again, problem=problem), failures)
            if error.is_lasting and self._sync_loop is not None:  # another replica may not have a passing problem
                self._sync_loop.add(key)
        self._count(result)
        self._complain(reference.registry, str(error).replace(key, "an image"), bug)

    def _complain(self, registry: str, text: str, bug: Exception | None) -> None:
        """Log why a look-up failed; equal texts about one registry once an hour at most."""
        now = self._clock()
        if now < self._complaints.get((registry, text), 0.0):
            return
        self._complaints = {said: until for said, until in self._complaints.items() if until > now}
        if len(self._complaints) >= _MOST_COMPLAINTS:
            return
        self._complaints[registry, text] = now + _QUIET_SECONDS
        _log.warning("looking up an image in %s failed: %s", registry, text, exc_info=bug)

    def _reference(self, text: str, asker: str) -> ImageReference | ImageInfo:
        """The reference to look up; an ImageInfo if it may not be looked up, or not be told to the asker."""
        try:
            reference = parse_reference(text)
        except FormatError as error:
            return ImageInfo(problem=str(error))
        if not self._is_allowed(reference):
            return NOT_LOOKED_UP
        if (info := self._withheld(text, asker)) is not None:
            return info
        # A tag beside a digest has no meaning, and tenants could make up any number of tags.
        return replace(reference, tag="") if reference.digest else reference

    def _is_wanted(self, key: str) -> bool:
        return self._is_allowed(parse_reference(key))


def look_up_all(
    references: Iterable[str],
    client: ImageClient,
    is_allowed: Callable[[ImageReference], bool],
    store: ResultStore | None = None,
) -> dict[str, ImageInfo]:
    """Look up every reference and wait. The keys of the result are the references as given; none is pending.

    With a store, the results are shared with the replicas. If that fails, the log says why.
    """
    texts = list(dict.fromkeys(references))
    service = LookupService(client, is_allowed, queue=LookupQueue(len(texts)))
    for text in texts:
        service.info(text)
    service.start()
    service.wait()
    service.close()
    if store is not None:
        try:
            service.share(store)
        except ApiServerError as error:
            _log.warning("the results are not shared with the replicas: %s", error)
    return {text: service.info(text) for text in texts}
