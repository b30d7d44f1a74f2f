"""Pods that select nodes by labels about the driver, and the nodes that they match once these have another driver."""

from dataclasses import dataclass, replace
from functools import cached_property

from webhook.facts.node_index import Mask, NodeTable, matching_nodes
from webhook.facts.pool_table import pool_table
from webhook.model.node import CUDA_LABELS, EVERYTHING, NodeClass, RuntimeClass
from webhook.model.pod import Pod
from webhook.upgrades.changed_cluster import ChangedCluster, labels_with, node_with, pool_with, slices_with
from webhook.upgrades.node_changes import NodeChange
from webhook.upgrades.standing import NOWHERE, Standing, standing_of
from webhook.upgrades.workload_planner import JudgedPods


def selects_drivers(pod: Pod) -> bool:
    """Whether the labels by which a pod selects nodes are about the driver."""
    keys = [*pod.node_selector, *(one.key for term in pod.required or () for one in term.expressions)]
    return any(key.startswith(CUDA_LABELS) for key in keys)


@dataclass(frozen=True)
class ChangedKind:
    """The nodes and declared pools of one kind with another driver. `mask` has them in the common order."""

    nodes: tuple[str, ...]
    pools: tuple[str, ...]
    mask: Mask
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
    """How pods select nodes, and where they stand now by these tolerations. `transient` taints go away by themselves.

    `possible` are the nodes and pools for them, whatever driver these have. `released` is the selection by all
    tolerations, which holds where this one leaves no node.
    """

    pod: Pod
    runtime_class: RuntimeClass | None
    possible: Mask
    standing: Standing
    transient: tuple[str, ...]
    released: "DriverSelection | None" = None

    @classmethod
    def of(cls, judged: JudgedPods, cluster: ChangedCluster) -> "DriverSelection":
        """The selection of pods that are alike."""
        side, pod, before = cluster.before, judged.pod, judged.before
        tolerating, policy = replace(pod, tolerations=EVERYTHING), side.policy(judged.policy)
        runtime_class = side.facts.cluster.runtime_classes.get(pod.runtime_class or "")

        def standing(one: Pod) -> Standing:
            return standing_of(one, policy, judged.settings, side)

        now = before if before.is_released or pod.is_held else replace(standing(tolerating), is_released=True)
        released = cls(tolerating, runtime_class, standing(_without_drivers(tolerating)).candidates, now, ())
        own = standing(_without_drivers(pod))
        if pod.is_held or own.is_released:
            return released
        now = NOWHERE if before.is_released else before
        return cls(pod, runtime_class, own.candidates, now, policy.transient_taints, released)

    def after(self, kind: ChangedKind) -> tuple[Standing, Mask]:
        """Where the pods stand now by the tolerations that hold then, and what they match of a kind with its driver."""
        found, others = self.matching(kind), self.standing.candidates & ~kind.mask
        return (self.standing, found) if found or others or self.released is None else self.released.after(kind)

    def matching(self, kind: ChangedKind) -> Mask:
        """The nodes and pools of a kind that the pods match with its new driver, in the common order."""
        table = kind.table.without_taints(self.transient) if self.transient else kind.table
        found = matching_nodes(table, self.pod, self.runtime_class)
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
        own = [[one for one in term.expressions if not one.key.startswith(CUDA_LABELS)] for term in terms]
        kept = [replace(term, expressions=tuple(others)) for term, others in zip(terms, own, strict=True)]
        is_free = any(one.matches_nothing and not term.matches_nothing for one, term in zip(kept, terms, strict=True))
        terms = None if is_free else tuple(kept)
    return replace(pod, node_selector=chosen, required=terms)
