"""Bytes of a connection become whole requests before anyone spends time on them.

The head is parsed once, by gunicorn's parser; what it says about the body decides how many bytes still belong to the
request. The application is given only complete bodies, so reading one never blocks.
"""

import io
import re
from dataclasses import dataclass
from typing import Any

from gunicorn.http.body import ChunkedReader
from gunicorn.http.errors import NoMoreData
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader

from webhook.admission.refusal import bad_request, head_too_large, too_large, unavailable

_MAX_HEAD = 65_536
"""Bytes of request line and headers; gunicorn's own limits per line and per field are stricter."""

_MAX_CHUNK_LINE = 8_190
"""Bytes of a chunk's size line; longer is nonsense."""

_SMALL_BODY = 65_536
"""Bytes of a body that is never counted against the budget, so that reviews get in beside a flood of large bodies."""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_CHUNK_SIZE = re.compile(rb"[0-9a-fA-F]{1,15}")


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
    """Bytes that large, still incomplete bodies may occupy together."""

    left: int


class RequestReader:
    """Collects the bytes of one connection into requests, one after another.

    A `Content-Length` above `max_body` is not waited for: the application gets the request with an empty body and
    says no by that header, and the connection ends after its answer. Raises `Refusal`, or one of gunicorn's
    `ParseException`s, when the bytes cannot become a request.
    """

    __slots__ = (
        "_body_end",
        "_budget",
        "_buffer",
        "_cfg",
        "_max_body",
        "_peer",
        "_request",
        "_reserved",
        "_scanned",
        "interim",
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
        self._body_end: int | None = None  # None: chunked, found by scanning
        self.unread = False
        """The client is sending more than will ever be read."""
        self.interim = b""
        """An interim answer that the client waits for before it sends the body."""

    @property
    def pending(self) -> bool:
        """Whether the client has begun a request, or sent more than was read."""
        return bool(self._buffer) or self._request is not None or self.unread

    def feed(self, data: bytes) -> bool:
        """Add what has arrived; return whether a request is complete."""
        self._buffer += data
        if self._request is None and not self._parse_head():
            return False
        if self._body_end is None:
            self._body_end = self._find_chunked_end()
        return self._body_end is not None and len(self._buffer) >= self._body_end

    def take(self) -> Request:
        """Return the complete request, its body in memory, and begin with the next one."""
        request: Any = self._request
        end = self._body_end
        raw = bytes(memoryview(self._buffer)[:end])
        del self._buffer[:end]
        self._request = None
        self._scanned = 0
        self.release()
        if isinstance(request.body.reader, ChunkedReader):
            request.unreader.unread(raw)
            try:
                raw = request.body.read()
            except NoMoreData as error:
                raise bad_request("the chunked body is malformed") from error
        request.body = _NotReceived(self._max_body) if self.unread else io.BytesIO(raw)
        return request

    def take_interim(self) -> bytes:
        """Return the interim answer, once."""
        interim, self.interim = self.interim, b""
        return interim

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
        return True

    def _expect_body(self, request: Request) -> None:
        length = None if isinstance(request.body.reader, ChunkedReader) else request.body.reader.length
        # gunicorn would say 100 Continue itself when it calls the application: too late for a body that is awaited.
        expects, request._expected_100_continue = request._expected_100_continue, False
        if length is not None and length > self._max_body:
            self._body_end = 0
            self.unread = True
            request.force_close()
            return
        self._body_end = length
        if length is not None and length > _SMALL_BODY:
            self._reserve(length)
        if expects and (length is None or length > len(self._buffer)):
            self.interim = _CONTINUE

    def _reserve(self, length: int) -> None:
        if length > self._budget.left:
            raise unavailable("too many large requests are being received, try again")
        self._budget.left -= length
        self._reserved = length

    def _find_chunked_end(self) -> int | None:
        """Return where the chunked body ends, or None while that has not arrived.

        Only looks for the end; whether the chunks are well-formed is found out when they are decoded, so of nonsense
        the end is what has arrived.
        """
        buffer = self._buffer
        arrived = len(buffer)
        if arrived > _SMALL_BODY and not self._reserved:
            self._reserve(self._max_body)
        while True:
            line_end = buffer.find(b"\r\n", self._scanned)
            if line_end < 0:
                return arrived if arrived - self._scanned > _MAX_CHUNK_LINE else None
            size_text = bytes(buffer[self._scanned : line_end]).partition(b";")[0].rstrip(b" \t")
            if not _CHUNK_SIZE.fullmatch(size_text):
                return arrived
            size = int(size_text, 16)
            if not size:
                end = buffer.find(b"\r\n\r\n", line_end) + 4
                return end if end >= 4 else arrived if arrived - line_end > _MAX_HEAD else None
            following = line_end + size + 4  # a line end before the data and one after it
            if following > self._max_body:
                raise too_large(self._max_body)
            if following > arrived:
                return None
            self._scanned = following
