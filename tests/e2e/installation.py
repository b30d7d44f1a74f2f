"""The webhook as its own process, registered with a real API server by the configurations of deploy/."""

import base64
import http.client
import json
import shutil
import socket
import ssl
import sys
from pathlib import Path
from typing import Any

from tests.certificate_files import CertificateFiles
from tests.deploy.manifests import shipped
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import Daemon
from tests.e2e.objects import gpu_pod, pod

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = SERVICE = "gpu-policy"
HOST = f"{SERVICE}.{NAMESPACE}.svc"
REFUSED_EARLY = pod("early", {"requests": {"nvidia.com/gpu": "1"}})
REFUSED_LATE = gpu_pod("late", gpus=100)
ANNOTATION = "gpupolicy.dev/injected"
KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
COMMAND = [sys.executable, "-m", "webhook"]


def _path(kind: str) -> str:
    """Where the configurations of a kind are."""
    return f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s"


class Installation:
    """One replica. `policies` is a directory that tests may edit; `url` is where the server answers."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self.plane = plane
        self.policies = directory / "policies"
        self.directory = directory
        shutil.copytree(ROOT / "policies", self.policies)
        names = [HOST, "localhost", "127.0.0.1"]
        self.files = CertificateFiles(directory / "certs", names)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self.url = f"https://127.0.0.1:{self.port}"
        self._tls = ssl.create_default_context(cafile=str(self.files.ca_file))
        self._daemon: Daemon | None = None

    def start(self, *extra: str) -> None:
        """Start the server with the facts of the real cluster and return when it is ready."""
        arguments = [
            f"--policies={self.policies}",
            f"--kubeconfig={self.plane.kubeconfig}",
            f"--cert={self.files.cert_file}",
            f"--key={self.files.key_file}",
            "--host=127.0.0.1",
            f"--port={self.port}",
            *extra,
        ]
        log = self.directory / "webhook.log"
        self._daemon = Daemon([*COMMAND, "serve", *arguments], log=log)
        self._daemon.wait_until(self.is_ready)

    def stop(self) -> None:
        """End the server as Kubernetes does, with SIGTERM."""
        if self._daemon is not None:
            self._daemon.stop(grace=20)
            self._daemon = None

    @property
    def pid(self) -> int:
        """The process, which watches over the one that answers. AssertionError where none runs."""
        assert self._daemon is not None
        return self._daemon.pid

    def is_ready(self) -> bool:
        """Whether /readyz answers 200."""
        try:
            return self.get("/readyz")[0] == 200
        except OSError:
            return False

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of one page of the server."""
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=self._tls)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def configurations(self) -> list[dict[str, Any]]:
        """The webhook configurations of deploy/install.yaml, pointing here."""
        bundle = base64.b64encode(self.files.ca_file.read_bytes()).decode()
        configurations = shipped().configurations
        for configuration in configurations:
            for webhook in configuration["webhooks"]:
                webhook["clientConfig"]["caBundle"] = bundle
                webhook["clientConfig"]["service"]["port"] = self.port
        return configurations

    def register(self) -> None:
        """Apply both configurations; is_asked() says whether the API server uses them already."""
        self.apply(self.configurations())

    def apply(self, configurations: list[dict[str, Any]]) -> None:
        """What `kubectl apply` would do, which takes longer than most tests do; it is called where there are some."""
        for one in configurations:
            last = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(one)}
            annotated = {**one["metadata"], "annotations": {**one["metadata"].get("annotations", {}), **last}}
            status, answer = self.plane.raw("POST", _path(one["kind"]), {**one, "metadata": annotated})
            if status == 409:
                self.plane.kubectl("apply", "-f", "-", input=json.dumps(one))
            elif status != 201:
                raise AssertionError(f"{one['kind']}: {status} {answer}")

    def is_asked(self) -> bool:
        """Whether the API server already asks both phases: dry runs that each of them refuses are refused."""
        path = "/api/v1/namespaces/judged-probe/pods?dryRun=All"
        return all(self.plane.raw("POST", path, probe)[0] == 403 for probe in (REFUSED_EARLY, REFUSED_LATE))

    def unregister(self, *kinds: str) -> None:
        """Delete configurations by kind; both without arguments."""
        for kind in kinds or KINDS:
            status, answer = self.plane.raw("DELETE", f"{_path(kind)}/gpu-policy")
            assert status in {200, 404}, answer

    def registered_versions(self) -> list[str]:
        """What the API server calls the present state of each configuration; empty where there is none."""
        found = (self.plane.raw("GET", f"{_path(kind)}/gpu-policy")[1] for kind in KINDS)
        return [str(one["metadata"].get("resourceVersion", "")) for one in found]

    def write_policy(self, name: str, text: str) -> None:
        """Write a policy file as an editor does, in one step."""
        staged = self.directory / "staged.yaml"
        staged.write_text(f"apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {{name: {name}}}\n{text}")
        staged.replace(self.policies / f"{name}.yaml")
