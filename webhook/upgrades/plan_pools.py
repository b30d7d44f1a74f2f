"""The nodes that change: which GPUs they have, which of them their new driver does not drive, and when it ends."""

from collections.abc import Iterable, Iterator

from webhook.audit.node_kinds import NodeKind, node_kinds
from webhook.cuda.checks import Verdict, driver_for_gpu
from webhook.cuda.cuda_tables import CudaTables
from webhook.model.accelerators import Accelerators
from webhook.upgrades.changed_cluster import ChangedCluster
from webhook.upgrades.driver_plan import BranchSupport, PlannedPool, UndrivenGpus
from webhook.upgrades.node_changes import ChangeAction


def planned_pools(
    cluster: ChangedCluster, accelerators: Accelerators, added: str, now: float
) -> tuple[PlannedPool, ...]:
    """One entry for each change, in the order of the command line; then the nodes of the file `added`.

    `now` is the time in seconds since 1970, by which branches have ended or not.
    """
    tables = cluster.tables
    found: list[PlannedPool] = []
    for change in cluster.changes:
        pools = tuple(pool for pool in cluster.declared if pool.name in change.pools)
        nodes = cluster.facts.cluster.nodes
        kinds = node_kinds((nodes[name] for name in sorted(change.nodes)), pools, accelerators, tables)
        undriven: tuple[UndrivenGpus, ...] = ()
        branch = None
        if change.driver is not None:
            then = cluster.after.facts.cluster.nodes
            others = tuple(other for pool in pools if (other := cluster.pools.get(pool)) is not None)
            changed = node_kinds((then[name] for name in sorted(change.nodes)), others, accelerators, tables)
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
        kinds = node_kinds(nodes.values(), (), accelerators, tables)
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
