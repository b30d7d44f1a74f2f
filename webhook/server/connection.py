"""One connection of a client, on the event loop: bytes become requests (httptools), requests become answers.

Nothing here waits. A client may take time and memory only within bounds: the API server opens connections ahead and
leaves them idle, and other clients may be slow on purpose.
"""

import asyncio
import contextlib
import enum
import io
import math
import socket
import ssl
import sys
import time
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote_to_bytes

import httptools

from webhook.server.answers import Refusal, unavailable

if TYPE_CHECKING:
    from webhook.server.worker import Clients

SMALL = 65_536
"""Most bytes of a body that is decided on the event loop; small bodies and answers share no memory with large ones."""
_MAX_HEAD = 16_384
"""Bytes of request line and headers."""
_PARSED = 3
"""A parsed head takes about this many times its bytes in memory."""
_MOST_READ = 2**18
GOODBYE_SECONDS = 2.0
"""Time for a client to end its side, and for a request that begins when the server stops."""
FAREWELL = unavailable("this connection ends; a request that was on its way was not read, send it again")
"""Sent when an idle connection ends, because a request may be on its way. The API server takes it for the answer and
asks again; if it has sent no request, it logs the text."""
_LAST_DATA_RECEIVED = slice(52, 56)
"""Bytes of Linux's `struct tcp_info` with the milliseconds since data last arrived."""


class _State(enum.Enum):
    """What a connection waits for."""

    HANDSHAKE = enum.auto()
    IDLE = enum.auto()
    RECEIVING = enum.auto()
    """The rest of a request."""
    DECIDING = enum.auto()
    """Its answer. What the client sends meanwhile is thrown away, and ends the connection after the answer."""
    ENDING = enum.auto()
    """The client's end. A reset would destroy an answer, so what it still sends is received and thrown away."""


