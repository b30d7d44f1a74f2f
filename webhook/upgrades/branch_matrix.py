"""Every driver branch of the tables on every kind of nodes, one kind changed at a time: how many workloads break.

Workloads are judged by kinds. For each kind of pods and each kind of nodes among its candidates, one verdict about the
needs of its images is enough, whatever the number of pods and nodes. So the time grows with (kinds of pods) x (kinds of
nodes that each may land on) x (branches), and verdicts of equal needs are shared. Only pods that select nodes by labels
about the driver are placed anew for each kind of nodes and branch; steered pods without a known owner are such.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from webhook.audit.node_kinds import NodeKind
from webhook.cuda.assessment import assess
from webhook.cuda.checks import Verdict, driver_for_gpu
from webhook.cuda.cuda_tables import CudaTables
from webhook.cuda.driver_labels import with_driver
from webhook.cuda.need import Need
from webhook.cuda.offer import Offer, offer_of
from webhook.facts.node_sets import Mask
from webhook.model.node import NodeClass
from webhook.model.pod import Pod
from webhook.model.versions import Version
from webhook.upgrades.changed_cluster import ChangedCluster
from webhook.upgrades.comparing import compared
from webhook.upgrades.driver_plan import BranchMatrix, MatrixCell, MatrixRow, WorkloadChange
from webhook.upgrades.node_changes import ChangeAction, NodeChange, has_nvidia_gpus
from webhook.upgrades.plan_pools import branch_support, gpu_kinds
from webhook.upgrades.standing import standing_of
from webhook.upgrades.workload_planner import JudgedPods

_LAST_OF_BRANCH = 999
"""Second number of a driver version that stands for the newest driver of its branch."""
_ABOUT_DRIVERS = "nvidia.com/cuda."


@dataclass(frozen=True, slots=True)
class _Kind:
    """Nodes and pools with one offer. `mask` is in the common order."""

    shown: NodeKind
    offer: Offer
    nodes: frozenset[str]
    pools: frozenset[str]
    mask: Mask
    sample: NodeClass


def branch_matrix(cluster: ChangedCluster, judged: Iterable[JudgedPods], now: float) -> BranchMatrix:
    """The matrix for these pods on the nodes as they are now. `now` is in seconds since 1970."""
    tables = cluster.tables
    today = replace(cluster, changes=(), added=None)
    kinds = list(_kinds(today))
    pods = [one for one in judged if one.owners]
    rows = [_row(kind, pods, today) for kind in kinds]
    numbers = [branch.number for branch in tables.drivers.rows]
    supported = (branch_support(number, tables, now) for number in numbers)
    return BranchMatrix(tuple(one for one in supported if one is not None), tuple(rows))


def _kinds(today: ChangedCluster) -> Iterator[_Kind]:
    """The kinds of nodes and declared pools with NVIDIA GPUs, by offer."""
    accelerators, tables, order = today.accelerators, today.tables, today.order
    found: dict[Offer, tuple[list[str], list[str], NodeClass]] = {}
    for name, node in today.before.facts.cluster.nodes.items():
        if has_nvidia_gpus(node.kind, accelerators):
            offer = offer_of(node.kind.labels, tables.gpus, node.kind.by_slices)
            found.setdefault(offer, ([], [], node.kind))[0].append(name)
    for pool in today.declared:
        kind = NodeClass(dict(pool.labels), (), pool.gpu_resources, count=0)
        if has_nvidia_gpus(kind, accelerators):
            found.setdefault(offer_of(kind.labels, tables.gpus), ([], [], kind))[1].append(pool.name)
    nodes = today.before.facts.cluster.nodes
    places = {name: at for at, name in enumerate(nodes)}
    for offer, (names, pools, sample) in found.items():
        mask = sum(1 << places[name] for name in names)
        mask |= sum(1 << (order.pool_bit + order.pools.index(name)) for name in set(pools))
        own = tuple(pool for pool in today.declared if pool.name in pools)
        shown = gpu_kinds((nodes[name] for name in names), own, today.facts, today)
        gpus = sum(kind.gpus for kind in shown)
        yield _Kind(
            replace(shown[0], count=len(names), gpus=gpus), offer, frozenset(names), frozenset(pools), mask, sample
        )


def _row(kind: _Kind, pods: Sequence[JudgedPods], today: ChangedCluster) -> MatrixRow:
    tables = today.tables
    concerned = [one for one in pods if one.before.candidates & kind.mask or _selects_drivers(one.pod)]
    cells = [_cell(kind, branch.number, branch.cuda, concerned, today) for branch in tables.drivers.rows]
    safe = [cell.branch for cell in cells if not cell.breaks and cell.drives is not False]
    return MatrixRow(
        str(kind.shown),
        kind.offer.product,
        str(kind.offer.driver) if kind.offer.driver is not None else "",
        len(kind.nodes),
        kind.shown.gpus,
        max(safe, default=None),
        tuple(cells),
    )


def _cell(kind: _Kind, branch: int, cuda: Version, pods: Sequence[JudgedPods], today: ChangedCluster) -> MatrixCell:
    change = NodeChange(ChangeAction.SET, "", kind.nodes, kind.pools, Version((branch, _LAST_OF_BRANCH)), cuda)
    classes = (_with(kind.sample, change),)
    offer = offer_of(classes[0].labels, today.tables.gpus, classes[0].by_slices)
    verdicts: dict[tuple[tuple[Need, ...], CudaTables, bool], Verdict] = {}
    breaking: set[tuple[str, ...]] = set()
    doubtful: set[tuple[str, ...]] = set()
    then: ChangedCluster | None = None
    for one in pods:
        if _selects_drivers(one.pod):
            then = then or replace(today, changes=(change,))
            found = _placed_anew(one, then)
        else:
            found = _change(one, kind.mask, _verdict(one, classes, verdicts))
        if found is WorkloadChange.BREAKS:
            breaking |= one.owners
        elif found is WorkloadChange.UNKNOWN:
            doubtful |= one.owners
    objection = driver_for_gpu(offer, today.tables)
    drives = True if objection is None else False if objection.verdict is Verdict.INCOMPATIBLE else None
    return MatrixCell(branch, len(breaking), len(doubtful - breaking), drives)


def _with(sample: NodeClass, change: NodeChange) -> NodeClass:
    """The class of nodes with another driver."""
    if change.driver is None or change.cuda is None:
        return sample
    labels: Mapping[str, str | None] = {**sample.labels, **with_driver(sample.labels, change.driver, change.cuda)}
    said = sample.by_slices
    if said is not None:
        said = said._replace(driver=str(change.driver), cuda=str(change.cuda) if said.cuda else "")
    return replace(sample, labels={key: value for key, value in labels.items() if value is not None}, by_slices=said)


def _verdict(
    pods: JudgedPods,
    classes: tuple[NodeClass, ...],
    known: dict[tuple[tuple[Need, ...], CudaTables, bool], Verdict],
) -> Verdict:
    """The verdict about pods on nodes of one class."""
    needs = tuple(need for _, need in pods.before.uses)
    is_allowed = pods.settings.forward_compat == "allow"
    key = (needs, pods.settings.tables, is_allowed)
    if key not in known:
        if not needs:
            known[key] = Verdict.COMPATIBLE
        else:
            found = assess(needs, classes, pods.settings.tables, is_forward_compat_allowed=is_allowed)
            known[key] = found.verdicts[0].result.verdict
    return known[key]


def _change(pods: JudgedPods, mask: Mask, verdict: Verdict) -> WorkloadChange:
    """Whether pods break, or may break, if the nodes in the mask have this verdict and all others stay."""
    before = pods.before
    might = before.running | before.unknown
    if verdict is Verdict.INCOMPATIBLE:
        return WorkloadChange.BREAKS if might and not might & ~mask else WorkloadChange.SAME
    if verdict is Verdict.UNKNOWN and might & mask:
        return WorkloadChange.UNKNOWN
    return WorkloadChange.SAME


def _placed_anew(pods: JudgedPods, then: ChangedCluster) -> WorkloadChange:
    """What changes for pods that select nodes by labels about the driver."""
    side = then.after
    after = standing_of(pods.pod, side.policy(pods.policy), pods.settings, side)
    return compared(pods.before, after, then.order).change


def _selects_drivers(pod: Pod) -> bool:
    """Whether the labels by which a pod selects nodes are about the driver."""
    if any(key.startswith(_ABOUT_DRIVERS) for key in pod.node_selector):
        return True
    terms = pod.required or ()
    return any(expression.key.startswith(_ABOUT_DRIVERS) for term in terms for expression in term.expressions)
