"""Nodes as the API server or a file describes them, reduced to what decides where a pod can run.

Thousands of nodes stay in memory for as long as the process lives, and most of them are alike. So equal texts, equal
sets of label keys and equal hardware are one object each, shared by all nodes that have them.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from webhook.gpus.gpu_names import INSTANCE_TYPE
from webhook.gpus.gpu_shares import LACKING_UNITS, lacking_units, number_in
from webhook.model.accelerators import BUILT_IN, Accelerators, accelerator
from webhook.model.globs import matcher
from webhook.model.json_parts import listed, mapped, part, text
from webhook.model.node import GPU_LABELS, GPU_NAME_LABELS, LAST_RESORT_LABELS, NodeClass, OpenLabels, Taint
from webhook.model.requirements import is_compared, is_extended, rounded_up, thousandths_of
from webhook.model.resource_slices import SliceDriver
from webhook.yaml_files.shipped_tables import read_table

_TABLE: Mapping[str, list[dict[str, Any]]] = read_table(Path(__file__).with_name("data") / "node_states.yaml")
_KARPENTERS = ("karpenter.sh/registered", "karpenter.sh/nodepool")


@lru_cache(maxsize=4096)
def state_by(key: str) -> str:
    """`starting`, `maintained` or `leaving`, if a controller takes taints of this key off again by itself."""
    return next((str(row["state"]) for row in _TABLE["taints"] if matcher(row["key"]).fullmatch(key)), "")


def maker_of(name: str, labels: Mapping[str, str]) -> str:
    """The autoscaler that made a node and may make nodes of other kinds; empty where nothing says so."""
    for row in _TABLE["makers"]:
        found = name if row.get("name") else labels.get(row["label"])
        if found is not None and any(matcher(glob).fullmatch(found) for glob in row.get("values", ["*"])):
            return str(row["maker"])
    return ""


SAME_LABELS = {
    f"beta.{INSTANCE_TYPE.replace('node.', '')}": INSTANCE_TYPE,
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Old key of a label -> its present key, as Karpenter reads them (kubernetes-sigs/karpenter pkg/apis/v1/labels.go)."""

