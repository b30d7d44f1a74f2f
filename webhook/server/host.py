"""What the poller needs of the server around it."""

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
        """Return what makes requests of the bytes of a new connection."""

    def secured(self, connection: Connection) -> None:
        """Called when its handshake is complete: the client has shown who it is."""

    def answer(self, connection: Connection, request: Any) -> Response | None:
        """Answer, or return None when the baton was lost and the answer will be delivered."""

    def refuse(self, peer: Any, error: Exception) -> Response:
        """Answer, without the application, a request that cannot be received."""
