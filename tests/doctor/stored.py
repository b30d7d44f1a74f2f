"""The objects of a whole installation, in memory, as the doctor reads them. Tests take some away or change them."""

import base64
from collections.abc import Iterator, Mapping
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from functools import cache
from types import MappingProxyType
from typing import Any

import yaml

from certs.authority import issue, new_authority
from tests.deploy.manifests import shipped
from webhook.doctor.doctor_report import DoctorFinding, Status
from webhook.doctor.installation import DoctorCluster, Installation, Place, UnavailableError

Raw = dict[str, Any]

NOW = datetime.now(UTC)
HOST = "gpu-policy.gpu-policy.svc"
OURS = "/api/v1/namespaces/gpu-policy"
DEPLOYMENT = "/apis/apps/v1/namespaces/gpu-policy/deployments/gpu-policy"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{CONFIGURATIONS}/mutatingwebhookconfigurations/gpu-policy"
VALIDATING = f"{CONFIGURATIONS}/validatingwebhookconfigurations/gpu-policy"
REGISTRATION, POLICIES = f"{OURS}/configmaps/gpu-policy-registration", f"{OURS}/configmaps/gpu-policy-policies"
SECRET, SERVICE = f"{OURS}/secrets/gpu-policy-tls", f"{OURS}/services/gpu-policy"
SLICE = "/apis/discovery.k8s.io/v1/namespaces/gpu-policy/endpointslices/gpu-policy-1"
NODES, RUNTIME_CLASSES = "/api/v1/nodes", "/apis/node.k8s.io/v1/runtimeclasses"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


class Stored(DoctorCluster):
    """A cluster with these objects by path. A list at a path stands for its objects; None there must not be read.

    Every right is granted but those to resources in `denied`.
    """

    clock_skew = 0.0

    def __init__(self, objects: Mapping[str, Any], denied: tuple[str, ...] = ()) -> None:
        self._objects, self._denied = objects, denied

    def now(self) -> datetime:
        return NOW

    def find(self, path: str, query: Mapping[str, str] = MappingProxyType({})) -> Any:  # noqa: ARG002  # the real one's
        if path in self._objects and self._objects[path] is None:
            raise UnavailableError(
                f"the API server answered 403: cannot list {path}", "other rights", is_forbidden=True
            )
        return self._objects.get(path)

    def items(self, path: str, query: Mapping[str, str] = MappingProxyType({})) -> Iterator[Any]:
        found = self.find(path, query)
        yield from (
            [one for key, one in self._objects.items() if key.rpartition("/")[0] == path] if found is None else found
        )

    def create(self, _path: str, body: Mapping[str, Any], _query: Mapping[str, str] = MappingProxyType({})) -> Raw:
        resource = body["spec"]["resourceAttributes"]["resource"]
        return {"status": {"allowed": resource not in self._denied}}


def serving(begins: datetime = NOW, days: float = 90, *names: str) -> dict[str, str]:
    """The data of the Secret, with the authority as a caBundle has it."""
    authority = _authority()
    pair = issue(authority, names or [HOST], begins, timedelta(days=days))
    files = {"tls.crt": pair.certificate_pem, "ca.crt": authority.certificate_pem}
    return {name: base64.b64encode(pem).decode() for name, pem in files.items()}


@cache
def _authority() -> Any:
    return new_authority(NOW - timedelta(days=30))


@cache
def _whole() -> dict[str, Any]:
    objects = shipped()
    data = serving()
    deployment = objects.one("Deployment") | {"status": {"readyReplicas": 3}}
    stored = {DEPLOYMENT: deployment, POLICIES: objects.one("ConfigMap", "gpu-policy-policies")}
    stored[REGISTRATION] = {"data": {"webhooks.yaml": yaml.safe_dump_all(objects.configurations)}}
    for path, configuration in zip((MUTATING, VALIDATING), deepcopy(objects.configurations), strict=True):
        for entry in configuration["webhooks"]:
            entry["clientConfig"]["caBundle"] = data["ca.crt"]
        stored[path] = configuration
    stored[SECRET] = {"metadata": {"namespace": "gpu-policy", "name": "gpu-policy-tls"}, "data": data}
    stored[SERVICE] = objects.one("Service")
    endpoints = [{"addresses": [f"10.1.0.{one}"], "conditions": {"ready": one < 3}} for one in range(4)]
    stored[SLICE] = {"endpoints": endpoints}
    budget = objects.one("PodDisruptionBudget")
    stored["/apis/policy/v1/namespaces/gpu-policy/poddisruptionbudgets/gpu-policy"] = budget
    labels = {"nvidia.com/gpu.present": "true", "gpupolicy.dev/pool": "training"}
    for one in ("n1", "n2", "n3"):
        pod = {"metadata": {"name": one}, "spec": {"nodeName": one}, "status": {"phase": "Running"}}
        stored[f"{OURS}/pods/{one}"] = pod
        taints = [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]
        stored[f"{NODES}/{one}"] = {"metadata": {"name": one, "labels": labels}, "spec": {"taints": taints}}
    stored[f"{RUNTIME_CLASSES}/nvidia"] = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
    return stored


def whole() -> dict[str, Any]:
    """The objects of an installation that is well, by path."""
    return deepcopy(_whole())


def said(look: Any, objects: Mapping[str, Any], *, denied: tuple[str, ...] = (), **known: Any) -> list[DoctorFinding]:
    """What a check finds; `known` are parts of the installation that are not read."""
    installation = Installation(Stored(objects, denied), Place())
    for name, value in known.items():
        setattr(installation, name, value)
    return list(look(installation))


def wrong(findings: list[DoctorFinding]) -> list[DoctorFinding]:
    return [finding for finding in findings if finding.status is not Status.OK]
