"""The gunicorn worker, made for the way in which the API server calls webhooks.

The API server opens connections ahead and leaves the surplus idle after the TLS handshake. A worker in which a thread
waits for the first request of a connection stops as soon as there are as many such connections as threads. Here no
thread waits for a client: connections wait in a poller until a whole request has arrived, and answers leave by it.

One thread at a time polls, reads, answers and writes: the holder of the `LeaderLock`. Threads that work at the same
time contend for the interpreter lock at every system call: with requests this short, four threads answer a third fewer
of them than one. When the application keeps the holder waiting, the lock passes to the next thread, which serves the
other connections.

The C library is told to keep as little freed memory as possible. Bodies and what parses them are buffers of megabytes,
made and freed by whichever thread holds the lock. By default glibc keeps freed buffers for each of its arenas, eight
for every processor, and with each freed buffer raises the size from which it maps a buffer by itself, up to 32 MiB. So
a replica would stay as large as all threads have ever been together.
"""

import ctypes
import logging
import os
import resource
import select
import threading
import time
from functools import partial
from typing import Any

from gunicorn.workers.base import Worker

from webhook.server.connection import Connection, Response, ServerLimits
from webhook.server.framing import BodyBudget, HeadReader, RequestReader
from webhook.server.poller import Poller
from webhook.server.responder import Responder
from webhook.server.tls import ServingCertificate

log = logging.getLogger("gpu_policy.server")

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameters of mallopt(3)."""

_SETTINGS = ((_ARENA_MAX, 2), (_MMAP_THRESHOLD, 256 * 1024), (_TRIM_THRESHOLD, 1024 * 1024))
"""Number of arenas; bytes from which a buffer is mapped by itself and given back when it is freed; unused bytes at the
end of an arena from which they are given back."""


def give_back_freed_memory() -> bool:
    """Set the parameters for this process, before it starts threads; return whether the C library accepts them."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        log.info(
            "this C library takes no settings for freed memory: the process may stay as large as it was at its peak"
        )
        return False
    return not [name for name, value in _SETTINGS if not mallopt(name, value)]


class Call:
    """One call of the application, during which the leader lock may change hands."""

    __slots__ = ("lost",)

    def __init__(self) -> None:
        self.lost = False


class LeaderLock:
    """Held by the thread that serves. It passes to another thread only during a `Call`."""

    def __init__(self) -> None:
        self._held = threading.Lock()
        self._guard = threading.Lock()
        self.call: Call | None = None
        """The call of the application that the holder makes now; None where it makes none."""

    def acquire(self) -> None:
        """Wait until no other thread holds the lock, and take it."""
        self._held.acquire()

    def release(self) -> None:
        """Let another thread serve."""
        self._held.release()

    def begin_call(self) -> Call:
        """Begin a call of the application, in which the holder may have to wait."""
        call = Call()
        self.call = call
        return call

    def end_call(self, call: Call) -> bool:
        """End a call; return whether its thread still has the leader lock."""
        with self._guard:
            if call.lost:
                return False
            self.call = None
            return True

    def take_from(self, call: Call) -> None:
        """Take the leader lock from the thread of this call, unless the call has ended or has lost the lock."""
        with self._guard:
            if self.call is not call:
                return
            call.lost = True
            self.call = None
            self._held.release()


_LOCK_SECONDS = 0.005
"""Seconds of a call after which it loses the leader lock; at most twice as many."""

_QUIET_TICKS = 20
"""Looks without a new call after which the main thread sleeps for longer."""

_LARGE_BODIES_AT_ONCE = 4
"""Most bodies of the largest size in memory at a time, half received or not answered yet."""

_OTHER_DESCRIPTORS = 100

_LAST_WORDS_SECONDS = 2.0
"""Last part of a graceful stop, in which clients are told that they are not served any more."""


