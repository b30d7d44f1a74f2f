"""The cluster at one moment, as rules see it: its nodes and where on them a pod can be, and its classes of pods.

A snapshot never changes. What changes in the cluster gives a new one, which shares all that stayed the same; news that
rules cannot see, such as a node's heartbeat, gives the same one again, with the indexes it has built so far.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from webhook.facts import node_index
from webhook.facts.claim_index import ClaimTable
from webhook.facts.node_index import NodeTable
from webhook.facts.objects import (
    Node,
    device_class_from_raw,
    node_from_raw,
    priority_class_from_raw,
    runtime_class_from_raw,
)
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.claims import CLAIM, TEMPLATE, PodResourceClaim, Requests, ResourceClaim
from webhook.model.image import NOT_LOOKED_UP, ImageInfo
from webhook.model.node import NodeClass, PriorityClass, RuntimeClass
from webhook.model.pod import Pod
from webhook.model.requirements import demand_of, is_compared, is_extended

NO_DEVICE_CLASSES: Mapping[str, str] = MappingProxyType({})
"""Extended resources by the DeviceClasses that give them: there is none."""
NO_CLAIMS: Mapping[str, ClaimTable] = MappingProxyType({CLAIM: ClaimTable(), TEMPLATE: ClaimTable()})
"""Claims and templates of claims by their kind: there is none, or none is known."""


class Snapshot:
    """Implements Facts. Threads may ask at the same time; an answer costs the same with 10 nodes and with 5,000.

    The first question after a change also pays for the indexes, a few milliseconds with 5,000 nodes. `unreadable`
    counts the nodes that were left out because they have no name.

    A DeviceClass may give devices to pods that ask for an extended resource (`extendedResourceName`), and no node lists
    them. So pods that ask for one have a further candidate of which nothing is known. Where DeviceClasses are not
    known, every extended resource may be one.
    """

    __slots__ = (
        "__weakref__",
        "_accelerators",
        "_claimable",
        "_claims",
        "_device_classes",
        "_priority_classes",
        "_runtime_classes",
        "_table",
        "unreadable",
    )

    def __init__(  # noqa: PLR0913  # the parts of a cluster
        self,
        table: NodeTable,
        runtime_classes: Mapping[str, RuntimeClass],
        priority_classes: Mapping[str, PriorityClass],
        *,
        unreadable: int = 0,
        accelerators: Accelerators = BUILT_IN,
        device_classes: Mapping[str, str] | None = NO_DEVICE_CLASSES,
        claims: Mapping[str, ClaimTable] = NO_CLAIMS,
    ) -> None:
        self._accelerators = accelerators
        self._device_classes = device_classes
        self._claims = claims
        self._claimable = None if device_classes is None else frozenset(device_classes.values())
        self._table = table
        self._runtime_classes = runtime_classes
        self._priority_classes = priority_classes
        self.unreadable = unreadable

    @classmethod
    def of(  # noqa: PLR0913, PLR0917  # the objects of a cluster
        cls,
        nodes: Iterable[object] = (),
        runtime_classes: Iterable[object] = (),
        priority_classes: Iterable[object] = (),
        device_classes: Iterable[object] = (),
        claims: Iterable[object] = (),
        templates: Iterable[object] = (),
        *,
        accelerators: Accelerators = BUILT_IN,
    ) -> "Snapshot":
        """The snapshot of these objects, as the API server gives them; `accelerators` tells their GPUs."""
        snapshot = EMPTY.telling(accelerators).with_nodes(nodes).with_runtime_classes(runtime_classes)
        snapshot = snapshot.with_priority_classes(priority_classes).with_device_classes(device_classes)
        return snapshot.with_claims(CLAIM, claims).with_claims(TEMPLATE, templates)

    def telling(self, accelerators: Accelerators) -> "Snapshot":
        """The snapshot that tells the GPUs of nodes by these names from now on."""
        return self._but(accelerators=accelerators)

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by name."""
        return self._table.nodes

    @property
    def runtime_classes(self) -> Mapping[str, RuntimeClass]:
        """The runtime classes by name."""
        return self._runtime_classes

    def runtime_class(self, name: str) -> RuntimeClass | None:
        """The RuntimeClass of this name, None where the cluster has none."""
        return self._runtime_classes.get(name)

    def priority_classes(self) -> Mapping[str, PriorityClass]:
        """The PriorityClasses by name; empty where they are not known."""
        return self._priority_classes

    def image(self, reference: str) -> ImageInfo:  # noqa: ARG002  # nodes know nothing of images
        """Nothing: no registry is asked."""
        return NOT_LOOKED_UP

    def matching_nodes(self, pod: Pod) -> Sequence[NodeClass]:
        """Classes of the nodes that the pod, as it stands, could be scheduled to; empty where none is known."""
        known = self._table.classes(node_index.matching_nodes(self._table, pod, self._runtime_class_of(pod)))
        return (*known, *more) if (more := self._with_claimed_devices(pod)) else known

    def feasible_nodes(self, pod: Pod) -> Sequence[NodeClass]:
        """Classes of those matching nodes that have room for all that the pod requests, were nothing else on them."""
        known = self._table.classes(node_index.feasible_nodes(self._table, pod, self._runtime_class_of(pod)))
        return (*known, *more) if (more := self._with_claimed_devices(pod)) else known

    def _with_claimed_devices(self, pod: Pod) -> Sequence[NodeClass]:
        """A class of nodes of which nothing is known but that a DeviceClass gives what the pod asks for; often none.

        The scheduler claims the devices, and it never sees a pod that names its node.
        """
        if pod.node_name or (self._claimable is not None and not self._claimable):
            return ()
        names = [one for one in demand_of(pod) if is_extended(one)]
        claimed = names if self._claimable is None else self._claimable.intersection(names)
        return (NodeClass({}, (), frozenset(claimed), count=0, by_claim=True),) if claimed else ()

    def knows_nodes(self) -> bool:
        """Whether any node is known at all."""
        return bool(self.nodes)

    def gpu_resources(self) -> frozenset[str]:
        """The GPU resources that some node has, or once had."""
        return self._table.gpu_resources

    def largest(self, resource: str, pod: Pod | None = None) -> int | None:
        """The largest amount of a resource on one node: among the matching nodes of the pod, or among all nodes.

        0 where no node has any of it, None where one has and nobody knows how much.
        """
        table = self._table
        among = table.everything if pod is None else node_index.matching_nodes(table, pod, self._runtime_class_of(pod))
        if not is_compared(resource):
            return None if among else 0
        return table.amounts(resource).largest(among)

    def label_values(self, key: str) -> Sequence[str]:
        """The values that a label has on nodes, sorted; empty where none has it."""
        return self._table.column(key).values

    def claim(self, named: PodResourceClaim, namespace: str) -> Requests | None:
        """What a claim that a pod of the namespace names asks for; None where it is not known."""
        table = self._claims.get(named.kind)
        return None if table is None else table.get(namespace, named.target)

    def extended_resource(self, device_class: str) -> str:
        """The extended resource that a DeviceClass gives; empty where it gives none, or is not known."""
        return (self._device_classes or {}).get(device_class, "")

    def _runtime_class_of(self, pod: Pod) -> RuntimeClass | None:
        return self._runtime_classes.get(pod.runtime_class) if pod.runtime_class else None

    def with_nodes(self, raws: Iterable[object]) -> "Snapshot":
        """These nodes instead of the present ones; what is remembered of nodes that stay is kept."""
        nodes: dict[str, Node] = {}
        unreadable = 0
        for raw in raws:
            node = node_from_raw(raw, self._accelerators)
            if node is None:
                unreadable += 1
            else:
                nodes[node.name] = node.remembering(self.nodes.get(node.name))
        return self._with_table(self._table if nodes == self.nodes else NodeTable(nodes), unreadable)

    def with_node(self, raw: object) -> "Snapshot":
        """The snapshot with a node added or changed; itself where that changes nothing that rules can see."""
        node = node_from_raw(raw, self._accelerators)
        if node is None:
            return self
        earlier = self.nodes.get(node.name)
        node = node.remembering(earlier)
        return self if node == earlier else self._with_table(self._table.with_node(node), self.unreadable)

    def without_node(self, name: str) -> "Snapshot":
        """The snapshot without a node; itself where it has none of this name."""
        if name not in self.nodes:
            return self
        nodes = {other: node for other, node in self.nodes.items() if other != name}
        return self._with_table(NodeTable(nodes), self.unreadable)

    def with_nodes_of(self, other: "Snapshot") -> "Snapshot":
        """The classes of this snapshot with the nodes of another."""
        return self._with_table(other._table, other.unreadable)

    def _with_table(self, table: NodeTable, unreadable: int) -> "Snapshot":
        if table is self._table and unreadable == self.unreadable:
            return self
        return self._but(table=table, unreadable=unreadable)

    def with_runtime_classes(self, raws: Iterable[object]) -> "Snapshot":
        """These runtime classes instead of the present ones."""
        found = [runtime_class for raw in raws if (runtime_class := runtime_class_from_raw(raw)) is not None]
        return self._with_runtime_classes({runtime_class.name: runtime_class for runtime_class in found})

    def with_runtime_class(self, raw: object) -> "Snapshot":
        """The snapshot with a runtime class added or changed."""
        found = runtime_class_from_raw(raw)
        return self if found is None else self._with_runtime_classes({**self._runtime_classes, found.name: found})

    def without_runtime_class(self, name: str) -> "Snapshot":
        """The snapshot without a runtime class."""
        return self._with_runtime_classes({key: value for key, value in self._runtime_classes.items() if key != name})

    def _with_runtime_classes(self, runtime_classes: Mapping[str, RuntimeClass]) -> "Snapshot":
        if runtime_classes == self._runtime_classes:
            return self
        return self._but(runtime_classes=runtime_classes)

    def with_priority_classes(self, raws: Iterable[object]) -> "Snapshot":
        """These priority classes instead of the present ones."""
        found = [priority_class for raw in raws if (priority_class := priority_class_from_raw(raw)) is not None]
        return self._with_priority_classes({priority_class.name: priority_class for priority_class in found})

    def with_priority_class(self, raw: object) -> "Snapshot":
        """The snapshot with a priority class added or changed."""
        found = priority_class_from_raw(raw)
        return self if found is None else self._with_priority_classes({**self._priority_classes, found.name: found})

    def without_priority_class(self, name: str) -> "Snapshot":
        """The snapshot without a priority class."""
        return self._with_priority_classes({key: value for key, value in self._priority_classes.items() if key != name})

    def _with_priority_classes(self, priority_classes: Mapping[str, PriorityClass]) -> "Snapshot":
        if priority_classes == self._priority_classes:
            return self
        return self._but(priority_classes=priority_classes)

    def with_device_classes(self, raws: Iterable[object] | None) -> "Snapshot":
        """These device classes instead of the present ones; None where nobody knows them."""
        if raws is None:
            return self._with_device_classes(None)
        return self._with_device_classes(dict(filter(None, map(device_class_from_raw, raws))))

    def with_device_class(self, raw: object) -> "Snapshot":
        """The snapshot with a device class added or changed."""
        found = device_class_from_raw(raw)
        return (
            self if found is None else self._with_device_classes({**(self._device_classes or {}), found[0]: found[1]})
        )

    def without_device_class(self, name: str) -> "Snapshot":
        """The snapshot without a device class."""
        kept = {key: value for key, value in (self._device_classes or {}).items() if key != name}
        return self._with_device_classes(kept)

    def _with_device_classes(self, device_classes: Mapping[str, str] | None) -> "Snapshot":
        if device_classes is not None:
            device_classes = {name: resource for name, resource in device_classes.items() if resource}
        return self if device_classes == self._device_classes else self._but(device_classes=device_classes)

    def with_claims(self, kind: str, raws: Iterable[object]) -> "Snapshot":
        """These claims, or templates of claims, instead of the present ones of the kind; none where nobody knows them.

        They are read one by one, while they arrive.
        """
        return self._with_claims(kind, ClaimTable.of(kind, raws))

    def with_more_claims(self, claims: Iterable[tuple[str, ResourceClaim]]) -> "Snapshot":
        """The snapshot with these claims and templates of claims as well, each in its namespace."""
        found = list(claims)
        tables = {
            kind: table.with_all(one for one in found if one[1].kind == kind) for kind, table in self._claims.items()
        }
        return self._but(claims=tables) if found else self

    def with_claims_of(self, kind: str, other: "Snapshot") -> "Snapshot":
        """The snapshot with the claims of this kind that another one has."""
        return self._with_claims(kind, other._claims[kind])

    def with_claim(self, kind: str, raw: object) -> "Snapshot":
        """The snapshot with a claim, or a template, added or changed."""
        return self._with_claims(kind, self._claims[kind].with_claim(kind, raw))

    def without_claim(self, kind: str, namespace: str, name: str) -> "Snapshot":
        """The snapshot without a claim, or a template."""
        return self._with_claims(kind, self._claims[kind].without(namespace, name))

    def _with_claims(self, kind: str, table: ClaimTable) -> "Snapshot":
        return self if table is self._claims[kind] else self._but(claims={**self._claims, kind: table})

    def _but(self, **changed: Any) -> "Snapshot":
        """The snapshot with other parts, by the names that the constructor has for them."""
        same = {
            "table": self._table,
            "runtime_classes": self._runtime_classes,
            "priority_classes": self._priority_classes,
            "unreadable": self.unreadable,
            "accelerators": self._accelerators,
            "device_classes": self._device_classes,
            "claims": self._claims,
        }
        return Snapshot(**{**same, **changed})


EMPTY = Snapshot(NodeTable({}), {}, {})
"""A cluster of which nothing is known."""
