"""The poller: all connections of the server, what each waits for, and until when."""

import logging
import math
import os
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Iterable
from typing import Any, Protocol

from gunicorn.http.errors import ParseException

from webhook.server.connection import ClientMemory, Closed, Connection, Response, ServerLimits
from webhook.server.framing import RequestReader
from webhook.server.listeners import Listeners
from webhook.server.refusal import FAREWELL, Refusal, too_slow, unavailable

log = logging.getLogger("gpu_policy.server")

_TURN_SECONDS = 1.0
_EVENTS_PER_TURN = 64
_COMPLAINT_SECONDS = 10.0
_MUTED = select.EPOLLONESHOT  # errors are reported whatever is asked for, but then only once


class PollerHost(Protocol):
    """The server around the poller, which is `webhook.server.worker.PollingWorker`."""

    def tick(self) -> None:
        """Called about once per second as long as connections are served."""

    def secure(self) -> ssl.SSLContext:
        """Return the TLS context for a new connection."""

    def reader(self, peer: Any) -> RequestReader:
        """Return the reader that makes requests of the bytes of a new connection."""

    def secured(self, connection: Connection) -> None:
        """Called when the TLS handshake of a connection is complete, and the client's certificate is known."""

    def answer(self, connection: Connection, request: Any) -> Response | None:
        """Answer; or return None where the leader lock was lost, and the answer is delivered later."""

    def refuse(self, peer: Any, error: Exception) -> Response:
        """Answer, without the application, a request that cannot be received."""


