"""What a client may take before the server stops waiting for it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a client may take; times in seconds, kept to within one second."""

    connections: int
    """Open at the same time; more wait in the listener's backlog."""
    handshake: float
    """From the connection to the end of the TLS handshake."""
    request: float
    """From the first byte of a request to its last."""
    idle: float
    """Between requests. The API server keeps idle connections for 90 s, and whoever closes first risks a reset."""
    answer: float = 10.0
    """For taking the answer."""
    goodbye: float = 2.0
    """For ending the connection after an answer that came before the end of the request, and for a last request on an
    idle connection of a server that stops."""
