"""The control plane that the other end-to-end tests stand on."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from certs.authority import issue, new_authority
from tests.e2e.control_plane import NODE_TOKEN, TENANT_TOKEN, ControlPlane
from tests.e2e.eventually import eventually

POD = """
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec: {containers: [{name: main, image: registry.example/app:1}]}
"""


class RefuseEverything(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        review["response"] = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": "refused here"}}
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


@pytest.fixture
def refusing_server(tmp_path: Path) -> Iterator[tuple[int, str]]:
    """The port of a webhook that refuses everything, and its caBundle."""
    now = datetime.now(UTC)
    authority = new_authority(now)
    pair = issue(authority, ["refuser.rig-webhook.svc"], now)
    (tmp_path / "tls.pem").write_bytes(pair.certificate_pem + pair.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.pem")
    with ThreadingHTTPServer(("127.0.0.1", 0), RefuseEverything) as server:
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server.server_address[1], base64.b64encode(authority.certificate_pem).decode()
        server.shutdown()
        thread.join()


def test_a_pod_applied_with_kubectl_is_stored_and_audited(control_plane: ControlPlane) -> None:
    namespace = control_plane.namespace("rig-pod")
    control_plane.kubectl("apply", "-f", "-", input=POD, namespace=namespace)
    assert control_plane.raw("GET", f"/api/v1/namespaces/{namespace}/pods/plain")[0] == 200
    events = eventually(
        lambda: [event for event in control_plane.audit_events() if event["objectRef"].get("namespace") == namespace]
    )
    assert (events[0]["verb"], events[0]["objectRef"]["name"]) == ("create", "plain")


@pytest.mark.parametrize("token", [pytest.param(TENANT_TOKEN, id="tenant"), pytest.param(NODE_TOKEN, id="node")])
def test_users_without_rights_are_known_but_forbidden(control_plane: ControlPlane, token: str) -> None:
    assert control_plane.raw("GET", "/api/v1/nodes", token=token)[0] == 403
    assert control_plane.raw("GET", "/api/v1/nodes", token="somebody-else")[0] == 401


def test_a_webhook_on_this_machine_is_called_through_a_service(
    control_plane: ControlPlane, refusing_server: tuple[int, str]
) -> None:
    port, bundle = refusing_server
    namespace = control_plane.namespace("rig-webhook")
    service = control_plane.webhook_service(namespace, "refuser", port)
    configuration = {
        "metadata": {"name": "rig-refuser"},
        "webhooks": [
            {
                "name": "refuser.rig.example",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "clientConfig": {"service": {**service, "path": "/refuse"}, "caBundle": bundle},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
            }
        ],
    }
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    dry_run = ["create", "--dry-run=server", "--filename=-"]
    assert control_plane.raw("POST", path, configuration)[0] == 201
    try:
        refusal = eventually(
            lambda: control_plane.kubectl(*dry_run, input=POD, namespace=namespace, check=False).stderr
        )
    finally:
        control_plane.raw("DELETE", f"{path}/rig-refuser")
    assert 'admission webhook "refuser.rig.example" denied the request: refused here' in refusal


def test_a_restarted_api_server_remembers_everything(control_plane: ControlPlane) -> None:
    namespace = control_plane.namespace("rig-restart")
    control_plane.restart_apiserver()
    status, found = control_plane.raw("GET", f"/api/v1/namespaces/{namespace}")
    assert status == 200
    assert found["metadata"]["labels"]["kubernetes.io/metadata.name"] == namespace


def test_a_deployment_becomes_pods(cluster: ControlPlane) -> None:
    namespace = cluster.namespace("rig-deployment")
    cluster.kubectl("create", "deployment", "web", "--image=registry.example/web:1", namespace=namespace)
    path = f"/api/v1/namespaces/{namespace}/pods"
    assert eventually(lambda: cluster.raw("GET", path)[1]["items"])
