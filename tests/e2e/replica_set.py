"""Several replicas of the webhook as processes, each with policies of its own, as each has its own kubelet."""

import http.client
import json
import os
import signal
import ssl
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from tests.e2e.daemon import Daemon
from tests.e2e.installation import COMMAND
from tests.e2e.load_balancer import free_ports
from tests.e2e.mounted_config_map import MountedConfigMap

DRAIN_SECONDS = 5


class Replica:
    """One process at `port`; `arguments` say where facts and certificates come from, `policies` is its own mount.

    `{directory}` in an argument stands for a directory of this replica alone. `env` is its environment, by default that
    of the tests; like `arguments` it may be changed before a start.
    """

    def __init__(self, directory: Path, port: int, policies: Mapping[str, str], arguments: Sequence[str]) -> None:
        directory.mkdir()
        self.port = port
        self.policies = MountedConfigMap(directory / "policies", policies)
        self.log = directory / "webhook.log"
        self.env: Mapping[str, str] | None = None
        self.arguments = [
            f"--policies={self.policies.directory}",
            "--host=127.0.0.1",
            f"--port={port}",
            f"--drain-seconds={DRAIN_SECONDS}",
            *(argument.replace("{directory}", str(directory)) for argument in arguments),
        ]
        self._daemon: Daemon | None = None
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._tls.check_hostname = False  # a kubelet's probe does not look at the certificate either
        self._tls.verify_mode = ssl.CERT_NONE

    def begin(self) -> None:
        """Start the process, from the main thread; it is not ready yet."""
        self._daemon = Daemon([*COMMAND, "serve", *self.arguments], log=self.log, env=self.env)

    def start(self) -> None:
        """Start the process and return when it is ready."""
        self.begin()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """RuntimeError with the end of the log where that does not come."""
        assert self._daemon is not None
        self._daemon.wait_until(self.is_ready)

    def stop(self) -> int | None:
        """End it as Kubernetes does, with SIGTERM, and return the exit status; None where it was not running."""
        daemon, self._daemon = self._daemon, None
        if daemon is None:
            return None
        daemon.stop(grace=30)
        return daemon.returncode

    def kill(self) -> None:
        """SIGKILL to all of its processes."""
        daemon, self._daemon = self._daemon, None
        if daemon is not None:
            daemon.kill()

    @property
    def worker(self) -> int:
        """The pid of the process that answers; its parent, which holds the port, replaces it where it ends."""
        assert self._daemon is not None
        pid = self._daemon.pid
        (worker,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(worker)

    def kill_worker(self) -> None:
        """SIGKILL to the process that answers."""
        os.kill(self.worker, signal.SIGKILL)

    def is_ready(self) -> bool:
        """Whether /readyz answers 200."""
        try:
            return self.get("/readyz")[0] == 200
        except OSError:
            return False

    def certificate(self) -> bytes:
        """What it presents to a new connection, PEM."""
        return ssl.get_server_certificate(("127.0.0.1", self.port), timeout=10).encode()

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of one page."""
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=self._tls)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def ask(self, path: str, review: Any) -> Any:
        """The response to an AdmissionReview, sent past the API server."""
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=self._tls)
        try:
            connection.request("POST", path, json.dumps(review), {"Content-Type": "application/json"})
            return json.loads(connection.getresponse().read())["response"]
        finally:
            connection.close()

    def metric(self, name: str, *labels: str) -> float:
        """The sum of a metric over its series that have all these labels, each written `name="value"`."""
        lines = [line for line in self.get("/metrics")[1].splitlines() if line.startswith((f"{name}{{", f"{name} "))]
        return sum(float(line.rpartition(" ")[2]) for line in lines if all(label in line for label in labels))


class ReplicaSet:
    """`size` replicas and a place for one more, to which they move one by one; not started yet."""

    def __init__(self, directory: Path, policies: Mapping[str, str], arguments: Sequence[str], size: int = 3) -> None:
        directory.mkdir()
        self.ports = free_ports(size + 1)
        self._made = (
            Replica(directory / f"replica-{number}", port, policies, arguments)
            for number, port in enumerate(self.ports, 1)
        )
        self.running = [next(self._made) for _ in range(size)]
        self.idle = next(self._made)

    def start(self) -> None:
        """Start them all at the same moment and return when every one is ready."""
        for replica in self.running:
            replica.begin()
        for replica in self.running:
            replica.wait_until_ready()

    def stop(self) -> list[int | None]:
        """SIGTERM to all at the same moment; their exit statuses."""
        with ThreadPoolExecutor() as pool:
            return list(pool.map(Replica.stop, [*self.running, self.idle]))

    def replace_one_by_one(self) -> None:
        """A rolling update with maxSurge 1 and maxUnavailable 0: the next one ends when its successor is ready."""
        for place, old in enumerate(self.running):
            self.idle.start()
            self.running[place], self.idle = self.idle, old
            assert old.stop() == 0

    def restart_one_by_one(self) -> None:
        """The same without room for one more: each comes back where it was before the next one ends."""
        for replica in self.running:
            assert replica.stop() == 0
            replica.start()

    @contextmanager
    def readiness_watched(self) -> Iterator[list[str]]:
        """What the running replicas say at /readyz while they are not ready, four times a second."""
        said: list[str] = []
        ended = Event()

        def watch() -> None:
            while not ended.wait(0.25):
                for replica in self.running:
                    try:
                        status, text = replica.get("/readyz")
                    except OSError as error:
                        status, text = 0, str(error)
                    if status != 200:
                        said.append(f"{replica.port}: {text}")

        thread = Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield said
        finally:
            ended.set()
            thread.join(15)
