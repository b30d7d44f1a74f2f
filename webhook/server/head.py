"""Heads of requests: gunicorn parses them and makes a WSGI environment of them, once for all that are alike.

The API server sends one head for each webhook over and over, with another number in Content-Length. To parse it and
make an environment of it takes a sixth of what a review does, so what came of it is remembered without the number.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gunicorn.http import wsgi
from gunicorn.http.body import ChunkedReader
from gunicorn.http.message import Request as Parsed
from gunicorn.http.unreader import IterUnreader

_MOST_KEPT = 64
"""Heads that are remembered; when there is one more, all are forgotten."""

_LONGEST_KEPT = 1024
"""Bytes of a head that is remembered. That of an API server has 250."""

_CONTENT_LENGTH = re.compile(rb"\r\nContent-Length: ([1-9][0-9]{0,8})\r\n")

_OF_ONE_CLIENT = ("wsgi.input", "gunicorn.socket", "wsgi.early_hints", "REMOTE_ADDR", "REMOTE_PORT", "CONTENT_LENGTH")
"""What of an environment is not the same for all heads alike."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a head says. Two that differ in nothing but the length of their bodies are equal."""

    method: str
    path: str
    environ: Mapping[str, Any]
    """The WSGI environment as far as it follows from the head, but for the length of the body."""
    is_http_1_0: bool
    is_chunked: bool
    expects_continue: bool
    """Whether the client waits for an interim answer before it sends the body."""
    is_last: bool
    """Whether the client wants the connection to end with the answer."""


class Heads:
    """Reads heads, and remembers what came of some. Used by one thread at a time.

    Raises gunicorn's `ParseException`s for what is no head.
    """

    def __init__(self, cfg: Any, server_address: Any = ("", 0)) -> None:
        self._cfg = cfg
        self._server_address = server_address
        self._known: dict[tuple[bytes, bytes], Head] = {}

    def read(self, raw: bytes, peer: Any) -> tuple[Head, int]:
        """The head, and how many bytes of a body follow; `raw` ends with the empty line."""
        written = _CONTENT_LENGTH.search(raw) if len(raw) <= _LONGEST_KEPT else None
        if written is None:
            return self._parsed(raw, peer)
        start, end = written.span(1)
        key = raw[:start], raw[end:]
        known = self._known.get(key)
        if known is not None:
            return known, int(raw[start:end])
        head, length = self._parsed(raw, peer)
        if "HTTP_AUTHORIZATION" not in head.environ:  # which is kept nowhere
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[key] = head
        return head, length

    def _parsed(self, raw: bytes, peer: Any) -> tuple[Head, int]:
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
