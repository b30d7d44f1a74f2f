"""Gatekeeper as a peer: the same changes by its mutators, and the same objections as the CEL policies by a constraint.

The variable GATEKEEPER names its binary (the manager; measured with 3.23). Its kinds are those of
charts/gatekeeper/crds of open-policy-agent/gatekeeper, without their schemas, and so are the paths of its webhooks.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.load_balancer import free_ports
from tests.lab.benchmarks.injections import INJECTED, TERMS, Raw
from tests.lab.benchmarks.served import Served, serve

ANNOTATIONS = {"gpupolicy.dev/injected": "gatekeeper"}
_NAMESPACE = "gatekeeper-system"
_SERVICE = {"namespace": "gpu-policy", "name": "gpu-policy"}
"""What certificates of benchmarks are for."""
_PODS = [{"apiGroups": [""], "kinds": ["Pod"]}]
_KINDS = """
mutations v1 Assign assign Cluster
mutations v1 AssignMetadata assignmetadata Cluster
mutations v1 ModifySet modifyset Cluster
mutations v1alpha1 AssignImage assignimage Cluster
config v1alpha1 Config configs Namespaced
connection v1alpha1 Connection connections Namespaced
templates v1beta1,v1 ConstraintTemplate constrainttemplates Cluster
expansion v1alpha1,v1beta1 ExpansionTemplate expansiontemplate Cluster
externaldata v1beta1 Provider providers Cluster
syncset v1alpha1 SyncSet syncsets Cluster
status v1beta1 ConfigPodStatus configpodstatuses Namespaced
status v1alpha1 ConnectionPodStatus connectionpodstatuses Namespaced
status v1beta1 ConstraintPodStatus constraintpodstatuses Namespaced
status v1beta1 ConstraintTemplatePodStatus constrainttemplatepodstatuses Namespaced
status v1beta1 ExpansionTemplatePodStatus expansiontemplatepodstatuses Namespaced
status v1beta1 MutatorPodStatus mutatorpodstatuses Namespaced
status v1beta1 ProviderPodStatus providerpodstatuses Namespaced
"""
"""Group, versions (the last is stored), kind, plural and scope."""
_REGO = """\
package benchgpupods

gpus(container) := object.get(object.get(container, ["resources", "limits"], {}), "nvidia.com/gpu", 0)

violation[{"msg": "more than 8 GPUs"}] {
  to_number(gpus(input.review.object.spec.containers[_])) > 8
}

violation[{"msg": "NVIDIA_VISIBLE_DEVICES is set"}] {
  input.review.object.spec.containers[_].env[_].name == "NVIDIA_VISIBLE_DEVICES"
}

violation[{"msg": "GPU nodes are not tolerated"}] {
  tolerated := [one | one := input.review.object.spec.tolerations[_]; one.key == "nvidia.com/gpu"]
  count(tolerated) == 0
}
"""


def missing() -> str | None:
    """Why it is left out; None where it is not."""
    binary = os.environ.get("GATEKEEPER")
    if binary is None:
        return "the variable GATEKEEPER names no binary"
    return None if os.access(binary, os.X_OK) else f"{binary}, which GATEKEEPER names, is no program"


@contextmanager
def gatekeeper(plane: ControlPlane, directory: Path) -> Iterator[Served]:
    """It runs with all that it needs, and has everything but its registration."""
    plane.namespace(_NAMESPACE)
    _apply(plane, _definitions())
    with serve(directory, "gatekeeper", _command(plane, directory)) as server:
        _apply(plane, [_template(), *_mutators()])
        constraint = "/apis/constraints.gatekeeper.sh/v1beta1/benchgpupods"
        eventually(lambda: plane.raw("GET", constraint)[0] == 200)
        match = {"kinds": _PODS, "namespaces": ["bench"]}
        _apply(plane, [_object("constraints", "v1beta1", "BenchGpuPods", "bench", {"match": match})])
        yield server


def registration(bundle: str, port: int) -> list[Raw]:
    """Its webhooks, for new pods of the namespace."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    found = []
    for kind, name, path in (("Mutating", "mutation", "/v1/mutate"), ("Validating", "validation", "/v1/admit")):
        service = {**_SERVICE, "path": path, "port": port}
        webhook = {
            "name": f"{name}.gatekeeper.sh",
            "clientConfig": {"caBundle": bundle, "service": service},
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "bench"}},
            "failurePolicy": "Fail",
            "matchPolicy": "Exact",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": f"{kind}WebhookConfiguration"}
        found.append({**head, "metadata": {"name": "gatekeeper"}, "webhooks": [webhook]})
    return found


