"""One replica as operators run it, a process that answers over TLS, and a client that sees every byte of it."""

import contextlib
import json
import os
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from certs.files import ensure_files
from tests.admission.serving import PATIENCE, Client, paused_worker
from tests.e2e.daemon import Daemon
from tests.replicas import POLICY

ROOT = Path(__file__).parent.parent


class Operated:
    """A replica with the policy of `tests.replicas`; `policies` is a directory that tests may edit."""

    def __init__(self, directory: Path, *flags: str) -> None:
        self.directory = directory
        self.policies = directory / "policies"
        self.policies.mkdir()
        (self.policies / "_default.yaml").write_text(POLICY)
        self.files = ensure_files(directory / "certs", ["127.0.0.1"])
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self._flags = flags
        self._opened = contextlib.ExitStack()
        self.daemon: Daemon | None = None

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

    def connect(self, *certificate: Path) -> Client:
        """A new connection, perhaps with a certificate and its key; it ends with the test."""
        trust = ssl.create_default_context(cafile=str(self.files.ca_file))
        if certificate:
            trust.load_cert_chain(*certificate)
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as Go does
        return Client(self._opened.enter_context(trust.wrap_socket(sock, server_hostname="127.0.0.1")))

    def ask(self, path: str, review: Any) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer to a review, on a new connection."""
        return ask(self.connect(), path, review)

    def page(self, path: str) -> tuple[int, str]:
        """Status and text of a page that is read with GET."""
        client = self.connect().send(f"GET {path} HTTP/1.1\r\nHost: replica\r\n\r\n".encode())
        status, _, text = client.answer()
        return status, text.decode()

    def metric(self, name: str, **labels: str) -> float:
        """The value of one series, 0 where it does not exist."""
        families = text_string_to_metric_families(self.page("/metrics")[1])
        samples = [sample for family in families for sample in family.samples if sample.name == name]
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())

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
