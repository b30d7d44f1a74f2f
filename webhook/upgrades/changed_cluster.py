"""A cluster now and after planned changes, so that both can be asked the same questions.

The nodes of both stand in one order: nodes that stay, nodes that go, nodes that come, declared pools. So a set of nodes
of the one can be compared with a set of the other. What changes is what another driver would change: the labels about
it, what ResourceSlices say of it, and the labels of declared node pools.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.driver_labels import with_driver
from webhook.cuda.offer import Offer, offer_of
from webhook.facts.facts import ClusterFacts
from webhook.facts.node_index import Mask, NodeTable
from webhook.facts.nodes import Node
from webhook.facts.snapshot import Snapshot
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.node import CUDA_LABELS, NodeClass, NodePool
from webhook.model.resource_slices import SliceDriver
from webhook.policy.policy_set import Policy
from webhook.upgrades.node_changes import ChangeAction, NodeChange


@dataclass(frozen=True, slots=True)
class PlaceOrder:
    """The order of nodes and pools in masks, the same now and then: how many stay, go and come, and the pools by name.

    `leaving` are the nodes and pools that go. `changed` are the nodes that stay and the pools whose offer changes, and
    the nodes that come with an offer that no node has now.
    """

    staying: int
    going: int
    coming: int
    pools: tuple[str, ...]
    leaving: Mask = 0
    changed: Mask = 0

    @property
    def nodes(self) -> int:
        """The number of nodes now and then together."""
        return self.staying + self.going + self.coming

    @property
    def pool_bit(self) -> int:
        """The position of the first pool."""
        return self.nodes

    @property
    def claimed(self) -> Mask:
        """Stands for unknown nodes with the devices of a DeviceClass."""
        return 1 << (self.nodes + len(self.pools))

    @property
    def arriving(self) -> Mask:
        """The nodes that come."""
        return ((1 << self.coming) - 1) << (self.staying + self.going)

    def count(self, mask: Mask) -> int:
        """How many nodes are in a mask; pools do not count."""
        return (mask & ((1 << self.nodes) - 1)).bit_count()


@dataclass(frozen=True, slots=True)
class ClusterSide:
    """The cluster at one of the two moments. `pools` says what becomes of declared pools; None: the pool is gone."""

    facts: ClusterFacts
    order: PlaceOrder
    is_after: bool
    pools: Mapping[NodePool, NodePool | None]
    _policies: dict[int, tuple[Policy, Policy]]

    def policy(self, policy: Policy) -> Policy:
        """The policy with its node pools as they are at this moment."""
        if not self.pools or not policy.node_pools:
            return policy
        known = self._policies.get(id(policy))
        if known is None:
            usual = None if policy.usual is None else self.policy(policy.usual)
            base = None if policy.base is None else self.policy(policy.base)
            pools = tuple(new for pool in policy.node_pools if (new := self.pools.get(pool, pool)) is not None)
            known = self._policies[id(policy)] = policy, replace(policy, node_pools=pools, usual=usual, base=base)
        return known[1]

    def of_nodes(self, mask: Mask) -> Mask:
        """A mask of this side's nodes in the common order."""
        if not self.is_after:
            return mask
        staying = (1 << self.order.staying) - 1
        return (mask & staying) | ((mask & ~staying) << self.order.going)

    def of_pools(self, mask: Mask, names: Sequence[str]) -> Mask:
        """A mask of declared pools with these names in the common order."""
        found = 0
        for at, name in enumerate(names):
            if mask >> at & 1:
                found |= 1 << (self.order.pool_bit + self.order.pools.index(name))
        return found


