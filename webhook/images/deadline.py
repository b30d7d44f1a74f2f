"""Time that runs out."""

import time


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
