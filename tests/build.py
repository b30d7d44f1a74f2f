"""Builders for every room: pods, workloads, nodes, classes, claims, policies, facts, and admission requests."""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jsonpatch
import yaml

from tests.ledger.small_cluster import LateView, Truth
from webhook.admission.admission_review import AdmissionRequest, parse
from webhook.admission.phases import Decision
from webhook.audit.review_objects import ReviewContext
from webhook.facts.facts import ClusterFacts
from webhook.ledger.context import LedgerContext
from webhook.ledger.ledger_store import GpuPod, MemoryStore
from webhook.ledger.ledgers import Ledgers
from webhook.policy.policy_set import ConfiguredRule, Policy, PolicySet, content_hash
from webhook.policy.schema import WorkloadsMode
from webhook.rules import RULES
from webhook.rules.rule import Facts

NAMESPACE = "team"
BY_KEY = {rule.key: rule for rule in RULES}
NODES = [
    {
        "metadata": {"name": "gpu-0", "uid": "1", "labels": {"pool": "gpu", "nvidia.com/gpu.present": "true"}},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
        "status": {"capacity": {"nvidia.com/gpu": "8"}},
    },
    *(
        {
            "metadata": {
                "name": f"desk-{driver}",
                "labels": {
                    "pool": "gpu",
                    "desk": driver.split(".", maxsplit=1)[0],
                    "nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-3090",
                    "nvidia.com/cuda.driver-version.full": driver,
                    **sharing,
                },
            },
            "status": {"capacity": {"nvidia.com/gpu": "1"}},
        }
        for driver, sharing in (
            ("470.82.01", {"nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.sharing-strategy": "none"}),
            ("580.95.05", {}),
        )
    ),
]
"""A GPU server with a taint and without a word about its driver, and two GPU nodes without a taint: only the newer one
runs CUDA 12, and the older one says that its GPU is not shared."""
RUNTIME_CLASS = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
PRIORITY_CLASS = {"metadata": {"name": "training"}, "value": 1000}
FACTS = ClusterFacts.of(NODES, [RUNTIME_CLASS], [PRIORITY_CLASS])
WITHOUT_CLASSES = ClusterFacts.of(NODES)


def pod(*parts: int | Mapping[str, Any], spec: Mapping[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """A pod of these containers; a number stands for one with so many GPUs, called c0, c1, ..., and a memory limit."""
    containers = [
        container(f"c{index}", limits={"nvidia.com/gpu": part}) if isinstance(part, int) else dict(part)
        for index, part in enumerate(parts)
    ]
    metadata = {"name": "trainer", "namespace": NAMESPACE, **metadata}
    body = {"containers": containers, **(spec or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def container(
    name: str = "c0",
    *,
    limits: Mapping[str, Any] | None = None,
    requests: Mapping[str, Any] | None = None,
    **other: Any,
) -> dict[str, Any]:
    """A container of these amounts, with a memory limit."""
    resources: dict[str, Any] = {"limits": {"memory": "8Gi", **(limits or {})}}
    if requests is not None:
        resources["requests"] = dict(requests)
    return {"name": name, "image": "registry.example.com/train:1", "resources": resources, **other}


def requests_only(count: Any = 2) -> dict[str, Any]:
    """A pod with GPUs in requests only."""
    return pod(spec={"containers": [container("c0", requests={"nvidia.com/gpu": count})]})


def wanting_pod() -> dict[str, Any]:
    """A pod into which every rule injects under the `injecting` settings of its case.

    It has GPUs once in both parts, once in requests only, once none. It is one of several replicas, and interactive.
    """
    two = {"nvidia.com/gpu": 2}
    return pod(
        labels={"component": "singleuser-server"},
        ownerReferences=[{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "uid": "1", "controller": True}],
        spec={
            "containers": [
                container("both", requests=two, limits=two),
                container("requests", requests=two),
                container("none"),
            ]
        },
    )


def env(name: str, value: str) -> list[dict[str, str]]:
    """The environment of one variable."""
    return [{"name": name, "value": value}]


WORKLOADS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Deployment": ("apps/v1", ("spec", "template")),
    "StatefulSet": ("apps/v1", ("spec", "template")),
    "DaemonSet": ("apps/v1", ("spec", "template")),
    "ReplicaSet": ("apps/v1", ("spec", "template")),
    "Job": ("batch/v1", ("spec", "template")),
    "CronJob": ("batch/v1", ("spec", "jobTemplate", "spec", "template")),
    "ReplicationController": ("v1", ("spec", "template")),
    "PodTemplate": ("v1", ("template",)),
}


def workload(kind: str, template: Mapping[str, Any]) -> dict[str, Any]:
    """A workload of this kind with the spec of a pod."""
    api_version, path = WORKLOADS[kind]
    inner: dict[str, Any] = {"metadata": {"labels": {"app": "a"}}, "spec": template["spec"]}
    for key in reversed(path):
        inner = {key: inner}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w", "namespace": NAMESPACE}, **inner}


def node(  # every part of a node that placement depends on, each by name
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    capacity: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str] | None = None,
    handlers: Sequence[str] = (),
    uid: str = "uid-1",
) -> dict[str, Any]:
    """A node object as the API server gives it."""
    status: dict[str, Any] = {"runtimeHandlers": [{"name": handler} for handler in handlers]}
    status |= {"capacity": dict(capacity or {})} | ({} if allocatable is None else {"allocatable": dict(allocatable)})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": uid, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": [dict(taint) for taint in taints]},
        "status": status,
    }


