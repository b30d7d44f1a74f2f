"""Pods, terms and answers about nodes as tests of facts write them; nodes and classes are those of `tests.build`."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.build import claim, device_class, node, priority_class, resource_slice, runtime_class
from webhook.facts.facts import ClusterFacts
from webhook.facts.snapshot import Snapshot
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw

__all__ = [
    "GPU_TAINT",
    "claim",
    "counted",
    "device_class",
    "expressions",
    "facts_of",
    "fields",
    "housed",
    "names",
    "node",
    "pod",
    "priority_class",
    "resource_slice",
    "runtime_class",
]

GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


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
