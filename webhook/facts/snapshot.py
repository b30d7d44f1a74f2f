"""The cluster at one moment: its nodes, classes and resource claims, as the API server gave them.

A snapshot never changes. A change in the cluster makes a new snapshot, which shares all unchanged parts. An event that
rules cannot see, such as a node's heartbeat, gives the snapshot itself, with the indexes that it has built.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

from webhook.facts.claim_index import ClaimTable
from webhook.facts.driver_objects import (
    CLUSTER_POLICY,
    NVIDIA_DRIVER,
    OF_SNAPSHOT,
    DriverObject,
    named_driver_object,
)
from webhook.facts.made_pools import (
    UNKNOWN_CLASS,
    NodeClassSays,
    NodeTemplate,
    node_class_from_raw,
    node_pool_from_raw,
    pools_of,
)
from webhook.facts.node_index import NodeTable
from webhook.facts.nodes import Node, node_from_raw, text_of
from webhook.facts.slice_index import SliceTable
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.claims import CLAIM, TEMPLATE, ResourceClaim
from webhook.model.json_parts import listed, mapped, part, text
from webhook.model.node import NodePool, PriorityClass, RuntimeClass, toleration_from_raw
from webhook.model.resource_slices import DeviceClass, device_class_from_raw
from webhook.model.selectors import Expression, Operator
from webhook.model.workloads import RUNTIMES

NO_CLAIMS: Mapping[str, ClaimTable] = MappingProxyType({CLAIM: ClaimTable(), TEMPLATE: ClaimTable()})
"""Claims and templates of claims by their kind: there is none, or none is known."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Snapshot:
    """The objects of a cluster, from which `webhook.facts.facts.ClusterFacts` answers.

    The first question after a change also pays for the indexes, a few milliseconds with 5,000 nodes.
    """

    table: NodeTable = field(default_factory=lambda: NodeTable({}))
    runtime_classes: Mapping[str, RuntimeClass] = field(default_factory=dict)
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    device_classes: Mapping[str, DeviceClass] | None = field(default_factory=dict)
    """The DeviceClasses by name.

    Pods that request the extended resource of a class get devices of nodes that do not list it. None where
    DeviceClasses are not known: any extended resource may then belong to one.
    """
    slices: SliceTable | None = None
    """The ResourceSlices of drivers of GPUs; None where they are not known."""
    claims: Mapping[str, ClaimTable] = field(default_factory=lambda: NO_CLAIMS)
    unreadable: int = 0
    """Nodes that were left out because they have no name."""
    accelerators: Accelerators = BUILT_IN
    """Tells which resources of nodes are GPUs."""
    node_pools: Mapping[str, NodeTemplate] = field(default_factory=dict)
    """The NodePools of Karpenter by name."""
    ec2_node_classes: Mapping[str, NodeClassSays] = field(default_factory=dict)
    made: tuple[NodePool, ...] = ()
    """The nodes that NodePools may make with their node classes."""
    runtimes: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    """The runtimes of Trainer, by namespace and name. Replicas know none: they do not read such objects."""
    cluster_policies: Mapping[str, DriverObject] = field(default_factory=dict)
    nvidia_drivers: Mapping[str, DriverObject] = field(default_factory=dict)

    @classmethod
    def of(cls, *objects: Iterable[object], accelerators: Accelerators = BUILT_IN, **others: Any) -> "Snapshot":
        """The snapshot of these objects, as the API server gives them, in the order of `PARTS` or by part.

        `accelerators` says which resources are GPUs.
        """
        given = dict.fromkeys(PARTS, ()) | dict(zip(PARTS, objects, strict=False)) | others
        snapshot = EMPTY.with_accelerators(accelerators).with_nodes(given["nodes"])
        for kind in _CLASSES:
            snapshot = snapshot.with_classes(kind, given[kind])
        for kind, raws in ((CLAIM, list(given["claims"])), (TEMPLATE, list(given["templates"]))):
            snapshot = snapshot.with_claims(kind, raws) if raws else snapshot  # a file without any need not have all
        slices = list(given["slices"])
        return snapshot.with_slices(slices) if slices else snapshot

    @property
    def nodes(self) -> Mapping[str, Node]:
        return self.table.nodes

    @property
    def driver_objects(self) -> tuple[DriverObject, ...]:
        return (*self.cluster_policies.values(), *self.nvidia_drivers.values())

    def driver_object(self, raw: object) -> DriverObject | None:
        found: Mapping[str, DriverObject] = getattr(self, OF_SNAPSHOT[text(raw, "kind")])
        return found.get(text(raw, "metadata", "name"))

    def with_accelerators(self, accelerators: Accelerators) -> "Snapshot":
        return replace(self, accelerators=accelerators)

    def with_nodes(self, raws: Iterable[object]) -> "Snapshot":
        nodes: dict[str, Node] = {}
        unreadable = 0
        for raw in raws:
            node = node_from_raw(raw, self.accelerators)
            if node is None:
                unreadable += 1
            else:
                nodes[node.name] = self._seen(node).remembering(self.nodes.get(node.name))
        return self._with_table(self.table if nodes == self.nodes else NodeTable(nodes), unreadable)

    def with_node(self, raw: object) -> "Snapshot":
        node = node_from_raw(raw, self.accelerators)
        if node is None:
            return self
        earlier = self.nodes.get(node.name)
        node = self._seen(node).remembering(earlier)
        return self if node == earlier else self._with_table(self.table.with_node(node), self.unreadable)

    def without_node(self, name: str) -> "Snapshot":
        if name not in self.nodes:
            return self
        return self._with_table(NodeTable(_without(self.nodes, name)), self.unreadable)

    def with_nodes_of(self, other: "Snapshot") -> "Snapshot":
        return self._with_table(other.table, other.unreadable)._with_drivers()

    def _seen(self, node: Node) -> Node:
        return node if self.slices is None else node.offering(self.slices.driver(node.name))

    def _with_drivers(self) -> "Snapshot":
        drivers = {} if self.slices is None else {name: self.slices.driver(name) for name in self.nodes}
        changed = {
            name: seen for name, node in self.nodes.items() if (seen := node.offering(drivers.get(name))) is not node
        }
        return self._with_table(NodeTable({**self.nodes, **changed}), self.unreadable) if changed else self

    def _with_table(self, table: NodeTable, unreadable: int) -> "Snapshot":
        if table is self.table and unreadable == self.unreadable:
            return self
        return replace(self, table=table, unreadable=unreadable)

    def _but(self, **parts: Any) -> "Snapshot":
        """The snapshot with these parts; the snapshot itself where they are as before."""
        if all(getattr(self, name) == part for name, part in parts.items()):
            return self
        changed = replace(self, **parts)
        return changed if parts.keys().isdisjoint(MAKING_KINDS) else replace(changed, made=tuple(changed._made()))

    def _made(self) -> Iterator[NodePool]:
        for _, template in sorted(self.node_pools.items()):
            yield from pools_of(template, self.ec2_node_classes.get(template.ec2_class, UNKNOWN_CLASS))

    def with_classes(self, kind: str, raws: Iterable[object] | None) -> "Snapshot":
        """The snapshot with all classes of a kind, a key of `_CLASSES`; None where DeviceClasses are not known."""
        return self._but(**{kind: None if raws is None else dict(filter(None, map(_CLASSES[kind], raws)))})

    def with_classes_of(self, kind: str, other: "Snapshot") -> "Snapshot":
        return self._but(**{kind: getattr(other, kind)})

    def with_class(self, kind: str, raw: object) -> "Snapshot":
        found = _CLASSES[kind](raw)
        return self if found is None else self._but(**{kind: (getattr(self, kind) or {}) | dict([found])})

    def without_class(self, kind: str, name: str) -> "Snapshot":
        return self._but(**{kind: _without(getattr(self, kind) or {}, name)})

    def with_claims(self, kind: str, raws: Iterable[object]) -> "Snapshot":
        """The snapshot with all claims, or templates, of a cluster. Only one object is in memory at a time."""
        return self._with_claims(kind, ClaimTable.of(kind, raws))

    def with_more_claims(self, claims: Iterable[tuple[str, ResourceClaim]]) -> "Snapshot":
        found = list(claims)
        tables = {
            kind: table.with_all(one for one in found if one[1].kind == kind) for kind, table in self.claims.items()
        }
        return replace(self, claims=tables) if found else self

    def with_claims_of(self, kind: str, other: "Snapshot") -> "Snapshot":
        return self._with_claims(kind, other.claims[kind])

    def with_claim(self, kind: str, raw: object) -> "Snapshot":
        return self._with_claims(kind, self.claims[kind].with_claim(kind, raw))

    def without_claim(self, kind: str, namespace: str, name: str) -> "Snapshot":
        return self._with_claims(kind, self.claims[kind].without(namespace, name))

    def _with_claims(self, kind: str, table: ClaimTable) -> "Snapshot":
        return self if table is self.claims[kind] else replace(self, claims={**self.claims, kind: table})

    def with_runtimes(self, raws: Iterable[Mapping[str, Any]], namespace: str = "") -> "Snapshot":
        """The snapshot with more runtimes of Trainer; `namespace` is where those are that name none."""
        found = {
            ("" if raw.get("kind") == RUNTIMES[1] else text(raw, "metadata", "namespace") or namespace, name): raw
            for raw in raws
            if (name := text(raw, "metadata", "name"))
        }
        return replace(self, runtimes={**self.runtimes, **found}) if found else self

    def with_slices(self, raws: Iterable[object] | None) -> "Snapshot":
        """The snapshot with all ResourceSlices of a cluster; None where they are not known.

        Only one object is in memory at a time.
        """
        return self.with_slices_of(replace(self, slices=None if raws is None else SliceTable.of(raws)))

    def with_slices_of(self, other: "Snapshot") -> "Snapshot":
        if self.slices is None or other.slices is None:
            return self._but(slices=other.slices)._with_drivers()
        return self._but(slices=other.slices.after(self.slices))._with_drivers()

    def with_slice(self, raw: object) -> "Snapshot":
        return self if self.slices is None else self._but(slices=self.slices.with_slice(raw))._with_driver_of(raw)

    def without_slice(self, raw: object) -> "Snapshot":
        return self if self.slices is None else self._but(slices=self.slices.without(raw))._with_driver_of(raw)

    def _with_driver_of(self, raw: object) -> "Snapshot":
        node = self.nodes.get(str(part(raw, "spec", "nodeName")))
        if node is None or (seen := self._seen(node)) is node:
            return self
        return self._with_table(self.table.with_node(seen), self.unreadable)


