"""A cluster now and after planned changes, and the groups of nodes that are alike at both moments.

What changes is what another driver would change: the labels about it, what ResourceSlices say of it, and the labels of
declared node pools.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.offer import Offer, offer_of, with_driver
from webhook.facts.facts import ClusterFacts
from webhook.facts.node_index import NodeTable
from webhook.facts.nodes import Node
from webhook.facts.snapshot import Snapshot
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.node import CUDA_LABELS, NodeClass, NodePool
from webhook.model.resource_slices import SliceDriver
from webhook.policy.policy_set import Policy
from webhook.upgrades.node_changes import ChangeAction, NodeChange

Mask = int
"""Nodes of a table, or pools: bit i stands for the i-th."""


@dataclass(frozen=True, slots=True, eq=False)
class AlikeNodes:
    """Nodes that are alike now and then, or one declared pool.

    `before` and `after` are the places of their class among the classes of the table of each moment: `before` is None
    if they come, `after` if they go. `members` are their own places in these tables, which are the same if they stay.
    `offer` is what they offer now. `is_changed`: they offer something else then, or come with an offer that no node has
    now. `maker` is the autoscaler that made nodes which go, and may make others like them. `pool` is None for nodes.
    """

    before: int | None
    after: int | None
    members: Mask = 1
    offer: Offer | None = None
    is_changed: bool = False
    maker: str = ""
    pool: str | None = None


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
    def before(self) -> ClusterFacts:
        """The cluster as it is. Nodes that stay come first in both clusters, in the same order."""
        nodes = self.facts.cluster.nodes
        gone = {name: nodes[name] for name in sorted(nodes.keys() - self._staying.keys())}
        return self._with(self.facts.cluster, {**{name: nodes[name] for name in self._staying}, **gone})

    @cached_property
    def after(self) -> ClusterFacts:
        snapshot, coming = self.facts.cluster, None if self.added is None else self.added.cluster
        slices, gone = snapshot.slices, snapshot.nodes.keys() - self._staying.keys()
        if slices is None:
            slices = None if coming is None else coming.slices
        elif gone or coming is not None:
            slices = slices.with_nodes_of(None if coming is None else coming.slices, gone)
        nodes = {**self._staying, **({} if coming is None else coming.nodes)}
        return self._with(replace(snapshot, slices=slices), nodes)

    def _with(self, snapshot: Snapshot, nodes: Mapping[str, Node]) -> ClusterFacts:
        return replace(self.facts, cluster=replace(snapshot, table=NodeTable(nodes)))

    @cached_property
    def _staying(self) -> Mapping[str, Node]:
        """The nodes that stay, as they will be."""
        found = dict(self.facts.cluster.nodes)
        for change in self.changes:
            for name in change.nodes:
                if change.action is ChangeAction.RETIRE:
                    found.pop(name, None)
                elif name in found:
                    found[name] = _node_with(found[name], change)
        return found

    @cached_property
    def pools(self) -> Mapping[NodePool, NodePool | None]:
        """What becomes of each declared pool that changes; None: it is gone."""
        return {
            pool: None if change.action is ChangeAction.RETIRE else _pool_with(pool, change)
            for change in self.changes
            for pool in self.declared
            if pool.name in change.pools
        }

    def policies(self, policy: Policy) -> tuple[Policy, Policy]:
        """A policy with its node pools as they are, and as they will be. Pools that stay come first in both."""
        then = [(pool, self.pools.get(pool, pool)) for pool in policy.node_pools]
        staying = [(pool, later) for pool, later in then if later is not None]
        gone = [pool for pool, later in then if later is None]
        before = replace(policy, node_pools=(*(pool for pool, _ in staying), *gone)) if gone else policy
        return before, replace(policy, node_pools=tuple(later for _, later in staying)) if self.pools else policy

    def groups(self, before: NodeTable, after: NodeTable) -> Iterator[AlikeNodes]:
        """The groups of alike nodes of two tables. In both, nodes that stay come first."""
        staying = (1 << sum(name in after.nodes for name in before.nodes)) - 1
        nodes = list(before.nodes.values())
        now = list(zip(before.classes(before.everything), before.members(before.everything), strict=True))
        then = list(zip(after.classes(after.everything), after.members(after.everything), strict=True))
        known = {self.offer(kind) for kind, _ in now}
        for at, (kind, members) in enumerate(now):
            offer = self.offer(kind)
            for later, (other, others) in enumerate(then):
                if both := members & others & staying:
                    yield AlikeNodes(at, later, both, offer, self.offer(other) != offer)
            if gone := members & ~staying:
                maker = next((node.maker for place, node in enumerate(nodes) if gone >> place & 1 and node.maker), "")
                yield AlikeNodes(at, None, gone, offer, maker=maker)
        for later, (kind, members) in enumerate(then):
            if come := members & ~staying:
                yield AlikeNodes(None, later, come, is_changed=self.offer(kind) not in known)

    def offer(self, kind: NodeClass) -> Offer:
        return offer_of(kind.labels, self.tables.gpus, kind.by_slices)


def _node_with(node: Node, change: NodeChange) -> Node:
    """The node with another driver; the node itself where that is the driver that it has."""
    said = node.kind.by_slices
    labels = _other_labels({key: node.values[place] for key, place in node.keys.items()}, said, change)
    node = node.offering(_slices_with(said, change))
    return node.relabelled(labels) if labels else node


def _pool_with(pool: NodePool, change: NodeChange) -> NodePool:
    return replace(pool, labels=tuple(sorted(_labels_with(dict(pool.labels), None, change).items())))


def class_with(kind: NodeClass, change: NodeChange) -> NodeClass:
    """Nodes with another driver."""
    labels = _labels_with(kind.labels, kind.by_slices, change)
    return replace(kind, labels=labels, by_slices=_slices_with(kind.by_slices, change))


def _labels_with(labels: Mapping[str, str], said: SliceDriver | None, change: NodeChange) -> dict[str, str]:
    others = {**labels, **_other_labels(labels, said, change)}
    return {key: value for key, value in others.items() if value is not None}


def _slices_with(said: SliceDriver | None, change: NodeChange) -> SliceDriver | None:
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
