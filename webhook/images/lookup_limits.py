"""How much of anything a registry is given.

A `Deadline` is time that runs out, and never restarts.

A `LookUpError` says why a registry could not be asked, or gave no usable answer.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
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


class Deadline:
    """A moment `seconds` from now, or that of `outer` where that comes first."""

    def __init__(self, seconds: float, outer: "Deadline | None" = None) -> None:
        end = time.monotonic() + seconds
        self._end: float = end if outer is None else min(end, outer._end)

    def left(self) -> float:
        """The seconds until then, more than 0. Raises TimeoutError afterwards."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("time has run out")
        return left


class LookUpError(Exception):
    """A look-up failed; the text says who failed and how, and holds no secret and no address of the network.

    `is_lasting`: asking again soon is useless. `retry_after`: seconds that the registry asked to be left alone for, at
    most an hour; 0 where it did not say.
    """

    def __init__(self, text: str, *, is_lasting: bool = True, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.is_lasting = is_lasting
        self.retry_after = retry_after


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Put the name of whoever is to blame before the text of a LookUpError, unless it stands there."""
    try:
        yield
    except LookUpError as error:
        text = str(error) if str(error).startswith(name) else f"{name}: {error}"
        raise LookUpError(text, is_lasting=error.is_lasting, retry_after=error.retry_after) from error
