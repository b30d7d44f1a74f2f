"""The gunicorn worker, made for the way in which the API server calls webhooks.

The API server opens connections ahead and leaves the surplus idle after the TLS handshake. So no thread waits for a
client: one event loop (uvloop) has all connections. Small requests are answered on the loop, because threads that work
at the same time contend for the interpreter lock. Requests that are large, or that would have to wait, are answered in
a pool of threads.
"""

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvloop
from gunicorn.workers.base import Worker

from webhook.server.answers import Refusal, written
from webhook.server.connection import GOODBYE_SECONDS, SMALL, Connection
from webhook.server.process import ServerSettings
from webhook.server.tls import ServingCertificate

log = logging.getLogger("gpu_policy.server")

_LARGE_BODIES_AT_ONCE = 4
"""Large bodies that are received or decided, and large answers that are not taken, are together no more bytes than so
many bodies of the largest size."""
_SMALL_BODIES = 32 * 2**20
"""Most bytes of small bodies that are half received, on all connections together."""
_COMPLAINT_SECONDS = 10.0
_OTHER_DESCRIPTORS = 100
"""File descriptors that are left for everything else than connections."""
_QUIET_SECONDS = 2.0
"""Time without a request after which a connection may be ended in favour of a new one."""


class MovesError(BaseException):
    """A request that is answered on the event loop would have to wait. It is answered anew in a thread."""


def _move() -> None:
    raise MovesError


class Clients:
    """All connections, what they may take together, and who answers them.

    Besides what WSGI demands, the environment that the application gets has

    - `webhook.may_block`: a function to call before waiting, so that other requests are served meanwhile,
    - `webhook.waited`: a function that returns the seconds that this request waited to be read,
    - `webhook.is_metrics_port`: whether the client has reached the port for metrics; None where there is no such port,
    - `webhook.objection`: why this client's reviews are not answered; empty where they are.

    An answer with status 503 ends its connection, so that the next attempt may reach another replica.
    """

    def __init__(self, application: Any, settings: ServerSettings, certificates: ServingCertificate) -> None:
        self.settings = settings
        self.is_leaving = False
        """Whether every answer ends its connection, because the server is stopping."""
        self.is_stopping = False
        """Whether no connection is accepted any more."""
        self._application = application
        self.certificates = certificates
        self._next_complaint = 0.0
        self._pool = ThreadPoolExecutor(settings.threads, "decide")
        self._connections: dict[Connection, None] = {}
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _OTHER_DESCRIPTORS
        self._most = max(1, min(settings.max_connections, descriptors))
        self._small: dict[Connection, int] = {}
        self._large: dict[Connection, int] = {}
        """Bytes that are set aside for each connection."""

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self._connections))

    @property
    def patience(self) -> float:
        """Seconds for a request that begins now, and for taking an answer."""
        return GOODBYE_SECONDS if self.is_stopping else self.settings.request_seconds

    def complain(self, peer: Any, error: Exception) -> None:
        """Log why a handshake failed, at most every 10 s: most often the caBundle does not fit the certificate."""
        now = time.monotonic()
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError) and now >= self._next_complaint:
            self._next_complaint = now + _COMPLAINT_SECONDS
            log.warning("TLS handshake with %s failed: %s", peer, error)

    def enter(self, connection: Connection) -> None:
        self._connections[connection] = None
        self.make_room()

    def make_room(self) -> None:
        """Where there are too many connections, end those whose clients have done nothing for the longest time.

        Where there are twice too many, that need not be long.
        """
        if len(self) <= self._most:
            return
        staying = sorted((one for one in self._connections if not one.is_ending), key=lambda one: one.since)
        latest = time.monotonic() - (_QUIET_SECONDS if len(staying) < 2 * self._most else 0)
        for connection in staying[: max(0, len(staying) - self._most)]:
            if connection.since <= latest:
                connection.expire("there are too many connections")

    def leave(self, connection: Connection, *, is_answered: bool) -> None:
        """Forget a connection that has ended. The body of a request that is not answered yet is still in memory."""
        self._connections.pop(connection, None)
        if is_answered:
            self.release(connection)

    def reserve(self, connection: Connection, size: int, head: int = 0) -> bool:
        """Set memory aside for a body or an answer, until `release`; return whether there was room for it.

        For small bodies there always is: where too much is half received, the oldest requests are ended, because the
        API server sends a request in one piece.
        """
        if size > SMALL:
            most = self.settings.max_body_bytes * _LARGE_BODIES_AT_ONCE
            has_room = sum(self._large.values()) + size <= most
            if has_room:
                self._large[connection] = size
            return has_room
        self._small[connection] = size + head
        while sum(self._small.values()) > _SMALL_BODIES:
            next(iter(self._small)).expire("too many requests are half sent")
        return True

    def release(self, connection: Connection) -> None:
        """Give back the memory of a body that is answered or never will be, and of an answer that is taken."""
        self._small.pop(connection, None)
        self._large.pop(connection, None)

    def refused(self, peer: Any, refusal: Refusal) -> bytes:
        """The answer to a request that cannot be received."""
        log.info("%s for %s: %s", refusal.status, peer, refusal.message)
        self._application.refused(refusal.code)
        return refusal.response()

    def decide(self, connection: Connection) -> None:
        """Answer a request: on the loop, or in a thread if it is large or has to wait."""
        metrics_port = self.settings.metrics_port
        environ = {
            **connection.environ(),
            "webhook.waited": connection.unread_seconds,
            "webhook.is_metrics_port": metrics_port and connection.port == metrics_port,
            "webhook.objection": connection.objection,
        }
        if connection.is_small:
            try:
                data, is_last = self._answer(connection, {**environ, "webhook.may_block": _move})
            except MovesError:
                environ["wsgi.input"].seek(0)
            else:
                connection.say(data, is_last=is_last)
                return
        loop = asyncio.get_running_loop()

        def in_thread() -> None:
            data, is_last = self._answer(connection, {**environ, "webhook.may_block": lambda: None})
            loop.call_soon_threadsafe(lambda: connection.say(data, is_last=is_last))

        self._pool.submit(in_thread)

    def _answer(self, connection: Connection, environ: dict[str, Any]) -> tuple[bytes, bool]:
        """The answer of the application, and whether the connection ends with it; 500 where the application fails."""
        status, headers = "", []

        def start_response(one: str, others: list[tuple[str, str]], _exc_info: Any = None) -> None:
            nonlocal status, headers
            status, headers = one, others

        method = environ["REQUEST_METHOD"]
        try:
            body = self._application(environ, start_response)
            try:
                content = b"".join(body)
            finally:
                if hasattr(body, "close"):
                    body.close()
            is_last = connection.wants_end or self.is_leaving or status.startswith("503")
            return written(status, headers, content, is_last=is_last, is_to_head=method == "HEAD"), is_last
        except Exception:  # a bug in the application is an answer: 500
            log.exception("the application failed at %s %s", method, environ["PATH_INFO"])
            failed = Refusal("500 Internal Server Error", "no answer because of a bug; the log says more")
            return self.refused(connection.peer, failed), True