@dataclass(frozen=True)
class ChangedCluster:
    """A cluster before and after changes."""

    facts: ClusterFacts
    changes: tuple[NodeChange, ...]
    declared: tuple[NodePool, ...]
    """The node pools of all policies."""
    added: ClusterFacts | None = None
    """The nodes that come."""
    tables: CudaTables = SHIPPED
    accelerators: Accelerators = BUILT_IN

    @cached_property
    def before(self) -> ClusterSide:
        """The cluster as it is."""
        nodes = self.facts.cluster.nodes
        ordered = {name: nodes[name] for name in (*self._staying, *sorted(self._gone))}
        return self._side(self.facts.cluster, ordered, is_after=False)

    @cached_property
    def after(self) -> ClusterSide:
        """The cluster as it will be."""
        snapshot = self.facts.cluster
        slices = snapshot.slices
        if slices is not None and (self._gone or self._coming):
            slices = slices.with_nodes_of(None if self.added is None else self.added.cluster.slices, self._gone)
        elif slices is None and self.added is not None:
            slices = self.added.cluster.slices
        nodes = {name: self._then[name] for name in self._staying} | dict(self._coming)
        return self._side(replace(snapshot, slices=slices), nodes, is_after=True)

    def _side(self, snapshot: Snapshot, nodes: Mapping[str, Node], *, is_after: bool) -> ClusterSide:
        facts = replace(self.facts, cluster=replace(snapshot, table=NodeTable(nodes)))
        return ClusterSide(facts, self.order, is_after, self.pools if is_after else {}, {})

    @cached_property
    def order(self) -> PlaceOrder:
        """The common order of nodes and pools."""
        nodes = self.facts.cluster.nodes
        coming = len(self._coming)
        names = tuple(sorted({pool.name for pool in self.declared}))
        order = PlaceOrder(len(self._staying), len(self._gone), coming, names)
        leaving, changed = ((1 << order.going) - 1) << order.staying, 0
        for at, name in enumerate(self._staying):
            then = self._then[name]
            if then is not nodes[name] and self._offer(then.kind) != self._offer(nodes[name].kind):
                changed |= 1 << at
        known = {self._offer(node.kind) for node in nodes.values()}
        for at, node in enumerate(self._coming.values(), start=order.staying + order.going):
            if self._offer(node.kind) not in known:
                changed |= 1 << at
        for pool, other in self.pools.items():
            bit = 1 << (order.pool_bit + names.index(pool.name))
            if other is None:
                leaving |= bit
            elif offer_of(dict(other.labels), self.tables.gpus) != offer_of(dict(pool.labels), self.tables.gpus):
                changed |= bit
        return replace(order, leaving=leaving, changed=changed)

    def _offer(self, kind: NodeClass) -> Offer:
        return offer_of(kind.labels, self.tables.gpus, kind.by_slices)

    @cached_property
    def pools(self) -> Mapping[NodePool, NodePool | None]:
        """What becomes of each declared pool that changes; None: it is gone."""
        found: dict[NodePool, NodePool | None] = {}
        for change in self.changes:
            for pool in self.declared:
                if pool.name in change.pools:
                    found[pool] = None if change.action is ChangeAction.RETIRE else pool_with(pool, change)
        return found

    @cached_property
    def position(self) -> Mapping[str, int]:
        """The position of each node of now in the common order."""
        return {name: at for at, name in enumerate(self.before.facts.cluster.nodes)}

    @property
    def _coming(self) -> Mapping[str, Node]:
        return {} if self.added is None else self.added.cluster.nodes

    @cached_property
    def _gone(self) -> frozenset[str]:
        retired = [change.nodes for change in self.changes if change.action is ChangeAction.RETIRE]
        return frozenset().union(*retired)

    @cached_property
    def _staying(self) -> tuple[str, ...]:
        return tuple(name for name in self.facts.cluster.nodes if name not in self._gone)

    @cached_property
    def _then(self) -> Mapping[str, Node]:
        """The nodes that stay, as they will be; a node that keeps its driver is the same object."""
        nodes = self.facts.cluster.nodes
        found = {name: nodes[name] for name in self._staying}
        for change in self.changes:
            for name in change.nodes if change.action is ChangeAction.SET else ():
                found[name] = node_with(found[name], change)
        return found


def node_with(node: Node, change: NodeChange) -> Node:
    """The node with another driver; the node itself where that is the driver that it has."""
    said = node.kind.by_slices
    labels = _other_labels({key: node.values[place] for key, place in node.keys.items()}, said, change)
    node = node.offering(slices_with(said, change))
    return node.relabelled(labels) if labels else node


def pool_with(pool: NodePool, change: NodeChange) -> NodePool:
    """The declared pool with another driver."""
    return replace(pool, labels=tuple(sorted(labels_with(dict(pool.labels), None, change).items())))


def labels_with(labels: Mapping[str, str], said: SliceDriver | None, change: NodeChange) -> dict[str, str]:
    """The labels of nodes with another driver; `said` is what their ResourceSlices say."""
    others = {**labels, **_other_labels(labels, said, change)}
    return {key: value for key, value in others.items() if value is not None}


def slices_with(said: SliceDriver | None, change: NodeChange) -> SliceDriver | None:
    """What ResourceSlices say with another driver."""
    if said is None or change.driver is None:
        return said
    return said._replace(driver=str(change.driver), cuda=str(change.cuda) if said.cuda else "")


def _other_labels(labels: Mapping[str, str], said: SliceDriver | None, change: NodeChange) -> dict[str, str | None]:
    """What changes in labels. Nodes whose ResourceSlices alone tell the driver get no labels about it."""
    if change.driver is None or change.cuda is None:
        return {}
    if said is not None and not any(key.startswith(CUDA_LABELS) for key in labels):
        return {}
    return with_driver(labels, change.driver, change.cuda)


def declared_pools(policies: Iterable[Policy]) -> tuple[NodePool, ...]:
    """The node pools of all policies, each once."""
    return tuple(dict.fromkeys(pool for policy in policies for pool in policy.node_pools))
