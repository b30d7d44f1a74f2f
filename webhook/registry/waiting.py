"""References that wait for their registry: each once, bounded in number, and no registry at the expense of others."""

from collections import Counter, deque
from threading import Condition

from webhook.model.image import Reference

MOST_WAITING = 1_000
MOST_OF_ONE = 500
"""Of one registry, so that there is always room for the others."""
AT_ONCE_OF_ONE = 2
"""References of one registry that are looked up at the same time."""


class Waiting:
    """A queue of references. Registries take turns."""

    def __init__(self, most: int = MOST_WAITING, most_of_one: int = MOST_OF_ONE) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._asked: set[str] = set()
        self._queues: dict[str, deque[Reference]] = {}
        self._begun: Counter[str] = Counter()
        self._changed = Condition()
        self._closed = False

    def __len__(self) -> int:
        """References that wait or are being looked up."""
        return len(self._asked)

    def add(self, reference: Reference) -> None:
        """Have a reference looked up, unless it waits already or there is no room. Never waits itself."""
        key = str(reference)
        if key in self._asked or len(self._asked) >= self._most:
            return
        with self._changed:
            queue = self._queues.setdefault(reference.registry, deque())
            if key not in self._asked and len(queue) < self._most_of_one and len(self._asked) < self._most:
                self._asked.add(key)
                queue.append(reference)
                self._changed.notify_all()
            elif not queue:
                del self._queues[reference.registry]

    def take(self) -> Reference | None:
        """The next reference whose registry has time; waits for one. None once this is closed."""
        with self._changed:
            while not self._closed:
                for registry in self._queues:
                    if self._begun[registry] < AT_ONCE_OF_ONE:
                        return self._begin(registry)
                self._changed.wait()
            return None

    def done(self, reference: Reference) -> None:
        """A reference that was taken is settled."""
        with self._changed:
            self._asked.discard(str(reference))
            self._begun[reference.registry] -= 1
            if not self._begun[reference.registry]:
                del self._begun[reference.registry]
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

    def _begin(self, registry: str) -> Reference:
        queue = self._queues.pop(registry)
        reference = queue.popleft()
        if queue:
            self._queues[registry] = queue  # behind the others
        self._begun[registry] += 1
        return reference