class LoopWorker(Worker):  # type: ignore[misc]  # gunicorn has no types
    """Serves `app.settings` (`webhook.server.process.ServerSettings`) until SIGTERM."""

    def load_wsgi(self) -> None:
        """Load what the server cannot run without. A failure here ends the server; it is not tried again."""
        self._settings = settings = self.app.settings
        self._certificates = ServingCertificate(
            settings.cert_file,
            settings.key_file,
            settings.client_ca_file,
            settings.client_names,
            check_seconds=settings.certificate_check_seconds,
        )
        super().load_wsgi()

    def init_signals(self) -> None:
        """Signals wait until there is a loop for them."""
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "alive", False))

    def run(self) -> None:
        """Serve; the application exists by now."""
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            try:
                runner.run(self._serve())
            finally:
                self.wsgi.close()

    async def _serve(self) -> None:
        settings, loop = self._settings, asyncio.get_running_loop()
        leaving = asyncio.Event()
        for one in (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT):
            loop.add_signal_handler(one, leaving.set)
        if not self.alive:
            leaving.set()
        clients = Clients(self.wsgi, settings, self._certificates)
        servers = [
            await loop.create_server(lambda: Connection(clients), sock=listener.sock.dup(), backlog=2048)
            for listener in self.sockets
        ]
        while not leaving.is_set():
            self._tick(clients)
            if os.getppid() != self.ppid:
                log.warning("stopping: the parent process has ended")
                break
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(leaving.wait(), 1.0)
        await self._stop(clients, servers)

    async def _stop(self, clients: Clients, servers: list[asyncio.Server]) -> None:
        """Turn unready, serve on for a while, then answer what is in flight and end.

        Every answer from now on ends its connection, so that the API server opens its next ones to other replicas.
        """
        log.info("stopping: this replica is unready now, and serves for another %g s", self._settings.drain_seconds)
        clients.is_leaving = True
        try:
            self.wsgi.drain()
        except Exception:  # stopping goes on
            log.exception("the application failed to turn unready")
        await self._until(time.monotonic() + self._settings.drain_seconds, clients)
        clients.is_stopping = True
        for server in servers:
            server.close()
        for sock in _backlog(self.sockets):
            await asyncio.get_running_loop().connect_accepted_socket(lambda: Connection(clients), sock)
        for connection in clients:
            connection.finish()
        deadline = time.monotonic() + self._settings.graceful_seconds
        while len(clients) and time.monotonic() < deadline:
            await self._until(min(deadline, time.monotonic() + 0.05), clients)
        log.info("stopped with %d connections left", len(clients))

    async def _until(self, deadline: float, clients: Clients) -> None:
        while (left := deadline - time.monotonic()) > 0:
            await asyncio.sleep(min(left, 1.0))
            self._tick(clients)

    def _tick(self, clients: Clients) -> None:
        """Tell the parent that this process is well, look after the certificate, and end turns that took too long."""
        self.notify()
        self._certificates.context()
        now = time.monotonic()
        for connection in clients:
            if now >= connection.until:
                connection.expire()
        clients.make_room()


def _backlog(listeners: list[Any]) -> list[socket.socket]:
    """Close the port; return the connections that were not accepted yet, which would be reset."""
    found = []
    for listener in listeners:
        with contextlib.suppress(BlockingIOError):
            while True:
                found.append(listener.sock.accept()[0])
        listener.sock.close()
    return found
