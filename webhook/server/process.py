"""The server process: gunicorn around the application, with every feature off that an admission webhook does not need.

Needs no writable file system but /dev/shm or, where that is missing, the temporary directory: gunicorn's heartbeat is
the change time of an unlinked file there.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gunicorn.app.base import BaseApplication
from gunicorn.glogging import Logger

from webhook.server.worker import PollingWorker

_STUCK_SECONDS = 30
"""A worker in which no thread has served for so long is killed and replaced."""


class Application(Protocol):
    """What is served."""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request (WSGI); `webhook.server.responder` says what else is in its environment."""

    def refused(self, status: int) -> None:
        """The server has answered a request itself, with this status: for counting. Called from any thread."""

    def drain(self) -> None:
        """Turn unready: the server is about to stop. Called once."""

    def close(self) -> None:
        """Let go of everything; no request follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How to serve; times in seconds."""

    host: str
    port: int
    metrics_port: int | None = None
    """A second port, of which the application is told; it is served alike."""
    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    """When set, clients that present a certificate must have it from this authority, and the application is told of
    each request whether its client presented one. Loaded anew when it changes, as the certificate is."""
    client_names: tuple[str, ...] = ()
    """When set, that certificate must also carry one of these as its common name or as a DNS name."""
    certificate_check_seconds: float = 5.0
    """How often the files are looked at for a new certificate."""
    threads: int = 16
    """So many requests may wait for something at the same time; computing is done by one at a time."""
    drain_seconds: float = 0.0
    """Go on accepting connections for so long after SIGTERM, until the Service sends no more. Every answer from then on
    ends its connection, so that the API server opens its next one to another replica."""
    graceful_seconds: float = 10.0
    """For the requests in flight after that; then those that have not arrived whole are told to come again."""
    max_body_bytes: int = 7 * 2**20
    """Larger bodies are not received: the application sees the Content-Length and no body. One without a
    Content-Length is answered 411 at its head."""
    keepalive_seconds: float = 120.0
    """Longer than the 90 s after which the API server closes an idle connection."""
    handshake_seconds: float = 5.0
    """From the connection to the end of the TLS handshake."""
    request_seconds: float = 10.0
    """From the first byte of a request to its last; the API server waits for 30 s at most, 5 s as we register it."""
    max_connections: int = 2000
    """Open at the same time, each with one file descriptor. When there are as many, those that have done nothing for
    2 s are ended; where there are none, more connections wait in the backlog."""


def serve(settings: ServerSettings, application: Callable[[], Application]) -> None:
    """Serve until SIGTERM, then raise `SystemExit` with status 0.

    The factory is called in the one worker process, where it may start threads. When it raises, or the certificate
    cannot be used, the status is 3 and the reason is in the log.
    """
    _Server(settings, application).run()


class _Server(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    def __init__(self, settings: ServerSettings, factory: Callable[[], Application]) -> None:
        self.settings = settings
        self._factory = factory
        super().__init__()

    def load_config(self) -> None:
        """Set everything that must not come from gunicorn's defaults, which depend on the environment."""
        for name, value in _gunicorn_settings(self.settings).items():
            self.cfg.set(name, value)

    def load(self) -> Application:
        """Make the application; called in the worker process."""
        return self._factory()


def _gunicorn_settings(settings: ServerSettings) -> dict[str, Any]:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    shared_memory = Path("/dev/shm")  # noqa: S108  only for files that are unlinked at once, with unguessable names
    return {
        "bind": [f"{host}:{port}" for port in (settings.port, settings.metrics_port) if port is not None],
        "worker_class": PollingWorker,
        "workers": 1,
        "threads": settings.threads,
        "preload_app": False,
        "timeout": _STUCK_SECONDS,
        "graceful_timeout": int(settings.drain_seconds + settings.graceful_seconds) + 3,
        "certfile": str(settings.cert_file),
        "keyfile": str(settings.key_file),
        "worker_tmp_dir": str(shared_memory) if shared_memory.is_dir() else None,
        "logger_class": _Log,
        "accesslog": None,
        "control_socket_disable": True,
        "dirty_workers": 0,
        # No proxy stands before the server: nobody is believed who says that one does. Looking for the peer in a list
        # of addresses would cost time in every request, so everyone is allowed to set none of these headers.
        "forwarded_allow_ips": "*",
        "secure_scheme_headers": {},
        "forwarder_headers": "",
    }


class _Log(Logger):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's messages as those of any library: logger `gunicorn.error`, handled as the process handles its log."""

    def setup(self, cfg: Any) -> None:
        """Leave handlers and formats alone."""
        self.cfg = cfg
        self._access_log_enabled = False
        self.loglevel = logging.INFO
        self.error_log.propagate = True
        self.error_log.setLevel(logging.INFO)
