"""The API server's clock, by the Date of its answers and this machine's monotonic clock, which nobody sets.

An installation may have several API servers. One whose clock is wrong, or a single answer that came late, must not move
the time: it is the median of the last answers.
"""

import time
from collections import deque
from collections.abc import Callable
from statistics import median_low
from threading import Lock

ANSWERS = 9
"""Answers of which the median counts, so that it follows a clock that was set after five of them."""
_HALF_A_SECOND = 0.5
"""A Date has whole seconds, and is half a second behind on average."""


class ServerClock:
    """Seconds since 1970 by the API server's clock, to about a second. Threads may share it.

    Before the first answer it goes by this machine's clock as it was at the start.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        self._monotonic = monotonic
        self._epoch = wall() - monotonic()
        self._lock = Lock()
        self._seen: deque[float] = deque(maxlen=ANSWERS)

    def observe(self, date: float) -> None:
        """Take note of the Date of an answer that has just come, in seconds since 1970."""
        epoch = date + _HALF_A_SECOND - self._monotonic()
        with self._lock:
            self._seen.append(epoch)
            self._epoch = median_low(self._seen)

    def now(self) -> float:
        """The time."""
        return self._epoch + self._monotonic()
