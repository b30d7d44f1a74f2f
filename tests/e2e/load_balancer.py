"""haproxy before the replicas, as simple as a Service: TCP, members by their /readyz, one attempt for a connection."""

import csv
import os
import random
import shutil
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.daemon import Daemon

HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")

EAGER = "observe layer4 error-limit 1 on-error mark-down on-marked-down shutdown-sessions"
"""A member goes at the first connection that it refuses. kube-proxy has nothing like it."""

_CONFIGURATION = """\
global
  stats socket ipv4@127.0.0.1:{stats_port} level operator
defaults
  mode tcp
  retries 0
  no option redispatch
  timeout connect 2s
  timeout client 10m
  timeout server 10m
  timeout check 2s
frontend service
  bind 127.0.0.1:{port}
  default_backend replicas
backend replicas
  balance roundrobin
  option httpchk GET {probe}
  http-check expect status 200
  default-server check check-ssl verify none inter 2s fall 2 rise 1 {extra}
"""
"""The checks are those of the readinessProbe in deploy/: every 2 s, out after 2 failures, in after one success."""


class LoadBalancer:
    """`port` of the loopback address leads to the `members`, ports of the same address. Start it from the main thread.

    `probe` is the page that decides about membership, `extra` are further settings of each member, as in EAGER.
    """

    def __init__(self, directory: Path, members: Sequence[int], *, probe: str = "/readyz", extra: str = "") -> None:
        self.port, self._stats_port = free_ports(2)
        text = _CONFIGURATION.format(port=self.port, stats_port=self._stats_port, probe=probe, extra=extra)
        self._file = directory / "haproxy.cfg"
        self._file.write_text(text + "".join(f"  server {port} 127.0.0.1:{port}\n" for port in members))
        self._daemon: Daemon | None = None

    def start(self) -> None:
        """Start haproxy and return when it listens."""
        assert HAPROXY, "no haproxy here"
        self._daemon = Daemon([HAPROXY, "-db", "-f", str(self._file)], log=self._file.with_suffix(".log"))
        self._daemon.wait_until(self._answers)

    def stop(self) -> None:
        """End it with every connection."""
        if self._daemon is not None:
            self._daemon.kill()

    def freeze(self) -> None:
        """Say nothing more and end nothing, as when a network forgets its connections; until `thaw`."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Go on."""
        self._signal(signal.SIGCONT)

    def members(self) -> set[int]:
        """The ports that get new connections at this moment."""
        return {int(row["svname"]) for row in self._statistics() if row["status"].startswith("UP")}

    def refused(self) -> int:
        """How many connections were sent to a port at which nobody listened, and so were lost."""
        return sum(int(row["econ"]) for row in self._statistics())

    def connections(self) -> int:
        """How many connections have been sent to members so far."""
        return sum(int(row["stot"]) for row in self._statistics())

    def _statistics(self) -> list[dict[str, str]]:
        with socket.create_connection(("127.0.0.1", self._stats_port), timeout=5) as connection:
            connection.sendall(b"show stat replicas 4 -1\n")
            text = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
        return list(csv.DictReader(text.removeprefix("# ").splitlines()))

    def _signal(self, number: signal.Signals) -> None:
        assert self._daemon is not None
        os.kill(self._daemon.pid, number)

    def _answers(self) -> bool:
        try:
            self.members()
        except OSError:
            return False
        return True


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that stay free while nobody listens: no outgoing connection is given one."""
    found: set[int] = set()
    while len(found) < count:
        port = random.randrange(20_000, 32_000)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        found.add(port)
    return sorted(found)
