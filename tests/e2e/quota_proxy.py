"""What stands between one replica and the API server: it delays what watches tell, and breaks single calls."""

import http.client
import json
import random
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from urllib.parse import parse_qs, urlsplit

import yaml

from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import NAMESPACE

Concerns = Callable[[str, str], bool]
"""Whether a fault concerns a call, by its method and its path with the query."""


def ledger_writes(method: str, path: str) -> bool:
    """Calls that change the ledger of a quota."""
    return method != "GET" and ledger_calls(method, path)


def ledger_calls(_method: str, path: str) -> bool:
    """Calls that read or change the ledger of a quota."""
    return urlsplit(path).path.startswith(f"/api/v1/namespaces/{NAMESPACE}/configmaps")


class ApiProxy(ThreadingHTTPServer):
    """Leads to the API server of `plane`, under its own certificate. It is `kubeconfig` that leads here.

    `watch_delay` is how many seconds late at most each event of a watch arrives; they stay in order.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Call)
        self.plane = plane
        self.watch_delay = 0.0
        self.refused: Concerns = _nothing
        self.held: Concerns = _nothing
        self.unanswered = threading.Event()
        """Set from the first answer that was held back."""
        self.released = threading.Event()
        self.upstream = ssl.create_default_context(cafile=str(plane.ca_file))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(plane.directory / "tls.crt", plane.directory / "tls.key")
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.kubeconfig = directory / f"through-{self.server_port}"
        content = yaml.safe_load(plane.kubeconfig.read_text())
        content["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self.server_port}"
        self.kubeconfig.write_text(yaml.safe_dump(content))
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        """Listen no more; what is held is let go."""
        self.released.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, *_: object) -> None:
        """Connections of replicas that were killed break off; that is no news."""

    @contextmanager
    def refusing(self, concerns: Concerns) -> Iterator[None]:
        """Answer 403 as the API server does without the right, and do nothing."""
        self.refused = concerns
        try:
            yield
        finally:
            self.refused = _nothing

    @contextmanager
    def holding(self, concerns: Concerns) -> Iterator[threading.Event]:
        """Do what is asked, but keep the answer back until the block ends; gives what is set once that happened."""
        self.unanswered.clear()
        self.released.clear()
        self.held = concerns
        try:
            yield self.unanswered
        finally:
            self.held = _nothing
            self.released.set()


class _Call(BaseHTTPRequestHandler):
    """The calls of one connection, handed on over one connection."""

    protocol_version = "HTTP/1.1"
    server: ApiProxy
    _upstream: http.client.HTTPSConnection | None = None

    def do_GET(self) -> None:
        """Hand on any call."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.refused(self.command, self.path):
            message = f"User cannot {self.command} {urlsplit(self.path).path}: the right was taken away"
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "message": message}
            self._whole(403, json.dumps({**status, "reason": "Forbidden"}).encode(), "application/json")
            return
        answer = self._asked(body)
        if parse_qs(urlsplit(self.path).query).get("watch", ["0"])[0] in {"1", "true"} and answer.status == 200:
            self._stream(answer)
            return
        content = answer.read()
        if self.server.held(self.command, self.path):
            self.server.unanswered.set()
            self.server.released.wait(60)
        self._whole(answer.status, content, answer.getheader("Content-Type", "application/json"))

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815  # the names that http.server calls

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def finish(self) -> None:
        """End both connections."""
        if self._upstream is not None:
            self._upstream.close()
        with suppress(OSError):
            super().finish()

    def _asked(self, body: bytes) -> http.client.HTTPResponse:
        if self._upstream is None:
            host = urlsplit(self.server.plane.url).netloc
            self._upstream = http.client.HTTPSConnection(host, timeout=320, context=self.server.upstream)
        hop_by_hop = {"connection", "host", "content-length", "accept-encoding"}
        headers = {name: value for name, value in self.headers.items() if name.lower() not in hop_by_hop}
        try:
            self._upstream.request(self.command, self.path, body or None, headers)
            return self._upstream.getresponse()
        except (OSError, http.client.HTTPException):
            self.close_connection = True
            raise

    def _whole(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, answer: http.client.HTTPResponse) -> None:
        """What a watch tells, line by line, each as late as chance will have it but never before the one ahead."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        waiting: Queue[tuple[float, bytes]] = Queue()
        threading.Thread(target=self._read, args=(answer, waiting), daemon=True).start()
        while True:
            due, line = waiting.get()
            time.sleep(max(0.0, due - time.monotonic()))
            self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
            if not line:
                return

    def _read(self, answer: http.client.HTTPResponse, waiting: Queue[tuple[float, bytes]]) -> None:
        due = 0.0
        # The end of it, whatever the reason; http.client has no attributes left where the other thread closes it.
        with suppress(OSError, http.client.HTTPException, ValueError, AttributeError):
            while line := answer.readline():
                due = max(due, time.monotonic() + random.uniform(0, self.server.watch_delay))
                waiting.put((due, line))
        waiting.put((due, b""))


def _nothing(_method: str, _path: str) -> bool:
    return False
