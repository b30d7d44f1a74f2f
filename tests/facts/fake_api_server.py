"""An API server of a few lines, for faults that a real one cannot be provoked into; plain HTTP on the loopback."""

import json
import socket
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import yaml

from webhook.facts.snapshot import MAKING_KINDS

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
DEVICE_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
TEMPLATES = "/apis/resource.k8s.io/v1/resourceclaimtemplates"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
DRIVERS = "/apis/nvidia.com/v1alpha1/nvidiadrivers"
POLICIES = "/apis/nvidia.com/v1/clusterpolicies"


class Request(BaseHTTPRequestHandler):
    """One request, answered as the test says."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    """A body would wait 40 ms for the acknowledgement of its head."""
    server: "FakeApiServer"
    body: Any = None

    def do_GET(self) -> None:
        """Answer with what stands in for the path, else as an API server does."""
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query))
        self.server.seen.append((url.path, query))
        answer = self.server.instead_of_watch.get(url.path) if "watch" in query else None
        (answer or self._instead(url.path) or self.server.answer)(self, url.path, query)

    def do_POST(self) -> None:
        """Answer with what stands in for the path; `body` is what was sent."""
        url = urlsplit(self.path)
        self.body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.sent.append((self.command, url.path, self.body))
        answer = self._instead(url.path) or always(404, b"404 page not found\n")
        answer(self, url.path, dict(parse_qsl(url.query)))

    do_PUT = do_PATCH = do_DELETE = do_POST  # noqa: N815  # named by http.server

    def _instead(self, path: str) -> "Answer | None":
        under = (answer for prefix, answer in self.server.under.items() if path.startswith(prefix))
        return self.server.instead.get(path) or next(under, None)

    def send(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        """A whole answer; bytes as they are, anything else as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def begin_stream(self) -> None:
        """The head of an answer that goes on."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def go_on(self, content: bytes) -> None:
        """A part of such an answer; an empty one ends it."""
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


Answer = Callable[[Request, str, dict[str, str]], None]


class FakeApiServer(ThreadingHTTPServer):
    """Lists and watches of nodes, classes and pods. `seen` holds path and query of every request."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Request)
        followed = (NODES, RUNTIME_CLASSES, PRIORITY_CLASSES, DEVICE_CLASSES, CLAIMS, TEMPLATES, SLICES, PODS)
        followed += tuple(path for _, path, *_ in MAKING_KINDS.values())
        self.objects: dict[str, list[dict[str, Any]]] = {path: [] for path in followed}
        self.instead: dict[str, Answer] = {}
        """What stands in for a path, for lists and watches."""
        self.under: dict[str, Answer] = {}
        """What stands in for all paths that begin so."""
        self.instead_of_watch: dict[str, Answer] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.sent: list[tuple[str, str, Any]] = []
        """Method, path and body of every request that was sent with one."""
        self.closing = Event()
        self._events: dict[str, list[Queue[bytes]]] = defaultdict(list)
        self.sockets: list[socket.socket] = []
        Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def kubeconfig(self, directory: Path, token: str = "secret-token") -> Path:  # noqa: S107  # of no worth to anybody
        """A kubeconfig file that leads here."""
        cluster = {"name": "fake", "cluster": {"server": f"http://127.0.0.1:{self.server_port}"}}
        context = {"name": "fake", "context": {"cluster": "fake", "user": "fake"}}
        user = {"name": "fake", "user": {"token": token}}
        config = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "fake"}
        file = directory / "kubeconfig"
        file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **config}))
        return file

    def answer(self, request: Request, path: str, query: dict[str, str]) -> None:
        """What an API server would answer."""
        start, _, rest = path.partition("/namespaces/")
        namespace, _, resource = rest.partition("/")
        if path not in self.objects and (every := f"{start}/{resource}") in (PODS, CLAIMS):
            request.send(200, self._page([p for p in self.objects[every] if namespace_of(p) == namespace], query))
        elif path not in self.objects:
            request.send(200, {"major": "1"})
        elif "watch" not in query:
            request.send(200, self._page(self.objects[path], query))
        else:
            events: Queue[bytes] = Queue()
            self._events[path].append(events)
            request.begin_stream()
            while not self.closing.is_set():
                with suppress(Empty):
                    content = events.get(timeout=0.05)
                    request.go_on(content)
                    if not content:
                        return

    def _page(self, objects: Sequence[Any], query: Mapping[str, str]) -> dict[str, Any]:
        start, limit = int(query.get("continue", "0")), int(query["limit"])
        rest = {"continue": str(start + limit)} if start + limit < len(objects) else {}
        items = objects[start : start + limit]
        return {"kind": "List", "metadata": {"resourceVersion": "100", **rest}, "items": items}

    def tell(self, path: str, content: bytes) -> None:
        """Send these bytes to all watches; no bytes end the watches."""
        for events in self._events[path]:
            events.put(content)

    def tell_event(self, path: str, kind: str, found: Mapping[str, Any], version: str) -> None:
        """Send an event."""
        metadata = {**found.get("metadata", {}), "resourceVersion": version}
        self.tell(path, json.dumps({"type": kind, "object": {**found, "metadata": metadata}}).encode() + b"\n")

    def watches(self, path: str) -> list[dict[str, str]]:
        """The queries of the watches so far."""
        return [query for asked, query in list(self.seen) if asked == path and "watch" in query]

    def lists(self, path: str) -> list[dict[str, str]]:
        """The queries of the lists so far."""
        return [query for asked, query in list(self.seen) if asked == path and "watch" not in query]

    def vanish(self) -> None:
        """Stop listening and break off every connection."""
        self.closing.set()
        self.shutdown()
        self.server_close()
        self.break_off()

    def break_off(self) -> None:
        """Break off every connection in the middle of whatever it is at."""
        for connection in self.sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self.sockets.append(connection)
        return connection, address

    def handle_error(self, *arguments: object) -> None:
        """Clients go away; that is what they are tested for."""


def namespace_of(found: Any) -> object:
    """The namespace of an object, if it is one."""
    return found.get("metadata", {}).get("namespace") if isinstance(found, dict) else None


@contextmanager
def fake_api_server() -> Iterator[FakeApiServer]:
    """A server that is gone afterwards."""
    server = FakeApiServer()
    try:
        yield server
    finally:
        if not server.closing.is_set():
            server.vanish()


def always(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
    """One answer to all requests."""
    return lambda request, _path, _query: request.send(status, body, headers)


def first(*answers: Answer, then: Answer) -> Answer:
    """One answer after the other, and the last for ever."""
    left = list(answers)

    def answer(request: Request, path: str, query: dict[str, str]) -> None:
        (left.pop(0) if left else then)(request, path, query)

    return answer
