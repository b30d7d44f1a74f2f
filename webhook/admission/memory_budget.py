"""Bounds the memory of one review, and of all reviews together: JSON grows up to forty times when it is parsed.

The number of maps, lists and texts in a body is estimated by counting brackets, quotes and commas. The estimate is
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
_EMPTY_MAP = 64 + 8 + _PARSED
_MAP = 184 + 8 + _PARSED
"""A dict with room for five entries, and a reference to it."""
_LIST = 64 + 8 + _PARSED
_TEXT = 56 + 8 + _PARSED
_ENTRY = 58
"""Bytes that a larger dict adds for each entry, on average just after it has grown."""
_NUMBER = 32 + _PARSED
_WIDEST = 4
"""Bytes of a character in a text that has characters outside of Latin-1."""


def memory_of(body: bytes) -> int:
    """Most bytes of memory that a JSON text takes while and after it is parsed; 0 for a small text.

    Sizes are those of CPython 3.11 on 64 bits and of orjson. Takes a fraction of the time of parsing.
    """
    if len(body) <= SMALL:
        return 0
    count = body.count
    empty_maps, empty_lists, colons = count(b"{}"), count(b"[]"), count(b":")
    open_maps, open_lists = count(b"{"), count(b"[")
    maps = min(open_maps, count(b"}")) - empty_maps  # what is never closed is parsed, and nothing is made of it
    lists = min(open_lists, count(b"]")) - empty_lists
    texts = (count(b'"') - count(b'\\"') + count(b'\\\\"')) // 2 + 1
    values = count(b",") + maps + lists + 1
    numbers = max(0, values - maps - lists - empty_maps - empty_lists - (texts - colons))
    letters = len(body) if body.isascii() and b"\\u" not in body else len(body) * _WIDEST
    return (
        _EMPTY_MAP * empty_maps
        + _LIST * (lists + empty_lists)
        + _MAP * maps
        + _ENTRY * colons
        + _TEXT * texts
        + _NUMBER * numbers
        + _PARSED * (open_maps + open_lists - maps - lists - empty_maps - empty_lists)
        + letters
    )


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
    return unavailable("overloaded: other large reviews take up the memory, try again", "overloaded")