def _command(plane: ControlPlane, directory: Path) -> Callable[[dict[str, Any]], list[str]]:
    health, metrics = free_ports(2)
    operations = ("webhook", "mutation-webhook", "mutation-controller", "generate")
    return lambda at: [
        os.environ["GATEKEEPER"],
        f"--kubeconfig={plane.kubeconfig}",
        "--host=127.0.0.1",
        f"--port={at['port']}",
        f"--cert-dir={directory / 'certs'}",
        "--disable-cert-rotation",
        "--debug-use-fake-pod",
        "--default-create-vap-for-templates=false",
        "--default-create-vap-binding-for-constraints=false",
        "--log-level=WARNING",
        f"--health-addr=127.0.0.1:{health}",
        f"--prometheus-port={metrics}",
        *(f"--operation={operation}" for operation in operations),
    ]


def _definitions() -> list[Raw]:
    found = []
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    for group, versions, kind, plural, scope in (line.split() for line in _KINDS.split("\n") if line):
        listed = versions.split(",")
        spec = {
            "group": f"{group}.gatekeeper.sh",
            "scope": scope,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [
                {"name": one, "served": True, "storage": one == listed[-1], "schema": schema, "subresources": sub}
                for one in listed
                for sub in [{"status": {}} if group != "status" else {}]
            ],
        }
        head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        found.append({**head, "metadata": {"name": f"{plural}.{group}.gatekeeper.sh"}, "spec": spec})
    return found


def _template() -> Raw:
    target = {"target": "admission.k8s.gatekeeper.sh", "rego": _REGO}
    spec = {"crd": {"spec": {"names": {"kind": "BenchGpuPods"}}}, "targets": [target]}
    return _object("templates", "v1", "ConstraintTemplate", "benchgpupods", spec)


def _mutators() -> list[Raw]:
    """`injections.INJECTED` by the paths of Gatekeeper, and the annotation."""
    of_pod = {
        'spec.tolerations[key: "nvidia.com/gpu"]': INJECTED["/spec/tolerations/-"],
        "spec.runtimeClassName": INJECTED["/spec/runtimeClassName"],
        "spec.volumes[name: gpu-policy-shm]": INJECTED["/spec/volumes/-"],
        "spec.containers[name: *].volumeMounts[name: gpu-policy-shm]": INJECTED["/spec/containers/0/volumeMounts/-"],
        "spec.containers[name: *].env[name: NCCL_DEBUG]": INJECTED["/spec/containers/0/env/-"],
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution": TERMS,
    }
    apply_to = [{"groups": [""], "versions": ["v1"], "kinds": ["Pod"]}]
    found = [
        _mutator("Assign", f"bench-{number}", location, value, {"applyTo": apply_to})
        for number, (location, value) in enumerate(of_pod.items())
    ]
    for name, value in ANNOTATIONS.items():
        found.append(_mutator("AssignMetadata", "bench", f'metadata.annotations."{name}"', value, {}))
    return found


def _mutator(kind: str, name: str, location: str, value: Any, more: Mapping[str, Any]) -> Raw:
    match = {"scope": "Namespaced", "kinds": _PODS, "namespaces": ["bench"]}
    spec = {"match": match, "location": location, "parameters": {"assign": {"value": value}}, **more}
    return _object("mutations", "v1", kind, name, spec)


def _object(group: str, version: str, kind: str, name: str, spec: Raw) -> Raw:
    return {"apiVersion": f"{group}.gatekeeper.sh/{version}", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _apply(plane: ControlPlane, objects: list[Raw]) -> None:
    plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects))
    if names := [f"crd/{one['metadata']['name']}" for one in objects if one["kind"] == "CustomResourceDefinition"]:
        plane.kubectl("wait", "--for=condition=Established", *names)
