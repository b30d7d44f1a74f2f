"""One thread at a time polls, reads, answers and writes; another takes over only when that one is held up.

Threads that work at the same time contend for the interpreter lock at every system call: with requests this short,
four threads answer a third fewer of them than one. So the threads of the server share a baton. Its holder does
everything. When the application keeps it waiting, the baton is taken away and the next thread goes on with the others.
"""

import threading


class Call:
    """One call of the application, during which the baton may change hands."""

    __slots__ = ("lost",)

    def __init__(self) -> None:
        self.lost = False


class LeaderLock:
    """Held by the thread that serves; changes hands during a `Call` only."""

    def __init__(self) -> None:
        self._held = threading.Lock()
        self._guard = threading.Lock()
        self.call: Call | None = None
        """What the holder is doing just now, if it is a call of the application."""

    def acquire(self) -> None:
        """Wait until no other thread serves."""
        self._held.acquire()

    def release(self) -> None:
        """Let another thread serve."""
        self._held.release()

    def begin_call(self) -> Call:
        """Say that the holder goes into the application, where it may be held up."""
        call = Call()
        self.call = call
        return call

    def end_call(self, call: Call) -> bool:
        """Return whether the thread that made this call still has the baton."""
        with self._guard:
            if call.lost:
                return False
            self.call = None
            return True

    def take_from(self, call: Call) -> None:
        """Pass the baton on, if this call still goes on and has it."""
        with self._guard:
            if self.call is not call:
                return
            call.lost = True
            self.call = None
            self._held.release()
