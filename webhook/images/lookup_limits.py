"""The limits of a look-up, the deadline that keeps its limit of time, and the error of a look-up that failed."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LookupLimits:
    """The limits of one look-up. A response beyond a limit is an error; it is never cut."""

    seconds: float = 15.0
    """For the whole look-up."""
    request_seconds: float = 8.0
    """For one request, from resolving the name to the last byte of the response."""
    redirects: int = 3
    """Hops after the first request."""
    header_bytes: int = 64 * 1024
    """For the headers of one response."""
    manifest_bytes: int = 4 * MIB
    """For a manifest or index; registries accept as much (OCI distribution 1.1)."""
    config_bytes: int = 8 * MIB
    """For the configuration of an image. Real ones have a few KiB to a few hundred KiB."""
    token_bytes: int = 64 * 1024
    """For the response of a token server."""


class Deadline:
    """A moment `seconds` from now, or the moment of `outer` if that is earlier."""

    def __init__(self, seconds: float, outer: "Deadline | None" = None) -> None:
        end = time.monotonic() + seconds
        self._end: float = end if outer is None else min(end, outer._end)

    def left(self) -> float:
        """The seconds until the deadline, more than 0. Raises TimeoutError after it."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("time has run out")
        return left


class ImageLookupError(Exception):
    """A look-up failed. The text says which host failed and how; it has no secret and no address of the network.

    `is_lasting`: trying again soon is useless. `retry_after`: seconds to wait before the next request, as the registry
    demands; at most an hour, 0 if it demands nothing.
    """

    def __init__(self, text: str, *, is_lasting: bool = True, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.is_lasting = is_lasting
        self.retry_after = retry_after


@contextmanager
def naming_registry(name: str) -> Iterator[None]:
    """Put the name of the registry before the text of an ImageLookupError, unless the text begins with it."""
    try:
        yield
    except ImageLookupError as error:
        text = str(error) if str(error).startswith(name) else f"{name}: {error}"
        raise ImageLookupError(text, is_lasting=error.is_lasting, retry_after=error.retry_after) from error
