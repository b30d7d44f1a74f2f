"""One connection of a client, which never makes anyone wait: each step does what can be done now and says what for it
would have to wait.

Handshake, request, answer and goodbye are all driven by the poller (see `webhook.server.worker`). The API server
opens connections ahead and leaves them idle, and clients may be slow on purpose; neither may hold a thread.
"""

import contextlib
import math
import socket
import ssl
import sys
import time
from typing import Any, NamedTuple

from webhook.server.framing import RequestReader

_RECORD = 16_384
"""Bytes of the largest TLS record; a read of this size never leaves bytes inside OpenSSL, where no poller sees them."""

_READS_PER_TURN = 16
"""Records read from one connection before the others get their turn."""

_MOST_DRAINED = 16 * 2**20
"""Bytes that are thrown away so that an answer can still be taken; whoever sends more does not look for one."""

_LAST_DATA_RECEIVED = slice(52, 56)
"""Where Linux's `struct tcp_info` has the milliseconds since something arrived."""


class Response(NamedTuple):
    """What to send, and whether the connection ends with it."""

    data: bytes
    last: bool


class Closed(Exception):  # noqa: N818  it is how connections end, not an error
    """The client has ended the connection, or there is nothing left to say."""


class Connection:
    """A client's connection, from the TLS handshake to the last byte.

    The methods raise `ssl.SSLWantReadError` or `ssl.SSLWantWriteError` when they have to wait, `Closed` at the end,
    and `OSError` (of which `ssl.SSLError` is one) when the connection is broken.
    """

    __slots__ = (
        "busy",
        "closing",
        "counted",
        "drained",
        "draining",
        "fd",
        "held",
        "interest",
        "objection",
        "patience",
        "peer",
        "port",
        "queued",
        "reader",
        "receiving",
        "secured",
        "since",
        "sock",
        "unsent",
    )

    def __init__(self, sock: socket.socket, peer: Any, context: ssl.SSLContext, reader: RequestReader) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self.fd = self.sock.fileno()
        self.peer = peer
        self.port: int = self.sock.getsockname()[1]
        """Which of ours the client has reached."""
        self.reader = reader
        self.since = 0.0
        """When the client's turn began, on the monotonic clock: to shake hands, to ask, to take the answer, to go."""
        self.patience = math.inf
        """Seconds that its turn may last."""
        self.interest = 0
        """What the poller waits for: a mask of `select.EPOLL*`."""
        self.secured = False
        self.objection = ""
        """Why this client gets no review answered; empty where it does."""
        self.receiving = False
        """A request has begun to arrive; its deadline stands."""
        self.busy = False
        """The application is at work on a request of this connection."""
        self.queued = False
        """It waits for its turn."""
        self.closing = False
        """No request follows: what is unsent is sent, then the connection ends."""
        self.draining = False
        """All is said; what the client still sends is thrown away until it ends the connection too."""
        self.drained = 0
        """Bytes of it so far."""
        self.held = 0
        """Bytes that are set aside for the answer that is being sent."""
        self.unsent = memoryview(b"")
        self.counted = 0
        """Bytes that the poller has counted of what the client has sent."""

    @property
    def idle(self) -> bool:
        """Whether a request could come and none has begun to."""
        return self.secured and not (self.receiving or self.busy or self.closing or self.unsent)

    def wait(self, seconds: float) -> None:
        """Begin the client's next turn, which may last so long."""
        self.since = time.monotonic()
        self.patience = seconds

    def unread_seconds(self) -> float:
        """How long the client has been waiting for us: the time since it sent the last of what has been read.

        The kernel knows, in milliseconds; requests that wait for their turn wait there, before anything of ours sees
        them. 0 where the kernel is none that says it.
        """
        info = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_DATA_RECEIVED.stop)
        return int.from_bytes(info[_LAST_DATA_RECEIVED], sys.byteorder) / 1000

    def complete_handshake(self) -> bool:
        """Shake hands as far as the client is; return whether this call completed it."""
        if self.secured:
            return False
        self.sock.do_handshake()
        self.secured = True
        return True

    def receive(self) -> bool:
        """Read what has arrived; return whether a request is complete."""
        reader = self.reader
        for _ in range(_READS_PER_TURN):
            data = self.sock.recv(_RECORD)
            if not data:
                raise Closed
            if reader.feed(data):
                return True
            if reader.interim:  # 100 Continue: a few bytes on a connection that owes nothing, they always fit
                self.sock.send(reader.take_interim())
        return False

    def take(self, answer: Response) -> None:
        """Get ready to send the answer of the application."""
        self.busy = self.receiving = False
        self.closing = answer.last
        self.unsent = memoryview(answer.data)
        self.reader.release()

    def send(self) -> None:
        """Send what is unsent."""
        while self.unsent:
            sent = self.sock.send(self.unsent)
            self.unsent = self.unsent[sent:]

    def say_goodbye(self) -> None:
        """End our side cleanly (TLS close_notify, then FIN); raise `Closed` unless the client is still sending.

        Closing a socket with unread bytes sends a reset, which can destroy the answer on its way: a client that has
        not been read to the end is drained first.
        """
        with contextlib.suppress(OSError, ValueError):
            self.sock.unwrap()
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)
        if not self.reader.pending:
            raise Closed
        self.draining = True

    def drain(self) -> None:
        """Throw away what the client still sends; raise `Closed` when it has ended, or sent more than is borne with."""
        for _ in range(_READS_PER_TURN):
            data = socket.socket.recv(self.sock, _RECORD)  # undecrypted: nobody reads it
            self.drained += len(data)
            if not data or self.drained > _MOST_DRAINED:
                raise Closed
