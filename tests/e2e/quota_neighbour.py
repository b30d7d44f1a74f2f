"""Another validating webhook, asked at the same time as ours: whatever we answer, it decides what comes of it."""

import base64
import http.server
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any

from tests.e2e.installation import Installation
from tests.e2e.objects import gpu_pod

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
LABEL = "concerns-the-neighbour"
"""It is asked about pods with this label, and about no others."""

Decide = Callable[[str], str]
"""Takes its time over the pod of a name, and gives the message of a refusal, or an empty one."""


def concerning_pod(name: str) -> dict[str, Any]:
    """A pod of one GPU about which it is asked."""
    manifest = gpu_pod(name, 1)
    manifest["metadata"]["labels"] = {LABEL: "yes"}
    return manifest


class _Review(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Neighbour"

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        refusal = self.server.decide(review["request"]["name"])
        response = {"uid": review["request"]["uid"], "allowed": not refusal}
        if refusal:
            response["status"] = {"code": 403, "message": refusal}
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

    def __init__(self, installation: Installation, decide: Decide) -> None:
        super().__init__(("127.0.0.1", 0), _Review)
        self.decide = decide
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(installation.files.cert_file, installation.files.key_file)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, *_: object) -> None:
        """Connections break off when requests are given up; that is no news."""


@contextmanager
def neighbour(installation: Installation, decide: Decide) -> Iterator[None]:
    """Registered until the block ends. The API server may take a second to know of it."""
    server = _Neighbour(installation, decide)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    bundle = base64.b64encode(installation.files.ca_file.read_bytes()).decode()
    webhook = {
        "name": "neighbour.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{server.server_port}/", "caBundle": bundle},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        "objectSelector": {"matchExpressions": [{"key": LABEL, "operator": "Exists"}]},
        "sideEffects": "None",
        "timeoutSeconds": 30,
        "admissionReviewVersions": ["v1"],
    }
    configuration = {"metadata": {"name": "neighbour"}, "webhooks": [webhook]}
    status, answer = installation.plane.raw("POST", CONFIGURATIONS, configuration)
    assert status == 201, answer
    try:
        yield
    finally:
        installation.plane.raw("DELETE", f"{CONFIGURATIONS}/neighbour")
        server.shutdown()
        server.server_close()
