"""Replicas that keep their certificates in a Secret of a real API server, with no more rights than the chart gives."""

import base64
import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from certs.authority import read_bundle, read_certificate
from certs.material import Material, material_of
from tests.deploy.manifests import shipped
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import ROOT
from tests.e2e.load_balancer import free_ports
from tests.e2e.objects import POLICIES as JUDGING
from tests.e2e.objects import gpu_pod
from tests.e2e.replica_set import Replica

SECRET = "gpu-policy-tls"
ROTATE = "gpupolicy.dev/rotate"
POLICIES = {
    "_default.yaml": (ROOT / "policies" / "_default.yaml").read_text(),
    "judged.yaml": "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: judged}\n"
    + JUDGING["judged"],
}
"""In the namespaces `judged-*` nothing is injected."""
KEPT = (SECRET, "gpu-policy-images")
RIGHTS = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ServiceAccount")
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations/{}"


class KeptSite:
    """An installation named like its namespace: the objects of a manifest that the replicas read and write.

    `arguments` are further ones of each replica.
    """

    def __init__(
        self,
        plane: ControlPlane,
        namespace: str,
        directory: Path,
        *,
        replicas: int = 2,
        manifest: Sequence[dict[str, Any]] = (),
        arguments: Sequence[str] = (),
    ) -> None:
        self.plane = plane
        self.name = namespace
        self.directory = directory
        self._arguments = arguments
        plane.namespace(namespace)
        self.judged = plane.namespace(f"judged-{namespace}")
        self.ports = free_ports(replicas)
        plane.webhook_service(namespace, namespace, self.ports[0])
        objects = [self._renamed(one) for one in manifest or shipped()]
        self._objects = [one for one in objects if one["kind"] in RIGHTS or one["metadata"]["name"] in KEPT]
        self._configurations = [self._lead_here(one) for one in objects if "WebhookConfiguration" in one["kind"]]
        plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all([*self._objects, *self._configurations]))
        self.registration = directory / "webhooks.yaml"
        self.registration.write_text(yaml.safe_dump_all(self._configurations))
        self.kubeconfig = plane.kubeconfig_for(self._token())
        self.replicas = [self._replica(number) for number in range(replicas)]

    def start(self) -> None:
        """Start every replica at the same instant and return when all are ready."""
        for replica in self.replicas:
            replica.begin()
        for replica in self.replicas:
            replica.wait_until_ready()

    def remove(self) -> None:
        """End the replicas, then delete what was installed."""
        for replica in self.replicas:
            replica.kill()
        documents = yaml.safe_dump_all([*self._configurations, *self._objects])
        self.plane.kubectl("delete", "--ignore-not-found", "-f", "-", input=documents)

    # What there is

    def secret(self) -> dict[str, Any] | None:
        """The Secret, None where there is none."""
        status, answer = self.plane.raw("GET", f"/api/v1/namespaces/{self.name}/secrets/{SECRET}")
        return answer if status == 200 else None

    def material(self) -> Material:
        """What the Secret holds."""
        return material_of((self.secret() or {}).get("data") or {})

    def bundles(self) -> list[set[bytes]]:
        """The authorities that each entry of both configurations trusts, by their serial numbers."""
        entries = [entry for kind in KINDS for entry in self.configuration(kind)["webhooks"]]
        found = [entry["clientConfig"].get("caBundle") or "" for entry in entries]
        return [{_serial(one) for one in read_bundle(base64.b64decode(text))} if text else set() for text in found]

    def configuration(self, kind: str) -> dict[str, Any]:
        """One configuration as it is; `kind` is mutating or validating."""
        found: dict[str, Any] = self.plane.raw("GET", CONFIGURATION.format(kind, self.name))[1]
        return found

    def served(self) -> list[bytes]:
        """The serial number of what each running replica has on disk to serve."""
        files = [self.directory / str(number) / "tls" / "tls.crt" for number in range(len(self.replicas))]
        return [_serial(read_certificate(file.read_bytes())) for file in files if file.exists()]

    def is_answering(self) -> bool:
        """Whether the API server gets its answers over TLS that it trusts, in both phases."""
        early, late = gpu_pod("early"), gpu_pod("late", gpus=100)
        early["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/gpu": "1"}}
        path = f"/api/v1/namespaces/{self.judged}/pods?dryRun=All"
        for pod, phase in ((early, "mutate"), (late, "validate")):
            status, answer = self.plane.raw("POST", path, pod)
            if status != 403 or f"{phase}.gpupolicy.dev" not in answer["message"]:
                return False
        return True

    # What is done to it

    def rotate(self, what: str) -> None:
        """Ask for a rotation as the runbook says."""
        self.plane.kubectl("annotate", "secret", SECRET, f"{ROTATE}={what}", "--overwrite", namespace=self.name)

    def write_secret(self, data: Mapping[str, str] | None) -> None:
        """Replace the data of the Secret, or delete it."""
        path = f"/api/v1/namespaces/{self.name}/secrets/{SECRET}"
        if data is None:
            self.plane.raw("DELETE", path)
            return
        secret = self.secret() or {}
        status, answer = self.plane.raw("PUT", path, {**secret, "data": dict(data)})
        assert status == 200, answer

    def write_bundle(self, kind: str, bundle: str) -> None:
        """Have a configuration trust what stands in `bundle` (base64)."""
        self.write_configuration(kind, clientConfig={"caBundle": bundle})

    def write_configuration(self, kind: str, **fields: Any) -> None:
        """Change fields of every entry of a configuration; maps are merged."""
        configuration = self.configuration(kind)
        for entry in configuration["webhooks"]:
            for name, value in fields.items():
                entry[name] = {**entry[name], **value} if isinstance(value, dict) else value
        status, answer = self.plane.raw("PUT", CONFIGURATION.format(kind, self.name), configuration)
        assert status == 200, answer

    def _replica(self, number: int) -> Replica:
        folder = self.directory / str(number)
        arguments = [
            f"--kubeconfig={self.kubeconfig}",
            f"--certificate-secret={self.name}/{SECRET}",
            f"--certificate-dir={folder / 'tls'}",
            f"--certificate-name={self.name}.{self.name}.svc",
            "--certificate-settle-seconds=3",
            f"--registration={self.registration}",
            *self._arguments,
        ]
        return Replica(folder, self.ports[number], POLICIES, arguments)

    def _renamed(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document in this namespace; what belongs to no namespace gets its name."""
        renamed = copy.deepcopy(document)
        if "namespace" in renamed["metadata"]:
            renamed["metadata"]["namespace"] = self.name
        else:
            renamed["metadata"]["name"] = renamed["metadata"]["name"].replace("gpu-policy", self.name, 1)
        for subject in renamed.get("subjects", []):
            subject["namespace"] = self.name
        if renamed["kind"] == "ClusterRoleBinding":
            renamed["roleRef"]["name"] = self.name
        for rule in renamed.get("rules", []):
            if rule.get("resourceNames") == ["gpu-policy"]:
                rule["resourceNames"] = [self.name]
        return renamed

    def _lead_here(self, configuration: dict[str, Any]) -> dict[str, Any]:
        for webhook in configuration["webhooks"]:
            service = {"namespace": self.name, "name": self.name, "port": self.ports[0]}
            webhook["clientConfig"]["service"].update(service)
            only_here = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [self.judged]}
            if "namespaceSelector" in webhook:  # others are about objects without a namespace
                webhook["namespaceSelector"]["matchExpressions"].append(only_here)
            webhook["rules"] = [rule for rule in webhook["rules"] if rule["resources"] == ["pods"]]
        return configuration

    def _token(self) -> str:
        path = f"/api/v1/namespaces/{self.name}/serviceaccounts/gpu-policy/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
        status, answer = self.plane.raw("POST", path, body)
        assert status == 201, answer
        return str(answer["status"]["token"])


KINDS = ("mutating", "validating")


def _serial(certificate: Any) -> bytes:
    return bytes(str(certificate.serial_number), "ascii")
