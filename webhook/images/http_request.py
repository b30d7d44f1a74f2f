"""One HTTP request and its response, on a connection of its own.

http.client is used without pools, redirects, retries, decompression, cookies and proxies, so the response is exactly
what the server sent.

A `BoundedSocket` limits bytes and time. The timeout of a plain socket begins anew with every byte, so a server that
sends one byte a second would never exceed it. Here every read gets the rest of one deadline, and every byte counts:
those of headers, chunk sizes and trailers, too.
"""

import io
import socket
import ssl
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, IncompleteRead

from webhook.images.addresses import Resolve, connect
from webhook.images.hosts import Host, Url
from webhook.images.lookup_limits import Deadline, ImageLookupError, LookupLimits
from webhook.images.registries import Registry, trust


def _too_large(host: Host) -> ImageLookupError:
    return ImageLookupError(f"{host} sends a larger answer than the limits allow")


class BoundedSocket:
    """A socket with the methods that http.client needs. The caller closes the connection."""

    def __init__(self, connection: socket.socket, host: Host, deadline: Deadline, budget: int) -> None:
        self._connection = connection
        self._host = host
        self._deadline = deadline
        self.budget = budget
        """Bytes that may still be received."""

    def sendall(self, content: bytes) -> None:
        """Send everything."""
        self._connection.settimeout(self._deadline.left())
        self._connection.sendall(content)

    def makefile(self, _mode: str) -> io.BufferedReader:
        """A reader of the received bytes."""
        return io.BufferedReader(_ReceivedBytes(self))

    def receive_into(self, buffer: memoryview) -> int:
        """Wait for bytes. Raises ImageLookupError beyond the budget, TimeoutError and OSError."""
        self._connection.settimeout(self._deadline.left())
        count = self._connection.recv_into(buffer)
        self.budget -= count
        if self.budget < 0:
            raise _too_large(self._host)
        return count

    def close(self) -> None:
        """Do nothing: http.client calls this before the response has been read."""


class _ReceivedBytes(io.RawIOBase):
    def __init__(self, bounded: BoundedSocket) -> None:
        super().__init__()
        self._bounded = bounded

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]  # what BufferedReader passes
        return self._bounded.receive_into(buffer)


_CHUNK = 64 * 1024
_WRAPPING = 16 * 1024
"""Bytes of chunk sizes for each `_CHUNK` of a body. Chunks of one byte each would cost seconds of CPU time."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request. `most_bytes` bounds the body of its response."""

    url: Url
    most_bytes: int
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response. `body` is empty unless the status is 200."""

    url: Url
    status: int
    headers: HTTPMessage
    body: bytearray


def exchange(
    request: HttpRequest, registry: Registry, limits: LookupLimits, outer: Deadline, resolver: Resolve
) -> HttpResponse:
    """Send a request and read the whole response. Raises ImageLookupError, whose text names the host."""
    host = request.url.host
    deadline = Deadline(limits.request_seconds, outer)
    try:
        with closing(_connected(request.url, registry, deadline, resolver)) as connection:
            return _response(request, BoundedSocket(connection, host, deadline, limits.header_bytes))
    except TimeoutError as error:
        raise ImageLookupError(f"{host} does not answer in time", is_lasting=False) from error
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


def _connected(url: Url, registry: Registry, deadline: Deadline, resolver: Resolve) -> socket.socket:
    connection = connect(url.host, deadline, resolver)
    if url.scheme == "http":
        return connection
    try:
        connection.settimeout(deadline.left())
        return trust(registry.authorities).wrap_socket(connection, server_hostname=url.host.name)
    except (OSError, ValueError):
        connection.close()
        raise


def _response(request: HttpRequest, bounded: BoundedSocket) -> HttpResponse:
    connection = HTTPConnection(request.url.host.name, request.url.host.port)
    connection.sock = bounded
    headers = {
        "Host": request.url.authority,
        "Accept-Encoding": "identity",
        "Connection": "close",
        "User-Agent": "gpu-policy-webhook",
        **request.headers,
    }
    connection.request(request.method, request.url.target, request.body, headers)
    with closing(connection.getresponse()) as response:
        body = bytearray()
        if response.status == 200 and request.method != "HEAD":
            body = _body(response, request, bounded)
        return HttpResponse(request.url, response.status, response.headers, body)


def _body(response: HTTPResponse, request: HttpRequest, bounded: BoundedSocket) -> bytearray:
    """The whole body. A compressed body is refused, because a few bytes can become gigabytes."""
    encoding = response.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise ImageLookupError(
            f"{request.url.host} answers with a Content-Encoding that was not requested, such as compression"
        )
    if response.length is not None and response.length > request.most_bytes:
        raise _too_large(request.url.host)
    body = bytearray()
    bounded.budget = _CHUNK + _WRAPPING
    while chunk := response.read(_CHUNK):
        body += chunk
        if len(body) > request.most_bytes:
            raise _too_large(request.url.host)
        bounded.budget = _CHUNK + _WRAPPING
    if response.length:
        raise IncompleteRead(b"", response.length)
    return body