EVERYWHERE = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Resources that every node has, even if it does not list them."""

_GPU, _COUNT, _REPLICAS = "nvidia.com/gpu", "nvidia.com/gpu.count", "nvidia.com/gpu.replicas"
"""A resource, and the labels of GPU Feature Discovery whose product is its amount: GPUs and replicas of each."""

_OF_GPU_NODES = frozenset({"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe"})
"""Taints that mark GPU nodes for as long as they live, also while they start."""
_CONDITIONS = "node.kubernetes.io/"
"""Prefix of taints that come and go by the minute, such as cordons: nodes that have one are counted as serving."""
_REPELLING = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `kind` is its class, with a count of 1. `keys` gives the place of a label in `values`. `maker` is the
    autoscaler that made it, if that may make nodes of other kinds.

    `resources` gives the place of a resource in `amounts`, which are in the units of `demand_of`: the capacity of
    extended resources, and what is allocatable of all others. Resources that no pod is placed by are left out.
    """

    name: str
    uid: str
    kind: NodeClass
    keys: Mapping[str, int]
    values: tuple[str, ...]
    resources: Mapping[str, int]
    amounts: tuple[int, ...]
    maker: str = ""
    is_declared: bool = False
    """Whether it stands for the nodes of a pool that a policy declares: only their GPUs are known."""
    open: OpenLabels | None = None
    """What is known of labels without one value; None for nodes whose labels are all known."""
    away: frozenset[str] = frozenset()
    """Extended resources but GPUs that the node has, or had earlier, and cannot give to any pod now."""

    @property
    def capacity(self) -> tuple[tuple[str, int], ...]:
        """GPU resource and amount, sorted by resource; amounts of 0 are left out."""
        counts = ((name, self.listed_amount(name)) for name in sorted(self.kind.gpu_resources))
        return tuple((name, count) for name, count in counts if count)

    @property
    def gpus(self) -> int:
        return sum(count for _, count in self.capacity)

    def listed_amount(self, resource: str) -> int | None:
        place = self.resources.get(resource)
        return None if place is None else self.amounts[place]

    def amount(self, resource: str) -> int | None:
        """The amount of a resource that the node has; None where it is unknown.

        Unknown are GPUs that the node names without an amount, resources of EVERYWHERE that it does not list, and
        everything but GPUs where it lists nothing.
        """
        found = self.listed_amount(resource)
        if found is not None:
            return found
        if resource in self.kind.gpu_resources or (self.is_declared and BUILT_IN.of(resource) is None):
            return None
        if BUILT_IN.of(resource) is not None:
            return 0
        return 0 if self.amounts and resource not in EVERYWHERE else None

    def label(self, key: str) -> str | None:
        place = self.keys.get(key)
        return None if place is None else self.values[place]

    def without_taints(self, keys: Container[str]) -> "Node":
        taints = tuple([taint for taint in self.kind.taints if taint.key not in keys])
        if len(taints) == len(self.kind.taints):
            return self
        gone = next(taint.key for taint in self.kind.taints if taint.key in keys)
        return self._with_kind(replace(self.kind, taints=taints, transient_taint=self.kind.transient_taint or gone))

    def offering(self, by_slices: SliceDriver | None) -> "Node":
        return self if by_slices == self.kind.by_slices else self._with_kind(replace(self.kind, by_slices=by_slices))

    def relabelled(self, labels: Mapping[str, str | None]) -> "Node":
        """The node with other values of labels about its driver; None takes a label away."""
        known = {**{key: self.values[place] for key, place in self.keys.items()}, **labels}
        own = {key: _shared(value) for key, value in known.items() if value is not None}
        telling = [key for key in _ALL_LABELS if key in own and (key in self.kind.labels or key in labels)]
        of_class = {key: own[key] for key in telling}
        if LACKING_UNITS in self.kind.labels:
            of_class[LACKING_UNITS] = self.kind.labels[LACKING_UNITS]
        keys = tuple(sorted(own))
        node = self._with_kind(replace(self.kind, labels=of_class))
        return replace(node, keys=_places(keys), values=tuple(own[key] for key in keys))

    def _with_kind(self, kind: NodeClass) -> "Node":
        labels, taints = tuple(kind.labels.items()), (kind.taints, kind.transient_taint)
        return replace(self, kind=_kind(labels, taints, kind.gpu_resources, kind.runtime_handlers, kind.by_slices))

    def remembering(self, earlier: "Node | None") -> "Node":
        """The node with the extended resources that it had earlier: a device plugin that restarts takes them away.

        A node of the same name with another uid is another machine; nothing is taken over from it.
        """
        if earlier is None or earlier.uid != self.uid:
            return self
        node = self
        if not earlier.kind.gpu_resources <= self.kind.gpu_resources:
            kind = self.kind
            resources = kind.gpu_resources | earlier.kind.gpu_resources
            node = node._with_kind(replace(kind, gpu_resources=resources))
        gone = {
            name: amount
            for name, place in earlier.resources.items()
            if (amount := earlier.amounts[place]) and is_extended(name) and not self.listed_amount(name)
        }
        if gone:
            present = {name: self.amounts[place] for name, place in self.resources.items()}
            away = node.away.union(gone.keys() - node.kind.gpu_resources)
            node = replace(node, **_resources(present | gone), away=away)
        return node


def node_from_raw(raw: object, accelerators: Accelerators = BUILT_IN) -> Node | None:
    """Read a node object of any shape: malformed parts are left out. None where the node has no name."""
    metadata, status, name = mapped(raw, "metadata"), mapped(raw, "status"), text(raw, "metadata", "name")
    if not name:
        return None
    labels = {key: value for key, raw in mapped(metadata.get("labels")).items() if (value := text_of(raw)) is not None}
    keys = tuple(sorted(str(key) for key in labels))
    by_name = {str(key): _shared(value) for key, value in labels.items()}
    allocatable = mapped(status.get("allocatable"))
    gpus = _gpu_resources({**mapped(status.get("capacity")), **allocatable}, accelerators)
    amounts = amounts_of(mapped(status.get("capacity")), allocatable, by_name)
    lacking = lacking_units(by_name, amounts)
    telling = GPU_LABELS if not gpus or any(key in by_name for key in GPU_NAME_LABELS) else _ALL_LABELS
    of_class = tuple([(key, by_name[key]) for key in telling if key in by_name])
    handlers = [mapped(entry).get("name", "") for entry in listed(status.get("runtimeHandlers"))]
    return Node(
        name,
        text_of(metadata.get("uid")) or "",
        _kind(
            (*of_class, (LACKING_UNITS, lacking)) if lacking else of_class,
            _taints(part(raw, "spec", "taints"), by_name),
            gpus,
            frozenset(_shared(name) for name in handlers if isinstance(name, str)) if handlers else None,
            None,
        ),
        _places(keys),
        tuple(by_name[key] for key in keys),
        **_resources(amounts),
        maker=maker_of(name, by_name),
        away=frozenset(
            name
            for name in amounts.keys() & allocatable.keys() - gpus
            if is_extended(name) and thousandths_of(allocatable[name]) == 0
        ),
    )


