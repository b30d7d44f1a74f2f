"""Ends every decision that takes too long, at any place in its code, also in unexpected loops.

A thread watches the decisions that are being made. When a decision has used up its CPU time, or its sender no longer
waits, the interpreter raises an exception in the thread of the decision, between two steps. So rules need not look at
the clock, and stay pure. Work that is shared with other decisions, and must not be left half done, is done `outside`.
"""

import ctypes
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

_TICK_SECONDS = 0.05
_AGAIN_SECONDS = 1.0
"""Time after which the exception is raised again where the first one was lost, as in a finalizer."""

DECISION_SECONDS = 2.0
"""Default limit of CPU time for one decision, in seconds; usual pods take less than a thousandth of it."""

Result = TypeVar("Result")


class TookTooLongError(Exception):
    """A decision was ended. The text says which limit it exceeded; the cause has the place in the code."""


class _EndedError(BaseException):
    """Raised in the thread of a decision. It is no Exception, so that handlers of exceptions do not catch it."""


class _Watched:
    """Work of one thread, and when it has to end: by the thread's CPU clock and by the monotonic clock.

    No thread uses more CPU time than passes, so a CPU clock that jumps ends no work.
    """

    __slots__ = ("begun", "cpu_begun", "cpu_seconds", "ends", "raised_at", "thread")

    def __init__(self, cpu_seconds: float, ends: float) -> None:
        self.thread = threading.get_ident()
        self.cpu_begun = time.thread_time()
        self.begun = time.monotonic()
        self.cpu_seconds = cpu_seconds
        self.ends = ends
        self.raised_at = 0.0

    @property
    def is_over(self) -> bool:
        now = time.monotonic()
        return now >= self.ends or (now - self.begun >= self.cpu_seconds and self.spent(now) >= self.cpu_seconds)

    def spent(self, now: float) -> float:
        """CPU time so far in seconds. Any thread may ask while the watched thread lives."""
        used = time.clock_gettime(time.pthread_getcpuclockid(self.thread)) - self.cpu_begun
        return max(0.0, min(used, now - self.begun))


class Watchdog:
    """Watches the work of threads, and ends work that takes too long. Its own thread starts with the first work."""

    def __init__(self) -> None:
        self._running: dict[int, _Watched] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self, watched: _Watched) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
                    self._thread.start()
        self._running[watched.thread] = watched

    def end(self, watched: _Watched) -> None:
        """Called by the thread that has ended its work; from now on no exception is raised in it."""
        with self._lock:
            if self._running.pop(watched.thread, None) is not None and watched.raised_at:
                _take_back(watched.thread)

    def _run(self) -> None:
        while True:
            time.sleep(_TICK_SECONDS)
            for watched in list(self._running.values()):
                with self._lock:  # so that the work is not ended meanwhile, and its thread lives
                    now = time.monotonic()
                    is_running = self._running.get(watched.thread) is watched and watched.is_over
                    if is_running and (not watched.raised_at or now - watched.raised_at >= _AGAIN_SECONDS):
                        watched.raised_at = now
                        _raise_in(watched.thread)


def _raise_in(thread: int) -> None:
    """Raise the exception in a thread before its next step, in place of one that was not raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_EndedError))


def _take_back(thread: int) -> None:
    """Let the pending exception of the calling thread be raised now, and drop it.

    CPython can drop a pending exception, too. But then Python 3.11 looks for it at every step for ever: the process
    becomes a twentieth slower, and code under a profiler or a tracer hangs.
    """
    with suppress(_EndedError):
        _raise_in(thread)
        while True:
            pass  # here it comes


_WATCHDOG = Watchdog()


class DecisionDeadline:
    """The limits of one decision: CPU time in seconds, and the time (`time.monotonic`) until which its sender waits.

    Used by one thread.
    """

    __slots__ = ("_allowed", "_ends", "_left", "_watchdog", "_watched")

    def __init__(self, cpu_seconds: float, ends: float, watchdog: Watchdog = _WATCHDOG) -> None:
        self._allowed = self._left = cpu_seconds
        self._ends = ends
        self._watchdog = watchdog
        self._watched: _Watched | None = None

    def within(self, work: Callable[[], Result]) -> Result:
        """The result of `work`. Raises TookTooLongError where it exceeds a limit."""
        try:
            try:
                self._begin()
                return work()
            finally:
                self._end()
        except _EndedError as ended:
            self._end()
            raise TookTooLongError(self._bound()) from ended

    @contextmanager
    def outside(self) -> Iterator[None]:
        """A part of the work `within` that is never ended, because it has limits of its own."""
        watched = self._watched
        if watched is None:
            yield
            return
        self._end()
        self._left -= watched.spent(time.monotonic())
        try:
            yield
        finally:
            self._begin()

    def _begin(self) -> None:
        watched = self._watched = _Watched(self._left, self._ends)
        self._watchdog.begin(watched)

    def _end(self) -> None:
        watched = self._watched
        if watched is not None:
            self._watchdog.end(watched)
            self._watched = None

    def _bound(self) -> str:
        if time.monotonic() >= self._ends:
            return "took too long: the sender no longer waits"
        return f"took too long: more than the {self._allowed:g} s of CPU time that one decision may take"


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """How long a request may wait, and how it lets other requests be served meanwhile.

    `seconds` may be spent on waiting; `may_block` is called before it. `deadline` bounds the rest of the decision.
    """

    seconds: float = 1.0
    may_block: Callable[[], None] = lambda: None
    deadline: DecisionDeadline = field(default_factory=lambda: DecisionDeadline(DECISION_SECONDS, math.inf))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        with self.deadline.outside():
            self.may_block()
            yield
