"""A whole installation on a real API server: install.yaml, one replica, and by hand what controllers otherwise do."""

import base64
import contextlib
import re
import socket
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from deploy.generate import FLOW_CONTROL
from tests.deploy.manifests import Objects, shipped
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import NAMESPACE, SERVICE, Installation
from tests.e2e.load_balancer import free_ports
from tests.e2e.objects import POLICIES
from webhook.doctor.checklist import CHECKS, examine
from webhook.doctor.configurations import POLICIES_ENTRY
from webhook.doctor.doctor_report import DoctorFinding, DoctorReport, Status
from webhook.doctor.installation import DoctorCluster, Place
from webhook.doctor.installation import Installation as Examined
from webhook.doctor.sent_objects import WORKLOADS_ENTRY
from webhook.kubernetes.kubeconfig import find_server

Raw = dict[str, Any]

NODES = ("n1", "n2", "n3")
DRY_RUN_NAMESPACE = "enforced-probe"
"""The namespace where pods are tried."""
TAINTS = ({"key": "nvidia.com/gpu", "effect": "NoSchedule"}, {"key": "sku", "value": "gpu", "effect": "NoSchedule"})
SPOT = {"key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule"}
LABELS = {"nvidia.com/gpu.present": "true", "gpupolicy.dev/pool": "training", "example.com/pool": "gpu"}

COLLECTIONS = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ConfigMap": f"/api/v1/namespaces/{NAMESPACE}/configmaps",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "Deployment": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    "EndpointSlice": f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices",
    "FlowSchema": "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "NetworkPolicy": f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies",
    "Node": "/api/v1/nodes",
    "Pod": f"/api/v1/namespaces/{NAMESPACE}/pods",
    "PodDisruptionBudget": f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "PriorityLevelConfiguration": "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
    "Role": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles",
    "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "Secret": f"/api/v1/namespaces/{NAMESPACE}/secrets",
    "Service": f"/api/v1/namespaces/{NAMESPACE}/services",
    "ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}
"""Every kind that an installation has, and where its objects are."""


