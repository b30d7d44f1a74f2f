"""Servers to measure: the product, and a minimal Flask application answering a constant on the same gunicorn set-up."""

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.certificate_files import CertificateFiles
from tests.e2e.daemon import Daemon

ROOT = Path(__file__).resolve().parents[3]


class Served:
    """A running server; CPU and memory are those of its worker process and of gunicorn's arbiter together."""

    def __init__(self, daemon: Daemon, port: int, ca_file: Path) -> None:
        self.url = f"https://127.0.0.1:{port}"
        self.port = port
        self.ca_file = ca_file
        self._daemon = daemon

    @property
    def pids(self) -> list[int]:
        """The arbiter and its worker."""
        children = Path(f"/proc/{self._daemon.pid}/task/{self._daemon.pid}/children").read_text().split()
        return [self._daemon.pid, *map(int, children)]

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        ticks = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def rss_mib(self) -> list[float]:
        """Resident memory of the arbiter and of the worker."""
        return [_memory(pid, "VmRSS") for pid in self.pids]

    def decisions(self) -> int:
        """Lines of the decision log so far; those of the last tenth of a second may be missing."""
        with self._daemon.log.open("rb") as lines:
            return sum(b'"logger":"gpu_policy.decision"' in line for line in lines)

    def peak_mib(self) -> float:
        """The most that the worker ever had resident."""
        return _memory(self.pids[-1], "VmHWM")


def _memory(pid: int, field: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))


@contextmanager
def serve(directory: Path, name: str, command: Callable[[dict[str, Any]], list[str]]) -> Iterator[Served]:
    """Run the command that is made of certificate, key and port until the block ends."""
    files = CertificateFiles(directory / "certs", ["localhost", "127.0.0.1", "gpu-policy.gpu-policy.svc"])
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    argv = command({"cert": files.cert_file, "key": files.key_file, "port": port})
    daemon = Daemon(argv, log=directory / f"{name}.log")
    try:
        daemon.wait_until(lambda: _listens(port))
        time.sleep(1)
        yield Served(daemon, port, files.ca_file)
    finally:
        daemon.stop()


def product(policies: Path, *facts: str) -> Callable[[dict[str, Any]], list[str]]:
    """The command of the product; `facts` is its --inventory or --kubeconfig."""
    options = [f"--policies={policies}", *facts, "--host=127.0.0.1"]
    return lambda at: [sys.executable, "-m", "webhook", "serve", *options, *_options(at)]


def minimal(at: dict[str, Any]) -> list[str]:
    """The command of the minimal application."""
    return [sys.executable, "-m", "tests.lab.benchmarks.minimal", *_options(at)]


def _options(at: dict[str, Any]) -> list[str]:
    return [f"--{key}={value}" for key, value in at.items()]


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
