"""Looks images up in the background. A caller gets what is known at once, and never waits for a registry.

The first caller finds an image pending, and has it queued. A tag is looked up again after an hour, a failure after 30
seconds to 10 minutes, but only when a caller asks for it. The earlier result stays in use until then.

Commands look images up and wait, with as many threads as a replica.
"""

import logging
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from webhook.images.allowlist import AllowList
from webhook.images.http_request import ImageLookupError
from webhook.images.shared_results import MOST_REFERENCES, ConfigMapStore, ImageCache, LookupResult, SharedResults
from webhook.kubernetes.api_errors import ApiServerError
from webhook.model.image import NOT_LOOKED_UP, ImageConfig, ImageInfo, ImageReference, parse_reference
from webhook.model.shape import FormatError

WORKERS = 4
MOST_WAITING = 1_000
AT_ONCE_OF_ONE = 2
"""Most references of one registry that are looked up at the same time."""

LASTING_SECONDS = 600.0
"""Age at which a lasting failure is tried again: the image is missing, or access is denied."""
TRANSIENT_SECONDS = (30.0, 600.0)
"""Age at which other failures are tried again: the first wait and the longest. The wait doubles with each failure."""
LONGEST_WAIT = 3600.0
"""Seconds after which a look-up that failed is tried again at the latest."""
LONGEST_PAUSE = 600.0
"""Most seconds for which no image of a registry is looked up, because the registry demands a pause."""

_CLOSE_SECONDS = 1.5
_QUIET_SECONDS = 3600.0
_MOST_COMPLAINTS = 1_000
_MOST_PROBLEM = 300
_PENDING = ImageInfo(is_pending=True)

_log = logging.getLogger("gpu_policy.images")


class LookupQueue:
    """Queues of references, one for each registry and asker. The queues take turns, idle registries first."""

    def __init__(self, listed_as: Callable[[ImageReference], str], most: int = MOST_WAITING) -> None:
        """`listed_as` gives a name for the registry of a reference. Registries with equal names count as one."""
        self._most = most
        self._listed_as = listed_as
        self._asked: dict[str, str] = {}
        self._queues: dict[tuple[str, str], deque[ImageReference]] = {}
        """By registry and the namespace or other party that asks."""
        self._begun: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        return len(self._asked)

    def add(self, reference: ImageReference, asker: str = "") -> None:
        """Queue a reference, unless it is queued already or there is no room. Never waits."""
        key, lane = str(reference), (self._listed_as(reference), asker)
        with self._changed:
            if key in self._asked or (len(self._asked) >= self._most and not self._make_room(lane)):
                return
            self._asked[key] = lane[0]
            self._queues.setdefault(lane, deque()).append(reference)
            self._changed.notify_all()

    def take(self) -> ImageReference | None:
        """Wait for the next reference whose registry is not busy. None once the queue is closed."""
        with self._changed:
            while not self._closed:
                lane = min(self._queues, key=lambda lane: self._begun[lane[0]], default=None)
                if lane is not None and self._begun[lane[0]] < AT_ONCE_OF_ONE:
                    queue = self._queues.pop(lane)
                    reference = queue.popleft()
                    if queue:
                        self._queues[lane] = queue  # behind the others
                    self._begun[lane[0]] += 1
                    return reference
                self._changed.wait()
            return None

    def done(self, reference: ImageReference) -> None:
        with self._changed:
            registry = self._asked.pop(str(reference))
            self._begun[registry] -= 1
            if not self._begun[registry]:
                del self._begun[registry]
            self._changed.notify_all()

    def wait_until_empty(self, seconds: float | None) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._asked, seconds)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _make_room(self, lane: tuple[str, str]) -> bool:
        """Drop the last reference of the longest queue if the queue of `lane` stays shorter. Returns whether it did."""
        longest = max(self._queues.values(), key=len, default=deque[ImageReference]())
        if len(longest) <= len(self._queues.get(lane, ())) + 1:
            return False
        del self._asked[str(longest.pop())]
        return True


