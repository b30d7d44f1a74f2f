"""The node pools of a policy as a table of nodes, and what changes when a pool gets its next driver."""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache, reduce
from operator import and_

from webhook.facts.node_index import NodeTable, matching_nodes
from webhook.facts.node_sets import Mask
from webhook.facts.nodes import Node, node_from_raw
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.node import ChangingNodes, NextDriver, NodeClass, NodePool, RuntimeClass
from webhook.model.pod import Pod

_MAX_TABLES = 256
"""Lists of pools whose indexes are kept: one list for each policy with pools, some kilobytes each."""
_MAX_ANSWERS = 64


class PoolTable(NodeTable):
    """Pools as if each were a node. The pool may have no node at the moment, so its class counts 0 nodes."""

    def __init__(self, pools: Iterable[NodePool], accelerators: Accelerators) -> None:
        read = [(pool, node_from_raw(_as_node(pool), accelerators)) for pool in pools]
        known = [(pool, node) for pool, node in read if node is not None]
        super().__init__({node.name: node for _, node in known})
        self._uncounted = lru_cache(maxsize=_MAX_ANSWERS)(self._without_counts)
        self.changes: tuple[tuple[NodePool, NextDriver, Mask], ...] = tuple(
            (pool, pool.next, 1 << place) for place, (pool, _) in enumerate(known) if pool.next is not None
        )
        """The pools that will get another driver, each with its place in masks."""
        self._changing: dict[tuple[str, int, Mask], tuple[tuple[NodeClass, ...], ChangingNodes]] = {}
        """By pool, the identity of the classes of its nodes, and its own place. Each value holds on to the classes."""

    def classes(self, mask: Mask) -> tuple[NodeClass, ...]:
        return self._uncounted(mask)

    def changing_nodes(
        self, cluster: NodeTable, pod: Pod, runtime_class: RuntimeClass | None
    ) -> tuple[ChangingNodes, ...]:
        of_nodes, of_pools = (matching_nodes(table, pod, runtime_class) for table in (cluster, self))
        found = [
            self._of_pool(pool, change, cluster.classes(of_nodes & _members(cluster, change)), of_pools & place)
            for pool, change, place in self.changes
        ]
        return tuple(one for one in found if one.now)

    def _of_pool(self, pool: NodePool, change: NextDriver, nodes: tuple[NodeClass, ...], place: Mask) -> ChangingNodes:
        """The nodes of one pool, and the pool itself if `place` is not 0. Most pods get the same answer."""
        key = pool.name, id(nodes), place
        known = self._changing.get(key)
        if known is None:
            now = (*nodes, *self.classes(place))
            known = nodes, ChangingNodes(pool.name, change, now, tuple(_changed(one, change) for one in now))
            if len(self._changing) >= _MAX_ANSWERS:
                self._changing.clear()
            self._changing[key] = known
        return known[1]

    def _amount(self, node: Node, resource: str) -> int | None:
        """How much of a resource a node of the pool has; None where the pool does not say."""
        is_known = resource in node.kind.gpu_resources or BUILT_IN.of(resource) is not None
        return node.amount(resource) if is_known else None

    def _without_counts(self, mask: Mask) -> tuple[NodeClass, ...]:
        counted = super().classes(mask)
        return tuple(replace(one, count=0) for one in counted)


@lru_cache(maxsize=_MAX_TABLES)
def pool_table(pools: tuple[NodePool, ...], accelerators: Accelerators) -> PoolTable:
    """The table of these pools, which is made once."""
    return PoolTable(pools, accelerators)


def _as_node(pool: NodePool) -> dict[str, object]:
    """A node of the pool, as the API server would give it. Its name has a space, so that no node has the same name.

    GPUs with an amount of 0 are there in an unknown number.
    """
    return {
        "metadata": {"name": f"pool {pool.name}", "labels": dict(pool.labels)},
        "spec": {"taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in pool.taints]},
        "status": {"capacity": dict.fromkeys(pool.gpu_resources, str(pool.gpus or 0))},
    }


def _members(cluster: NodeTable, change: NextDriver) -> Mask:
    """The nodes of the cluster that belong to a pool: those with all its labels; none if it has no label of its own."""
    if not change.members:
        return 0
    return reduce(and_, (cluster.column(key).equal(value) for key, value in change.members))


def _changed(nodes: NodeClass, change: NextDriver) -> NodeClass:
    slices = nodes.by_slices
    by_slices = slices._replace(driver="", cuda="") if slices is not None else None
    return replace(nodes, labels=change.over(nodes.labels), by_slices=by_slices)
