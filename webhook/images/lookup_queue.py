"""References that wait for their registry: each once, bounded in number, and nobody at the expense of others."""

from collections import Counter, deque
from collections.abc import Callable
from threading import Condition

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
