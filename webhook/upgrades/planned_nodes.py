"""What a plan says of nodes: what each option does to them, and what each driver branch would do.

The matrix changes one kind of nodes at a time. Only verdicts about these nodes are asked again, one for each need of
images, offer and branch: so the time hardly grows with pods. Pods that select nodes by labels about the driver are not
placed anew; what another branch does to them is unknown.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from webhook.audit.node_kinds import NodeKind, newest_cuda, node_kinds
from webhook.cuda.assessment import ForcedCompat, assess
from webhook.cuda.checks import Verdict, driver_for_gpu
from webhook.cuda.cuda_tables import CudaTables
from webhook.cuda.drivers import Branch, last_of
from webhook.cuda.need import Need
from webhook.cuda.offer import Offer
from webhook.facts.facts import ClusterFacts
from webhook.model.node import GPU_NAME_LABELS, NodeClass, NodePool
from webhook.model.resource_slices import NVIDIA
from webhook.upgrades.changed_cluster import AlikeNodes, ChangedCluster, Move, class_with
from webhook.upgrades.comparing import change_of
from webhook.upgrades.driver_plan import (
    BranchMatrix,
    BranchSupport,
    MatrixCell,
    MatrixRow,
    PlannedPool,
    UndrivenGpus,
    WorkloadChange,
)
from webhook.upgrades.node_changes import ChangeAction, NodeChange, has_nvidia_gpus


def planned_pools(cluster: ChangedCluster, added: str, now: float) -> tuple[PlannedPool, ...]:
    """One entry for each change, in the order of the command line; then the nodes of the file `added`.

    `now` is the time in seconds since 1970, by which branches have ended or not.
    """
    changes = cluster.changes
    if cluster.added is not None:
        changes += (NodeChange(ChangeAction.ADD, added, frozenset(cluster.added.cluster.nodes)),)
    return tuple(_planned_pool(change, cluster, now) for change in changes)


def _planned_pool(change: NodeChange, cluster: ChangedCluster, now: float) -> PlannedPool:
    own = {pool.name for pool in cluster.declared if dict(pool.labels).keys() & set(GPU_NAME_LABELS)}
    made = (pool for pool in cluster.facts.cluster.made if pool.called not in own)
    pools = tuple(pool for pool in (*cluster.declared, *made) if pool.called in change.pools)
    later = tuple(other for pool in pools if (other := cluster.pools.get(pool)) is not None)
    names = sorted(change.nodes)
    then = [] if change.action is ChangeAction.RETIRE else _gpu_kinds(names, later, cluster.after, cluster)
    kinds = then if change.action is ChangeAction.ADD else _gpu_kinds(names, pools, cluster.before, cluster)
    objections = [(kind, driver_for_gpu(kind.offer, cluster.tables)) for kind in then]
    return PlannedPool(
        change.action,
        change.text,
        len(names),
        sum(kind.gpus for kind in kinds),
        tuple(sorted(change.pools)),
        _distinct(kind.offer.product for kind in kinds),
        _distinct(str(kind.offer.driver or "") for kind in kinds),
        None if change.driver is None else str(change.driver),
        tuple(
            UndrivenGpus(kind.offer.product, kind.count, kind.gpus, found.reason, found.verdict is Verdict.INCOMPATIBLE)
            for kind, found in objections
            if found is not None
        ),
        None if change.driver is None else branch_support(change.driver.major, cluster.tables, now),
    )


def _gpu_kinds(
    names: Iterable[str], pools: tuple[NodePool, ...], facts: ClusterFacts, cluster: ChangedCluster
) -> list[NodeKind]:
    """The kinds of nodes and pools with NVIDIA GPUs; also of nodes that offer them by ResourceSlices alone."""
    nodes, slices = [facts.cluster.nodes[name] for name in names], facts.cluster.slices
    found = node_kinds(nodes, pools, cluster.accelerators, cluster.tables)
    offered: dict[Offer, list[int]] = {}
    for node in nodes:
        if node.kind.by_slices is not None and not cluster.accelerators.has_nvidia(node.kind.gpu_resources):
            devices = slices.devices(node.name).kinds if slices is not None else ()
            gpus = sum(number for kind, number in devices if kind.driver == NVIDIA)
            offered.setdefault(cluster.offer(node.kind), []).append(gpus)
    found += (
        NodeKind(offer, len(gpus), sum(gpus), newest_cuda(offer, cluster.tables)) for offer, gpus in offered.items()
    )
    return found


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, texts)))


def branch_support(number: int, tables: CudaTables, now: float) -> BranchSupport | None:
    """A driver branch and its end at a moment in seconds since 1970; None for a branch that the tables lack."""
    branch = tables.drivers.branch(number)
    if branch is None:
        return None
    return BranchSupport(branch.number, branch.support or None, branch.end or None, branch.has_ended(now))


Owner = tuple[str, ...]
"""The identity of a workload."""


@dataclass(frozen=True, slots=True)
class PodsOfMatrix:
    """Pods with equal needs on nodes with equal offers, and the verdict about each offer.

    `selects_drivers`: they select nodes by labels about the driver.
    """

    needs: tuple[Need, ...]
    tables: CudaTables
    is_compat_allowed: bool
    forced_compat: ForcedCompat
    verdicts: frozenset[tuple[Offer | None, Verdict]]
    selects_drivers: bool

    def verdict(self, classes: tuple[NodeClass]) -> Verdict:
        found = assess(
            self.needs,
            classes,
            self.tables,
            is_forward_compat_allowed=self.is_compat_allowed,
            forced_compat=self.forced_compat,
        )
        return found.verdicts[0].result.verdict


@dataclass(slots=True)
class _Row:
    """Nodes and declared pools with one GPU and driver, and one class of each of their offers."""

    nodes: list[str] = field(default_factory=list)
    pools: list[NodePool] = field(default_factory=list)
    classes: dict[Offer, NodeClass] = field(default_factory=dict)


def branch_matrix(cluster: ChangedCluster, pods: Iterable[tuple[PodsOfMatrix, Set[Owner]]], now: float) -> BranchMatrix:
    """The matrix for these pods and their owners on the nodes as they are now. `now` is in seconds since 1970.

    Its branches are the ones that may get further releases, and the ones that nodes have.
    """
    groups: dict[PodsOfMatrix, set[Owner]] = {}
    for one, owners in pods:
        groups.setdefault(one, set()).update(owners)
    rows, branches = _rows(cluster), cluster.tables.drivers.rows
    living = {branch.number for branch in branches if not branch.has_ended(now)}
    own = {offer.driver.major for row in rows for offer in row.classes if offer.driver is not None}
    known = (branch_support(branch.number, cluster.tables, now) for branch in branches if branch.number in living | own)
    return BranchMatrix(tuple(filter(None, known)), tuple(_matrix_row(row, groups, living, cluster) for row in rows))


def _rows(cluster: ChangedCluster) -> list[_Row]:
    """The kinds of nodes and declared pools with NVIDIA GPUs, in the order of their GPUs and drivers."""
    found: dict[tuple[object, ...], _Row] = {}

    def row_of(kind: NodeClass) -> _Row:
        offer = cluster.offer(kind)
        driver, compute = (() if one is None else one.parts for one in (offer.driver, offer.compute))
        row = found.setdefault((offer.product, driver, compute, offer.arch), _Row())
        row.classes.setdefault(offer, kind)
        return row

    for name, node in cluster.before.cluster.nodes.items():
        if has_nvidia_gpus(node.kind, cluster.accelerators):
            row_of(node.kind).nodes.append(name)
    for pool in cluster.declared:
        kind = NodeClass(dict(pool.labels), (), pool.gpu_resources, count=0)
        if has_nvidia_gpus(kind, cluster.accelerators):
            row_of(kind).pools.append(pool)
    return [row for _, row in sorted(found.items(), key=lambda one: one[0])]


_OTHER, _CHANGED = AlikeNodes(0, 0), AlikeNodes(0, 0, is_changed=True)


def _matrix_row(
    row: _Row, pods: Mapping[PodsOfMatrix, Set[Owner]], living: Set[int], cluster: ChangedCluster
) -> MatrixRow:
    """One kind of nodes with its cells: for the branches that are `living`, and for its own."""
    kinds = _gpu_kinds(row.nodes, tuple(row.pools), cluster.before, cluster)
    shown = replace(kinds[0], count=len(row.nodes), gpus=sum(kind.gpus for kind in kinds))
    driver = shown.offer.driver
    cells = tuple(
        _cell(row, branch, pods, cluster)
        for branch in cluster.tables.drivers.rows
        if branch.number in living or (driver is not None and branch.number == driver.major)
    )
    safe = [cell.branch for cell in cells if not cell.breaks and not cell.unknown and cell.drives]
    product, version = shown.offer.product or None, None if driver is None else str(driver)
    return MatrixRow(str(shown), product, version, len(row.nodes), shown.gpus, max(safe, default=None), cells)


def _cell(row: _Row, branch: Branch, pods: Mapping[PodsOfMatrix, Set[Owner]], cluster: ChangedCluster) -> MatrixCell:
    """What the last driver of a branch does to the pods, on these nodes alone."""
    driver = last_of(branch.number)
    change = NodeChange(ChangeAction.SET, "", frozenset(), driver=driver, cuda=branch.cuda)
    changed = {offer: (class_with(kind, change),) for offer, kind in row.classes.items()}
    is_own = any(offer.driver is not None and offer.driver.major == branch.number for offer in changed)
    owners: dict[WorkloadChange, Set[Owner]] = {one: set() for one in WorkloadChange}
    for one, its_owners in pods.items():
        here = {offer: verdict for offer, verdict in one.verdicts if offer in changed}
        if here:
            others = {verdict for offer, verdict in one.verdicts if offer not in changed}
            moves = [Move(_OTHER, verdict, verdict, 1) for verdict in others]
            moves += (Move(_CHANGED, was, one.verdict(changed[offer]), 1) for offer, was in here.items())
            found = WorkloadChange.UNKNOWN if one.selects_drivers and not is_own else change_of(moves)
            owners[found] |= its_owners
    breaking = owners[WorkloadChange.BREAKS]
    doubtful = owners[WorkloadChange.UNKNOWN] - breaking
    losing = owners[WorkloadChange.LOSES_NODES] - breaking - doubtful
    objection = driver_for_gpu(cluster.offer(next(iter(changed.values()))[0]), cluster.tables)
    drives = True if objection is None else False if objection.verdict is Verdict.INCOMPATIBLE else None
    return MatrixCell(branch.number, len(breaking), len(doubtful), len(losing), drives)
