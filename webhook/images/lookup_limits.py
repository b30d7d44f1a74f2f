"""How much of anything a registry is given."""

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LookupLimits:
    """Bounds of one look-up. What reaches one is refused, never cut."""

    seconds: float = 15.0
    """For everything that one look-up does."""
    request_seconds: float = 8.0
    """For one request, from the resolution of the name to the last byte of the answer."""
    redirects: int = 3
    """Hops after the first request."""
    header_bytes: int = 64 * 1024
    """For the head of one answer."""
    manifest_bytes: int = 4 * MIB
    """For a manifest or index; what registries accept (OCI distribution 1.1)."""
    config_bytes: int = 8 * MIB
    """For the configuration of an image; those of real ones are a few KiB to a few hundred."""
    token_bytes: int = 64 * 1024
    """For the answer of a token server."""
