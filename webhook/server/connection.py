"""One connection of a client, and what a client may take: time, memory, and one of a number of connections.

No step of a connection waits: each does what can be done now, and says what it would wait for. The poller drives
handshake, request, answer and end of a connection (see `webhook.server.worker`). The API server opens connections ahead
and leaves them idle, and clients may be slow on purpose; neither may hold a thread.
"""

import contextlib
import math
import socket
import ssl
import sys
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

from webhook.server.framing import RequestReader

_RECORD = 16_384
"""Bytes of the largest TLS record; a read of this size never leaves bytes inside OpenSSL, where no poller sees them."""

_READS_PER_TURN = 16
"""Records read from one connection before the others get their turn."""

_MOST_DRAINED = 16 * 2**20
"""Most bytes of a client that are thrown away so that it still gets its answer."""

_LAST_DATA_RECEIVED = slice(52, 56)
"""Bytes of Linux's `struct tcp_info` with the milliseconds since data last arrived."""


class Response(NamedTuple):
    """What to send, and whether the connection ends with it."""

    data: bytes
    last: bool


class Closed(Exception):  # noqa: N818  it is how connections end, not an error
    """The client has ended the connection, or nothing is left to be sent."""


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
        "peer",
        "port",
        "queued",
        "reader",
        "receiving",
        "secured",
        "since",
        "sock",
        "timeout",
        "unsent",
    )

    def __init__(self, sock: socket.socket, peer: Any, context: ssl.SSLContext, reader: RequestReader) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self.fd = self.sock.fileno()
        self.peer = peer
        self.port: int = self.sock.getsockname()[1]
        """The port of the server that the client has reached."""
        self.reader = reader
        self.since = 0.0
        """Monotonic time at which the client's turn began: to shake hands, to send, to take the answer, to end."""
        self.timeout = math.inf
        """Seconds that its turn may last."""
        self.interest = 0
        """What the poller waits for: a mask of `select.EPOLL*`."""
        self.secured = False
        self.objection = ""
        """Why this client's reviews are not answered; empty where they are."""
        self.receiving = False
        """Whether a request has begun to arrive and has a deadline."""
        self.busy = False
        """Whether the application works on a request of this connection."""
        self.queued = False
        """Whether the connection waits for its turn."""
        self.closing = False
        """Whether the connection ends after `unsent` is sent; no request follows."""
        self.draining = False
        """Whether only the end of the client's data is awaited; what arrives until then is thrown away."""
        self.drained = 0
        """Bytes that were thrown away so far."""
        self.held = 0
        """Bytes that `ClientMemory` has set aside for the answer."""
        self.unsent = memoryview(b"")
        self.counted = 0
        """Bytes of the client's requests that `ClientMemory` has counted."""

    @property
    def idle(self) -> bool:
        """Whether a request may come and none has begun to arrive."""
        return self.secured and not (self.receiving or self.busy or self.closing or self.unsent)

    def wait(self, seconds: float) -> None:
        """Begin the client's next turn, which may last this many seconds."""
        self.since = time.monotonic()
        self.timeout = seconds

    def unread_seconds(self) -> float:
        """Seconds since the last data of the client arrived, which is how long its request has waited to be read.

        The kernel measures it in milliseconds, because waiting requests are still in the kernel. 0 where the kernel
        does not tell.
        """
        info = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_DATA_RECEIVED.stop)
        return int.from_bytes(info[_LAST_DATA_RECEIVED], sys.byteorder) / 1000

    def complete_handshake(self) -> bool:
        """Continue the TLS handshake; return whether this call completed it."""
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
        """Throw away what the client still sends; raise `Closed` when it has ended, or has sent too much."""
        for _ in range(_READS_PER_TURN):
            data = socket.socket.recv(self.sock, _RECORD)  # undecrypted: nobody reads it
            self.drained += len(data)
            if not data or self.drained > _MOST_DRAINED:
                raise Closed


_SMALL_ANSWER = 65_536
"""Most bytes of an answer that is not counted."""
_LARGE_ANSWERS = 16 * 2**20
"""Most bytes of larger answers that wait together for clients to take them: a client may ask and never read."""
_HALF_SENT = 32 * 2**20
"""Most bytes of requests that are half sent, or wait for their turn, on all connections together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """What a client may take. Times are in seconds and kept to within one second."""

    connections: int
    """Most connections at the same time. Further ones wait in the backlog until idle connections are ended."""
    quiet: float = 2.0
    """At that limit, connections are ended whose clients have done nothing for this long."""
    handshake: float
    """Time from the connection to the end of the TLS handshake."""
    request: float
    """Time from the first byte of a request to its last; also for a request that will not be read."""
    idle: float
    """Time between requests. The API server keeps idle connections for 90 s, and closing first risks a reset."""
    stop: float
    """Time for everything that has begun when the server stops, except for idle connections."""
    answer: float = 10.0
    """Time for taking an answer."""
    goodbye: float = 2.0
    """When the server stops: time for a last request on an idle connection, or the rest of a request."""


class ClientMemory:
    """Counts the bytes that clients hold: of requests without an answer, and of large answers that are not taken.

    Used by one thread at a time.
    """

    def __init__(self) -> None:
        self._room_for_answers = _LARGE_ANSWERS
        self._half_sent = 0
        self._senders: dict[Connection, None] = {}  # connections with counted bytes, in the order in which they began

    @property
    def is_short(self) -> bool:
        """Whether the half-sent requests of all clients have more bytes than allowed."""
        return self._half_sent > _HALF_SENT

    def senders(self) -> list[Connection]:
        """The connections with requests that have no answer yet; the one that began first comes first."""
        return list(self._senders)

    def count(self, connection: Connection, size: int) -> None:
        """Take note that `size` bytes of the client's requests have no answer yet."""
        if size == connection.counted:
            return
        self._half_sent += size - connection.counted
        connection.counted = size
        if size:
            self._senders.setdefault(connection)
        else:
            self._senders.pop(connection, None)

    def reserve(self, connection: Connection, size: int) -> bool:
        """Set bytes aside for an answer, until `let_go`; return whether there was room for the answer."""
        if size <= _SMALL_ANSWER:
            return True
        if size > self._room_for_answers:
            return False
        connection.held = size
        self._room_for_answers -= size
        return True

    def let_go(self, connection: Connection) -> None:
        """Give back the bytes of an answer that is sent, or never will be."""
        self._room_for_answers += connection.held
        connection.held = 0
