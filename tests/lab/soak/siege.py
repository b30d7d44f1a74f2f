"""What a minute of attack does to others: their creates, the probes of the replicas, their processes and memory."""

import http.client
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.deploy.manifests import shipped
from tests.e2e.control_plane import ControlPlane
from tests.e2e.objects import gpu_pod
from tests.e2e.replica_set import Replica
from tests.lab.soak.attacks import refusals_of

MOST_MEMORY = 200 * 1024
"""kB that the process which answers may ever have used."""
_UNVERIFIED = ssl._create_unverified_context()  # noqa: S323  # a kubelet's probe does not look at certificates
SHARE = 0.99
"""Of the creates that have to succeed."""


class Siege:
    """Creates an ordinary GPU pod a second in a namespace, and probes every replica as the kubelet does.

    `failed` is what was said to creates that failed, `unanswered` what probes found. A pod goes when the next two are
    there, so that no quota fills up.
    """

    def __init__(self, plane: ControlPlane, namespace: str, replicas: Sequence[Replica]) -> None:
        self.created = 0
        self.failed: list[str] = []
        self.probed = 0
        self.unanswered: list[str] = []
        self._plane = plane
        self._namespace = namespace
        self._replicas = replicas
        self._workers = self._pids()
        self._ended = threading.Event()

    @contextmanager
    def going_on(self, seconds: float) -> Iterator[None]:
        """Enter the block, and leave it when so many seconds are over; pods and probes go on for all of them."""
        with ThreadPoolExecutor(64) as pool:
            clock = threading.Thread(target=self._tick, args=(pool,), daemon=True)
            clock.start()
            try:
                yield
                time.sleep(seconds)
            finally:
                self._ended.set()
                clock.join(60)

    def demand_that_nobody_noticed(self) -> None:
        """AssertionError unless pods came, every probe was answered, no process ended and none grew too large."""
        most = {replica.port: _peak(replica.worker) for replica in self._replicas if self._pids() == self._workers}
        found = {
            "creates that failed": self.failed if len(self.failed) > (1 - SHARE) * self.created else [],
            "probes that failed": self.unanswered,
            "workers that were replaced": [] if self._pids() == self._workers else [f"{self._workers} before"],
            "memory": [f"{port}: {kilobytes} kB" for port, kilobytes in most.items() if kilobytes > MOST_MEMORY],
        }
        said = [f"{len(what)} {kind}, such as {what[:3]}" for kind, what in found.items() if what]
        assert self.created > 0
        assert not said, f"of {self.created} creates and {self.probed} probes:\n" + "\n".join(said)

    def _tick(self, pool: ThreadPoolExecutor) -> None:
        due, number = time.monotonic(), 0
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            number += 1
            due += 1.0
            pool.submit(self._create, number)
            for replica in self._replicas:
                for probe in ("livenessProbe", "readinessProbe"):
                    pool.submit(self._probe, replica.port, probe)

    def _create(self, number: int) -> None:
        self.created += 1
        self._try(lambda: refusals_of(self._plane, self._namespace, gpu_pod(f"p-{number}", 1)), self.failed, "create")
        path = f"/api/v1/namespaces/{self._namespace}/pods/p-{number - 2}?gracePeriodSeconds=0"
        self._try(lambda: self._plane.raw("DELETE", path) and "", [], "delete")

    def _probe(self, port: int, name: str) -> None:
        probe = shipped().container[name]
        path, seconds = probe["httpGet"]["path"], probe["timeoutSeconds"]
        self.probed += 1
        self._try(lambda: _answer(port, path, seconds), self.unanswered, f"{port}{path}")

    def _try(self, call: Callable[[], str], complaints: list[str], what: str) -> None:
        began = time.monotonic()
        try:
            said = call()
        except (OSError, http.client.HTTPException) as error:
            said = repr(error)
        if said:
            complaints.append(f"{what}, after {time.monotonic() - began:.1f} s: {said[:300]}")

    def _pids(self) -> list[int]:
        return [replica.worker for replica in self._replicas]


def _answer(port: int, path: str, seconds: float) -> str:
    """What is wrong with the answer to a probe; empty where nothing is."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=seconds, context=_UNVERIFIED)
    try:
        connection.request("GET", path)
        status = connection.getresponse().status
    finally:
        connection.close()
    return "" if status == 200 else str(status)


def _peak(pid: int) -> int:
    """The most memory that a process has used so far, in kB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
