"""The nodes that change: which GPUs they have, which of them their new driver does not drive, and when it ends."""

from collections.abc import Iterable, Iterator

from webhook.audit.node_kinds import NodeKind, newest_cuda, node_kinds
from webhook.cuda.checks import Verdict, driver_for_gpu
from webhook.cuda.cuda_tables import CudaTables
from webhook.cuda.offer import Offer, offer_of
from webhook.facts.facts import ClusterFacts
from webhook.facts.nodes import Node
from webhook.model.node import NodePool
from webhook.model.resource_slices import NVIDIA
from webhook.upgrades.changed_cluster import ChangedCluster
from webhook.upgrades.driver_plan import BranchSupport, PlannedPool, UndrivenGpus
from webhook.upgrades.node_changes import ChangeAction, has_plugin


def gpu_kinds(
    nodes: Iterable[Node], pools: tuple[NodePool, ...], facts: ClusterFacts, cluster: ChangedCluster
) -> list[NodeKind]:
    """The kinds of nodes and pools with NVIDIA GPUs; `facts` have the ResourceSlices of nodes without a plugin."""
    nodes, slices = list(nodes), facts.cluster.slices
    found = node_kinds(nodes, pools, cluster.accelerators, cluster.tables)
    offering: dict[Offer, list[Node]] = {}
    for node in nodes:
        if node.kind.by_slices is not None and not has_plugin(node.kind, cluster.accelerators):
            offering.setdefault(offer_of(node.kind.labels, cluster.tables.gpus, node.kind.by_slices), []).append(node)
    for offer, alike in offering.items():
        devices = [slices.devices(node.name).kinds if slices is not None else () for node in alike]
        gpus = sum(number for counted in devices for kind, number in counted if kind.driver == NVIDIA)
        found.append(NodeKind(offer, len(alike), gpus, newest_cuda(offer, cluster.tables)))
    return found


def planned_pools(cluster: ChangedCluster, added: str, now: float) -> tuple[PlannedPool, ...]:
    """One entry for each change, in the order of the command line; then the nodes of the file `added`.

    `now` is the time in seconds since 1970, by which branches have ended or not.
    """
    tables = cluster.tables
    found: list[PlannedPool] = []
    for change in cluster.changes:
        pools = tuple(pool for pool in cluster.declared if pool.name in change.pools)
        nodes = cluster.facts.cluster.nodes
        kinds = gpu_kinds((nodes[name] for name in sorted(change.nodes)), pools, cluster.facts, cluster)
        undriven: tuple[UndrivenGpus, ...] = ()
        branch = None
        if change.driver is not None:
            then = cluster.after.facts.cluster.nodes
            others = tuple(other for pool in pools if (other := cluster.pools.get(pool)) is not None)
            changed = gpu_kinds((then[name] for name in sorted(change.nodes)), others, cluster.facts, cluster)
            undriven = tuple(_undriven(changed, tables))
            branch = branch_support(change.driver.major, tables, now)
        found.append(
            PlannedPool(
                change.action,
                change.text,
                len(change.nodes),
                sum(kind.gpus for kind in kinds),
                tuple(sorted(change.pools)),
                _distinct(kind.offer.product for kind in kinds),
                _distinct(str(kind.offer.driver) for kind in kinds if kind.offer.driver is not None),
                str(change.driver) if change.driver is not None else "",
                undriven,
                branch,
            )
        )
    if cluster.added is not None:
        nodes = cluster.added.cluster.nodes
        kinds = gpu_kinds(nodes.values(), (), cluster.added, cluster)
        drivers = _distinct(str(kind.offer.driver) for kind in kinds if kind.offer.driver is not None)
        found.append(
            PlannedPool(
                ChangeAction.ADD,
                added,
                len(nodes),
                sum(kind.gpus for kind in kinds),
                (),
                _distinct(kind.offer.product for kind in kinds),
                drivers,
                "",
                tuple(_undriven(kinds, tables)),
            )
        )
    return tuple(found)


def branch_support(number: int, tables: CudaTables, now: float) -> BranchSupport | None:
    """A driver branch and its end; None for a branch that the tables lack."""
    branch = tables.drivers.branch(number)
    if branch is None:
        return None
    return BranchSupport(number, branch.support, branch.end, branch.has_ended(now))


def _undriven(kinds: Iterable[NodeKind], tables: CudaTables) -> Iterator[UndrivenGpus]:
    """The GPUs that the drivers of these nodes do not drive, or perhaps not."""
    for kind in kinds:
        found = driver_for_gpu(kind.offer, tables)
        if found is not None:
            is_certain = found.verdict is Verdict.INCOMPATIBLE
            yield UndrivenGpus(kind.offer.product, kind.count, kind.gpus, found.reason, is_certain)


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, texts)))
