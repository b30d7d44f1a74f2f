"""Nodes, classes and pods as tests write them."""

from collections.abc import Mapping, Sequence
from typing import Any

from webhook.facts.facts import ClusterFacts
from webhook.facts.snapshot import Snapshot
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw

GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


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


def pod(
    *,
    gpus: Mapping[str, int] | None = None,
    terms: Sequence[Mapping[str, Any]] | None = None,
    asks: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Pod:
    """A pod with these GPU limits, terms of required node affinity, other requests and other parts of its spec."""
    if terms is not None:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
        spec["affinity"] = {"nodeAffinity": required}
    resources = {"limits": {**(gpus or {})}, "requests": {**(asks or {})}}
    return pod_from_raw({"spec": {"containers": [{"name": "main", "resources": resources}], **spec}})


def expressions(*parts: tuple[str, str, Sequence[str]]) -> dict[str, Any]:
    """A term of match expressions: key, operator, values."""
    return {"matchExpressions": [{"key": key, "operator": op, "values": list(values)} for key, op, values in parts]}


def fields(*parts: tuple[str, str, Sequence[str]]) -> dict[str, Any]:
    """A term of match fields: key, operator, values."""
    return {"matchFields": expressions(*parts)["matchExpressions"]}


def names(snapshot: Snapshot, asking: Pod) -> set[str]:
    """The names of the candidates: those nodes without which there would be one candidate fewer."""
    total = counted(snapshot, asking)
    return {name for name in snapshot.nodes if counted(snapshot.without_node(name), asking) < total}


def counted(known: Snapshot | ClusterFacts, asking: Pod) -> int:
    """How many nodes the pod could be scheduled to."""
    return sum(nodes.count for nodes in facts_of(known).matching_nodes(asking))


def housed(known: Snapshot | ClusterFacts, asking: Pod) -> int:
    """How many nodes have room for the pod."""
    return sum(nodes.count for nodes in facts_of(known).feasible_nodes(asking))


def facts_of(known: Snapshot | ClusterFacts) -> ClusterFacts:
    """What rules may ask about a snapshot."""
    return ClusterFacts(known) if isinstance(known, Snapshot) else known