_Value = TypeVar("_Value")


def _without(mapping: Mapping[str, _Value], key: str) -> dict[str, _Value]:
    return {other: value for other, value in mapping.items() if other != key}


EMPTY = Snapshot()
"""A cluster about which nothing is known."""


def runtime_class_from_raw(raw: object) -> tuple[str, RuntimeClass] | None:
    """Read a RuntimeClass of any API version and shape: malformed parts are left out. None where it has no name."""
    name, scheduling = text(raw, "metadata", "name"), mapped(raw, "scheduling")
    if not name:
        return None
    return name, RuntimeClass(
        name,
        text(raw, "handler") or text(raw, "spec", "runtimeHandler"),
        tuple(
            Expression(str(key), Operator.IN, (value,))
            for key, raw in mapped(scheduling.get("nodeSelector")).items()
            if (value := text_of(raw)) is not None
        ),
        tuple(
            toleration_from_raw(toleration)
            for toleration in listed(scheduling.get("tolerations"))
            if isinstance(toleration, dict)
        ),
    )


def priority_class_from_raw(raw: object) -> tuple[str, PriorityClass] | None:
    """Read a PriorityClass of any shape: malformed parts are left out. None where it has no name."""
    name, priority_class = text(raw, "metadata", "name"), mapped(raw)
    if not name:
        return None
    value = priority_class.get("value")
    return name, PriorityClass(
        name,
        value if type(value) is int else 0,
        is_default=priority_class.get("globalDefault") is True,
        preempts=priority_class.get("preemptionPolicy") != "Never",
    )


