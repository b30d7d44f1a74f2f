"""References that wait for their registry: each once, bounded in number, and nobody at the expense of others.

`Backoff` says when a registry is asked again: seldom, and not at all while it wants to be left alone.
"""

import random
from collections import Counter, deque
from collections.abc import Callable
from threading import Condition

from webhook.images.cache import NEVER
from webhook.images.lookup_limits import LookUpError
from webhook.images.packing import LONGEST_WAIT
from webhook.model.image import ImageReference

MOST_WAITING = 1_000
AT_ONCE_OF_ONE = 2
"""References of one registry that are looked up at the same time."""

_Lane = tuple[str, str]
"""A registry, and who asks."""


class LookupQueue:
    """Queues of references, one for each registry and each who asks. They take turns, idle registries first."""

    def __init__(
        self,
        most: int = MOST_WAITING,
        listed_as: Callable[[ImageReference], str] = lambda reference: reference.registry,
    ) -> None:
        """Registries of one name in `listed_as` count as one."""
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
        """Have a reference looked up for somebody, unless it waits already or there is no room. Never waits itself."""
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
        """The next reference whose registry has time; waits for one. None once this is closed."""
        with self._changed:
            while not self._closed:
                lane = min(self._queues, key=lambda lane: self._begun[lane[0]], default=None)
                if lane is not None and self._begun[lane[0]] < AT_ONCE_OF_ONE:
                    return self._begin(lane)
                self._changed.wait()
            return None

    def done(self, reference: ImageReference) -> None:
        """A reference that was taken is settled."""
        with self._changed:
            registry = self._asked.pop(str(reference))
            self._begun[registry] -= 1
            if not self._begun[registry]:
                del self._begun[registry]
            self._changed.notify_all()

    def wait_until_empty(self, seconds: float | None) -> bool:
        """Whether everything is settled within that time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._asked, seconds)

    def close(self) -> None:
        """Let those who wait in `take` go, and everybody who comes later."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _make_room(self, lane: _Lane) -> bool:
        """Whether the longest queue could give up its last reference for a queue that stays shorter."""
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
"""After which a tag may lead elsewhere; up to a fifth less, so that not all are asked about at the same moment."""
LASTING_SECONDS = 600.0
"""After which what cannot be found, or must not be seen, is asked for again."""
TRANSIENT_SECONDS = (30.0, 600.0)
"""The same for other failures: at first, and at most; it doubles with each."""
LONGEST_HOLD = 600.0
"""For which a registry is left alone as a whole."""


def expiry(key: str) -> float:
    """After how many seconds a reference is looked up again; what a digest stands for never changes."""
    return NEVER if "@" in key else EXPIRY_SECONDS * random.uniform(0.8, 1.0)  # noqa: S311  # no secret


def patience(failures: int, error: LookUpError) -> float:
    """Seconds until a reference is tried again that has failed so many times."""
    first, most = TRANSIENT_SECONDS
    wait = LASTING_SECONDS if error.is_lasting else min(most, first * 2.0 ** min(failures - 1, 10))
    jittered = wait * random.uniform(0.9, 1.1)  # noqa: S311  # no secret
    return min(LONGEST_WAIT, max(jittered, error.retry_after))


class Backoff:
    """The registries that have asked to be left alone for a while."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[str, tuple[float, str]] = {}

    def is_held(self, registry: str) -> bool:
        """Whether one still wants it."""
        return self._until.get(registry, (0.0, ""))[0] > self._clock()

    def check(self, registry: str) -> None:
        """Raise LookUpError, with what it said, for one that still wants it."""
        until, text = self._until.get(registry, (0.0, ""))
        if (left := until - self._clock()) > 0:
            raise LookUpError(text, is_lasting=False, retry_after=left)

    def heed(self, registry: str, error: LookUpError) -> None:
        """Leave it alone if that is what it asks for."""
        if error.retry_after > 0:
            now = self._clock()
            others = {name: held for name, held in self._until.items() if held[0] > now}
            self._until = {**others, registry: (now + min(error.retry_after, LONGEST_HOLD), str(error))}
