"""Certificates, a server process and plain sockets for the tests of the server."""

import contextlib
import datetime
import ipaddress
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
"""Seconds after which a test gives up; nothing that works takes so long."""


def make_certificate(directory, name="server", password=None, dns_names=()):
    """Write a self-signed certificate and its key; return both paths. Each certificate is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), *map(x509.DNSName, dns_names)]
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = directory / f"{name}.crt", directory / f"{name}.key"
    cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    return cert_file, key_file


def trusting(cert_file, *own):
    """A client's TLS context that trusts this certificate, perhaps with one of its own."""
    context = ssl.create_default_context(cafile=cert_file)
    if own:
        context.load_cert_chain(*own)
    return context


@dataclass
class Client:
    """One connection; reads answers from the bytes, since a library would hide what is tested."""

    sock: socket.socket
    buffer: bytes = b""

    def send(self, data):
        self.sock.sendall(data)
        return self

    def ask(self, path="/echo", body=b"", **headers):
        """Send a request and return status, headers and body of the answer."""
        return self.send(request(path, body, **headers)).answer()

    def answer(self):
        head = self._until(lambda: self.buffer.find(b"\r\n\r\n") + 4 if b"\r\n\r\n" in self.buffer else 0)
        status, *lines = head.decode().strip().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        length = int(headers.get("content-length", 0))
        body = self._until(lambda: length if len(self.buffer) >= length else 0) if length else b""
        return int(status.split()[1]), headers, body

    def is_dismissed(self):
        """Whether the server ends an idle connection with what makes the API server repeat a request on its way."""
        status, headers, _ = self.answer()
        return (status, headers["retry-after"], headers["connection"]) == (503, "1", "close") and self.ended()

    def ended(self):
        """Return whether the server ends the connection, cleanly; raises ConnectionResetError when it does not."""
        return not self.buffer and self.sock.recv(1) == b""

    def _until(self, find):
        while not (end := find()):
            data = self.sock.recv(65536)
            if not data:
                raise EOFError(f"the connection ended after {self.buffer[:200]!r}")
            self.buffer += data
        found, self.buffer = self.buffer[:end], self.buffer[end:]
        return found


def request(path="/echo", body=b"", **headers):
    head = [f"POST {path} HTTP/1.1", "Host: webhook", f"Content-Length: {len(body)}"]
    head += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(head) + "\r\n\r\n").encode() + body


class Server:
    """A server process; `connections` are closed at the end of the test."""

    def __init__(self, directory, **settings):
        self.port = _free_port()
        self.log_file = directory / "server.log"
        self.cert_file, self.key_file = make_certificate(directory)
        files = {"cert_file": str(self.cert_file), "key_file": str(self.key_file)}
        arguments = json.dumps({"port": self.port, **files, **settings})
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("served.py")), arguments],
                stderr=log,
                stdout=log,
                cwd=directory,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        self.trust = trusting(self.cert_file)
        self.connections = contextlib.ExitStack()

    @property
    def log(self):
        return self.log_file.read_text()

    def wait_until_up(self):
        wait_for(lambda: self.process.poll() is not None or "Booting worker" in self.log)
        with self.connect() as client:
            client.sock.settimeout(PATIENCE)
            assert client.ask("/readyz")[0] == 200
        return self

    def tcp(self, timeout=PATIENCE):
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as Go does
        return self.connections.enter_context(sock)

    def tls(self, context=None):
        return self.tls_over(self.tcp(), context)

    def tls_over(self, sock, context=None):
        sock = (context or self.trust).wrap_socket(sock, server_hostname="127.0.0.1")
        return Client(self.connections.enter_context(sock))

    @contextlib.contextmanager
    def connect(self, context=None):
        client = self.tls(context)
        try:
            yield client
        finally:
            client.sock.close()

    def seconds_to_answer(self):
        """How long a client waits that comes now, from the TCP handshake to the end of the answer."""
        before = time.monotonic()
        with self.connect() as client:
            assert client.ask(body=b"hello")[2] == b"hello"
        return time.monotonic() - before

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def paused(self):
        return paused_worker(self.process.pid)

    def memory(self):
        """KiB of the worker that are resident."""
        status = Path(f"/proc/{worker_of(self.process.pid)}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))

    def stop(self):
        self.connections.close()
        if self.process.poll() is None:
            self.terminate()
        return self.process.wait(PATIENCE)


def worker_of(arbiter):
    """The process that serves, of the one that watches over it."""
    (worker,) = map(int, Path(f"/proc/{arbiter}/task/{arbiter}/children").read_text().split())
    return worker


@contextlib.contextmanager
def paused_worker(arbiter):
    """The process that serves stands still, as one that gets no CPU; the kernel goes on receiving for it."""
    worker = worker_of(arbiter)
    os.kill(worker, signal.SIGSTOP)
    try:
        wait_for(lambda: Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        yield
    finally:
        os.kill(worker, signal.SIGCONT)


@contextlib.contextmanager
def serving(directory, **settings):
    server = Server(directory, **settings)
    try:
        yield server.wait_until_up()
    except BaseException:
        print(server.log)
        raise
    finally:
        server.stop()


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def _free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]