AskRegistry = Callable[[ImageReference, ImageConfig | None], ImageConfig]
"""Asks a registry about an image. The second argument is what was known before. Raises ImageLookupError."""


class LookupService:
    """The cache of images and the threads that look images up. Make and start a service after the fork."""

    def __init__(
        self,
        ask_registry: AskRegistry,
        allowed: AllowList,
        store: ConfigMapStore | None = None,
        *,
        most_references: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Commands may queue and remember `most_references` at a time. `clock` is in Unix seconds."""
        self._ask_registry = ask_registry
        self._allowed = allowed
        self._clock = clock
        self._cache = ImageCache(most_references or MOST_REFERENCES)
        self._queue = LookupQueue(allowed.listed_as, most_references or MOST_WAITING)
        self._shared = None if store is None else SharedResults(self._cache, store, self._is_wanted, clock)
        self._pauses: dict[str, float] = {}
        self._complaints: dict[tuple[str, str], float] = {}
        self._count: Callable[[str], None] = lambda _result: None
        self._threads = [
            threading.Thread(target=self._work, name=f"images-{number}", daemon=True) for number in range(WORKERS)
        ]

    def info(self, text: str, asker: str = "", *, looks_up: bool = True) -> ImageInfo:
        """What is known about an image now, as far as `asker`, a namespace, may know it. Never waits and never raises.

        Unless `looks_up`, the image is neither looked up nor remembered for longer.
        """
        return self._allowed.withheld(text, asker) or self.unfiltered(text, asker, looks_up=looks_up)

    def unfiltered(self, text: str, asker: str = "", *, looks_up: bool = True) -> ImageInfo:
        """The same as `info`, for somebody who has the credentials."""
        reference = self._reference(text)
        if isinstance(reference, ImageInfo):
            return reference
        result = self._cache.get(str(reference), is_used=looks_up)
        if looks_up and (result is None or result.due <= self._clock()):
            self._queue.add(reference, asker)
        return _PENDING if result is None else result.info

    @property
    def known(self) -> int:
        return len(self._cache.configs())

    @property
    def pending(self) -> int:
        return len(self._queue)

    @property
    def is_shared(self) -> bool | None:
        """Whether the last exchange with the other replicas succeeded; None if results are not shared."""
        return None if self._shared is None else self._shared.is_well

    def start(self, count: Callable[[str], None] = lambda _result: None) -> None:
        """Start the threads. `count` gets the result of each look-up: found, unchanged, refused, failed, bug."""
        self._count = count
        if self._shared is not None:
            self._shared.start()
        for thread in self._threads:
            thread.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until every look-up is settled, at most `seconds` if given. Returns whether that is so."""
        return self._queue.wait_until_empty(seconds)

    def share(self, store: ConfigMapStore) -> None:
        """Write every result into a store, once. Raises ApiServerError."""
        SharedResults(self._cache, store, self._is_wanted, self._clock).exchange()

    def close(self) -> None:
        self._queue.close()
        deadline = time.monotonic() + _CLOSE_SECONDS
        if self._shared is not None:
            self._shared.close(_CLOSE_SECONDS)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        if self._shared is not None:
            self._shared.wait_for_the_first()
        while (reference := self._queue.take()) is not None:
            try:
                self._settle(reference)
            except Exception:  # noqa: BLE001  # logged; a bug met with one image must not end the look-ups of others
                _log.exception("a bug in gpu-policy: the look-up of an image in %s has no result", reference.registry)
            finally:
                self._queue.done(reference)

    def _settle(self, reference: ImageReference) -> None:
        """Look a reference up, unless another replica has done so meanwhile, or the registry has demanded a pause."""
        key, now = str(reference), self._clock()
        known = self._cache.get(key)
        if (known is not None and known.due > now) or self._pauses.get(reference.registry, 0.0) > now:
            return  # where there was no request, the image stays as it was, and the next caller has it queued again
        before = None if known is None else known.info.config
        try:
            config = self._ask_registry(reference, before)
        except ImageLookupError as error:
            self._fail(reference, known, error, "refused" if error.is_lasting else "failed")
        except Exception as error:  # noqa: BLE001  # whatever it is, this image has a problem and others go on
            text = f"{reference.registry}: a bug in gpu-policy ({type(error).__name__})"
            self._fail(reference, known, ImageLookupError(text, is_lasting=False), "bug", error)
        else:
            self._cache.put(key, LookupResult.found(key, int(self._clock()), config))
            if config != before and self._shared is not None:
                self._shared.add()
            self._count("unchanged" if config == before else "found")

    def _fail(
        self,
        reference: ImageReference,
        known: LookupResult | None,
        error: ImageLookupError,
        result: str,
        bug: Exception | None = None,
    ) -> None:
        """Keep an earlier configuration; without one, the problem becomes the result."""
        now = self._clock()
        if error.retry_after > 0:
            pauses = {registry: until for registry, until in self._pauses.items() if until > now}
            self._pauses = {**pauses, reference.registry: now + min(error.retry_after, LONGEST_PAUSE)}
        info = None if known is None or known.info.config is None else known.info
        if info is None:
            problem = "".join(filter(str.isprintable, str(error)))[:_MOST_PROBLEM] or "no reason was given"
            info = ImageInfo(problem=problem)
        failures = 1 + (known.failures if known is not None else 0)
        at = int(now) if known is None else known.at
        self._cache.put(str(reference), LookupResult(info, at, now + _retry_delay(failures, error), failures))
        self._count(result)
        self._complain(reference.registry, str(error).replace(str(reference), "an image"), bug)

    def _complain(self, registry: str, text: str, bug: Exception | None) -> None:
        """Log why a look-up failed; equal texts about one registry once an hour at most."""
        now = self._clock()
        self._complaints = {said: until for said, until in self._complaints.items() if until > now}
        if (registry, text) not in self._complaints and len(self._complaints) < _MOST_COMPLAINTS:
            self._complaints[registry, text] = now + _QUIET_SECONDS
            _log.warning("looking up an image in %s failed: %s", registry, text, exc_info=bug)

    def _reference(self, text: str) -> ImageReference | ImageInfo:
        """The reference to look up; an ImageInfo if it may not be looked up."""
        try:
            reference = parse_reference(text)
        except FormatError as error:
            return ImageInfo(problem=str(error))
        if not self._allowed.allows(reference):
            return NOT_LOOKED_UP
        # A tag beside a digest has no meaning, and tenants could make up any number of tags.
        return replace(reference, tag="") if reference.digest else reference

    def _is_wanted(self, key: str) -> bool:
        return isinstance(self._reference(key), ImageReference)


def _retry_delay(failures: int, error: ImageLookupError) -> float:
    """Seconds until a reference with this many failures is tried again."""
    first, most = TRANSIENT_SECONDS
    wait = LASTING_SECONDS if error.is_lasting else min(most, first * 2.0 ** min(failures - 1, 10))
    jittered = wait * random.uniform(0.9, 1.1)  # noqa: S311  # no secret
    return min(LONGEST_WAIT, max(jittered, error.retry_after))


def look_up_all(
    references: Iterable[str], ask_registry: AskRegistry, allowed: AllowList, store: ConfigMapStore | None = None
) -> dict[str, ImageInfo]:
    """Look up every reference and wait. The keys of the result are the references as given; none is pending.

    With a store, the results are shared with the replicas. If that fails, the log says why.
    """
    texts = list(dict.fromkeys(references))
    service = LookupService(ask_registry, allowed, most_references=len(texts))
    for text in texts:
        service.unfiltered(text)
    service.start()
    service.wait()
    service.close()
    infos = {text: service.unfiltered(text) for text in texts}
    if store is not None:
        try:
            service.share(store)
        except ApiServerError as error:
            _log.warning("the results are not shared with the replicas: %s", error)
    return infos
