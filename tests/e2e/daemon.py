"""Background processes of tests: in a process group of their own, stopped by pid, and never outliving the test run."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.e2e.eventually import PATIENCE

_LAUNCHER = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class Daemon:
    """A process that is killed by the kernel when the thread that started it ends, however that happens.

    Start it from the main thread. Its output goes to `log`; Ctrl-C in the terminal does not reach it.
    """

    def __init__(self, argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=env,
            )

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its group."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, None while it runs."""
        return self._process.poll()

    def wait_until(self, ready: Callable[[], bool], *, seconds: float = PATIENCE) -> None:
        """Wait for `ready()`; RuntimeError with the end of the log when the process ends first or time runs out.

        A process that is not ready in time is killed: Python would warn of it in whichever test runs next.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            if self.returncode is not None:
                raise RuntimeError(f"ended with status {self.returncode} before it was ready:\n{self._tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"not ready after {seconds:g} s:\n{self._tail()}")
            time.sleep(0.05)

    def stop(self, *, grace: float = 5.0) -> None:
        """SIGTERM, then SIGKILL to the whole group after `grace` seconds; nothing happens when it has ended already."""
        if self.returncode is None:
            self._process.terminate()
            try:
                self._process.wait(grace)
            except subprocess.TimeoutExpired:
                os.killpg(self.pid, signal.SIGKILL)
                self._process.wait()

    def kill(self) -> None:
        """SIGKILL to the whole group, as a crash would look to everybody else."""
        if self.returncode is None:
            os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()

    def _tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])
