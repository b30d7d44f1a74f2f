"""The queue of image references to look up: bounded, each once, and no namespace or registry delays the others."""

from collections import Counter, deque
from collections.abc import Callable
from threading import Condition

from webhook.model.image import ImageReference

MOST_WAITING = 1_000
AT_ONCE_OF_ONE = 2
"""Most references of one registry that are looked up at the same time."""

_Lane = tuple[str, str]
"""A registry, and the namespace or other party that asks."""


class LookupQueue:
    """Queues of references, one for each registry and asker. The queues take turns, idle registries first."""

    def __init__(self, listed_as: Callable[[ImageReference], str], most: int = MOST_WAITING) -> None:
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
