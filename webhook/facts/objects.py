"""Nodes and classes as the API server or a file describes them, reduced to what placement and priority depend on.

Thousands of nodes stay in memory for as long as the process lives, and most of what they say they say alike. So equal
texts, equal sets of label keys and equal hardware are one object each, shared by all nodes that have them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from webhook.facts.node_capacity import EVERYWHERE, amounts_of
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.node import GPU_LABELS, NodeClass, PriorityClass, RuntimeClass, Taint, toleration_from_raw
from webhook.model.requirements import is_extended
from webhook.model.selectors import Expression, Operator

TRANSIENT_TAINTS = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/unregistered",
    "karpenter.sh/disrupt",
    "aws-node-termination-handler/",
    "cloud.google.com/impending-node-termination",
    "remediator.kubernetes.azure.com/unschedulable",
    "cni.istio.io/not-ready",
    "node.cilium.io/agent-not-ready",
    "ebs.csi.aws.com/agent-not-ready",
    "efs.csi.aws.com/agent-not-ready",
)
"""Prefixes of taint keys that come and go while a node starts, is ill, cordoned or about to go; they say nothing about
fitness."""

_REPELLING = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `kind` is the class it belongs to, counted as 1; `keys` gives the place of a label in `values`.

    `resources` gives the place of a resource in `amounts`, which are in the units of demands: of extended resources
    what the node has, of all others what pods may use of it. Only those are there that decide where a pod can run.
    """

    name: str
    uid: str
    kind: NodeClass
    keys: Mapping[str, int]
    values: tuple[str, ...]
    resources: Mapping[str, int]
    amounts: tuple[int, ...]

    @property
    def capacity(self) -> tuple[tuple[str, int], ...]:
        """How many of each GPU resource it has, sorted by resource, without those it has none of."""
        counts = ((name, self.listed(name)) for name in sorted(self.kind.gpu_resources))
        return tuple((name, count) for name, count in counts if count)

    @property
    def gpus(self) -> int:
        """The number of GPUs in its capacity, slices and shares counted each."""
        return sum(count for _, count in self.capacity)

    def listed(self, resource: str) -> int | None:
        """The amount of a resource that it lists, None where it lists none."""
        place = self.resources.get(resource)
        return None if place is None else self.amounts[place]

    def amount(self, resource: str) -> int | None:
        """The amount of a resource that it has, None where nobody knows.

        Nobody knows how many GPUs a node has that names them without an amount, what it has of resources that every
        node has where it does not list them, and anything else of a node that lists nothing.
        """
        found = self.listed(resource)
        if found is not None:
            return found
        if resource in self.kind.gpu_resources:
            return None
        if BUILT_IN.of(resource) is not None:
            return 0
        return 0 if self.amounts and resource not in EVERYWHERE else None

    def label(self, key: str) -> str | None:
        """The value of a label, None where the node has no such label."""
        place = self.keys.get(key)
        return None if place is None else self.values[place]

    def remembering(self, earlier: "Node | None") -> "Node":
        """The same node with what it had earlier of extended resources; a device plugin that restarts takes them away.

        A node of the same name but another uid is another machine, of which nothing is remembered.
        """
        if earlier is None or earlier.uid != self.uid:
            return self
        node = self
        if not earlier.kind.gpu_resources <= self.kind.gpu_resources:
            kind = self.kind
            resources = kind.gpu_resources | earlier.kind.gpu_resources
            node = replace(node, kind=_kind(tuple(kind.labels.items()), kind.taints, resources, kind.runtime_handlers))
        gone = {
            name: amount
            for name, place in earlier.resources.items()
            if (amount := earlier.amounts[place]) and is_extended(name) and not self.listed(name)
        }
        if gone:
            present = {name: self.amounts[place] for name, place in self.resources.items()}
            node = replace(node, **_resources(present | gone))
        return node


def node_from_raw(raw: object, accelerators: Accelerators = BUILT_IN) -> Node | None:
    """Read a node object of any shape: parts that make no sense are left out. None where it has no name."""
    node = _mapping(raw)
    metadata = _mapping(node.get("metadata"))
    status = _mapping(node.get("status"))
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        return None
    labels = {key: value for key, raw in _mapping(metadata.get("labels")).items() if (value := _text(raw)) is not None}
    keys = tuple(sorted(str(key) for key in labels))
    by_name = {str(key): _shared(value) for key, value in labels.items()}
    return Node(
        name,
        _text(metadata.get("uid")) or "",
        _kind(
            tuple((key, by_name[key]) for key in GPU_LABELS if key in by_name),
            _taints(_mapping(node.get("spec")).get("taints")),
            _gpu_resources({**_mapping(status.get("capacity")), **_mapping(status.get("allocatable"))}, accelerators),
            _runtime_handlers(status.get("runtimeHandlers")),
        ),
        _places(keys),
        tuple(by_name[key] for key in keys),
        **_resources(amounts_of(_mapping(status.get("capacity")), _mapping(status.get("allocatable")), by_name)),
    )