def runtime_class(name: str, *, scheduling: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A RuntimeClass object as the API server gives it."""
    found: dict[str, Any] = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}}
    return found | {"handler": f"{name}-handler"} | ({"scheduling": scheduling} if scheduling else {})


def priority_class(name: str, value: int = 0, *, is_default: bool = False) -> dict[str, Any]:
    """A PriorityClass object as the API server gives it."""
    found: dict[str, Any] = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    return found | {"value": value} | ({"globalDefault": True} if is_default else {})


def claim(
    name: str, kind: str, *classes: str, namespace: str = "team", config: Any = None, **metadata: Any
) -> dict[str, Any]:
    """A claim, or a template, with one request for each device class, as it stands in a list."""
    requests = [{"name": f"r{index}", "exactly": {"deviceClassName": one}} for index, one in enumerate(classes)]
    spec: dict[str, Any] = {"devices": {"requests": requests, "config": config}}
    metadata = {"name": name, "namespace": namespace, "resourceVersion": "1", **metadata}
    return {"metadata": metadata, "spec": {"spec": spec} if kind == "ResourceClaimTemplate" else spec}


def resource_slice(  # every part of a slice that its number depends on, each by name
    name: str,
    node: str,
    *,
    gpus: int = 1,
    type: str = "gpu",  # noqa: A002  # as the attribute is called
    driver: str = "gpu.nvidia.com",
    pool: str = "",
    generation: int = 1,
    pool_slices: int = 1,
    attributes: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A ResourceSlice of a node with so many devices of one type, which have these versions as attributes."""
    said: dict[str, Any] = {key: {"version": value} for key, value in (attributes or {}).items()}
    said |= {"type": {"string": type}} if type else {}
    devices = [{"name": f"{type or 'gpu'}-{number}", "attributes": said} for number in range(gpus)]
    owner = {"name": pool or node or "shared", "generation": generation, "resourceSliceCount": pool_slices}
    spec = {"driver": driver, "pool": owner, "devices": devices, **({"nodeName": node} if node else {}), **spec}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def device_class(name: str, resource: str = "", selector: str = "true") -> dict[str, Any]:
    """A DeviceClass object as the API server gives it, perhaps with the extended resource that it gives."""
    spec = {"selectors": [{"cel": {"expression": selector}}]} | ({"extendedResourceName": resource} if resource else {})
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def policy_file(
    rules: Mapping[str, Mapping[str, Any]], *, mode: str = "enforce", name: str = "_default", **spec: Any
) -> str:
    """The text of a policy file; `mode` is that of rules that name none, `spec` what stands beside the rules."""
    written = {key: {"mode": mode, **settings} for key, settings in rules.items()}
    head = {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "GPUPolicy", "metadata": {"name": name}}
    return yaml.safe_dump({**head, "spec": {"rules": written, **spec}}, sort_keys=False)


def policy(
    rules: Mapping[str, Mapping[str, Any]], *, mode: str = "enforce", name: str = "_default", workloads: str = "warn"
) -> Policy:
    """A policy of these rules; `mode` is that of rules that name none, `workloads` that of workloads."""
    bound: list[ConfiguredRule] = []
    written = {key: {"mode": mode, **settings} for key, settings in rules.items()}
    for rule in RULES:
        if rule.key in written and written[rule.key]["mode"] != "disabled":
            settings = rule.settings.model_validate_json(json.dumps(written[rule.key]), by_alias=True, by_name=False)
            bound.append(ConfiguredRule(rule, settings.mode, settings, f"{name}.yaml"))
    said = WorkloadsMode(workloads)
    return Policy(name, (f"{name}.yaml",), content_hash([written, said]), tuple(bound), workloads=said)


def policies(rules: Mapping[str, Mapping[str, Any]], *, mode: str = "enforce", workloads: str = "warn") -> PolicySet:
    """The same policy for every namespace."""
    return PolicySet.of(policy(rules, mode=mode, workloads=workloads), {})


def against(policies: PolicySet, facts: Facts = FACTS, pods: Iterable[GpuPod] = ()) -> ReviewContext:
    """What objects are reviewed against on the command line; these pods count against quotas already."""
    truth = Truth()
    for pod in pods:
        truth.store(pod)
    view = LateView(truth)
    view.catch_up()
    return ReviewContext(policies, facts, Ledgers(LedgerContext(MemoryStore(), view)))


def review(
    obj: Mapping[str, Any] | None,
    operation: str = "CREATE",
    *,
    old: Mapping[str, Any] | None = None,
    groups: Sequence[str] = ("system:authenticated",),
    kind: tuple[str, str, str] | None = None,
    **request: Any,
) -> dict[str, Any]:
    """The AdmissionReview of a request about `obj`; `kind` is (group, version, kind) where it is not that of obj."""
    some = obj or old or {}
    group, _, version = str(some.get("apiVersion", "v1")).rpartition("/")
    group, version, name = kind or (group, version, str(some.get("kind", "Pod")))
    parts = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": group, "version": version, "kind": name},
        "namespace": NAMESPACE,
        "operation": operation,
        "userInfo": {"username": "someone", "groups": list(groups)},
        "object": obj,
        "oldObject": old,
        **request,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": parts}


def request(*args: Any, **kwargs: Any) -> AdmissionRequest:
    """The same as the webhook reads it."""
    return parse(json.dumps(review(*args, **kwargs)).encode())


def patched(obj: Mapping[str, Any], decision: Decision) -> Any:
    """The object as the API server makes it from an answer."""
    assert decision.answer.is_allowed, decision.answer.message
    return patched_by(obj, [dict(operation) for operation in decision.answer.patch])


def patched_by(obj: Mapping[str, Any], patch: Any) -> Any:
    """The object after a JSON Patch."""
    return jsonpatch.apply_patch(obj, patch)


def patch_of(response: Mapping[str, Any]) -> Any:
    """The JSON Patch in the response of an AdmissionReview."""
    return json.loads(base64.b64decode(response.get("patch", "W10=")))
