"""Pods that select nodes by labels about the driver, and the nodes that they match once these have another driver."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from webhook.facts.node_index import NodeTable, matching_nodes
from webhook.facts.node_sets import Mask
from webhook.facts.pool_table import pool_table
from webhook.model.node import CUDA_LABELS, NodeClass, RuntimeClass
from webhook.model.pod import Pod
from webhook.model.selectors import Expression
from webhook.rules.candidates import released
from webhook.upgrades.changed_cluster import ChangedCluster, labels_with, node_with, pool_with, slices_with
from webhook.upgrades.node_changes import NodeChange
from webhook.upgrades.standing import standing_of
from webhook.upgrades.workload_planner import JudgedPods


def selects_drivers(pod: Pod) -> bool:
    """Whether the labels by which a pod selects nodes are about the driver."""
    keys = [*pod.node_selector, *(one.key for term in pod.required or () for one in term.expressions)]
    return any(key.startswith(CUDA_LABELS) for key in keys)


@dataclass(frozen=True)
class ChangedKind:
    """The nodes and declared pools of one kind with another driver."""

    nodes: tuple[str, ...]
    pools: tuple[str, ...]
    change: NodeChange
    cluster: ChangedCluster

    def of_class(self, nodes: NodeClass) -> NodeClass:
        """A class of these nodes, with the driver."""
        labels = labels_with(nodes.labels, nodes.by_slices, self.change)
        return replace(nodes, labels=labels, by_slices=slices_with(nodes.by_slices, self.change))

    @cached_property
    def table(self) -> NodeTable:
        """The nodes with the driver."""
        nodes = self.cluster.before.facts.cluster.nodes
        return NodeTable({name: node_with(nodes[name], self.change) for name in self.nodes})

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The position of each of the nodes in the common order."""
        return tuple(self.cluster.position[name] for name in self.nodes)

    @cached_property
    def pool_tables(self) -> tuple[tuple[Mask, NodeTable], ...]:
        """Each pool with the driver, as a table of its own, and its place in the common order."""
        order = self.cluster.order
        return tuple(
            (
                1 << (order.pool_bit + order.pools.index(pool.name)),
                pool_table((pool_with(pool, self.change),), self.cluster.accelerators),
            )
            for pool in self.cluster.declared
            if pool.name in self.pools
        )


@dataclass(frozen=True, slots=True)
class DriverSelection:
    """How pods select nodes. `possible` are the nodes and pools for them, whatever driver these have."""

    pod: Pod
    runtime_class: RuntimeClass | None
    possible: Mask

    @classmethod
    def of(cls, judged: JudgedPods, cluster: ChangedCluster) -> "DriverSelection":
        """The selection of pods that are alike."""
        side, pod = cluster.before, judged.pod
        standing = standing_of(_without_drivers(pod), side.policy(judged.policy), judged.settings, side)
        runtime_class = side.facts.cluster.runtime_classes.get(pod.runtime_class or "")
        return cls(released(pod, side.facts), runtime_class, standing.candidates)

    def matching(self, kind: ChangedKind) -> Mask:
        """The nodes and pools of a kind that the pods match with its new driver, in the common order."""
        found = matching_nodes(kind.table, self.pod, self.runtime_class)
        mask = 0
        if found == kind.table.everything:
            mask = sum(1 << place for place in kind.places)
        elif found:
            mask = sum(1 << place for at, place in enumerate(kind.places) if found >> at & 1)
        for place, table in kind.pool_tables:
            if place & self.possible and matching_nodes(table, self.pod, self.runtime_class):
                mask |= place
        return mask & self.possible


def _without_drivers(pod: Pod) -> Pod:
    """The pod without what it asks of labels about the driver."""
    chosen = {key: value for key, value in pod.node_selector.items() if not key.startswith(CUDA_LABELS)}
    terms = pod.required
    if terms is not None:
        kept = [replace(term, expressions=tuple(_others(term.expressions))) for term in terms]
        is_free = any(one.matches_nothing and not term.matches_nothing for one, term in zip(kept, terms, strict=True))
        terms = None if is_free else tuple(kept)
    return replace(pod, node_selector=chosen, required=terms)


def _others(expressions: Iterable[Expression]) -> Iterable[Expression]:
    return (one for one in expressions if not one.key.startswith(CUDA_LABELS))
