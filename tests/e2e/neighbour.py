"""Another webhook beside ours, which answers what a test says: one that is asked after ours, or at the same time."""

import base64
import http.server
import json
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any

from tests.e2e.eventually import eventually
from tests.e2e.installation import Installation
from tests.e2e.objects import gpu_pod

LABEL = "concerns-the-neighbour"
"""It is asked about pods with this label, and about no others."""

Respond = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""The response to a request, without its uid."""


class _Review(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Neighbour"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        response = {"uid": request["uid"], **self.server.respond(request)}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def finish(self) -> None:
        with suppress(OSError):  # the API server does not wait for ever
            super().finish()


class _Neighbour(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, installation: Installation, respond: Respond) -> None:
        super().__init__(("127.0.0.1", 0), _Review)
        self.respond = respond
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(installation.files.cert_file, installation.files.key_file)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, *_: object) -> None:
        """Connections break off when requests are given up; that is no news."""


@contextmanager
def registered(installation: Installation, phase: str, respond: Respond, name: str, **parts: Any) -> Iterator[None]:
    """Registered for a phase (`mutating`, `validating`) until the block ends, with these parts of its entry.

    The API server may take a second to know of it. Webhooks are asked in the order of the names of configurations.
    """
    server = _Neighbour(installation, respond)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    bundle = base64.b64encode(installation.files.ca_file.read_bytes()).decode()
    webhook = {
        "name": "neighbour.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{server.server_port}/", "caBundle": bundle},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        "objectSelector": {"matchExpressions": [{"key": LABEL, "operator": "Exists"}]},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **parts,
    }
    plane, path = installation.plane, f"/apis/admissionregistration.k8s.io/v1/{phase}webhookconfigurations"
    status, answer = plane.raw("POST", path, {"metadata": {"name": name}, "webhooks": [webhook]})
    assert status == 201, answer
    try:
        yield
    finally:
        plane.raw("DELETE", f"{path}/{name}")
        server.shutdown()
        server.server_close()


@contextmanager
def changing(
    installation: Installation, change: Callable[[dict[str, Any]], list[dict[str, Any]]], *, reinvoked: bool = False
) -> Iterator[None]:
    """Asked after ours until the block ends: `change` gives a JSON Patch for a pod. `reinvoked`: a second time too."""
    asked: list[Any] = []

    def respond(request: Mapping[str, Any]) -> Mapping[str, Any]:
        asked.append(request)
        patch = change(request["object"])
        if not patch:
            return {"allowed": True}
        encoded = base64.b64encode(json.dumps(patch).encode()).decode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}

    policy = "IfNeeded" if reinvoked else "Never"
    with registered(installation, "mutating", respond, "zz-neighbour", reinvocationPolicy=policy):
        eventually(lambda: _ask(installation) and asked)
        yield


def _ask(installation: Installation) -> bool:
    container = {"name": "a", "image": "registry.example/a:1"}
    probe = {"metadata": {"name": "probe", "labels": {LABEL: "yes"}}, "spec": {"containers": [container]}}
    return bool(installation.plane.raw("POST", "/api/v1/namespaces/default/pods?dryRun=All", probe))


def concerning_pod(name: str) -> dict[str, Any]:
    """A pod of one GPU about which it is asked."""
    manifest = gpu_pod(name, 1)
    manifest["metadata"]["labels"] = {LABEL: "yes"}
    return manifest


@contextmanager
def deciding(installation: Installation, decide: Callable[[str], str]) -> Iterator[None]:
    """Registered until the block ends, and asked at the same time as ours: `decide` takes its time over the pod of a
    name, and gives the message of a refusal, or an empty one.
    """

    def respond(request: Mapping[str, Any]) -> Mapping[str, Any]:
        refusal = decide(request["name"])
        return {"allowed": False, "status": {"code": 403, "message": refusal}} if refusal else {"allowed": True}

    with registered(installation, "validating", respond, "neighbour", timeoutSeconds=30):
        yield