def own_address() -> str:
    """An address of this machine that is not its loopback one, to which alone the API server proxies; else empty."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return str(probe.getsockname()[0])
    return ""


class Site:
    """The installation. `heal` makes it whole again, whatever a test broke; `webhook` is the replica's process."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self.plane = plane
        self.webhook = Installation(plane, directory)
        for name, text in POLICIES.items():
            self.webhook.write_policy(name, re.sub(r"(namespaces: .*)-\*", r"\1-probe", text))
        self.policies = {file.name: file.read_text() for file in sorted(self.webhook.policies.glob("*.yaml"))}
        (self.metrics_port,) = free_ports(1)
        self.place = Place(dry_run_namespace=DRY_RUN_NAMESPACE)
        plane.shared_namespace(NAMESPACE)
        plane.namespace(DRY_RUN_NAMESPACE)

    def start(self, *extra: str) -> None:
        """Start the replica, where the API server can proxy to it."""
        file = self.webhook.directory / "webhooks.yaml"
        file.write_text(self.registration())
        self.webhook.start("--host=0.0.0.0", f"--registration={file}", f"--metrics-port={self.metrics_port}", *extra)

    def stop(self) -> None:
        self.webhook.stop()

    def heal(self) -> None:
        for pod in self.all("Pod"):
            self.delete("Pod", pod["metadata"]["name"])
        for manifest in self.objects():
            self.put(manifest)
        self.status("Deployment", SERVICE, {"replicas": 3, "readyReplicas": 3, "observedGeneration": 1})
        for number, node in enumerate(NODES):
            self.start_pod(f"gpu-policy-{number}", node)

    def objects(self) -> Iterator[Raw]:
        """What stands in install.yaml, pointing at the process here, and what it finds in a cluster."""
        for manifest in shipped():
            if manifest["kind"] in COLLECTIONS and manifest["kind"] not in ("Secret", "Service"):
                yield self._adapted(manifest)
        yield from Objects.read(FLOW_CONTROL.read_text())
        yield {"kind": "Secret", "metadata": {"name": "gpu-policy-tls"}, "data": self.certificates()}
        ports = [{"port": self.webhook.port}]
        spec = {"type": "ExternalName", "externalName": "localhost", "ports": ports}
        yield {"kind": "Service", "metadata": {"name": SERVICE}, "spec": spec}
        yield self.endpoints(3)
        yield {"kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"}
        yield {"kind": "PriorityClass", "metadata": {"name": "practice-training"}, "value": 1000}
        for node in NODES:
            yield {"kind": "Node", "metadata": {"name": node, "labels": LABELS}, "spec": {"taints": [*TAINTS, SPOT]}}

    def certificates(self) -> dict[str, str]:
        files = self.webhook.files
        contents = {"ca.crt": files.ca_file, "ca-bundle.crt": files.ca_file, "tls.crt": files.cert_file}
        return {key: base64.b64encode(file.read_bytes()).decode() for key, file in contents.items()}

    def configurations(self) -> list[Raw]:
        """Both configurations, such that a failing call shows on every server."""
        found = self.webhook.configurations()
        for configuration in found:
            for webhook in (configuration["webhooks"][0], configuration["webhooks"][-1]):
                if webhook["name"] not in (POLICIES_ENTRY, WORKLOADS_ENTRY):
                    webhook["failurePolicy"] = "Fail"
        return found

    def registration(self) -> str:
        """The configurations as installed, without what the replicas fill in."""
        found = self.configurations()
        for configuration in found:
            for webhook in configuration["webhooks"]:
                del webhook["clientConfig"]["caBundle"]
        return yaml.safe_dump_all(found)

    def endpoints(self, count: int) -> Raw:
        addresses = [f"10.1.0.{number + 1}" for number in range(count)]
        labels = {"kubernetes.io/service-name": SERVICE}
        found = [{"addresses": [one], "conditions": {"ready": True}} for one in addresses]
        found.append({"addresses": ["10.1.0.99"], "conditions": {"ready": False}})
        metadata = {"name": "gpu-policy-1", "labels": labels}
        return {"kind": "EndpointSlice", "metadata": metadata, "addressType": "IPv4", "endpoints": found}

    def start_pod(self, name: str, node: str) -> None:
        """A replica's pod, as the scheduler and a kubelet leave it."""
        deployment = shipped().one("Deployment")
        template = deepcopy(deployment["spec"]["template"])
        spec = template["spec"] | {"nodeName": node}
        self.put({"kind": "Pod", "metadata": {"name": name, "labels": template["metadata"]["labels"]}, "spec": spec})
        address = own_address()
        self.status("Pod", name, {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]})

    def put(self, manifest: Raw) -> None:
        api = COLLECTIONS[manifest["kind"]].split("/")
        version = "v1" if api[1] == "api" else "/".join(api[2:4])
        body = {"apiVersion": version, **deepcopy(manifest)}
        path = self.path(manifest["kind"], manifest["metadata"]["name"])
        status, there = self.plane.raw("GET", path)
        if status == 200:
            body["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"]
            status, answer = self.plane.raw("PUT", path, body)
        else:
            status, answer = self.plane.raw("POST", COLLECTIONS[manifest["kind"]], body)
        assert status in (200, 201), answer

    def patch(self, kind: str, name: str, change: Any) -> None:
        """Change an object: a map as merge patch, a list as JSON patch."""
        form = "application/json-patch+json" if isinstance(change, list) else None
        status, answer = self.plane.raw("PATCH", self.path(kind, name), change, content_type=form)
        assert status == 200, answer

    def status(self, kind: str, name: str, status: Raw) -> None:
        path = f"{self.path(kind, name)}/status"
        code, answer = self.plane.raw("PATCH", path, {"status": status})
        assert code == 200, answer

    def delete(self, kind: str, name: str) -> None:
        status, answer = self.plane.raw("DELETE", f"{self.path(kind, name)}?gracePeriodSeconds=0")
        assert status == 200, answer

    def all(self, kind: str) -> list[Raw]:
        found: list[Raw] = self.plane.raw("GET", COLLECTIONS[kind])[1]["items"]
        return found

    @staticmethod
    def path(kind: str, name: str) -> str:
        return f"{COLLECTIONS[kind]}/{quote(name)}"

    def examined(self, cluster: DoctorCluster | None = None, **place: Any) -> DoctorReport:
        """What the doctor says, with an administrator's rights unless another cluster is given."""
        asked = cluster or DoctorCluster(find_server(str(self.plane.kubeconfig)))
        return examine(Examined(asked, Place(**{"dry_run_namespace": self.place.dry_run_namespace, **place})))

    def tried(self) -> list[DoctorFinding]:
        asked = Examined(DoctorCluster(find_server(str(self.plane.kubeconfig))), self.place)
        return said(examine(asked, {"pods": CHECKS["pods"]}), "pods")

    def _adapted(self, manifest: Raw) -> Raw:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        if kind.endswith("WebhookConfiguration"):
            (manifest,) = [one for one in self.configurations() if one["kind"] == kind]
        elif name == "gpu-policy-registration":
            manifest["data"] = {"webhooks.yaml": self.registration()}
        elif name == "gpu-policy-policies":
            manifest["data"] = self.policies
        elif kind == "NetworkPolicy":
            for rule in manifest["spec"]["ingress"]:
                if rule["ports"][0]["port"] == 8443:
                    rule["ports"][0]["port"] = self.webhook.port
        elif kind == "Deployment":
            arguments = manifest["spec"]["template"]["spec"]["containers"][0]["args"]
            manifest["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"] = self.webhook.port
            arguments[arguments.index("--port=8443")] = f"--port={self.webhook.port}"
            arguments[arguments.index("--metrics-port=8444")] = f"--metrics-port={self.metrics_port}"
        return manifest


def said(report: DoctorReport, check: str, status: Status | None = None) -> list[DoctorFinding]:
    """The findings of a check, all or only with this status."""
    findings = [finding for key, finding in report.results if key == check]
    return [finding for finding in findings if status in (None, finding.status)]


def wrong(report: DoctorReport) -> list[tuple[str, str, str]]:
    """All that is not well: check, status, what was found."""
    return [
        (key, finding.status.value, finding.found) for key, finding in report.results if finding.status is not Status.OK
    ]
