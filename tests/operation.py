"""One replica as operators run it, a process that answers over TLS, and a client that sees every byte of it."""

import contextlib
import json
import os
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.certificate_files import CertificateFiles
from tests.e2e.daemon import Daemon
from tests.replicas import POLICY
from tests.server.serving import PATIENCE, Client, paused_worker

ROOT = Path(__file__).parent.parent


class Operated:
    """A replica with the policy of `tests.replicas`; `policies` is a directory that tests may edit."""

    def __init__(self, directory: Path, *flags: str) -> None:
        self.directory = directory
        self.policies = directory / "policies"
        self.policies.mkdir()
        (self.policies / "_default.yaml").write_text(POLICY)
        self.files = CertificateFiles(directory / "certs", ["127.0.0.1"])
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self._flags = flags
        self._opened = contextlib.ExitStack()
        self.daemon: Daemon | None = None
        self._kept_until = 0.0

    def start(self) -> None:
        """Start the process and return when it listens."""
        arguments = [
            f"--policies={self.policies}",
            f"--cert={self.files.cert_file}",
            f"--key={self.files.key_file}",
            "--host=127.0.0.1",
            f"--port={self.port}",
            *self._flags,
        ]
        self.daemon = Daemon(
            [sys.executable, "-m", "webhook", "serve", *arguments],
            log=self.directory / "replica.log",
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self.daemon.wait_until(self._answers)

    def stop(self) -> None:
        """End the process as Kubernetes does, and every connection that the test has opened."""
        self._opened.close()
        if self.daemon is not None:
            self.daemon.stop(grace=30)

    def connect(self, *certificate: Path, port: int = 0) -> Client:
        """A new connection, perhaps with a certificate and its key, perhaps to another port; it ends with the test."""
        trust = ssl.create_default_context(cafile=str(self.files.ca_file))
        if certificate:
            trust.load_cert_chain(*certificate)
        sock = socket.create_connection(("127.0.0.1", port or self.port), timeout=PATIENCE)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as Go does
        return Client(self._opened.enter_context(trust.wrap_socket(sock, server_hostname="127.0.0.1")))

    def ask(self, path: str, review: Any) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer to a review, on a new connection."""
        return ask(self.connect(), path, review)

    def page(self, path: str, port: int = 0) -> tuple[int, str]:
        """Status and text of a page that is read with GET, perhaps on another port."""
        client = self.connect(port=port).send(f"GET {path} HTTP/1.1\r\nHost: replica\r\n\r\n".encode())
        status, _, text = client.answer()
        return status, text.decode()

    def metric(self, name: str, **labels: str) -> float:
        """The value of one series now, 0 where it does not exist; the page is made at most once a second."""
        time.sleep(max(0.0, self._kept_until - time.monotonic()))
        families = text_string_to_metric_families(self.page("/metrics")[1])
        self._kept_until = time.monotonic() + 1.1
        samples = [sample for family in families for sample in family.samples if sample.name == name]
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())

    def peak_memory(self) -> int:
        """The most bytes that the process which answers ever had in memory."""
        assert self.daemon is not None
        (worker,) = Path(f"/proc/{self.daemon.pid}/task/{self.daemon.pid}/children").read_text().split()
        lines = Path(f"/proc/{worker}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))

    def paused(self) -> AbstractContextManager[None]:
        """The process that answers stands still, as one that gets no CPU; the kernel goes on receiving for it."""
        assert self.daemon is not None
        stopped: AbstractContextManager[None] = paused_worker(self.daemon.pid)
        return stopped

    def _answers(self) -> bool:
        try:
            return self.page("/livez")[0] == 200
        except OSError:
            return False


def ask(client: Client, path: str, review: Any) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer to a review."""
    return client.ask(path, json.dumps(review).encode(), content_type="application/json")


@contextlib.contextmanager
def operated(directory: Path, *flags: str) -> Iterator[Operated]:
    """A replica that answers, until the block ends."""
    replica = Operated(directory, *flags)
    try:
        replica.start()
        yield replica
    finally:
        replica.stop()
