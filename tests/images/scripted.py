"""A server with scripted responses, valid or not, on the loopback, with or without TLS."""

import json
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import Any

import pytest

from tests.images.images import Document
from webhook.images.allowlist import AllowList, Registry
from webhook.images.client import RegistryClient
from webhook.images.credentials import Credentials
from webhook.images.hosts import HostPattern
from webhook.images.http_request import ImageLookupError, LookupLimits
from webhook.model.image import ImageReference

LOOPBACK = "127.0.0.1"
HASTY = LookupLimits(seconds=0.6)
"""For servers that never answer."""
PATIENT = LookupLimits(seconds=20.0)
"""For all others, on a busy machine too."""
NAME = "registry.example"
REPOSITORY = "team/image"


@dataclass(frozen=True)
class Heard:
    """A received request. Names of headers are in lower case, and repeated headers are joined."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def authorization(self) -> str | None:
        return self.headers.get("authorization")


class Speaker:
    """One connection, after its request has arrived."""

    def __init__(self, connection: socket.socket, closing: Event) -> None:
        self._connection = connection
        self._closing = closing

    def send(self, content: bytes) -> None:
        """Send these bytes."""
        self._connection.sendall(content)

    def answer(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """Send a whole response."""
        lines = {"Content-Length": str(len(body)), **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.send(f"HTTP/1.1 {status} Some Reason\r\n{head}\r\n".encode() + body)

    def drip(self, content: bytes, *, seconds: float = 0.05, times: int = 200) -> None:
        """Send the bytes again and again, with pauses, until the client closes the connection."""
        for _ in range(times):
            if self._closing.wait(seconds):
                return
            self.send(content)

    def flood(self, content: bytes, *, times: int) -> None:
        """Send the bytes again and again, as fast as the client takes them."""
        for _ in range(times):
            self.send(content)


Script = Callable[[Heard, Speaker], None]


class ScriptedServer:
    """`scripts` has the script of each path, `otherwise` serves other paths. `heard` has every request."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.scripts: dict[str, Script] = {}
        self.otherwise: Script = whole(404)
        self.heard: list[Heard] = []
        self.connections = 0
        self._lock = Lock()
        self._tls = tls
        self._closing = Event()
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def holds(self, tag: str, *documents: Document) -> None:
        """Serve documents by their digests, and the first one also by a tag."""
        for each in documents:
            kind = "manifests" if "manifest" in each.media_type or "index" in each.media_type else "blobs"
            self.scripts[f"/v2/{REPOSITORY}/{kind}/{each.digest}"] = serving(each)
        self.scripts[f"/v2/{REPOSITORY}/manifests/{tag}"] = serving(documents[0])

    def paths(self) -> list[str]:
        """The paths of all requests."""
        return [heard.path for heard in self.heard]

    def close(self) -> None:
        """Close the server and its connections."""
        self._closing.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, ValueError), connection:  # some only connect
            connection.settimeout(10)
            secured = self._tls.wrap_socket(connection, server_side=True) if self._tls else connection
            with secured, secured.makefile("rb") as arriving:
                heard = _hear(arriving)
                with self._lock:
                    self.heard.append(heard)
                path = heard.path.partition("?")[0]
                self.scripts.get(path, self.otherwise)(heard, Speaker(secured, self._closing))


def _hear(arriving: Any) -> Heard:
    method, path, _ = arriving.readline().decode("latin-1").split(" ")
    headers: dict[str, str] = {}
    while line := arriving.readline().decode("latin-1").strip():
        name, _, value = line.partition(": ")
        name = name.lower()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    body = arriving.read(int(headers.get("content-length", "0")))
    return Heard(method, path, headers, body)


@contextmanager
def scripted(tls: ssl.SSLContext | None = None) -> Iterator[ScriptedServer]:
    """A server for the duration of the context."""
    server = ScriptedServer(tls)
    try:
        yield server
    finally:
        server.close()


def whole(status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Script:
    """A script that always sends this response."""
    return lambda _heard, speaker: speaker.answer(status, body, headers)


def serving(document: Document) -> Script:
    """A script that serves a document like a registry."""

    def serve(heard: Heard, speaker: Speaker) -> None:
        body = b"" if heard.method == "HEAD" else document.body
        headers = {
            "Content-Type": document.media_type,
            "Content-Length": str(len(document.body)),
            "Docker-Content-Digest": document.digest,
        }
        speaker.answer(200, body, headers)

    return serve


def redirect(location: str, status: int = 307) -> Script:
    """A script that redirects."""
    return whole(status, b"", {"Location": location})


def token(value: object, **changes: object) -> Script:
    """A script that sends a token."""
    return whole(200, json.dumps({"token": value, **changes}).encode(), {"Content-Type": "application/json"})


def guarded(inner: Script, authorization: str, challenge: str) -> Script:
    """A script that runs `inner` for the right authorization, and sends a challenge otherwise."""

    def guard(heard: Heard, speaker: Speaker) -> None:
        if heard.authorization == authorization:
            inner(heard, speaker)
        else:
            speaker.answer(401, b"{}", {"WWW-Authenticate": challenge})

    return guard


def reference(port: int, tag: str = "1", digest: str = "", name: str = NAME) -> ImageReference:
    """An image of the server at this port."""
    return ImageReference(f"{name}:{port}", REPOSITORY, tag, digest)


def listed(port: int, **changes: Any) -> Registry:
    """A registry without TLS on the loopback."""
    settings = {"plain_http": True, **changes}
    return Registry(HostPattern(NAME, port), **settings)


@pytest.fixture(autouse=True)
def examples_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name below `example` is the loopback's."""
    resolve = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *more, **options: resolve(LOOPBACK if host.endswith(".example") else host, *more, **options),
    )


def client(
    *registries: Registry, credentials: Credentials | None = None, limits: LookupLimits = PATIENT
) -> RegistryClient:
    """A client of these registries."""
    return RegistryClient(AllowList(registries), credentials, limits)


def refusal(
    server: ScriptedServer, limits: LookupLimits = PATIENT, tag: str = "1", digest: str = ""
) -> ImageLookupError:
    """The error of a look-up that must fail."""
    with pytest.raises(ImageLookupError) as caught:
        client(listed(server.port), limits=limits).look_up(reference(server.port, tag, digest))
    return caught.value
