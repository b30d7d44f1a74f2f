"""Bytes of a connection become whole requests before anyone spends time on them.

The head is parsed once, by gunicorn's parser; the Content-Length in it decides how many bytes still belong to the
request. A body of any other length is refused at its head, and so is every body of a client that gets no review
answered. The application is given only complete bodies, so reading one never blocks.
"""

import io
from dataclasses import dataclass
from typing import Any

from gunicorn.http.body import ChunkedReader
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader

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
        "_cfg",
        "_head",
        "_max_body",
        "_peer",
        "_request",
        "_reserved",
        "_scanned",
        "interim",
        "objection",
        "unread",
    )

    def __init__(self, cfg: Any, peer: Any, max_body: int, budget: Budget) -> None:
        self._cfg = cfg
        self._peer = peer
        self._max_body = max_body
        self._budget = budget
        self._reserved = 0
        self._buffer = bytearray()
        self._scanned = 0  # bytes of the buffer that need no second look
        self._request: Request | None = None
        self._body_end = 0
        self._head = 0  # bytes of the head that was parsed
        self.objection = ""
        """Why nothing that this client sends is read beyond its heads; empty where it is."""
        self.unread = False
        """The client is sending more than will ever be read."""
        self.interim = b""
        """An interim answer that the client waits for before it sends the body."""

    @property
    def pending(self) -> bool:
        """Whether the client has begun a request, or sent more than was read."""
        return bool(self._buffer) or self._request is not None or self.unread

    @property
    def held(self) -> int:
        """Bytes of memory that what has arrived takes, beside what is reserved of the budget."""
        return max(0, len(self._buffer) - self._reserved) + self._head * _PARSED

    def feed(self, data: bytes) -> bool:
        """Add what has arrived; return whether a request is complete."""
        self._buffer += data
        if self._request is None and not self._parse_head():
            return False
        return len(self._buffer) >= self._body_end

    def take(self) -> Request:
        """Return the complete request, its body in memory, and begin with the next one.

        What was reserved for the body stays so until `release`.
        """
        request: Any = self._request
        end = self._body_end
        raw = bytes(memoryview(self._buffer)[:end])
        del self._buffer[:end]
        self._request = None
        self._head = 0
        self._scanned = 0
        request.body = _NotReceived(self._max_body) if self.unread else io.BytesIO(raw)
        return request

    def take_interim(self) -> bytes:
        """Return the interim answer, once."""
        interim, self.interim = self.interim, b""
        return interim

    def give_up(self) -> None:
        """Forget what has arrived: nothing of it, nor of what follows, will be read."""
        self.unread = True
        self._request = None
        self._head = 0
        self._buffer = bytearray()
        self.release()

    def release(self) -> None:
        """Give back what was reserved of the budget."""
        self._budget.left += self._reserved
        self._reserved = 0

    def _parse_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n", max(0, self._scanned - 3)) + 4
        if end < 4:
            self._scanned = len(self._buffer)
            if self._scanned > _MAX_HEAD:
                raise head_too_large(_MAX_HEAD)
            return False
        head = bytes(memoryview(self._buffer)[:end])
        del self._buffer[:end]
        self._scanned = 0
        request = Request(self._cfg, IterUnreader([head]), self._peer)
        self._expect_body(request)
        self._request = request
        self._head = len(head)
        return True

    def _expect_body(self, request: Request) -> None:
        if isinstance(request.body.reader, ChunkedReader):
            raise length_required()
        length = request.body.reader.length
        if length and self.objection:
            raise forbidden(self.objection)
        # gunicorn would say 100 Continue itself when it calls the application: too late for a body that is awaited.
        expects, request._expected_100_continue = request._expected_100_continue, False
        if length > self._max_body:
            self._body_end = 0
            self.unread = True
            request.force_close()
            return
        self._body_end = length
        if length > _SMALL_BODY:
            self._reserve(length)
        if expects and length > len(self._buffer):
            self.interim = _CONTINUE

    def _reserve(self, length: int) -> None:
        if length > self._budget.left:
            raise unavailable("too many large requests are being received, try again")
        self._budget.left -= length
        self._reserved = length
