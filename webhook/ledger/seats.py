"""Who may wait at a time until pods are stored: some threads of a replica have to be left, to answer the rest."""

from threading import Lock

_MOST = 10


class Seats:
    """Seats of one replica. A namespace takes one only while more are free than it has: half of them alone, so that
    some are left for whoever has none. Threads may share it.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._free = most
        self._lock = Lock()
        self._taken: dict[str, int] = {}

    def take(self, namespace: str) -> bool:
        """Take a seat for a pod of a namespace; False where it gets none."""
        with self._lock:
            taken = self._taken.get(namespace, 0)
            if taken >= self._free:
                return False
            self._taken[namespace] = taken + 1
            self._free -= 1
            return True

    def leave(self, namespace: str) -> None:
        """Give one back."""
        with self._lock:
            self._free += 1
            left = self._taken.pop(namespace) - 1
            if left:
                self._taken[namespace] = left
