"""The node pools of a policy as a table of nodes, and what changes when a pool gets its next driver."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from webhook.facts.node_index import NodeTable, matching_nodes
from webhook.facts.nodes import Node, node_from_raw
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.node import ChangingNodes, NextDriver, NodeClass, NodePool, RuntimeClass
from webhook.model.pod import Pod


@lru_cache(maxsize=256)
def pool_table(pools: tuple[NodePool, ...], accelerators: Accelerators = BUILT_IN) -> NodeTable:
    """Pools as if each were a node. The pool may have no node at the moment, so its class counts 0 nodes."""
    nodes = [node for pool in pools if (node := _node(pool, accelerators)) is not None]
    return NodeTable({node.name: node for node in nodes})


def _node(pool: NodePool, accelerators: Accelerators) -> Node | None:
    """A node of the pool. Its name has a space, so that no node has the same name.

    GPUs with an amount of 0 are there in an unknown number.
    """
    raw = {
        "metadata": {"name": f"pool {pool.name}", "labels": dict(pool.labels)},
        "spec": {"taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in pool.taints]},
        "status": {"capacity": dict.fromkeys(pool.gpu_resources, str(pool.gpus or 0))},
    }
    node = node_from_raw(raw, accelerators)
    return None if node is None else replace(node, kind=replace(node.kind, count=0), is_declared=True)


def changing_nodes(
    pools: tuple[NodePool, ...], declared: NodeTable, cluster: NodeTable, pod: Pod, runtime_class: RuntimeClass | None
) -> Iterator[ChangingNodes]:
    """The nodes of the cluster and the pools that match a pod now and will get another driver, pool by pool."""
    of_nodes, of_pools = (matching_nodes(table, pod, runtime_class) for table in (cluster, declared))
    for pool in pools:
        change = pool.next
        if change is not None:
            own = cluster.everything if change.members else 0
            for key, value in change.members:
                own &= cluster.labelled(key, [value])
            place = 1 << list(declared.nodes).index(f"pool {pool.name}")
            if now := (*cluster.classes(of_nodes & own), *declared.classes(of_pools & place)):
                yield _changing(pool.name, change, now)


@lru_cache(maxsize=64)
def _changing(pool: str, change: NextDriver, now: tuple[NodeClass, ...]) -> ChangingNodes:
    """The nodes of one pool. Most pods get the same answer, and so the verdicts that are kept about it."""
    return ChangingNodes(pool, change, now, tuple(_changed(one, change) for one in now))


def _changed(nodes: NodeClass, change: NextDriver) -> NodeClass:
    """Nodes as they will be, with the next driver in their labels and in what their ResourceSlices say."""
    slices = nodes.by_slices
    by_slices = slices._replace(driver="", cuda="") if slices is not None else None
    return replace(nodes, labels=change.over(nodes.labels), by_slices=by_slices)
