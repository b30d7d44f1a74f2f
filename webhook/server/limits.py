"""What a client may take before the server stops waiting for it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """What a client may take; times in seconds, kept to within one second."""

    connections: int
    """Open at the same time; more wait in the listener's backlog, at most until those that do nothing are ended."""
    quiet: float = 2.0
    """When there is no room for more connections, those are ended whose clients have done nothing for so long."""
    handshake: float
    """From the connection to the end of the TLS handshake."""
    request: float
    """From the first byte of a request to its last; so long is also borne with a request that will not be read."""
    idle: float
    """Between requests. The API server keeps idle connections for 90 s, and whoever closes first risks a reset."""
    stop: float
    """For everything that has begun when the server stops, but for idle connections."""
    answer: float = 10.0
    """For taking the answer."""
    goodbye: float = 2.0
    """When the server stops: for a last request on an idle connection, or the rest of one that will not be read."""
