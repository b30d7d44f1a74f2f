"""What the poller needs of the server around it, which is `webhook.server.worker.PollingWorker`."""

import ssl
from typing import Any, Protocol

from webhook.server.connection import Connection, Response
from webhook.server.framing import RequestReader


class PollerHost(Protocol):
    """The server around the poller. All but `tick` are about one connection."""

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