_ALL_LABELS = (*GPU_LABELS, *LAST_RESORT_LABELS)


def _taints(raw: object, labels: Mapping[str, str]) -> tuple[tuple[Taint, ...], str]:
    """The lasting taints that keep pods away, sorted, one for each key and effect, and a key that goes away."""
    taints: dict[tuple[str, str], Taint] = {}
    transient = ""  # while Karpenter has not seen the node ready, start-up taints are there, whatever their keys
    is_starting = "karpenter.sh/initialized" not in labels and any(key in labels for key in _KARPENTERS)
    for entry in map(mapped, listed(raw)):
        key, value, effect = (text_of(entry.get(part)) or "" for part in ("key", "value", "effect"))
        if effect not in _REPELLING:
            continue
        state = state_by(key)
        if state or (is_starting and key not in _OF_GPU_NODES):
            transient = transient or ("" if state == "leaving" or key.startswith(_CONDITIONS) else _shared(key))
        else:
            taints.setdefault((key, effect), Taint(_shared(key), _shared(value), _shared(effect)))
    return tuple(taints[place] for place in sorted(taints)), transient


def _gpu_resources(amounts: Mapping[Any, Any], accelerators: Accelerators) -> frozenset[str]:
    """The names of GPU resources. They count with an amount of 0, too, which they have while a device plugin restarts.

    Names that open all GPUs of the node are left out: they stand for no further GPU.
    """
    names = [name for name in amounts if isinstance(name, str)]
    return frozenset(name for name in names if (gpu := accelerators.of(name)) is not None and gpu.is_listed)


def _resources(amounts: Mapping[str, int]) -> dict[str, Any]:
    names = tuple(sorted(amounts))
    return {"resources": _places(names), "amounts": _alike(tuple(amounts[name] for name in names))}


@lru_cache(maxsize=1024)
def _alike(amounts: tuple[int, ...]) -> tuple[int, ...]:
    return amounts


@lru_cache(maxsize=4096)
def _shared(text: str) -> str:
    return text


@lru_cache(maxsize=256)
def _places(keys: tuple[str, ...]) -> Mapping[str, int]:
    return {_shared(key): place for place, key in enumerate(keys)}


@lru_cache(maxsize=1024)
def _kind(
    labels: tuple[tuple[str, str], ...],
    taints: tuple[tuple[Taint, ...], str],
    gpu_resources: frozenset[str],
    runtime_handlers: frozenset[str] | None,
    by_slices: SliceDriver | None,
) -> NodeClass:
    """One object for all nodes of this kind. `taints` are what `_taints` returns."""
    lasting, transient = taints
    return NodeClass(
        dict(labels), lasting, gpu_resources, runtime_handlers, by_slices=by_slices, transient_taint=transient
    )


def text_of(value: object) -> str | None:
    """A text; empty for null, as in the API server. Numbers and booleans of files are spelled as in JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, (int, float)):
        return "" if value is None else str(value)
    return None


def amounts_of(
    capacity: Mapping[Any, Any], allocatable: Mapping[Any, Any], labels: Mapping[str, str]
) -> dict[str, int]:
    """Resource name -> amount in the units of `demand_of`, for all resources that decide where a pod can run.

    Extended resources count by capacity, since an unhealthy unit may recover; all others by what is allocatable, since
    the system's reserve stays reserved. GPUs with an amount of 0, which they have while their device plugin is away,
    count by the labels, which stay.
    """
    amounts: dict[str, int] = {}
    for name in {**capacity, **allocatable}:
        if isinstance(name, str) and is_compared(name):
            first, second = (capacity, allocatable) if is_extended(name) else (allocatable, capacity)
            amount = thousandths_of(first[name] if name in first else second[name])
            if amount is not None:
                amounts[name] = rounded_up(name, amount)
    amounts = {name: amount for name, amount in amounts.items() if amount or _has_none(name, amounts)}
    if _GPU not in amounts and (_GPU in capacity or _GPU in allocatable):
        labelled = (number_in(labels.get(_COUNT)) or 0) * (number_in(labels.get(_REPLICAS)) or 1)
        return {**amounts, _GPU: labelled} if labelled else amounts
    return amounts


def _has_none(resource: str, amounts: Mapping[str, int]) -> bool:
    """Whether a resource with an amount of 0 is absent.

    GPUs with an amount of 0 may be there while their device plugin is away. They are absent while a device plugin of
    their vendor offers other GPUs, such as slices instead of whole GPUs.
    """
    gpu = accelerator(resource)
    if gpu is None:
        return True
    others = (other for name, amount in amounts.items() if amount and (other := accelerator(name)) is not None)
    return any(other.vendor is gpu.vendor and other.is_listed for other in others)
