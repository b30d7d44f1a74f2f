"""Node pools that a policy declares, beside the nodes that exist: one that scaled to zero has none, and may have soon.

Pools are matched by the same code as nodes, each as if it were one node. They have no node names yet: a pod bound to a
node by name fits none of them.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from webhook.cluster.masks import Mask
from webhook.cluster.objects import Node, node_from_raw
from webhook.cluster.snapshot import Snapshot
from webhook.cluster.table import NodeTable
from webhook.model.image import ImageSight
from webhook.model.node import NodeClass, NodePool, RuntimeClass
from webhook.model.pod import Pod
from webhook.rules.rule import Facts

_MAX_TABLES = 256
"""Lists of pools whose indexes are kept: one for each policy that has its own, some kilobytes each."""
_MAX_ANSWERS = 64


class WithPools:
    """Implements Facts: those of another, with these pools as further candidates, counted as 0 nodes each.

    What they cost does not depend on the number of nodes.
    """

    __slots__ = ("_facts", "_pools")

    def __init__(self, facts: Facts, pools: tuple[NodePool, ...]) -> None:
        self._facts = facts
        self._pools = pools

    def runtime_class(self, name: str) -> RuntimeClass | None:
        """The RuntimeClass of this name, None where the cluster has none."""
        return self._facts.runtime_class(name)

    def image(self, reference: str) -> ImageSight:
        """What is known of an image."""
        return self._facts.image(reference)

    def candidates(self, pod: Pod) -> Sequence[NodeClass]:
        """The candidates among the nodes, and then the classes of the pools whose nodes the pod could be scheduled to.

        What the pod's RuntimeClass adds counts for pools as it does for nodes.
        """
        nodes = self._facts.candidates(pod)
        if not self._pools:
            return nodes
        found = self._facts.runtime_class(pod.runtime_class) if pod.runtime_class else None
        runtime_classes = {found.name: found} if found is not None else {}
        return (*nodes, *Snapshot(_table(self._pools), runtime_classes).candidates(pod))


class _PoolTable(NodeTable):
    """Pools as if each were a node. None of those has to exist, so none is counted."""

    def __init__(self, nodes: dict[str, Node]) -> None:
        super().__init__(nodes)
        self._uncounted = lru_cache(maxsize=_MAX_ANSWERS)(self._without_counts)

    def classes(self, mask: Mask) -> tuple[NodeClass, ...]:
        """The classes of the pools in `mask`."""
        return self._uncounted(mask)

    def _without_counts(self, mask: Mask) -> tuple[NodeClass, ...]:
        kinds = super().classes(mask)
        return tuple(replace(kind, count=0) for kind in kinds)


@lru_cache(maxsize=_MAX_TABLES)
def _table(pools: tuple[NodePool, ...]) -> NodeTable:
    nodes = [node for pool in pools if (node := node_from_raw(_as_node(pool))) is not None]
    return _PoolTable({node.name: node for node in nodes})


def _as_node(pool: NodePool) -> dict[str, object]:
    """A node of the pool, as the API server would give it; no node can have its name, which holds a space."""
    return {
        "metadata": {"name": f"pool {pool.name}", "labels": dict(pool.labels)},
        "spec": {"taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in pool.taints]},
        "status": {"capacity": dict.fromkeys(pool.gpu_resources, "1")},
    }
