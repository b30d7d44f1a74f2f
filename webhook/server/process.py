"""The server process: gunicorn around the application, without the features that a webhook does not need.

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

_STUCK_SECONDS = 30
"""Seconds without serving after which a worker is killed and replaced."""


class Application(Protocol):
    """The application that is served."""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request (WSGI); `webhook.server.worker.Clients` says what else is in its environment."""

    def refused(self, status: int) -> None:
        """Count a request that the server has answered itself with this status. Called from any thread."""

    def drain(self) -> None:
        """Turn unready: the server is about to stop. Called once."""

    def close(self) -> None:
        """Release all resources; no request follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How to serve; times in seconds."""

    host: str
    port: int
    metrics_port: int | None = None
    """A second port. The environment of a request says which port it came to."""
    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    """When set, clients' certificates must be issued by this authority, and the environment of a request says whether
    its client presented one. The file is loaded anew when it changes, as the serving certificate is."""
    client_names: tuple[str, ...] = ()
    """When set, that certificate must also carry one of these as its common name or as a DNS name."""
    certificate_check_seconds: float = 5.0
    """Pause between two looks for a new certificate."""
    threads: int = 16
    """Threads for large requests, and for requests that wait. The event loop answers all others."""
    drain_seconds: float = 0.0
    """Time after SIGTERM in which connections are accepted, until the Service sends no more. Every answer then ends its
    connection, so that the API server connects to another replica next."""
    graceful_seconds: float = 10.0
    """Time for requests in flight after that. A request that does not arrive within 2 s of that gets a 503."""
    max_body_bytes: int = 7 * 2**20
    """Larger bodies are answered with 413, and bodies without Content-Length with 411. The API server accepts objects
    of about 3 MiB, and an UPDATE carries two of them."""
    keepalive_seconds: float = 120.0
    """Time that an idle connection is kept: longer than the 90 s after which the API server closes it."""
    handshake_seconds: float = 5.0
    """Time from the connection to the end of the TLS handshake."""
    request_seconds: float = 10.0
    """Time from the first byte of a request to its last. The API server waits for 5 s as registered, 30 s at most."""
    max_connections: int = 2000
    """Connections at a time, each with one file descriptor, beyond which connections without activity for 2 s are
    ended, and beyond twice as many all that wait for their clients. New ones are always accepted."""


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
        """Set all options whose defaults in gunicorn depend on the environment."""
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
        "worker_class": "webhook.server.worker.LoopWorker",
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
        # No proxy stands before the server, so no header of a proxy is believed. Comparing each peer with a list of
        # addresses would cost time in every request: all peers are in the list, and the list of headers is empty.
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