class Connection(asyncio.Protocol):
    """A client's connection. The `on_` methods are httptools' callbacks; a Refusal raised there is the answer.

    A request that begins before the last one is answered ends the connection after that answer: the API server never
    sends ahead, and somebody who does must not be served before others.
    """

    transport: asyncio.Transport
    peer: tuple[Any, ...]
    port: int
    """The port of the server that the client has reached."""
    objection = ""
    """Why this client's reviews are not answered; empty where they are."""

    def __init__(self, clients: "Clients") -> None:
        self._clients = clients
        self._settings = clients.settings
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = clients.certificates.context().wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._parser = httptools.HttpRequestParser(self)
        self._sends_ahead = False
        self._await(_State.HANDSHAKE, self._settings.handshake_seconds)
        self._forget()

    def _await(self, state: _State, seconds: float) -> None:
        """Begin to wait for the client, or for its answer if `seconds` are infinite."""
        now = time.monotonic()
        self._state = state
        self.since = now if seconds < math.inf else math.inf
        """Monotonic time at which the client's turn began; infinite while the client waits for an answer."""
        self.until = now + seconds
        """Monotonic time at which that turn ends."""

    def _forget(self) -> None:
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._length = self._head_size = self._head_received = 0
        self._has_head = False
        self._keeps_alive = True

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.peer = transport.get_extra_info("peername") or ("", 0)
        self.port = (transport.get_extra_info("sockname") or ("", 0))[1]
        self._clients.enter(self)

    def connection_lost(self, _error: Exception | None) -> None:
        self._clients.leave(self, is_answered=self._state is not _State.DECIDING)

    def eof_received(self) -> bool:
        return self._state is _State.DECIDING  # an answer that is under way is still sent

    def pause_writing(self) -> None:
        """The client does not take its answer; what it sends can wait."""
        self.until = time.monotonic() + self._clients.patience
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self._clients.release(self)
        if self._state is _State.IDLE:
            self.until = time.monotonic() + self._settings.keepalive_seconds
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self.is_ending:
            return
        try:
            self._incoming.write(data)
            if self._state is not _State.HANDSHAKE or self._shake_hands():
                self._read()
        except ssl.SSLError as error:
            if self._state is _State.HANDSHAKE:
                self._clients.complain(self.peer, error)
            self.transport.abort()

    def _shake_hands(self) -> bool:
        """Go on with the handshake; return whether it has ended. Raises `ssl.SSLError` where it fails."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self._flush()
        self.objection = self._clients.certificates.objection(self._tls)
        self._await(_State.IDLE, self._settings.keepalive_seconds)
        return True

    def _read(self) -> None:
        while not self.is_ending:
            try:
                data = self._tls.read(_MOST_READ)
            except ssl.SSLWantReadError:
                return
            if not data:  # the client has ended its side
                if self._state is not _State.DECIDING:
                    self.transport.close()
                return
            if self._state is _State.DECIDING:
                self._sends_ahead = True
            else:
                self._receive(data)

    def _receive(self, data: bytes) -> None:
        if self._state is _State.IDLE:
            self._await(_State.RECEIVING, self._clients.patience)
        if not self._has_head:
            self._head_received += len(data)
        try:
            self._parser.feed_data(data)
            if not self._has_head and self._head_received > _MAX_HEAD:
                raise _head_too_large()
        except Refusal as refusal:
            self.refuse(refusal)
        except httptools.HttpParserUpgrade:
            self.refuse(Refusal("400 Bad Request", "Upgrade: found in a request, expected none"))
        except httptools.HttpParserError as error:
            raised = error.__context__
            text = str(error)[:300] or "the bytes are not an HTTP request"
            self.refuse(raised if isinstance(raised, Refusal) else Refusal("400 Bad Request", text))
        else:
            if self._state is _State.DECIDING:
                self._clients.decide(self)

    # httptools

    def on_message_begin(self) -> None:
        self._sends_ahead |= self._state is _State.DECIDING

    def on_url(self, url: bytes) -> None:
        if self._state is _State.RECEIVING:
            self._url += url
            self._head_size += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._state is _State.RECEIVING:
            self._headers.append((name.lower(), value))
            self._head_size += len(name) + len(value) + 4

    def on_headers_complete(self) -> None:
        if self._state is not _State.RECEIVING:
            return
        self._has_head = True
        self._keeps_alive = self._parser.should_keep_alive()
        if self._head_size > _MAX_HEAD:
            raise _head_too_large()
        expects = False
        for name, value in self._headers:
            if name == b"content-length":
                self._length = int(value)
            elif name == b"transfer-encoding":
                text = (
                    "Transfer-Encoding: found chunked, expected a body with its length in Content-Length, as the API "
                    "server sends it; send Content-Length in place of Transfer-Encoding"
                )
                raise Refusal("411 Length Required", text)
            elif name == b"expect":
                expects = value.lower() == b"100-continue"
        if not self._length:
            return
        if self.objection:
            raise Refusal("403 Forbidden", self.objection)
        if self._length > self._settings.max_body_bytes:
            text = f"body: larger than {self._settings.max_body_bytes} bytes; the API server sends less"
            raise Refusal("413 Content Too Large", text)
        if not self._clients.reserve(self, self._length, _PARSED * self._head_size):
            raise unavailable("too many large requests are being received, try again")
        if expects:
            self._send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        if self._state is _State.RECEIVING:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self._state is _State.RECEIVING:
            self._await(_State.DECIDING, math.inf)

    # Answers

    @property
    def is_small(self) -> bool:
        """Whether the request is decided on the event loop."""
        return self._length <= SMALL

    @property
    def wants_end(self) -> bool:
        """Whether the client wants the connection to end with the answer, or it has to."""
        return self._sends_ahead or not self._keeps_alive

    def environ(self) -> dict[str, Any]:
        """The WSGI environment of the request, without the keys of `webhook.server.worker`. It takes the body over."""
        body, self._body = b"".join(self._body), []
        path, _, query = self._url.decode("latin-1").partition("?")
        found: dict[str, Any] = {
            "REQUEST_METHOD": self._parser.get_method().decode("latin-1"),
            "SCRIPT_NAME": "",
            "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
            "QUERY_STRING": query,
            "SERVER_NAME": self._settings.host,
            "SERVER_PORT": str(self.port),
            "SERVER_PROTOCOL": f"HTTP/{self._parser.get_http_version()}",
            "REMOTE_ADDR": self.peer[0],
            "REMOTE_PORT": str(self.peer[1]),
            "CONTENT_LENGTH": str(self._length),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "https",
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        for name, value in self._headers:
            if name == b"content-length" or b"_" in name:
                continue
            key = name.decode("latin-1").upper().replace("-", "_")
            key = key if key == "CONTENT_TYPE" else f"HTTP_{key}"
            text = value.decode("latin-1")
            found[key] = f"{found[key]},{text}" if key in found else text
        return found

    def unread_seconds(self) -> float:
        """Seconds since the last data of the client arrived, which is how long its request has waited to be read.

        The kernel measures it in milliseconds. 0 where the kernel does not tell.
        """
        sock = self.transport.get_extra_info("socket")
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_DATA_RECEIVED.stop)
        return int.from_bytes(info[_LAST_DATA_RECEIVED], sys.byteorder) / 1000

    def say(self, data: bytes, *, is_last: bool) -> None:
        """Send an answer, and end the connection or wait for the next request."""
        self._clients.release(self)
        if self.transport.is_closing():
            return
        if len(data) > SMALL and not self._clients.reserve(self, len(data)):
            refusal = unavailable("too many large answers are not being taken")
            data, is_last = self._clients.refused(self.peer, refusal), True
        is_sending = self._sends_ahead or self._state is _State.RECEIVING
        self._forget()
        self._await(_State.IDLE, self._settings.keepalive_seconds)
        self._send(data)
        if is_last or self._sends_ahead:
            self._end(self._clients.patience if is_sending or self.is_unsent else GOODBYE_SECONDS)

    def _send(self, data: bytes) -> None:
        self._tls.write(data)
        self._flush()

    def _flush(self) -> None:
        if (data := self._outgoing.read()) and not self.transport.is_closing():
            self.transport.write(data)

    def refuse(self, refusal: Refusal) -> None:
        """Answer without the application, and end."""
        self.say(self._clients.refused(self.peer, refusal), is_last=True)

    def _end(self, seconds: float) -> None:
        """End our side (TLS close_notify, then FIN), and give the client so much time for its own."""
        self._await(_State.ENDING, seconds)
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        self._flush()
        self.transport.write_eof()

    @property
    def is_ending(self) -> bool:
        return self._state is _State.ENDING

    @property
    def is_unsent(self) -> bool:
        """Whether the client has not taken its answer yet."""
        return self.transport.get_write_buffer_size() > 0

    def expire(self, why: str = "") -> None:
        """End the client's turn: its time is over, unless there is another reason."""
        why = why or ("this server is stopping" if self._clients.is_stopping else "")
        if self._state in {_State.HANDSHAKE, _State.ENDING} or self.is_unsent:
            self.transport.abort()
        elif self._state is _State.RECEIVING and not why:
            text = f"the request took longer than {self._settings.request_seconds:g} s to arrive"
            self.refuse(Refusal("408 Request Timeout", text))
        elif self._state is _State.RECEIVING:
            self.refuse(unavailable(why))
        elif self._state is _State.IDLE:
            self.say(FAREWELL.response(), is_last=True)

    def finish(self) -> None:
        """The server stops: give a client some more time to send its request."""
        if self._state in {_State.IDLE, _State.RECEIVING}:
            self.until = min(self.until, time.monotonic() + self._clients.patience)


def _head_too_large() -> Refusal:
    return Refusal("431 Request Header Fields Too Large", f"the head is larger than {_MAX_HEAD} bytes")