_CLASSES: Mapping[str, Callable[[object], tuple[str, object] | None]] = {
    "runtime_classes": runtime_class_from_raw,
    "priority_classes": priority_class_from_raw,
    "device_classes": device_class_from_raw,
    "node_pools": node_pool_from_raw,
    "ec2_node_classes": node_class_from_raw,
    "cluster_policies": named_driver_object,
    "nvidia_drivers": named_driver_object,
}
"""Part of a snapshot -> reader of the name and the value of one object; None where it has no name."""
MAKING_KINDS = {
    "node_pools": ("NodePool", "/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.sh/v1beta1/nodepools"),
    "ec2_node_classes": (
        "EC2NodeClass",
        "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
        "/apis/karpenter.k8s.aws/v1beta1/ec2nodeclasses",
    ),
    "cluster_policies": (CLUSTER_POLICY, "/apis/nvidia.com/v1/clusterpolicies"),
    "nvidia_drivers": (NVIDIA_DRIVER, "/apis/nvidia.com/v1alpha1/nvidiadrivers"),
}
"""What says which nodes Karpenter may make, and which drivers nodes get: part of a snapshot -> kind, and the paths of
its versions.
"""
_OTHERS = ("nodes", "runtime_classes", "priority_classes", "device_classes", "claims", "templates", "slices")
PARTS = (*_OTHERS, *MAKING_KINDS)
