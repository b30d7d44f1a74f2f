"""What clients may take: connections, time and memory. Beyond that the server stops waiting for them."""

from dataclasses import dataclass

from webhook.server.connection import Connection

_SMALL_ANSWER = 65_536
"""Bytes of an answer that is never counted."""
_LARGE_ANSWERS = 16 * 2**20
"""Bytes of larger answers that may wait together for clients to take them: whoever asks need not read."""
_HALF_SENT = 32 * 2**20
"""Bytes of requests that may be half sent, or wait for their turn, on all connections together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """What a client may take. Times are in seconds and kept to within one second."""

    connections: int
    """Connections open at the same time. More connections wait in the backlog until idle ones are ended."""
    quiet: float = 2.0
    """When there is no room, connections are ended whose clients have done nothing for this long."""
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
        self._senders: dict[Connection, None] = {}  # those with counted bytes, in the order in which they began

    @property
    def is_short(self) -> bool:
        """Whether more is half sent than all clients together may."""
        return self._half_sent > _HALF_SENT

    def senders(self) -> list[Connection]:
        """The connections with requests that have no answer yet; whoever began first comes first."""
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
        """Set bytes aside for an answer, until `let_go`; False where there is no room for so large an answer."""
        if size <= _SMALL_ANSWER:
            return True
        if size > self._room_for_answers:
            return False
        connection.held = size
        self._room_for_answers -= size
        return True

    def let_go(self, connection: Connection) -> None:
        """Give back what was set aside for an answer that is sent, or never will be."""
        self._room_for_answers += connection.held
        connection.held = 0
