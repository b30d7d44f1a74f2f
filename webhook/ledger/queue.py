"""Many threads, one writer: who comes while something is being written waits, and goes with the next write."""

import time
from collections.abc import Callable, Sequence
from threading import Event, Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class _Place(Generic[T]):
    __slots__ = ("is_leading", "item", "signal")

    def __init__(self, item: T) -> None:
        self.item = item
        self.signal = Event()
        self.is_leading = False


class SharedWrites(Generic[T]):
    """Settles items in batches, one batch at a time, in the thread of one of those that wait for it.

    `gathering` says for how many seconds a batch waits for more items; it is asked where the last batch was not of one
    item alone, since whoever comes one after the other would only wait.
    """

    def __init__(self, settle: Callable[[Sequence[T]], None], gathering: Callable[[], float] = lambda: 0.0) -> None:
        self._settle = settle
        self._gathering = gathering
        self._is_busy = False
        self._lock = Lock()
        self._waiting: list[_Place[T]] = []
        self._is_led = False

    def pass_through(self, item: T, seconds: float) -> None:
        """Return when the item's batch is settled, or after `seconds` if that has not happened by then.

        Whoever is made to settle a batch stays until that is done; `settle` itself has to mind the time.
        """
        place = _Place(item)
        with self._lock:
            self._waiting.append(place)
            place.is_leading = not self._is_led
            self._is_led = True
        if not place.is_leading:
            place.signal.wait(seconds)
        if place.is_leading and self._is_busy:
            time.sleep(min(seconds, self._gathering()))
        with self._lock:
            if not place.is_leading:
                if place in self._waiting:
                    self._waiting.remove(place)
                return
            batch, self._waiting = self._waiting, []
        try:
            self._settle([each.item for each in batch])
        finally:
            self._hand_over(batch)

    def _hand_over(self, batch: Sequence[_Place[T]]) -> None:
        for place in batch:
            place.signal.set()
        with self._lock:
            self._is_led = bool(self._waiting)
            self._is_busy = len(batch) > 1 or self._is_led
            if self._waiting:
                self._waiting[0].is_leading = True
                self._waiting[0].signal.set()
