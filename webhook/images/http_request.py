"""One request and its answer, on a connection of its own.

http.client is used as it is: without a pool, redirects, repetitions, decompression, cookies or proxies from the
environment there is nothing in which an answer could differ from what was sent.

A `BoundedSocket` gives out neither more bytes nor more time than was agreed on.

A socket's timeout begins anew with every byte, so that a server which sends one a second is never too slow for it. Here
every read gets what is left of one deadline, and every byte is paid for, those of heads, chunk sizes and trailers too.
"""

import io
import socket
import ssl
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, IncompleteRead

from webhook.images.addresses import Resolve, connect
from webhook.images.hosts import Url
from webhook.images.lookup_limits import Deadline, LookUpError, LookupLimits
from webhook.images.registries import Registry, trust


class TooMuchError(Exception):
    """More was sent than was agreed on."""


class BoundedSocket:
    """A socket for http.client, which asks of one no more than this. Whoever made it closes the socket."""

    def __init__(self, connection: socket.socket, deadline: Deadline, budget: int) -> None:
        self._connection = connection
        self._deadline = deadline
        self.budget = budget
        """Bytes that may still be received."""

    def sendall(self, content: bytes) -> None:
        """Send everything."""
        self._connection.settimeout(self._deadline.left())
        self._connection.sendall(content)

    def makefile(self, _mode: str) -> io.BufferedReader:
        """What arrives."""
        return io.BufferedReader(_Arriving(self))

    def receive_into(self, buffer: memoryview) -> int:
        """Wait for bytes; raises TooMuchError, TimeoutError and OSError."""
        self._connection.settimeout(self._deadline.left())
        count = self._connection.recv_into(buffer)
        self.budget -= count
        if self.budget < 0:
            raise TooMuchError
        return count

    def close(self) -> None:
        """Nothing: http.client closes before the answer has been read."""


class _Arriving(io.RawIOBase):
    def __init__(self, wire: BoundedSocket) -> None:
        super().__init__()
        self._wire = wire

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]  # what BufferedReader passes
        return self._wire.receive_into(buffer)


_CHUNK = 64 * 1024
_WRAPPING = 16 * 1024
"""Bytes that so much of a chunked body may be wrapped in; chunks of a byte each would cost seconds of the processor."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What is asked. `most_bytes` bounds the body of the answer."""

    url: Url
    most_bytes: int
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What came back; `body` is that of an answer with status 200, else empty."""

    url: Url
    status: int
    headers: HTTPMessage
    body: bytearray


def exchange(
    request: HttpRequest, registry: Registry, limits: LookupLimits, outer: Deadline, resolver: Resolve
) -> HttpResponse:
    """Send a request and read the answer whole. Raises LookUpError, whose text names the host."""
    host = request.url.host
    deadline = Deadline(limits.request_seconds, outer)
    try:
        with closing(_connected(request.url, registry, deadline, resolver)) as connection:
            return _answer(request, BoundedSocket(connection, deadline, limits.header_bytes))
    except TooMuchError as error:
        raise LookUpError(f"{host} sends a larger answer than the limits allow") from error
    except TimeoutError as error:
        raise LookUpError(f"{host} does not answer in time", is_lasting=False) from error
    except ssl.SSLCertVerificationError as error:
        raise LookUpError(
            f"{host} presents a certificate that is not trusted ({error.verify_message}); a private CA has to be "
            "named in caFile"
        ) from error
    except (OSError, IncompleteRead) as error:
        what = (
            "fails the TLS handshake, or speaks HTTP without TLS"
            if isinstance(error, ssl.SSLError)
            else "cannot be reached, or closes the connection too early"
        )
        raise LookUpError(f"{host} {what}", is_lasting=False) from error
    except (HTTPException, ValueError) as error:
        raise LookUpError(f"{host} answers with something that is not HTTP") from error


def _connected(url: Url, registry: Registry, deadline: Deadline, resolver: Resolve) -> socket.socket:
    connection = connect(url.host, registry.private_addresses, deadline, resolver)
    if url.scheme == "http":
        return connection
    try:
        connection.settimeout(deadline.left())
        return trust(registry.authorities).wrap_socket(connection, server_hostname=url.host.name)
    except (OSError, ValueError):
        connection.close()
        raise


def _answer(request: HttpRequest, wire: BoundedSocket) -> HttpResponse:
    connection = HTTPConnection(request.url.host.name, request.url.host.port)
    connection.sock = wire
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
            body = _body(response, request, wire)
        return HttpResponse(request.url, response.status, response.headers, body)


def _body(response: HTTPResponse, request: HttpRequest, wire: BoundedSocket) -> bytearray:
    """Everything; what is compressed is refused, since a few bytes of it can be gigabytes."""
    encoding = response.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise LookUpError(
            f"{request.url.host} answers with a Content-Encoding that was not requested, such as compression"
        )
    if response.length is not None and response.length > request.most_bytes:
        raise TooMuchError
    body = bytearray()
    wire.budget = _CHUNK + _WRAPPING
    while chunk := response.read(_CHUNK):
        body += chunk
        if len(body) > request.most_bytes:
            raise TooMuchError
        wire.budget = _CHUNK + _WRAPPING
    if response.length:
        raise IncompleteRead(b"", response.length)
    return body
