"""One HTTP request and its response, on a connection of its own, within a deadline and a number of bytes.

http.client is used as it is: no redirects, retries, decompression, cookies and proxies. The timeout of a socket begins
anew with every byte, so `_Received` reads for http.client: every read gets the rest of one deadline, and every byte
counts, also in heads, chunk sizes and trailers.
"""

import io
import re
import socket
import ssl
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import Any
from urllib.parse import urljoin, urlsplit

from webhook.images.hosts import HTTP, HTTPS, Host, split_host
from webhook.model.shape import FormatError

_CONNECT_SECONDS = 4.0
"""For a connection to one address of a host, and for the TLS handshake."""
_HEAD_BYTES = 64 * 1024
_TARGET = re.compile(r"/[!-~]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class LookupLimits:
    """The limits of one look-up. A response beyond a limit is an error; it is never cut."""

    seconds: float = 15.0
    redirects: int = 3
    """Hops after the first request."""
    manifest_bytes: int = 4 * 2**20
    """For a manifest or index; registries accept as much (OCI distribution 1.1)."""
    config_bytes: int = 8 * 2**20
    """For the configuration of an image. Real ones have a few KiB to a few hundred KiB."""
    token_bytes: int = 64 * 1024
    """For the response of a token server."""


class ImageLookupError(Exception):
    """A look-up failed. The text says which host failed and how; it has no secret and no address of the network.

    `is_lasting`: trying again soon is useless. `retry_after`: seconds to wait before the next request, as the registry
    demands; 0 if it demands nothing.
    """

    def __init__(self, text: str, *, is_lasting: bool = True, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.is_lasting = is_lasting
        self.retry_after = retry_after


class Deadline:
    """A moment `seconds` from now."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """The seconds until the deadline, more than 0. Raises TimeoutError after it."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("time has run out")
        return left


@dataclass(frozen=True, slots=True)
class Url:
    """Where a request is sent. `target` is the path with its query."""

    scheme: str
    host: Host
    target: str


def parse_url(text: str, base: Url | None = None) -> Url:
    """Parse an http or https URL, relative to `base` if given.

    Raises ImageLookupError, whose text has neither the path nor the query.
    """
    try:
        joined = text
        if base is not None:
            joined = urljoin(f"{base.scheme}://{base.host.spelled(_default_port(base.scheme))}{base.target}", text)
        parts = urlsplit(joined)
        if parts.scheme not in ("https", "http"):
            raise FormatError("its scheme is neither https nor http")
        name, port = split_host(parts.netloc)
    except ValueError as error:
        raise ImageLookupError(f"the registry refers to a URL that is not valid: {error}") from error
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if _TARGET.fullmatch(target) is None:
        raise ImageLookupError(
            f"the registry refers to a URL on {name} that is not valid: its path has characters that must be escaped"
        )
    return Url(parts.scheme, Host(name, port or _default_port(parts.scheme)), target)


def _default_port(scheme: str) -> int:
    return HTTPS if scheme == "https" else HTTP


@lru_cache(maxsize=8)
def trust(authorities: str | None = None) -> ssl.SSLContext:
    """A client's TLS context that trusts the authorities of the system and those in a PEM text.

    Contexts are shared, because each takes about 1 MiB. Raises ValueError if the text has no certificate.
    """
    context = ssl.create_default_context()
    if authorities is not None:
        try:
            context.load_verify_locations(cadata=authorities)
        except ssl.SSLError as error:
            raise ValueError("no certificate in PEM") from error
    return context


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request. `most_bytes` bounds the body of its response."""

    url: Url
    most_bytes: int
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A response, read to its end. `body` is empty unless the status is 200."""

    url: Url
    status: int
    headers: HTTPMessage
    body: bytes


def exchange(request: HttpRequest, authorities: str | None, deadline: Deadline) -> HttpAnswer:
    """Send a request and read the whole response. Raises ImageLookupError, whose text names the host."""
    host = request.url.host
    try:
        with closing(_connection(request.url, authorities, min(deadline.left(), _CONNECT_SECONDS))) as connection:
            connection.connect()
            received = _Received(connection.sock, deadline, request)
            connection.response_class = lambda _socket, **options: HTTPResponse(received, **options)  # type: ignore[arg-type,assignment]  # a socket for its method makefile
            headers = {"Connection": "close", "User-Agent": "gpu-policy-webhook", **request.headers}
            connection.request(request.method, request.url.target, request.body, headers)
            with closing(connection.getresponse()) as response:
                has_body = response.status == 200 and request.method != "HEAD"
                body = _body(response, request) if has_body else b""
                return HttpAnswer(request.url, response.status, response.headers, body)
    except TimeoutError as error:
        raise ImageLookupError(f"{host} does not answer in time", is_lasting=False) from error
    except (socket.gaierror, UnicodeError) as error:
        raise ImageLookupError(f"the DNS name {host.name} cannot be resolved", is_lasting=False) from error
    except ssl.SSLCertVerificationError as error:
        raise ImageLookupError(
            f"{host} presents a certificate that is not trusted ({error.verify_message}); a private CA has to be "
            "named in caFile"
        ) from error
    except (OSError, IncompleteRead) as error:
        what = (
            "fails the TLS handshake, or speaks HTTP without TLS"
            if isinstance(error, ssl.SSLError)
            else "cannot be reached, or closes the connection too early"
        )
        raise ImageLookupError(f"{host} {what}", is_lasting=False) from error
    except (HTTPException, ValueError) as error:
        raise ImageLookupError(f"{host} answers with something that is not HTTP") from error


def _connection(url: Url, authorities: str | None, seconds: float) -> HTTPConnection:
    if url.scheme == "http":
        return HTTPConnection(url.host.name, url.host.port, timeout=seconds)
    return HTTPSConnection(url.host.name, url.host.port, timeout=seconds, context=trust(authorities))


class _Received(io.RawIOBase):
    """The bytes of a response. Raises TimeoutError after the deadline, ImageLookupError after too many bytes."""

    def __init__(self, connection: socket.socket, deadline: Deadline, request: HttpRequest) -> None:
        super().__init__()
        self._connection = connection
        self._raw = connection.makefile("rb", buffering=0)  # keeps the socket open until the response is closed
        self._deadline = deadline
        self._host = request.url.host
        self._left = _HEAD_BYTES + request.most_bytes * 5 // 4  # the rest for sizes of chunks

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(self._deadline.left())
        count = self._raw.readinto(buffer) or 0
        self._left -= count
        if self._left < 0:
            raise _too_large(self._host)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def _body(response: HTTPResponse, request: HttpRequest) -> bytes:
    """The whole body. A compressed body is refused, because a few bytes can become gigabytes."""
    host = request.url.host
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise ImageLookupError(f"{host} answers with a Content-Encoding that was not requested, such as compression")
    if response.length is not None and response.length > request.most_bytes:
        raise _too_large(host)
    body = response.read(request.most_bytes + 1)
    if len(body) > request.most_bytes:
        raise _too_large(host)
    if response.length:
        raise IncompleteRead(body, response.length)
    return body


def _too_large(host: Host) -> ImageLookupError:
    return ImageLookupError(f"{host} sends a larger answer than the limits allow")
