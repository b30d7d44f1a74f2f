"""How much memory a review may take, and all of them together: JSON grows up to forty times when it is parsed.

Bodies say beforehand how many maps, lists and texts they hold, to whoever counts their signs. What is counted is never
less than what is there, since the same signs in texts only add to it.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

SMALL = 65_536
"""Bytes of a body that is never weighed, so that ordinary reviews wait for nobody."""

MOST_OF_A_REVIEW = 80 * 2**20
"""Bytes of memory that the parts of one review may take, several times those of the largest manifests of people."""

MOST_AT_ONCE = MOST_OF_A_REVIEW
"""Bytes of memory that the parts of all reviews may take that are at work, small ones aside."""

_MOST_WAITING = 4
"""Reviews that wait for memory; each of them holds a thread."""

_PARSED = 16
"""Bytes of any value while it is parsed (`yyjson_val`)."""
_EMPTY_MAP = 64 + 8 + _PARSED
_MAP = 184 + 8 + _PARSED
"""A dict with room for five entries, and a reference to it."""
_LIST = 64 + 8 + _PARSED
_TEXT = 56 + 8 + _PARSED
_ENTRY = 58
"""What a larger dict adds for each entry, on average just after it has grown."""
_NUMBER = 32 + _PARSED
_WIDEST = 4
"""Bytes of a character in a text that has characters outside of Latin-1."""


def memory_of(body: bytes) -> int:
    """Bytes of memory that the values of a JSON text take at most, with what parsing them takes; 0 for a small one.

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


_NONE = nullcontext()


class TooLittleMemoryError(Exception):
    """There is no memory for a review at the moment."""


class Room:
    """What reviews share, memory for example; those wait for each other that do not fit in together."""

    def __init__(self, size: int = MOST_AT_ONCE, most_waiting: int = _MOST_WAITING) -> None:
        self._left = size
        self._most_waiting = most_waiting
        self._waiting = 0
        self._changed = threading.Condition()

    def taken(self, amount: int, seconds: float, may_block: Callable[[], None]) -> AbstractContextManager[None]:
        """Have so much of it, waiting for it as long as that; `may_block` is called before.

        Raises TooLittleMemoryError. Whoever needs none of it, as most do, waits for nobody.
        """
        return self._taken(amount, seconds, may_block) if amount else _NONE

    @contextmanager
    def _taken(self, amount: int, seconds: float, may_block: Callable[[], None]) -> Iterator[None]:
        self._take(amount, seconds, may_block)
        try:
            yield
        finally:
            with self._changed:
                self._left += amount
                self._changed.notify_all()

    def _take(self, amount: int, seconds: float, may_block: Callable[[], None]) -> None:
        with self._changed:
            if amount > self._left:
                if self._waiting >= self._most_waiting:
                    raise TooLittleMemoryError
                self._waiting += 1
                try:
                    may_block()
                    if not self._changed.wait_for(lambda: amount <= self._left, seconds):
                        raise TooLittleMemoryError
                finally:
                    self._waiting -= 1
            self._left -= amount
