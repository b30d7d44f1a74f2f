"""Bounds the memory of one review, and of all reviews together: JSON grows up to forty times when it is parsed.

The number of maps, lists and values in a body is estimated by counting brackets, commas and colons. The estimate is
never too low, because such characters inside of texts only add to it.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from webhook.admission.admission_review import UnansweredError, unavailable

SMALL = 65_536
"""Most bytes of a body that is not estimated. Usual reviews are smaller, so they never wait."""

MOST_OF_A_REVIEW = 80 * 2**20
"""Most bytes of memory of one parsed review; the largest manifests that people write take a fraction of it."""

MOST_AT_ONCE = MOST_OF_A_REVIEW
"""Most bytes of memory of all parsed reviews at a time; small ones do not count."""

_MOST_WAITING = 4
"""Most reviews that wait for memory; each one holds a thread."""

_PARSED = 16
"""Bytes of any value while it is parsed (`yyjson_val`)."""
_MAP, _LIST, _VALUE = 184 + 8, 56 + 8, 56 + 8 + _PARSED
"""A dict with room for five entries, an empty list, a text or anything smaller; each with a reference to it."""
_ENTRY = 58 + _VALUE
"""What a larger dict adds for each entry, on average just after it has grown, and its key."""
_WIDEST = 4
"""Bytes of a character in a text that has characters outside of Latin-1."""


def memory_of(body: bytes) -> int:
    """Most bytes of memory that a JSON text takes while and after it is parsed; 0 for a small text.

    Every comma, brace and bracket counts as a value, every colon as an entry. Sizes are those of CPython 3.11 on 64
    bits and of orjson.
    """
    if len(body) <= SMALL:
        return 0
    maps, lists = body.count(b"{"), body.count(b"[")
    values, entries = body.count(b",") + maps + lists + 1, body.count(b":")
    letters = len(body) if body.isascii() and b"\\u" not in body else len(body) * _WIDEST
    return _MAP * maps + _LIST * lists + _VALUE * values + _ENTRY * entries + letters


class Room:
    """Room that reviews share, such as memory. A review that does not fit waits until others end."""

    def __init__(self, size: int = MOST_AT_ONCE, most_waiting: int = _MOST_WAITING) -> None:
        self._left = size
        self._most_waiting = most_waiting
        self._waiting = 0
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, amount: int, seconds: float, may_block: Callable[[], None]) -> Iterator[None]:
        """Take `amount` of the room while the context lasts, after waiting for up to `seconds`.

        `may_block` is called before waiting. Raises UnansweredError where there is no room in time. An amount of 0,
        which most reviews have, never waits.
        """
        if not amount:
            yield
            return
        with self._changed:
            if amount > self._left:
                self._wait_for(amount, seconds, may_block)
            self._left -= amount
        try:
            yield
        finally:
            with self._changed:
                self._left += amount
                self._changed.notify_all()

    def _wait_for(self, amount: int, seconds: float, may_block: Callable[[], None]) -> None:
        if self._waiting >= self._most_waiting:
            raise _overloaded()
        self._waiting += 1
        try:
            may_block()
            if not self._changed.wait_for(lambda: amount <= self._left, seconds):
                raise _overloaded()
        finally:
            self._waiting -= 1


def _overloaded() -> UnansweredError:
    return unavailable("overloaded: other large reviews or policies are being checked; try again", "overloaded")
