"""Node pools that a policy declares, beside the nodes that exist: one that scaled to zero has none, and may have soon.

Pools are matched by the same code as nodes, each as if it were one node. They have no node names yet: a pod bound to a
node by name fits none of them.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from webhook.facts.forwarded_facts import ForwardedFacts
from webhook.facts.node_index import NodeTable
from webhook.facts.node_sets import Mask
from webhook.facts.objects import Node, node_from_raw
from webhook.facts.snapshot import Snapshot
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.node import NodeClass, NodePool
from webhook.model.pod import Pod
from webhook.rules.rule import Facts

_MAX_TABLES = 256
"""Lists of pools whose indexes are kept: one for each policy that has its own, some kilobytes each."""
_MAX_ANSWERS = 64


class WithPools(ForwardedFacts):
    """Facts with these pools as further nodes, counted as 0 nodes each. Whether any node is known is not changed.

    What they cost does not depend on the number of nodes.
    """

    __slots__ = ("_accelerators", "_pools")

    def __init__(self, facts: Facts, pools: tuple[NodePool, ...], accelerators: Accelerators = BUILT_IN) -> None:
        super().__init__(facts)
        self._accelerators = accelerators
        self._pools = pools

    def matching_nodes(self, pod: Pod) -> Sequence[NodeClass]:
        """The matching nodes, and then the classes of the pools whose nodes the pod could be scheduled to.

        What the pod's RuntimeClass adds counts for pools as it does for nodes.
        """
        nodes = self._facts.matching_nodes(pod)
        return nodes if not self._pools else (*nodes, *self._as_nodes(pod).matching_nodes(pod))

    def feasible_nodes(self, pod: Pod) -> Sequence[NodeClass]:
        """The feasible nodes, and then the classes of such pools whose nodes may have room for the pod.

        A pool says at most how many GPUs its nodes have. Of all else they have enough, as far as anybody knows.
        """
        nodes = self._facts.feasible_nodes(pod)
        return nodes if not self._pools else (*nodes, *self._as_nodes(pod).feasible_nodes(pod))

    def gpu_resources(self) -> frozenset[str]:
        """The GPU resources that some node or node pool has."""
        return self._facts.gpu_resources().union(*(pool.gpu_resources for pool in self._pools))

    def largest(self, resource: str, pod: Pod | None = None) -> int | None:
        """The most of a resource that one node has, None where one, perhaps of a pool, has nobody knows how much."""
        of_nodes, of_pools = self._facts.largest(resource, pod), self._as_nodes(pod).largest(resource, pod)
        return None if of_nodes is None or of_pools is None else max(of_nodes, of_pools)

    def label_values(self, key: str) -> Sequence[str]:
        """The values that a label has on nodes and node pools, sorted; empty where none has it."""
        return sorted({*self._facts.label_values(key), *self._as_nodes().label_values(key)})

    def _as_nodes(self, pod: Pod | None = None) -> Snapshot:
        """The pools as if each were a node, in a cluster with the RuntimeClass of the pod."""
        found = self._facts.runtime_class(pod.runtime_class) if pod is not None and pod.runtime_class else None
        return Snapshot(_table(self._pools, self._accelerators), {} if found is None else {found.name: found}, {})


class _PoolTable(NodeTable):
    """Pools as if each were a node. None of those has to exist, so none is counted. What a pool does not say may be."""

    def __init__(self, nodes: dict[str, Node]) -> None:
        super().__init__(nodes)
        self._uncounted = lru_cache(maxsize=_MAX_ANSWERS)(self._without_counts)

    def classes(self, mask: Mask) -> tuple[NodeClass, ...]:
        """The classes of the pools in `mask`."""
        return self._uncounted(mask)

    def _amount(self, node: Node, resource: str) -> int | None:
        return (
            node.amount(resource) if resource in node.kind.gpu_resources or BUILT_IN.of(resource) is not None else None
        )

    def _without_counts(self, mask: Mask) -> tuple[NodeClass, ...]:
        kinds = super().classes(mask)
        return tuple(replace(kind, count=0) for kind in kinds)


@lru_cache(maxsize=_MAX_TABLES)
def _table(pools: tuple[NodePool, ...], accelerators: Accelerators) -> NodeTable:
    nodes = [node for pool in pools if (node := node_from_raw(_as_node(pool), accelerators)) is not None]
    return _PoolTable({node.name: node for node in nodes})


def _as_node(pool: NodePool) -> dict[str, object]:
    """A node of the pool, as the API server would give it; no node can have its name, which holds a space.

    A GPU resource that reads 0 is there in a number that nobody knows.
    """
    return {
        "metadata": {"name": f"pool {pool.name}", "labels": dict(pool.labels)},
        "spec": {"taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in pool.taints]},
        "status": {"capacity": dict.fromkeys(pool.gpu_resources, str(pool.gpus or 0))},
    }
