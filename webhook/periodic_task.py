"""Work that a thread repeats: what goes wrong is logged once, and never ends the thread."""

import logging
import random
import threading
from collections.abc import Callable

CLOSE_SECONDS = 1.5
"""For which `PeriodicTask.close` waits: a request that hangs is left to itself."""


class Attempts:
    """Makes attempts at something. Only one thread at a time may make them.

    What an attempt raises is logged after `said` and a colon, once, until another error comes or an attempt succeeds.
    Errors of the `expected` types are logged as their text, all others are bugs and bring a traceback.
    """

    def __init__(
        self,
        log: logging.Logger,
        said: str,
        expected: tuple[type[Exception], ...] = (),
        level: int = logging.ERROR,
    ) -> None:
        self._log = log
        self._said = said
        self._expected = expected
        self._level = level
        self.complaint = ""
        """What the last attempt failed of; empty where it succeeded, and before the first one."""

    def make(self, work: Callable[[], object]) -> bool:
        """Make one attempt; return whether it succeeded. Never raises an `Exception`."""
        complaint, bug = "", None
        try:
            work()
        except self._expected as error:
            complaint = str(error)
        except Exception as error:  # noqa: BLE001  # a bug met in one attempt must not end all later ones
            complaint, bug = repr(error), error
        if complaint and complaint != self.complaint:
            self._log.log(self._level, "%s: %s", self._said, complaint, exc_info=bug)
        self.complaint = complaint
        return not complaint


class PeriodicTask:
    """Does `work` every `seconds`, a fifth more or less, in a thread of its own. Make it after the fork.

    `work` comes first at once, or after the first wait where `waits_first`. It must not raise: see `Attempts.make`.
    """

    def __init__(self, name: str, work: Callable[[], object], seconds: float, *, waits_first: bool = False) -> None:
        self._work = work
        self._seconds = seconds
        self._waits_first = waits_first
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin. Call it once."""
        self._thread.start()

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """End, and wait for the work in progress for so many seconds at most. It may be called before `start`."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        if self._waits_first and self._stop.wait(about(self._seconds)):
            return
        while True:
            self._work()
            if self._stop.wait(about(self._seconds)):
                return


def about(seconds: float) -> float:
    """So many seconds, a fifth more or less, which keeps replicas that began together apart."""
    return seconds * random.uniform(0.8, 1.2)  # noqa: S311  # no secret