def runtime_class_from_raw(raw: object) -> RuntimeClass | None:
    """Read a RuntimeClass of any API version and shape: parts that make no sense are left out. None without a name."""
    runtime_class = _mapping(raw)
    name = _mapping(runtime_class.get("metadata")).get("name")
    if not isinstance(name, str) or not name:
        return None
    handler = runtime_class.get("handler") or _mapping(runtime_class.get("spec")).get("runtimeHandler")
    scheduling = _mapping(runtime_class.get("scheduling"))
    return RuntimeClass(
        name,
        handler if isinstance(handler, str) else "",
        tuple(
            Expression(str(key), Operator.IN, (value,))
            for key, raw in _mapping(scheduling.get("nodeSelector")).items()
            if (value := _text(raw)) is not None
        ),
        tuple(
            toleration_from_raw(toleration)
            for toleration in _listed(scheduling.get("tolerations"))
            if isinstance(toleration, dict)
        ),
    )


def priority_class_from_raw(raw: object) -> PriorityClass | None:
    """Read a PriorityClass of any shape: parts that make no sense are left out. None without a name."""
    priority_class = _mapping(raw)
    name = _mapping(priority_class.get("metadata")).get("name")
    if not isinstance(name, str) or not name:
        return None
    value = priority_class.get("value")
    return PriorityClass(
        name,
        value if type(value) is int else 0,
        is_default=priority_class.get("globalDefault") is True,
        preempts=priority_class.get("preemptionPolicy") != "Never",
    )


def device_class_from_raw(raw: object) -> tuple[str, str] | None:
    """The name of a DeviceClass and the extended resource that it gives, empty where it gives none. None: no name.

    Source: `extendedResourceName` of DeviceClassSpec, in all versions of resource.k8s.io that have DeviceClasses of
    Kubernetes 1.34 and newer (KEP-5004).
    """
    device_class = _mapping(raw)
    name = _mapping(device_class.get("metadata")).get("name")
    if not isinstance(name, str) or not name:
        return None
    resource = _mapping(device_class.get("spec")).get("extendedResourceName")
    return name, _shared(resource) if isinstance(resource, str) else ""


def _taints(raw: object) -> tuple[Taint, ...]:
    """The taints that keep pods away for as long as the node is what it is; sorted, one for each key and effect."""
    taints: dict[tuple[str, str], Taint] = {}
    for entry in map(_mapping, _listed(raw)):
        key, value, effect = (_text(entry.get(part)) or "" for part in ("key", "value", "effect"))
        if effect in _REPELLING and not key.startswith(TRANSIENT_TAINTS):
            taints.setdefault((key, effect), Taint(_shared(key), _shared(value), _shared(effect)))
    return tuple(taints[place] for place in sorted(taints))


def _gpu_resources(amounts: Mapping[Any, Any], accelerators: Accelerators) -> frozenset[str]:
    """The GPU resource names, also those that read 0, as they do while a device plugin restarts. One that opens all
    GPUs of the node is no further GPU.
    """
    names = [name for name in amounts if isinstance(name, str)]
    return frozenset(name for name in names if (gpu := accelerators.of(name)) is not None and gpu.is_listed)


def _resources(amounts: Mapping[str, int]) -> dict[str, Any]:
    """The parts of a node that hold these amounts."""
    names = tuple(sorted(amounts))
    return {"resources": _places(names), "amounts": _alike(tuple(amounts[name] for name in names))}


@lru_cache(maxsize=1024)
def _alike(amounts: tuple[int, ...]) -> tuple[int, ...]:
    """The same object for nodes that have the same hardware."""
    return amounts


def _runtime_handlers(raw: object) -> frozenset[str] | None:
    names = [_mapping(entry).get("name", "") for entry in _listed(raw)]
    return frozenset(_shared(name) for name in names if isinstance(name, str)) if names else None


@lru_cache(maxsize=4096)
def _shared(text: str) -> str:
    """The same object for texts that are equal; rare ones are forgotten, so that names of past nodes cost nothing."""
    return text


@lru_cache(maxsize=256)
def _places(keys: tuple[str, ...]) -> Mapping[str, int]:
    return {_shared(key): place for place, key in enumerate(keys)}


@lru_cache(maxsize=1024)
def _kind(
    labels: tuple[tuple[str, str], ...],
    taints: tuple[Taint, ...],
    gpu_resources: frozenset[str],
    runtime_handlers: frozenset[str] | None,
) -> NodeClass:
    return NodeClass(dict(labels), taints, gpu_resources, runtime_handlers)


def _mapping(value: object) -> Mapping[Any, Any]:
    return value if isinstance(value, dict) else {}


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str | None:
    """A text, null being empty as in the API server; numbers and booleans, found only in files, as JSON has them."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, (int, float)):
        return "" if value is None else str(value)
    return None
