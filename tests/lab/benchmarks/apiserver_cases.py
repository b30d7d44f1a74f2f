"""What pods go through on their way into the API server: nothing, the product, or CEL policies that do the same.

And what each makes of the measured pod, of which every one that is stored is compared with it.
"""

import base64
import copy
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonpatch
import yaml

from tests.deploy.manifests import shipped
from tests.e2e.control_plane import ControlPlane
from tests.lab.benchmarks.minimal import ANNOTATIONS
from tests.lab.benchmarks.runs import demand
from tests.lab.benchmarks.served import Served
from webhook.policy.loader import load

Raw = dict[str, Any]

_TERM = {"key": "nvidia.com/cuda.driver-version.full", "operator": "NotIn", "values": ["560.54.15"]}
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [_TERM]}]}
INJECTED: Mapping[str, Any] = {
    "/spec/tolerations/-": {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
    "/spec/runtimeClassName": "nvidia",
    "/spec/volumes/-": {"name": "gpu-policy-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}},
    "/spec/containers/0/volumeMounts/-": {"name": "gpu-policy-shm", "mountPath": "/dev/shm"},
    "/spec/containers/0/env/-": {"name": "NCCL_DEBUG", "value": "WARN"},
    "/spec/affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERMS}},
}
"""What the shipped policies add to the pod of the benchmark, by JSON Pointer, on nodes some of which cannot run it."""
_OF_ITS_OWN = ("name", "uid", "creationTimestamp", "resourceVersion", "managedFields", "generation", "selfLink")


def completed(base: Raw, annotations: Mapping[str, str], injected: Mapping[str, Any] = INJECTED) -> Raw:
    """The pod with all of it. `base` is the pod as the API server stores it when nobody changes it."""
    patch = [{"op": "add", "path": path, "value": value} for path, value in injected.items()]
    pod: Raw = jsonpatch.apply_patch(base, patch)
    pod["metadata"]["annotations"] |= annotations
    return pod


def shared(pod: Raw) -> Raw:
    """What a pod has in common with the others of its run, also as an item of a list, which does not say its kind."""
    metadata = {key: value for key, value in pod["metadata"].items() if key not in _OF_ITS_OWN}
    return {**{key: value for key, value in pod.items() if key not in ("apiVersion", "kind")}, "metadata": metadata}


def demand_all(pods: Sequence[Raw], expected: Raw, counts: range, case: str) -> None:
    """So many pods were stored, and each is what is expected, in everything but its own name and the like."""
    demand(len(pods) in counts, f"{case}: {len(pods)} pods were stored; {counts[0]} to {counts[-1]} are expected")
    wanted = shared(expected)
    for pod in pods:
        if (found := shared(pod)) != wanted:
            left, right = dict(_leaves(found)), dict(_leaves(wanted))
            paths = sorted(path for path in left.keys() | right.keys() if left.get(path) != right.get(path))
            texts = [f"{path} is {left.get(path)!r}, not {right.get(path)!r}" for path in paths[:5]]
            demand(False, f"{case}: {pod['metadata']['name']} is not as it should be: {'; '.join(texts)}")


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from _leaves(one, f"{path}/{key}")
    elif isinstance(value, list) and value:
        for number, one in enumerate(value):
            yield from _leaves(one, f"{path}/{number}")
    else:
        yield path, value


_GROUP = "admissionregistration.k8s.io/v1"
_IS_GPU = (
    "object.spec.containers.exists(c, has(c.resources) && has(c.resources.limits) && "
    "'nvidia.com/gpu' in c.resources.limits)"
)
_MUTATIONS = """[
  JSONPatch{op: "add", path: "/spec/tolerations/-",
    value: Object.spec.tolerations{key: "nvidia.com/gpu", operator: "Exists", effect: "NoSchedule"}},
  JSONPatch{op: "add", path: "/spec/runtimeClassName", value: "nvidia"},
  JSONPatch{op: "add", path: "/spec/affinity", value: Object.spec.affinity{
    nodeAffinity: Object.spec.affinity.nodeAffinity{requiredDuringSchedulingIgnoredDuringExecution:
      Object.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution{nodeSelectorTerms: [
        Object.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms{
          matchExpressions: [Object.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
            .nodeSelectorTerms.matchExpressions{key: "nvidia.com/cuda.driver-version.full", operator: "NotIn",
              values: ["560.54.15"]}]}]}}}},
  JSONPatch{op: "add", path: "/spec/volumes/-", value: Object.spec.volumes{name: "gpu-policy-shm",
    emptyDir: Object.spec.volumes.emptyDir{medium: "Memory", sizeLimit: "64Gi"}}},
  JSONPatch{op: "add", path: "/spec/containers/0/volumeMounts/-",
    value: Object.spec.containers.volumeMounts{name: "gpu-policy-shm", mountPath: "/dev/shm"}},
  JSONPatch{op: "add", path: "/spec/containers/0/env/-",
    value: Object.spec.containers.env{name: "NCCL_DEBUG", value: "WARN"}},
  JSONPatch{op: "add", path: "/metadata/annotations/gpupolicy.dev~1injected", value: "cel"}
]"""
_VALIDATIONS = [
    "object.spec.containers.all(c, !has(c.resources) || !has(c.resources.limits) || "
    "!('nvidia.com/gpu' in c.resources.limits) || "
    "quantity(string(c.resources.limits['nvidia.com/gpu'])).isLessThan(quantity('9')))",
    "object.spec.containers.all(c, !has(c.env) || c.env.all(e, e.name != 'NVIDIA_VISIBLE_DEVICES'))",
    "has(object.spec.tolerations) && object.spec.tolerations.exists(t, has(t.key) && t.key == 'nvidia.com/gpu')",
]


CEL_ANNOTATIONS = {"gpupolicy.dev/injected": "cel"}


def cel_policies() -> list[dict[str, Any]]:
    """A MutatingAdmissionPolicy and a ValidatingAdmissionPolicy with their bindings, where the API server has them."""
    match = {
        "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "bench"}},
    }
    conditions = [{"name": "gpu", "expression": _IS_GPU}]
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": _MUTATIONS}}
    return [
        _object(
            "MutatingAdmissionPolicy",
            {
                "matchConstraints": match,
                "matchConditions": conditions,
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "mutations": [mutation],
            },
        ),
        _object("MutatingAdmissionPolicyBinding", {"policyName": "bench"}),
        _object(
            "ValidatingAdmissionPolicy",
            {
                "matchConstraints": match,
                "matchConditions": conditions,
                "failurePolicy": "Fail",
                "validations": [{"expression": expression} for expression in _VALIDATIONS],
            },
        ),
        _object("ValidatingAdmissionPolicyBinding", {"policyName": "bench", "validationActions": ["Deny"]}),
    ]


def _object(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": _GROUP, "kind": kind, "metadata": {"name": "bench"}, "spec": spec}


DRY_RUN = "/api/v1/namespaces/bench/pods?dryRun=All"
PATIENCE = 30.0
"""Seconds until what was registered has to be in force."""
_RULES = "tolerations,runtimeClass,sharedMemory,ncclEnv,cudaDriver"


@dataclass(frozen=True, slots=True)
class Case:
    """One way. `objects` are what is registered meanwhile, and `server` takes CPU for it.

    It makes `expected` of `base`, the pod as it is stored when nobody changes it. Where it `refuses`, that is what
    becomes of a pod with too many GPUs.
    """

    name: str
    base: Raw
    expected: Raw
    objects: Sequence[Raw] = ()
    server: Served | None = None
    refuses: bool = False

    @contextmanager
    def in_force(self, plane: ControlPlane) -> Iterator[None]:
        """Registered, and seen to be: dry runs end as they should."""
        text = yaml.safe_dump_all(self.objects)
        if self.objects:
            plane.kubectl("apply", "-f", "-", input=text)
        try:
            self._wait(plane)
            yield
        finally:
            if self.objects:
                plane.kubectl("delete", "-f", "-", input=text)

    def _wait(self, plane: ControlPlane) -> None:
        deadline = time.monotonic() + PATIENCE
        greedy = copy.deepcopy(self.base)
        for amounts in greedy["spec"]["containers"][0]["resources"].values():
            amounts["nvidia.com/gpu"] = "16"
        while True:
            status, pod = plane.raw("POST", DRY_RUN, self.base)
            is_refused = plane.raw("POST", DRY_RUN, greedy)[0] != 201
            if status == 201 and shared(pod) == shared(self.expected) and is_refused is self.refuses:
                return
            if time.monotonic() > deadline:
                break
            time.sleep(0.2)
        demand(status == 201, f"{self.name}: the pod of this benchmark is refused: {pod}")
        demand_all([pod], self.expected, range(1, 2), self.name)
        demand(False, f"{self.name}: 16 GPUs are {'refused' if is_refused else 'allowed'}, and should not be")


def cases_of(plane: ControlPlane, servers: Mapping[str, Served], policies: Path, base: Raw) -> list[Case]:
    """All ways; `servers` are the product and the minimal webhook."""
    (product, one), (minimal, other) = servers.items()
    stamp = load(policies).for_namespace("bench").stamp
    pod = completed(base, {"gpupolicy.dev/injected": _RULES, "gpupolicy.dev/policy": stamp})
    return [
        Case("no webhook", base, base),
        Case(product, base, pod, _registration(one), one, refuses=True),
        Case(minimal, base, completed(base, ANNOTATIONS, {}), _registration(other), other),
        Case("CEL policies", base, completed(base, CEL_ANNOTATIONS), cel_policies(), refuses=True),
    ]


def _registration(server: Served) -> list[Raw]:
    """Both configurations of deploy/, pointing at the server by Service reference."""
    objects = shipped()
    for entry in objects.entries:
        entry["clientConfig"]["caBundle"] = _bundle(server)
        entry["clientConfig"]["service"]["port"] = server.port
    return objects.configurations


def _bundle(server: Served) -> str:
    return base64.b64encode(server.ca_file.read_bytes()).decode()
