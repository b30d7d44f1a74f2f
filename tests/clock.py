"""A clock that tests set by hand, in place of the wall clock and of the monotonic one."""


class Clock:
    """The time in seconds, which passes when a test says so."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """The time."""
        return self.now
