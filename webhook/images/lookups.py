"""Looks images up in the background: asked for one, it answers with what it knows, and never waits for a registry.

Who asks first has an image queued and hears that it is pending. A tag is looked up again after an hour, a failure after
30 seconds to 10 minutes, each when somebody asks; what was known before stays meanwhile.

Commands look images up at once, in no more threads than a replica, and no more often.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from webhook.images.cache import Entry, ImageCache, LookupResult
from webhook.images.lookup_limits import LookUpError
from webhook.images.lookup_queue import Backoff, LookupQueue, expiry, patience
from webhook.images.packing import MOST_PROBLEM
from webhook.images.shared_results import ResultStore, Sharing, SyncLoop
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


class Client(Protocol):
    """Whoever talks to registries. Every call may raise LookUpError."""

    def look_up(self, reference: ImageReference) -> ImageConfig:
        """What the registry says about the image."""
        ...

    def digest_of(self, reference: ImageReference) -> str:
        """Where the reference leads at this moment, with one cheap request."""
        ...


class Images:
    """What is known of images, and the threads that find out more. Make and start it after the fork."""

    def __init__(
        self,
        client: Client,
        admits: Callable[[ImageReference], bool],
        store: ResultStore | None = None,
        *,
        waiting: LookupQueue | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Only references that `admits` says yes to are ever looked up, or taken from the store."""
        self._client = client
        self._admits = admits
        self._clock = clock
        self._cache = ImageCache()
        self._waiting = LookupQueue() if waiting is None else waiting  # an empty one is false
        self._in_step: SyncLoop | None = None
        if store is not None:
            sharing = Sharing(self._cache, store, expiry, is_wanted=self._is_wanted, clock=clock)
            self._in_step = SyncLoop(sharing)
        self._left_alone = Backoff(clock)
        self._complaints: dict[tuple[str, str], float] = {}
        self._count: Callable[[str], None] = lambda _result: None
        self._threads = [
            threading.Thread(target=self._work, name=f"images-{number}", daemon=True) for number in range(WORKERS)
        ]

    # Asked by anybody

    def info(self, text: str, asker: str = "") -> ImageInfo:
        """What is known of an image at this moment. Never waits for a registry and never raises.

        `asker` is on whose behalf, such as a namespace: who asks for much makes nobody else wait longer.
        """
        reference = self._reference(text)
        if isinstance(reference, ImageInfo):
            return reference
        entry = self._cache.get(str(reference))
        if entry is None:
            self._waiting.add(reference, asker)
            return _PENDING
        entry.used = now = self._clock()
        if entry.due <= now:
            self._waiting.add(reference, asker)
        return entry.info

    def recall(self, text: str) -> ImageInfo:
        """The same, and nothing follows from having been asked: no look-up, no longer memory."""
        reference = self._reference(text)
        if isinstance(reference, ImageInfo):
            return reference
        entry = self._cache.get(str(reference))
        return _PENDING if entry is None else entry.info

    @property
    def known(self) -> int:
        """References whose image is known."""
        return self._cache.known

    @property
    def pending(self) -> int:
        """References that wait, or are being looked up."""
        return len(self._waiting)

    @property
    def is_shared(self) -> bool | None:
        """Whether results were exchanged with the other replicas when it was last tried; None where they never are."""
        return None if self._in_step is None else self._in_step.is_well

    # The life of the threads

    def start(self, count: Callable[[str], None] = lambda _result: None) -> None:
        """Begin; `count` is told what became of each look-up: found, unchanged, refused, failed, bug."""
        self._count = count
        if self._in_step is not None:
            self._in_step.start()
        for thread in self._threads:
            thread.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether everything that was asked for is settled within that time, however long that takes for None."""
        return self._waiting.wait_until_empty(seconds)

    def share(self, store: ResultStore) -> None:
        """Write everything that is known into a store, once. Raises ApiServerError."""
        sharing = Sharing(self._cache, store, expiry, is_wanted=self._is_wanted, clock=self._clock)
        for key, _ in self._cache.entries():
            sharing.add(key)
        sharing.exchange()

    def close(self) -> None:
        """End the threads, within 2 seconds; a look-up that hangs is left to itself."""
        self._waiting.close()
        deadline = time.monotonic() + _CLOSE_SECONDS
        if self._in_step is not None:
            self._in_step.close(_CLOSE_SECONDS)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        if self._in_step is not None:
            self._in_step.wait_for_the_first()
        while (reference := self._waiting.take()) is not None:
            try:
                self._settle(reference)
            except Exception:  # noqa: BLE001  # logged; a bug met with one image must not end the look-ups of others
                _log.exception("a bug in gpu-policy: the look-up of an image in %s has no result", reference.registry)
            finally:
                self._waiting.done(reference)

    def _settle(self, reference: ImageReference) -> None:
        """Look one reference up, unless another replica has done so meanwhile."""
        known = self._cache.get(str(reference))
        if known is not None and known.due > self._clock():
            return
        if known is None and self._left_alone.is_held(reference.registry):
            return  # it was not asked, so the image stays pending and is queued again when somebody asks
        try:
            config = self._asked(reference, known)
        except LookUpError as error:
            self._fail(reference, known, error, "refused" if error.is_lasting else "failed")
        except Exception as error:  # noqa: BLE001  # whatever it is, this image has a problem and others go on
            text = f"{reference.registry}: a bug in gpu-policy ({type(error).__name__})"
            self._fail(reference, known, LookUpError(text, is_lasting=False), "bug", error)
        else:
            self._succeed(reference, known, config)

    def _asked(self, reference: ImageReference, known: Entry | None) -> ImageConfig:
        """What the reference leads to; a registry that wants to be left alone for a while is."""
        self._left_alone.check(reference.registry)
        try:
            return self._looked_up(reference, None if known is None else known.info.config)
        except LookUpError as error:
            self._left_alone.heed(reference.registry, error)
            raise

    def _looked_up(self, reference: ImageReference, before: ImageConfig | None) -> ImageConfig:
        """The same by as little as it takes: mostly an image is still the one of before."""
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
        if is_news and self._in_step is not None:
            self._in_step.add(key)
        self._count("found" if is_news else "unchanged")

    def _fail(
        self,
        reference: ImageReference,
        known: Entry | None,
        error: LookUpError,
        result: str,
        bug: Exception | None = None,
    ) -> None:
        """Keep an answer that there was; else the problem takes its place."""
        key, now = str(reference), self._clock()
        failures = 1 + (known.failures if known is not None else 0)
        again = patience(failures, error)
        if known is not None and known.info.config is not None:
            self._cache.postpone(key, now + again, failures)
        else:
            problem = "".join(filter(str.isprintable, str(error)))[:MOST_PROBLEM] or "no reason was given"
            self._cache.put(key, LookupResult(now, again, problem=problem), failures)
            if error.is_lasting and self._in_step is not None:  # in other cases another replica may fare better
                self._in_step.add(key)
        self._count(result)
        self._complain(reference.registry, str(error).replace(key, "an image"), bug)

    def _complain(self, registry: str, text: str, bug: Exception | None) -> None:
        """Say why, the same of one registry once an hour at most."""
        now = self._clock()
        if now < self._complaints.get((registry, text), 0.0):
            return
        self._complaints = {said: until for said, until in self._complaints.items() if until > now}
        if len(self._complaints) >= _MOST_COMPLAINTS:
            return
        self._complaints[registry, text] = now + _QUIET_SECONDS
        _log.warning("looking up an image in %s failed: %s", registry, text, exc_info=bug)

    def _reference(self, text: str) -> ImageReference | ImageInfo:
        """What may be looked up, or why nothing may."""
        try:
            reference = parse_reference(text)
        except FormatError as error:
            return ImageInfo(problem=str(error))
        if not self._admits(reference):
            return NOT_LOOKED_UP
        # With a digest nobody looks at the tag, and there are as many as somebody cares to make up.
        return replace(reference, tag="") if reference.digest else reference

    def _is_wanted(self, key: str) -> bool:
        return self._admits(parse_reference(key))


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
        images.info(text)
    images.start()
    images.wait()
    images.close()
    if store is not None:
        try:
            images.share(store)
        except ApiServerError as error:
            _log.warning("the results are not shared with the replicas: %s", error)
    return {text: images.info(text) for text in texts}
