"""Makes whole requests of the bytes of a connection.

The head is parsed once. Its Content-Length says how many bytes the body has. A body without Content-Length is refused
at its head, and so is every body of a client whose reviews are not answered. The application gets complete bodies only,
so reading a body never blocks.

gunicorn parses heads and makes a WSGI environment of them.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from gunicorn.http import wsgi
from gunicorn.http.body import ChunkedReader
from gunicorn.http.message import Request as Parsed
from gunicorn.http.unreader import IterUnreader

from webhook.server.refusal import forbidden, head_too_large, length_required, unavailable

_OF_ONE_CLIENT = ("wsgi.input", "gunicorn.socket", "wsgi.early_hints", "REMOTE_ADDR", "REMOTE_PORT", "CONTENT_LENGTH")
"""Keys of an environment that are about one client, or about its body."""


@dataclass(frozen=True, slots=True)
class Head:
    """A parsed head."""

    method: str
    path: str
    environ: Mapping[str, Any]
    """The WSGI environment as far as it follows from the head, without CONTENT_LENGTH."""
    is_http_1_0: bool
    is_chunked: bool
    expects_continue: bool
    """Whether the client waits for an interim answer before it sends the body."""
    is_last: bool
    """Whether the client wants the connection to end with the answer."""


class HeadReader:
    """Reads heads. Raises gunicorn's `ParseException`s for malformed ones."""

    def __init__(self, cfg: Any, server_address: Any = ("", 0)) -> None:
        self._cfg = cfg
        self._server_address = server_address

    def read(self, raw: bytes, peer: Any) -> tuple[Head, int]:
        """The head, and how many bytes of a body follow; `raw` ends with the empty line."""
        request = Parsed(self._cfg, IterUnreader([raw]), peer)
        # gunicorn would say 100 Continue itself when it makes an environment: too late for a body that is awaited
        expects, request._expected_100_continue = request._expected_100_continue, False
        _, environ = wsgi.create(request, None, peer, self._server_address, self._cfg)
        for key in _OF_ONE_CLIENT:
            environ.pop(key, None)
        environ["wsgi.multithread"] = True
        is_chunked = isinstance(request.body.reader, ChunkedReader)
        head = Head(
            request.method,
            request.path,
            environ,
            is_http_1_0=request.version <= (1, 0),
            is_chunked=is_chunked,
            expects_continue=expects,
            is_last=request.should_close(),
        )
        return head, 0 if is_chunked else request.body.reader.length


_MAX_HEAD = 16_384
"""Bytes of request line and headers; gunicorn's own limits per line and per field are stricter."""

_SMALL_BODY = 65_536
"""Most bytes of a body that is not counted, so that usual reviews are received beside a flood of large bodies."""

_PARSED = 3
"""A parsed head takes about this many times its bytes in memory."""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class _NotReceived(io.RawIOBase):
    """Stands for a body that is too large and was not read. The application has to refuse it; reading fails."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def readable(self) -> bool:
        return True

    def readinto(self, _buffer: Any) -> int:
        raise OSError(f"the body is over the limit of {self._limit} bytes and was not received")


class ReceivedRequest(NamedTuple):
    """A complete request with its body in memory. `is_last`: its connection ends with the answer."""

    head: Head
    body: io.IOBase
    length: int
    is_last: bool


@dataclass(slots=True)
class BodyBudget:
    """Bytes that all large bodies may still take. A body counts from its head until its answer."""

    left: int


class RequestReader:
    """Collects the bytes of one connection into requests, one after another.

    A body with a `Content-Length` above `max_body` is not read: the application gets the request without a body, has to
    refuse it by that header, and the connection ends after its answer. Raises `Refusal`, or one of gunicorn's
    `ParseException`s, where the bytes cannot become a request. The time for a request grows with its bytes only, and
    not with the number of pieces in which they arrive.
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

    def __init__(self, heads: HeadReader, peer: Any, max_body: int, budget: BodyBudget) -> None:
        self._heads = heads
        self._peer = peer
        self._max_body = max_body
        self._budget = budget
        self._reserved = 0
        self._buffer = bytearray()
        self._scanned = 0  # bytes of the buffer in which no head ends
        self._head: Head | None = None
        self._head_bytes = 0
        self._length = 0  # of the body, as the head says
        self._body_end = 0
        self.objection = ""
        """Why the bodies of this client are not read; empty where they are."""
        self.unread = False
        """Whether the client sends more than will ever be read."""
        self.interim = b""
        """An interim answer that the client waits for before it sends the body."""

    @property
    def pending(self) -> bool:
        """Whether the client has begun a request, or sent more than was read."""
        return bool(self._buffer) or self._head is not None or self.unread

    @property
    def held(self) -> int:
        """Bytes of memory that the arrived bytes take, without those reserved in the budget."""
        return max(0, len(self._buffer) - self._reserved) + self._head_bytes * _PARSED

    def feed(self, data: bytes) -> bool:
        """Add what has arrived; return whether a request is complete."""
        self._buffer += data
        if self._head is None and not self._read_head():
            return False
        return len(self._buffer) >= self._body_end

    def take(self) -> ReceivedRequest:
        """Return the complete request, its body in memory, and begin with the next one.

        The bytes of the body stay reserved until `release`.
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
        """Drop what has arrived; nothing more will be read."""
        self.unread = True
        self._head = None
        self._head_bytes = 0
        self._buffer = bytearray()
        self.release()

    def release(self) -> None:
        """Give the reserved bytes back to the budget."""
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
