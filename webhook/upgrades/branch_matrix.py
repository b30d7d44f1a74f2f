"""Every driver branch of the tables on every kind of nodes, one kind changed at a time: what it does to workloads.

Pods with equal needs that stand on the same nodes are one group, however many they are. For each group, each kind of
nodes among its candidates and each branch, one verdict is enough, and groups of equal needs share it. So the time grows
with (groups) x (kinds of nodes) x (branches), and not with pods; with nodes it grows once for each branch. Only for
groups that select nodes by labels about the driver, such as steered pods without a known owner, nodes are matched anew.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from webhook.audit.node_kinds import NodeKind
from webhook.cuda.assessment import assess
from webhook.cuda.checks import Verdict, driver_for_gpu
from webhook.cuda.need import Need
from webhook.cuda.offer import Offer, offer_of
from webhook.facts.node_index import Mask, feasible_nodes
from webhook.model.node import EVERYTHING, NodeClass
from webhook.model.pod import Pod
from webhook.model.requirements import demand_of
from webhook.model.versions import Version
from webhook.rules import cuda_driver
from webhook.upgrades.changed_cluster import ChangedCluster
from webhook.upgrades.comparing import change_of
from webhook.upgrades.driver_plan import BranchMatrix, MatrixCell, MatrixRow, WorkloadChange
from webhook.upgrades.driver_selection import ChangedKind, DriverSelection, selects_drivers
from webhook.upgrades.node_changes import ChangeAction, NodeChange, has_nvidia_gpus
from webhook.upgrades.plan_pools import branch_support, gpu_kinds
from webhook.upgrades.standing import Standing
from webhook.upgrades.workload_planner import JudgedPods

_LAST_OF_BRANCH = 999
"""Second number of a driver version that stands for the newest driver of its branch."""

_RUNS, _BY_COMPAT, _UNKNOWN = Verdict.COMPATIBLE, Verdict.FORWARD_COMPAT_ONLY, Verdict.UNKNOWN
_NO_MASKS = dict.fromkeys(Verdict, 0)

MOST_SELECTIONS = 500
"""Groups that are placed anew for each kind of nodes and branch. Tenants write how pods select nodes."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """Nodes and pools with one GPU and driver. `offers` has the class of one node of each offer, and all with it."""

    shown: NodeKind
    nodes: tuple[str, ...]
    pools: tuple[str, ...]
    offers: tuple[tuple[NodeClass, Mask], ...]

    @property
    def mask(self) -> Mask:
        """All of them, in the common order."""
        return sum(mask for _, mask in self.offers)


@dataclass(frozen=True, slots=True)
class _Group:
    """Pods with equal needs that stand on the same nodes. `owners` are the identities of their workloads.

    `selection` is given if they select nodes by labels about the driver. `is_left_out`: they do, and there are so many
    such groups that these are not placed anew; nothing is known of them.
    """

    needs: tuple[Need, ...]
    settings: cuda_driver.Settings
    before: Standing
    selection: DriverSelection | None
    is_left_out: bool = False
    owners: set[tuple[str, ...]] = field(default_factory=set)


def branch_matrix(cluster: ChangedCluster, judged: Iterable[JudgedPods], now: float) -> BranchMatrix:
    """The matrix for these pods on the nodes as they are now. `now` is in seconds since 1970."""
    tables = cluster.tables
    groups = _groups(judged, cluster)
    rows = [_row(kind, groups, cluster) for kind in _kinds(cluster)]
    supported = (branch_support(branch.number, tables, now) for branch in tables.drivers.rows)
    return BranchMatrix(tuple(one for one in supported if one is not None), tuple(rows))


def _groups(judged: Iterable[JudgedPods], cluster: ChangedCluster) -> list[_Group]:
    found: dict[tuple[object, ...], _Group] = {}
    selecting = 0
    for one in judged:
        before, pod, needs = one.before, one.pod, one.needs
        stands = (before.native, before.by_compat, before.unknown, before.unfit)
        selects = selects_drivers(pod)
        chosen = _choice(pod, cluster) if selects else ()
        key = (needs, one.settings.forward_compat, id(one.settings.tables), *stands, *chosen)
        if key not in found:
            is_left_out = selects and selecting >= MOST_SELECTIONS
            selection = DriverSelection.of(one, cluster) if selects and not is_left_out else None
            selecting += selection is not None
            found[key] = _Group(needs, one.settings, before, selection, is_left_out)
        found[key].owners.update(one.owners)
    return list(found.values())


def _choice(pod: Pod, cluster: ChangedCluster) -> tuple[object, ...]:
    """How a pod chooses its nodes, and which nodes have room for it; where pools are declared, how much it needs."""
    anywhere = replace(pod, node_selector={}, required=None, tolerations=EVERYTHING)
    nodes = feasible_nodes(cluster.before.facts.cluster.table, anywhere, None)
    room = (nodes, frozenset(demand_of(pod).items()) if cluster.declared else ())
    return (tuple(pod.node_selector.items()), pod.required, pod.tolerations, pod.runtime_class, pod.is_held, *room)


def _kinds(cluster: ChangedCluster) -> Iterator[_Kind]:
    """The kinds of nodes and declared pools with NVIDIA GPUs, in the order of their GPUs and drivers."""
    accelerators, tables, order = cluster.accelerators, cluster.tables, cluster.order
    found: dict[tuple[object, ...], dict[Offer, _Members]] = {}
    nodes = cluster.before.facts.cluster.nodes
    for at, (name, node) in enumerate(nodes.items()):
        if has_nvidia_gpus(node.kind, accelerators):
            members = _members(found, offer_of(node.kind.labels, tables.gpus, node.kind.by_slices), node.kind)
            members.nodes.append(name)
            members.mask |= 1 << at
    for pool in cluster.declared:
        kind = NodeClass(dict(pool.labels), (), pool.gpu_resources, count=0)
        if has_nvidia_gpus(kind, accelerators):
            members = _members(found, offer_of(kind.labels, tables.gpus), kind)
            members.pools.append(pool.name)
            members.mask |= 1 << (order.pool_bit + order.pools.index(pool.name))
    for _, offers in sorted(found.items(), key=lambda one: one[0]):
        names = [name for members in offers.values() for name in members.nodes]
        pools = tuple(dict.fromkeys(name for members in offers.values() for name in members.pools))
        own = tuple(pool for pool in cluster.declared if pool.name in pools)
        shown = gpu_kinds((nodes[name] for name in names), own, cluster.facts, cluster)
        whole = replace(shown[0], count=len(names), gpus=sum(kind.gpus for kind in shown))
        samples = tuple((members.sample, members.mask) for members in offers.values())
        yield _Kind(whole, tuple(names), pools, samples)


@dataclass(slots=True)
class _Members:
    """Nodes and pools with one offer; `sample` is the class of the first."""

    sample: NodeClass
    nodes: list[str] = field(default_factory=list)
    pools: list[str] = field(default_factory=list)
    mask: Mask = 0


def _members(found: dict[tuple[object, ...], dict[Offer, _Members]], offer: Offer, kind: NodeClass) -> _Members:
    """The members of an offer, which stands among offers with the same GPU and driver."""
    driver = offer.driver.parts if offer.driver is not None else ()
    compute = offer.compute.parts if offer.compute is not None else ()
    offers = found.setdefault((offer.product, driver, compute, offer.arch), {})
    return offers.setdefault(offer, _Members(kind))


def _row(kind: _Kind, groups: Sequence[_Group], cluster: ChangedCluster) -> MatrixRow:
    concerned = [one for one in groups if one.before.candidates & kind.mask or one.selection is not None]
    cells = [_cell(kind, branch.number, branch.cuda, concerned, cluster) for branch in cluster.tables.drivers.rows]
    safe = [cell.branch for cell in cells if not cell.breaks and not cell.unknown and cell.drives]
    return MatrixRow(
        str(kind.shown),
        kind.shown.offer.product,
        str(kind.shown.offer.driver) if kind.shown.offer.driver is not None else "",
        len(kind.nodes),
        kind.shown.gpus,
        max(safe, default=None),
        tuple(cells),
    )


def _cell(kind: _Kind, branch: int, cuda: Version, groups: Sequence[_Group], cluster: ChangedCluster) -> MatrixCell:
    """What the last driver of a branch does to the groups, on these nodes alone."""
    driver = Version((branch, _LAST_OF_BRANCH))
    change = NodeChange(ChangeAction.SET, "", frozenset(kind.nodes), frozenset(kind.pools), driver, cuda)
    here, others = kind.mask, ~kind.mask
    changed = ChangedKind(kind.nodes, kind.pools, here, change, cluster)
    samples = [((changed.of_class(sample),), mask) for sample, mask in kind.offers]
    order = replace(cluster.order, leaving=0, changed=here)
    verdicts: dict[tuple[object, ...], Verdict] = {}
    owners: dict[WorkloadChange, set[tuple[str, ...]]] = {one: set() for one in WorkloadChange}
    for group in groups:
        if group.is_left_out:
            owners[WorkloadChange.UNKNOWN] |= group.owners
            continue
        now, then = group.before, group.before.candidates
        if group.selection is not None:
            now, then = group.selection.after(changed)
        masks = dict(_NO_MASKS)
        for classes, mask in samples:
            masks[_verdict(group, classes, verdicts)] |= then & mask
        native, by_compat, unknown = masks[_RUNS], masks[_BY_COMPAT], masks[_UNKNOWN]
        is_same = (native, by_compat, unknown) == (now.native & here, now.by_compat & here, 0)
        if is_same and now is group.before and not now.unknown & here:
            continue
        after = replace(
            now,
            native=now.native & others | native,
            by_compat=now.by_compat & others | by_compat,
            unknown=now.unknown & others | unknown,
            unfit=now.unfit & others | masks[Verdict.INCOMPATIBLE],
        )
        owners[change_of(group.before, after, order)] |= group.owners
    breaking = owners[WorkloadChange.BREAKS]
    doubtful = owners[WorkloadChange.UNKNOWN] - breaking
    losing = owners[WorkloadChange.LOSES_NODES] - breaking - doubtful
    sample = samples[0][0][0]
    objection = driver_for_gpu(offer_of(sample.labels, cluster.tables.gpus, sample.by_slices), cluster.tables)
    drives = True if objection is None else False if objection.verdict is Verdict.INCOMPATIBLE else None
    return MatrixCell(branch, len(breaking), len(doubtful), drives, len(losing))


def _verdict(group: _Group, classes: tuple[NodeClass, ...], known: dict[tuple[object, ...], Verdict]) -> Verdict:
    """The verdict about a group on nodes of one class; `classes` is kept while `known` is."""
    if not group.needs:
        return Verdict.COMPATIBLE
    tables, is_allowed = group.settings.tables, group.settings.forward_compat == "allow"
    forced = group.settings.forced_compat
    key = (group.needs, id(tables), is_allowed, forced, id(classes))
    if key not in known:
        found = assess(group.needs, classes, tables, is_forward_compat_allowed=is_allowed, forced_compat=forced)
        known[key] = found.verdicts[0].result.verdict
    return known[key]
