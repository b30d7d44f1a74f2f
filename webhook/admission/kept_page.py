"""A page that costs much and changes slowly, such as that of the metrics."""

import threading
import time
from collections.abc import Callable

SECONDS = 1.0
"""From the end of one making to the beginning of the next, at least; nobody scrapes more often than that."""


class KeptPage:
    """A page that is made at most once a second, and by one thread at a time; meanwhile everybody gets the last one.

    Only while there is none yet does anybody wait for another thread. What `make` raises, whoever made it gets.
    """

    def __init__(self, make: Callable[[], bytes], clock: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._clock = clock
        self._making = threading.Lock()
        self._page: bytes | None = None
        self._made = 0.0

    def get(self) -> bytes:
        """The page, at most a second and the time of its making old."""
        page = self._fresh()
        if page is not None:
            return page
        last = self._page
        if not self._making.acquire(blocking=last is None) and last is not None:
            return last
        try:
            page = self._fresh()  # somebody else may have made it just now
            if page is None:
                page = self._page = self._make()
                self._made = self._clock()
            return page
        finally:
            self._making.release()

    def _fresh(self) -> bytes | None:
        return self._page if self._clock() - self._made < SECONDS else None
