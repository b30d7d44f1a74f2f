"""Bytes of a connection become whole requests before anyone spends time on them.

The head is parsed once (`webhook.server.head`); the Content-Length in it decides how many bytes still belong to the
request. A body of any other length is refused at its head, and so is every body of a client that gets no review
answered. The application is given only complete bodies, so reading one never blocks.
"""

import io
from dataclasses import dataclass
from typing import Any, NamedTuple

from webhook.server.head import Head, Heads
from webhook.server.refusal import forbidden, head_too_large, length_required, unavailable

_MAX_HEAD = 16_384
"""Bytes of request line and headers; gunicorn's own limits per line and per field are stricter."""

_SMALL_BODY = 65_536
"""Bytes of a body that is never counted against the budget, so that reviews get in beside a flood of large bodies."""

_PARSED = 3
"""How much more memory a head takes once it is parsed, about."""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class _NotReceived(io.RawIOBase):
    """The body that is too large; an application that reads it instead of saying no fails."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def readable(self) -> bool:
        return True

    def readinto(self, _buffer: Any) -> int:
        raise OSError(f"the body is over the limit of {self._limit} bytes and was not received")


class ReceivedRequest(NamedTuple):
    """A request that has arrived, its body in memory. `is_last` says whether its connection ends with the answer."""

    head: Head
    body: io.IOBase
    length: int
    is_last: bool


@dataclass(slots=True)
class Budget:
    """Bytes that large bodies may occupy together, from their heads until they are answered."""

    left: int


class RequestReader:
    """Collects the bytes of one connection into requests, one after another.

    A `Content-Length` above `max_body` is not waited for: the application gets the request with an empty body and
    says no by that header, and the connection ends after its answer. Raises `Refusal`, or one of gunicorn's
    `ParseException`s, when the bytes cannot become a request. What a byte costs does not depend on how many came
    before it, nor on the pieces in which they come.
    """

    __slots__ = (
        "_body_end",
        "_budget",
        "_buffer",
        "_head",
        "_head_bytes",
        "_heads",
        "_length",
        "_max_body",
        "_peer",
        "_reserved",
        "_scanned",
        "interim",
        "objection",
        "unread",
    )

    def __init__(self, heads: Heads, peer: Any, max_body: int, budget: Budget) -> None:
        self._heads = heads
        self._peer = peer
        self._max_body = max_body
        self._budget = budget
        self._reserved = 0
        self._buffer = bytearray()
        self._scanned = 0  # bytes of the buffer that need no second look
        self._head: Head | None = None
        self._head_bytes = 0
        self._length = 0  # of the body, as the head says
        self._body_end = 0
        self.objection = ""
        """Why nothing that this client sends is read beyond its heads; empty where it is."""
        self.unread = False
        """The client is sending more than will ever be read."""
        self.interim = b""
        """An interim answer that the client waits for before it sends the body."""

    @property
    def pending(self) -> bool:
        """Whether the client has begun a request, or sent more than was read."""
        return bool(self._buffer) or self._head is not None or self.unread

    @property
    def held(self) -> int:
        """Bytes of memory that what has arrived takes, beside what is reserved of the budget."""
        return max(0, len(self._buffer) - self._reserved) + self._head_bytes * _PARSED

    def feed(self, data: bytes) -> bool:
        """Add what has arrived; return whether a request is complete."""
        self._buffer += data
        if self._head is None and not self._read_head():
            return False
        return len(self._buffer) >= self._body_end

    def take(self) -> ReceivedRequest:
        """Return the complete request, its body in memory, and begin with the next one.

        What was reserved for the body stays so until `release`.
        """
        head: Any = self._head
        end = self._body_end
        raw = bytes(memoryview(self._buffer)[:end])
        del self._buffer[:end]
        self._head = None
        self._head_bytes = 0
        self._scanned = 0
        body = _NotReceived(self._max_body) if self.unread else io.BytesIO(raw)
        return ReceivedRequest(head, body, self._length, is_last=head.is_last or self.unread)

    def take_interim(self) -> bytes:
        """Return the interim answer, once."""
        interim, self.interim = self.interim, b""
        return interim

    def give_up(self) -> None:
        """Forget what has arrived: nothing of it, nor of what follows, will be read."""
        self.unread = True
        self._head = None
        self._head_bytes = 0
        self._buffer = bytearray()
        self.release()

    def release(self) -> None:
        """Give back what was reserved of the budget."""
        self._budget.left += self._reserved
        self._reserved = 0

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n", max(0, self._scanned - 3)) + 4
        if end < 4:
            self._scanned = len(self._buffer)
            if self._scanned > _MAX_HEAD:
                raise head_too_large(_MAX_HEAD)
            return False
        raw = bytes(memoryview(self._buffer)[:end])
        del self._buffer[:end]
        self._scanned = 0
        head, length = self._heads.read(raw, self._peer)
        self._expect_body(head, length)
        self._head, self._length = head, length
        self._head_bytes = len(raw)
        return True

    def _expect_body(self, head: Head, length: int) -> None:
        if head.is_chunked:
            raise length_required()
        if length and self.objection:
            raise forbidden(self.objection)
        if length > self._max_body:
            self._body_end = 0
            self.unread = True
            return
        self._body_end = length
        if length > _SMALL_BODY:
            self._reserve(length)
        if head.expects_continue and length > len(self._buffer):
            self.interim = _CONTINUE

    def _reserve(self, length: int) -> None:
        if length > self._budget.left:
            raise unavailable("too many large requests are being received, try again")
        self._budget.left -= length
        self._reserved = length
