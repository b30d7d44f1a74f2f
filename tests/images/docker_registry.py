"""Debian's docker-registry on the loopback, with helpers to push images and to log in."""

import base64
import http.client
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding

from certs.authority import KeyPair, read_certificate, read_key
from tests.e2e.daemon import Daemon
from tests.e2e.load_balancer import free_ports
from tests.images.images import LAYER, Document
from tests.images.scripted import LOOPBACK, Heard, Script, Speaker

PROGRAM = shutil.which("docker-registry")

HTPASSWD = "robot:$2b$04$kgpC9Xkq7kK7xqVKo3IvE.pNVOXtuJj6lsZP3T2F22TYwkQm6hhS.\n"
"""The password is `open sesame`."""


class DockerRegistry:
    """A registry that listens at `port`. Several may share the directory `storage`."""

    def __init__(self, directory: Path, storage: Path, **settings: Any) -> None:
        (self.port,) = free_ports(1)
        http_settings = {"addr": f"{LOOPBACK}:{self.port}", **settings.pop("http", {})}
        content = {
            "version": 0.1,
            "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": str(storage)}},
            "http": http_settings,
            **settings,
        }
        self._file = directory / f"registry-{self.port}.yaml"
        self._file.write_text(yaml.safe_dump(content))
        self._daemon: Daemon | None = None

    @property
    def pid(self) -> int:
        """The process id of a started registry."""
        assert self._daemon is not None
        return self._daemon.pid

    def start(self) -> None:
        """Start the registry, and wait until it listens."""
        assert PROGRAM, "no docker-registry here"
        self._daemon = Daemon([PROGRAM, "serve", str(self._file)], log=self._file.with_suffix(".log"))
        self._daemon.wait_until(self._listens)

    def stop(self) -> None:
        """End the process."""
        if self._daemon is not None:
            self._daemon.kill()

    def push(self, repository: str, tag: str, *documents: Document) -> None:
        """Push the documents of an image: its configuration and manifests. The last document gets the tag."""
        self._upload(repository, Document("", LAYER))
        for each in documents:
            if "manifest" in each.media_type or "index" in each.media_type:
                name = tag if each is documents[-1] else each.digest
                self._send("PUT", f"/v2/{repository}/manifests/{name}", each.body, each.media_type)
            else:
                self._upload(repository, each)

    def _upload(self, repository: str, blob: Document) -> None:
        location = self._send("POST", f"/v2/{repository}/blobs/uploads/", b"").headers["location"]
        place = urlsplit(location)
        self._send("PUT", f"{place.path}?{place.query}&digest={blob.digest}", blob.body)

    def _send(
        self, method: str, path: str, body: bytes, content_type: str = "application/octet-stream"
    ) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=20)
        connection.request(method, path, body, {"Content-Type": content_type})
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status in (201, 202), f"{method} {path}: {answer.status} {said!r}"
        connection.close()
        return answer

    def _listens(self) -> bool:
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=2)
        try:
            connection.connect()
        except OSError:
            return False
        finally:
            connection.close()
        return True


@contextmanager
def running(directory: Path, storage: Path, **settings: Any) -> Iterator[DockerRegistry]:
    """A registry for the duration of the context."""
    registry = DockerRegistry(directory, storage, **settings)
    try:
        registry.start()
        yield registry
    finally:
        registry.stop()


def token_server(issuer: KeyPair, basic: str | None) -> Script:
    """A token server whose certificate a registry trusts. It serves clients with `basic`, or all if that is None."""

    def give(heard: Heard, speaker: Speaker) -> None:
        if heard.authorization != basic:
            speaker.answer(401)
            return
        query = parse_qs(urlsplit(heard.path).query)
        kind, name, actions = query["scope"][0].split(":")
        access = [{"type": kind, "name": name, "actions": actions.split(",")}]
        content = {"access_token": _signed(issuer, query["service"][0], access), "expires_in": 300}
        speaker.answer(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    return give


def _signed(issuer: KeyPair, audience: str, access: list[dict[str, Any]]) -> str:
    """A JSON Web Token in the form of docker-registry (RFC 7515, ES256)."""
    certificate = read_certificate(issuer.certificate_pem).public_bytes(Encoding.DER)
    head = {"typ": "JWT", "alg": "ES256", "x5c": [base64.b64encode(certificate).decode()]}
    now = int(time.time())
    claims = {"iss": "tests", "sub": "", "aud": audience, "exp": now + 300, "nbf": now - 10, "iat": now, "jti": "1"}
    payload = ".".join(_encoded(json.dumps(part).encode()) for part in (head, {**claims, "access": access}))
    key = read_key(issuer.key_pem)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    r, s = decode_dss_signature(key.sign(payload.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{payload}.{_encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