class PollingWorker(Worker):  # type: ignore[misc]  # gunicorn has no types
    """Serves `app.settings` (`webhook.server.process.ServerSettings`) until SIGTERM.

    The main thread only watches: it passes the leader lock on when a call of the application takes long, and ends the
    worker. `webhook.server.responder` describes what the application finds in its WSGI environment.
    """

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

    def run(self) -> None:
        """Serve; the application exists by now."""
        settings = self._settings
        give_back_freed_memory()
        self._budget = BodyBudget(settings.max_body_bytes * _LARGE_BODIES_AT_ONCE)
        self._heads = HeadReader(self.cfg, self.sockets[0].getsockname())
        self._responder = Responder(self.wsgi, settings.metrics_port)
        for listener in self.sockets:
            listener.setblocking(False)
        limits = ServerLimits(
            connections=_affordable(settings.max_connections),
            handshake=settings.handshake_seconds,
            request=settings.request_seconds,
            idle=settings.keepalive_seconds,
            stop=max(0.0, settings.graceful_seconds - _LAST_WORDS_SECONDS),
        )
        self._poller = Poller([listener.sock for listener in self.sockets], limits, self)
        self._leader_lock = LeaderLock()
        self._watch_sleeps = False
        for number in range(settings.threads):
            threading.Thread(target=self._serve, name=f"serve-{number}", daemon=True).start()
        try:
            self._watch(until=self._asked_to_stop)
            self._stop()
        finally:
            self.wsgi.close()

    def handle_exit(self, _sig: int, _frame: Any) -> None:
        """SIGTERM: stop gracefully."""
        self.alive = False  # the main thread is woken up by the signal itself, see Worker.init_signals

    # Threads

    def _serve(self) -> None:
        while True:
            self._leader_lock.acquire()
            while self._poller.turn():
                pass

    def _watch(self, until: Any) -> None:
        """Pass the leader lock on whenever a call takes long; sleep while there are no calls."""
        seen: Call | None = None
        quiet = 0
        while not until():
            call = self._leader_lock.call
            if call is not None and call is seen:
                self._leader_lock.take_from(call)
            quiet = quiet + 1 if call is seen else 0
            seen = call
            self._watch_sleeps = quiet >= _QUIET_TICKS
            if self._leader_lock.call is not None:  # after the flag, or a call that begins just now would wake nobody
                self._watch_sleeps = False
            self._sleep(1.0 if self._watch_sleeps else _LOCK_SECONDS)

    def _sleep(self, seconds: float) -> None:
        """Sleep until a signal comes, or `_wake_watch`."""
        if select.select([self.PIPE[0]], [], [], seconds)[0]:
            os.read(self.PIPE[0], 4096)

    def _asked_to_stop(self) -> bool:
        if os.getppid() != self.ppid:
            log.warning("stopping: the parent process has ended")
            self.alive = False
        return not self.alive

    def _stop(self) -> None:
        """Turn unready, serve on for a while, then answer what is in flight and end.

        Every answer from now on ends its connection, so that the API server opens its next ones to other replicas.
        """
        log.info("stopping: this replica is unready now, and serves for another %g s", self._settings.drain_seconds)
        self._responder.leaving = True
        try:
            self.wsgi.drain()
        except Exception:  # stopping goes on
            log.exception("the application failed to turn unready")
        self._watch(until=partial(_past, time.monotonic() + self._settings.drain_seconds))
        self._poller.finish()
        deadline = time.monotonic() + self._settings.graceful_seconds
        self._watch(until=lambda: (self._poller.finishing and not len(self._poller)) or _past(deadline))
        log.info("stopped with %d connections left", len(self._poller))

    # webhook.server.poller.PollerHost

    def tick(self) -> None:
        """Tell the parent that this process is well, and look after the certificate."""
        self.notify()
        self._certificates.context()

    def secure(self) -> Any:
        """Return the TLS context for a new connection."""
        return self._certificates.context()

    def reader(self, peer: Any) -> RequestReader:
        """Return what makes requests of the bytes of a new connection."""
        return RequestReader(self._heads, peer, self._settings.max_body_bytes, self._budget)

    def secured(self, connection: Connection) -> None:
        """Look at the client's certificate, once for all requests of the connection."""
        connection.objection = connection.reader.objection = self._certificates.objection(connection.sock)

    def answer(self, connection: Connection, request: Any) -> Response | None:
        """Call the application; return None when that took so long that the answer was delivered in another way."""
        call = self._leader_lock.begin_call()
        if self._watch_sleeps:
            self._watch_sleeps = False
            os.write(self.PIPE[1], b".")
        answer = self._responder.respond(connection, request, partial(self._leader_lock.take_from, call))
        if self._leader_lock.end_call(call):
            return answer
        self._poller.deliver(connection, answer)
        return None

    def refuse(self, peer: Any, error: Exception) -> Response:
        """Answer, without the application, a request that cannot be received."""
        return self._responder.refuse(peer, error)


def _affordable(connections: int) -> int:
    """Return as many connections as the process may have file descriptors for, leaving some for everything else."""
    return max(1, min(connections, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _OTHER_DESCRIPTORS))


def _past(deadline: float) -> bool:
    return time.monotonic() >= deadline
