"""Work that a thread repeats. An error is logged once, and never ends the thread."""

import logging
import random
import threading
from collections.abc import Callable

CLOSE_SECONDS = 1.5
"""Longest time that `PeriodicTask.close` waits; a request that hangs ends with the process."""


class Attempts:
    """Makes attempts and logs their errors. Only one thread at a time may use it.

    The error of an attempt is logged after `subject` and a colon. It is logged once, until another error comes or an
    attempt succeeds. Errors of the `expected` types are logged as their text; other errors are bugs, with a traceback.
    """

    def __init__(
        self,
        log: logging.Logger,
        subject: str,
        expected: tuple[type[Exception], ...] = (),
        level: int = logging.ERROR,
    ) -> None:
        self._log = log
        self._subject = subject
        self._expected = expected
        self._level = level
        self.complaint = ""
        """The error of the last attempt; empty if it succeeded, and before the first attempt."""

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
            self._log.log(self._level, "%s: %s", self._subject, complaint, exc_info=bug)
        self.complaint = complaint
        return not complaint


class PeriodicTask:
    """Does `work` every `seconds`, a fifth more or less, in a new thread. Create it after the fork.

    The first `work` comes at once, or with `waits_first` after a wait. `work` must not raise: see `Attempts.make`.
    """

    def __init__(self, name: str, work: Callable[[], object], seconds: float, *, waits_first: bool = False) -> None:
        self._work = work
        self._seconds = seconds
        self._waits_first = waits_first
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread. Call it once."""
        self._thread.start()

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """End the thread, and wait at most `seconds` for the work in progress. It may be called before `start`."""
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
    """A time near `seconds`, a fifth more or less, so that replicas that started together do not act together."""
    return seconds * random.uniform(0.8, 1.2)  # noqa: S311  # no secret
