"""The queue of image references to look up, and the times after which references and registries are queried again.

Every reference is queued once. The queue is bounded, and no namespace or registry delays the others.
"""

import random
from collections import Counter, deque
from collections.abc import Callable
from threading import Condition

from webhook.images.cache import NEVER
from webhook.images.lookup_limits import ImageLookupError
from webhook.images.packing import LONGEST_WAIT
from webhook.model.image import ImageReference

MOST_WAITING = 1_000
AT_ONCE_OF_ONE = 2
"""Most references of one registry that are looked up at the same time."""

_Lane = tuple[str, str]
"""A registry, and the namespace or other party that asks."""


class LookupQueue:
    """Queues of references, one for each registry and asker. The queues take turns, idle registries first."""

    def __init__(
        self,
        most: int = MOST_WAITING,
        listed_as: Callable[[ImageReference], str] = lambda reference: reference.registry,
    ) -> None:
        """`listed_as` gives a name for the registry of a reference. Registries with equal names count as one."""
        self._most = most
        self._listed_as = listed_as
        self._asked: dict[str, str] = {}
        self._queues: dict[_Lane, deque[ImageReference]] = {}
        self._begun: Counter[str] = Counter()
        self._changed = Condition()
        self._closed = False

    def __len__(self) -> int:
        """References that wait or are being looked up."""
        return len(self._asked)

    def add(self, reference: ImageReference, asker: str = "") -> None:
        """Queue a reference, unless it is queued already or there is no room. Never waits."""
        key = str(reference)
        if key in self._asked:
            return
        lane = self._listed_as(reference), asker
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
                    return self._begin(lane)
                self._changed.wait()
            return None

    def done(self, reference: ImageReference) -> None:
        """Record that a reference from `take` is settled."""
        with self._changed:
            registry = self._asked.pop(str(reference))
            self._begun[registry] -= 1
            if not self._begun[registry]:
                del self._begun[registry]
            self._changed.notify_all()

    def wait_until_empty(self, seconds: float | None) -> bool:
        """Wait until every reference is settled, at most `seconds`. Returns whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._asked, seconds)

    def close(self) -> None:
        """Make every waiting and future call of `take` return None."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _make_room(self, lane: _Lane) -> bool:
        """Drop the last reference of the longest queue if the queue of `lane` stays shorter. Returns whether it did."""
        longest = max(self._queues.values(), key=len, default=deque[ImageReference]())
        if len(longest) <= len(self._queues.get(lane, ())) + 1:
            return False
        del self._asked[str(longest.pop())]
        return True

    def _begin(self, lane: _Lane) -> ImageReference:
        queue = self._queues.pop(lane)
        reference = queue.popleft()
        if queue:
            self._queues[lane] = queue  # behind the others
        self._begun[lane[0]] += 1
        return reference


EXPIRY_SECONDS = 3600.0
"""Age at which a tag is looked up again. A random part of up to a fifth is subtracted, to spread the requests."""
LASTING_SECONDS = 600.0
"""Age at which a lasting failure is tried again: the image is missing, or access is denied."""
TRANSIENT_SECONDS = (30.0, 600.0)
"""Age at which other failures are tried again: the first wait and the longest. The wait doubles with each failure."""
LONGEST_HOLD = 600.0
"""Most seconds for which no image of a registry is looked up, because the registry demands a pause."""


def expiry(key: str) -> float:
    """Seconds until a reference is looked up again. The image of a digest never changes."""
    return NEVER if "@" in key else EXPIRY_SECONDS * random.uniform(0.8, 1.0)  # noqa: S311  # no secret


def retry_delay(failures: int, error: ImageLookupError) -> float:
    """Seconds until a reference with this many failures is tried again."""
    first, most = TRANSIENT_SECONDS
    wait = LASTING_SECONDS if error.is_lasting else min(most, first * 2.0 ** min(failures - 1, 10))
    jittered = wait * random.uniform(0.9, 1.1)  # noqa: S311  # no secret
    return min(LONGEST_WAIT, max(jittered, error.retry_after))


class Backoff:
    """The registries that have demanded a pause."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[str, tuple[float, str]] = {}

    def is_paused(self, registry: str) -> bool:
        """Whether the pause of the registry has not ended."""
        return self._until.get(registry, (0.0, ""))[0] > self._clock()

    def check(self, registry: str) -> None:
        """Raise the ImageLookupError that began the pause, if the pause has not ended."""
        until, text = self._until.get(registry, (0.0, ""))
        if (left := until - self._clock()) > 0:
            raise ImageLookupError(text, is_lasting=False, retry_after=left)

    def note(self, registry: str, error: ImageLookupError) -> None:
        """Begin a pause if the error says that the registry demands one."""
        if error.retry_after > 0:
            now = self._clock()
            others = {name: held for name, held in self._until.items() if held[0] > now}
            self._until = {**others, registry: (now + min(error.retry_after, LONGEST_HOLD), str(error))}