class Poller:
    """Drives every connection as far as possible without waiting.

    Connections take turns in the order in which their data arrived. One request is answered in each turn. A connection
    that has sent more goes to the end of the queue, because epoll does not see data that was read already.

    All methods need the leader lock, except `deliver` and `finish`, which any thread may call.
    """

    def __init__(self, listeners: Iterable[socket.socket], limits: ServerLimits, host: PollerHost) -> None:
        self._limits = limits
        self._host = host
        self._connections: dict[int, Connection] = {}
        self._late: deque[tuple[Connection, Response]] = deque()
        self._queue: deque[Connection] = deque()
        self._memory = ClientMemory()
        self._epoll = select.epoll()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake_fd, select.EPOLLIN)
        self._listeners = Listeners(listeners, self._epoll)
        self._next_sweep = 0.0
        self._next_complaint = 0.0
        self._finish_asked = False
        self._end = math.inf
        self.finishing = False
        """Whether no connection is accepted, and each ends with its next answer."""

    def __len__(self) -> int:
        return len(self._connections)

    def turn(self) -> bool:
        """Wait for events, at most a second, and handle them; return whether the thread still has the leader lock."""
        for _ in range(len(self._late)):
            self._hand_over(*self._late.popleft())
        now = time.monotonic()
        if now >= self._next_sweep or self._finish_asked:
            self._sweep(now)
        for fd, _ in self._epoll.poll(0 if self._queue or self._late else _TURN_SECONDS, _EVENTS_PER_TURN):
            if fd in self._connections:
                self._queue_up(self._connections[fd])
            elif fd in self._listeners:
                self._listeners.accept(fd, self._room(), self._admit)
            elif fd == self._wake_fd:
                os.eventfd_read(fd)
        goes_on = self._take_turns()
        if goes_on:
            self._end_the_longest()
        return goes_on

    def deliver(self, connection: Connection, answer: Response) -> None:
        """Have the holder of the leader lock send an answer that another thread made, after it lost the lock."""
        self._late.append((connection, answer))
        os.eventfd_write(self._wake_fd, 1)

    def finish(self) -> None:
        """Stop accepting connections, and end each with its next answer, or soon if no request comes."""
        self._finish_asked = True
        os.eventfd_write(self._wake_fd, 1)

    def _queue_up(self, connection: Connection) -> None:
        if not connection.queued:
            connection.queued = True
            self._queue.append(connection)

    def _take_turns(self) -> bool:
        """Give each waiting connection one turn; return whether the thread still has the leader lock.

        A thread that takes the lock over continues with the next connection, after new ones have joined the queue.
        """
        for _ in range(len(self._queue)):
            connection = self._queue.popleft()
            connection.queued = False
            if self._connections.get(connection.fd) is connection and not self._advance(connection):
                return False
        return True

    # One connection

    def _hand_over(self, connection: Connection, answer: Response) -> None:
        """Have a delivered answer sent when the connection's turn comes."""
        self._take(connection, answer)
        connection.wait(self._limits.answer)
        self._queue_up(connection)

    def _take(self, connection: Connection, answer: Response) -> None:
        """Give the connection its answer, or a refusal where there is no room for a large answer."""
        if not self._memory.reserve(connection, len(answer.data)):
            answer = self._host.refuse(connection.peer, unavailable("too many large answers are not being taken"))
        connection.take(answer)

    def _advance(self, connection: Connection) -> bool:
        """Drive a connection, then wait for what it needs; return whether the thread still has the leader lock."""
        if connection.busy:  # its request is being answered; what else arrived has to wait
            self._watch(connection, _MUTED)
            return True
        try:
            if not self._drive(connection):
                return False
        except (ssl.SSLWantReadError, BlockingIOError):
            self._watch(connection, select.EPOLLIN)
        except ssl.SSLWantWriteError:
            self._watch(connection, select.EPOLLOUT)
        except Closed:
            self._drop(connection)
        except OSError as error:
            self._complain(connection, error)
            self._drop(connection)
        except Exception:  # a bug met by one connection must not end the others
            log.exception("a bug ended the connection of %s", connection.peer)
            self._drop(connection)
        if self._connections.get(connection.fd) is connection:
            self._memory.count(connection, connection.reader.held)
        return True

    def _end_the_longest(self) -> None:
        """Where too much is half sent, end the oldest requests: the API server sends a request in one piece."""
        for connection in self._memory.senders() if self._memory.is_short else ():
            if not self._memory.is_short:
                return
            if not connection.busy:
                self._expire(connection, is_slow=False, reason="too many requests are half sent")

    def _drive(self, connection: Connection) -> bool:
        if not connection.secured and connection.complete_handshake():
            connection.wait(self._idle_seconds())
            self._host.secured(connection)
        if connection.unsent:
            self._send(connection)
        if not connection.closing and (request := self._next_request(connection)) is not None:
            connection.busy = True
            answer = self._host.answer(connection, request)
            if answer is None:
                return False
            self._say(connection, answer)
            if connection.reader.pending:
                self._queue_up(connection)
        if connection.draining:
            connection.drain()
        elif connection.closing:
            connection.say_goodbye()
            connection.wait(self._limits.goodbye if self.finishing else self._limits.request)
        self._watch(connection, select.EPOLLIN)
        return True

    def _next_request(self, connection: Connection) -> Any | None:
        """Return a complete request; None where there is none yet, or the client was refused."""
        reader = connection.reader
        try:
            if (reader.pending and reader.feed(b"")) or connection.receive():
                return reader.take()
        except (Refusal, ParseException) as error:
            reader.give_up()
            self._say(connection, self._host.refuse(connection.peer, error))
        return None

    def _say(self, connection: Connection, answer: Response) -> None:
        self._take(connection, answer)
        connection.wait(self._limits.answer)
        self._send(connection)

    def _send(self, connection: Connection) -> None:
        connection.send()
        self._memory.let_go(connection)
        connection.wait(self._idle_seconds())

    def _idle_seconds(self) -> float:
        return self._limits.goodbye if self.finishing else self._limits.idle

    def _watch(self, connection: Connection, interest: int) -> None:
        if connection.interest != interest:
            connection.interest = interest
            self._epoll.modify(connection.fd, interest)
        if not connection.receiving and connection.reader.pending and not (connection.busy or connection.closing):
            connection.receiving = True
            connection.wait(self._limits.goodbye if self.finishing else self._limits.request)

    def _drop(self, connection: Connection) -> None:
        del self._connections[connection.fd]
        self._memory.count(connection, 0)
        connection.reader.release()
        self._memory.let_go(connection)
        connection.sock.close()

    def _complain(self, connection: Connection, error: OSError) -> None:
        """Log why a handshake failed, at most every 10 s: most often the caBundle does not fit the certificate."""
        if connection.secured or not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError):
            return  # clients may leave at any time
        now = time.monotonic()
        if now >= self._next_complaint:
            self._next_complaint = now + _COMPLAINT_SECONDS
            log.warning("TLS handshake with %s failed: %s", connection.peer, error)

    # All connections

    def _admit(self, sock: socket.socket, peer: Any) -> None:
        try:
            connection = Connection(sock, peer, self._host.secure(), self._host.reader(peer))
        except OSError:  # the client has left already
            sock.close()
            return
        connection.wait(self._limits.handshake)
        connection.interest = select.EPOLLIN
        self._connections[connection.fd] = connection
        self._epoll.register(connection.fd, select.EPOLLIN)

    def _sweep(self, now: float) -> None:
        self._next_sweep = now + _TURN_SECONDS
        self._host.tick()
        if self._finish_asked:
            self._begin_to_finish(now)
        longest = self._limits.quiet if self._room() <= 0 else math.inf
        for connection in list(self._connections.values()):
            if connection.busy:
                continue
            waited = now - connection.since
            if waited >= min(connection.timeout, longest) or now >= self._end:
                self._expire(connection, is_slow=waited >= connection.timeout)
        self._listeners.watch(wanted=self._room() > 0)

    def _room(self) -> int:
        return self._limits.connections - len(self._connections)

    def _expire(self, connection: Connection, *, is_slow: bool, reason: str = "there are too many connections") -> None:
        """End a connection whose client took too long; a request that may be on its way is answered."""
        if not connection.secured or connection.unsent or connection.draining:
            self._drop(connection)
            return
        connection.reader.give_up()
        if connection.receiving:
            reason = "this server is stopping" if self.finishing else reason
            refusal = too_slow(self._limits.request) if is_slow else unavailable(reason)
            answer = self._host.refuse(connection.peer, refusal)
        else:
            answer = Response(FAREWELL, last=True)
        connection.take(answer)
        connection.wait(self._limits.answer)
        self._advance(connection)

    def _begin_to_finish(self, now: float) -> None:
        self._finish_asked = False
        if self.finishing:
            return
        self._listeners.close(self._admit)
        self.finishing = True
        self._end = now + self._limits.stop
        for connection in self._connections.values():
            if connection.idle:
                connection.wait(self._limits.goodbye)
