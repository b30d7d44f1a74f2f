"""A cluster now and after planned changes, its groups of alike nodes, and where a pod runs at both moments.

What changes is what another driver would change: the labels about it, what ResourceSlices say of it, and the labels of
declared node pools.

The verdict about a group of nodes is that of the rule cudaDriver, with the settings that hold for the pod. Candidates
have room for all that the pod requests, if no other pod ran there. A node that another enforced rule keeps the pod off
is no candidate. The pod is judged before cudaDriver keeps it off nodes, and without its node.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from webhook import engine
from webhook.cuda.assessment import Assessment, NodeVerdict, assess
from webhook.cuda.checks import Verdict
from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.need import BuiltFor, Need
from webhook.cuda.offer import Offer, offer_of, with_driver
from webhook.engine.running_rules import facts_under
from webhook.facts.facts import ClusterFacts
from webhook.facts.node_index import NodeTable
from webhook.facts.nodes import Node
from webhook.facts.snapshot import Snapshot
from webhook.model.accelerators import BUILT_IN, Accelerators, Vendor
from webhook.model.gpu_fractions import with_fractions
from webhook.model.node import CUDA_LABELS, EVERYTHING, NodeClass, NodePool
from webhook.model.pod import Container, Pod
from webhook.model.pod_reader import pod_from_raw
from webhook.model.resource_slices import SliceDriver
from webhook.policy.policy_set import Policy
from webhook.rules import cuda_driver
from webhook.rules.candidates import candidates, claimed_nodes, released
from webhook.rules.rule import Stage
from webhook.rules.rule_settings import Mode
from webhook.upgrades.node_changes import ChangeAction, NodeChange

Mask = int
"""Nodes of a table, or pools: bit i stands for the i-th."""


@dataclass(frozen=True, slots=True, eq=False)
class AlikeNodes:
    """Nodes that are alike now and then, or one declared pool.

    `before` and `after` are the places of their class among the classes of the table of each moment: `before` is None
    if they come, `after` if they go. `members` are their own places in these tables, which are the same if they stay.
    `offer` is what they offer now. `is_changed`: they offer something else then, or come with an offer that no node has
    now. `maker` is the autoscaler that made nodes which go, and may make others like them. `pool` is None for nodes.
    """

    before: int | None
    after: int | None
    members: Mask = 1
    offer: Offer | None = None
    is_changed: bool = False
    maker: str = ""
    pool: str | None = None


@dataclass(frozen=True)
class ChangedCluster:
    """A cluster before and after changes."""

    facts: ClusterFacts
    changes: tuple[NodeChange, ...]
    declared: tuple[NodePool, ...]
    """The node pools of all policies."""
    added: ClusterFacts | None = None
    """The nodes that come."""
    tables: CudaTables = SHIPPED
    accelerators: Accelerators = BUILT_IN

    @cached_property
    def before(self) -> ClusterFacts:
        """The cluster as it is. Nodes that stay come first in both clusters, in the same order."""
        nodes = self.facts.cluster.nodes
        gone = {name: nodes[name] for name in sorted(nodes.keys() - self._staying.keys())}
        return self._with(self.facts.cluster, {**{name: nodes[name] for name in self._staying}, **gone})

    @cached_property
    def after(self) -> ClusterFacts:
        snapshot, coming = self.facts.cluster, None if self.added is None else self.added.cluster
        slices, gone = snapshot.slices, snapshot.nodes.keys() - self._staying.keys()
        if slices is None:
            slices = None if coming is None else coming.slices
        elif gone or coming is not None:
            slices = slices.with_nodes_of(None if coming is None else coming.slices, gone)
        nodes = {**self._staying, **({} if coming is None else coming.nodes)}
        made = tuple(later for pool in snapshot.made if (later := self.pools.get(pool, pool)) is not None)
        return self._with(replace(snapshot, slices=slices, made=made), nodes)

    def _with(self, snapshot: Snapshot, nodes: Mapping[str, Node]) -> ClusterFacts:
        return replace(self.facts, cluster=replace(snapshot, table=NodeTable(nodes)))

    @cached_property
    def _staying(self) -> Mapping[str, Node]:
        found = dict(self.facts.cluster.nodes)
        for change in self.changes:
            for name in change.nodes:
                if change.action is ChangeAction.RETIRE:
                    found.pop(name, None)
                elif name in found:
                    said, own = found[name].kind.by_slices, found[name]
                    labels = _other_labels({key: own.values[place] for key, place in own.keys.items()}, said, change)
                    own = own.offering(_slices_with(said, change))
                    found[name] = own.relabelled(labels) if labels else own
        return found

    @cached_property
    def pools(self) -> Mapping[NodePool, NodePool | None]:
        """What becomes of each pool that changes; None: it is gone."""
        return {
            pool: None
            if change.action is ChangeAction.RETIRE
            else replace(pool, labels=tuple(sorted(_labels_with(dict(pool.labels), None, change).items())))
            for change in self.changes
            for pool in (*self.declared, *self.facts.cluster.made)
            if pool.called in change.pools
        }

    def policies(self, policy: Policy) -> tuple[Policy, Policy]:
        """A policy with its node pools as they are, and as they will be. Pools that stay come first in both."""
        then = [(pool, self.pools.get(pool, pool)) for pool in policy.node_pools]
        staying = [(pool, later) for pool, later in then if later is not None]
        gone = [pool for pool, later in then if later is None]
        before = replace(policy, node_pools=(*(pool for pool, _ in staying), *gone)) if gone else policy
        return before, replace(policy, node_pools=tuple(later for _, later in staying)) if self.pools else policy

    def groups(self, before: NodeTable, after: NodeTable) -> Iterator[AlikeNodes]:
        """The groups of alike nodes of two tables. In both, nodes that stay come first."""
        staying = (1 << sum(name in after.nodes for name in before.nodes)) - 1
        nodes = list(before.nodes.values())
        now = list(zip(before.classes(before.everything), before.members(before.everything), strict=True))
        then = list(zip(after.classes(after.everything), after.members(after.everything), strict=True))
        known = {self.offer(kind) for kind, _ in now}
        for at, (kind, members) in enumerate(now):
            offer = self.offer(kind)
            for later, (other, others) in enumerate(then):
                if both := members & others & staying:
                    yield AlikeNodes(at, later, both, offer, self.offer(other) != offer)
            if gone := members & ~staying:
                maker = next((node.maker for place, node in enumerate(nodes) if gone >> place & 1 and node.maker), "")
                yield AlikeNodes(at, None, gone, offer, maker=maker)
        for later, (kind, members) in enumerate(then):
            if come := members & ~staying:
                yield AlikeNodes(None, later, come, is_changed=self.offer(kind) not in known)

    def offer(self, kind: NodeClass) -> Offer:
        return offer_of(kind.labels, self.tables.gpus, kind.by_slices)


def class_with(kind: NodeClass, change: NodeChange) -> NodeClass:
    """Nodes with another driver."""
    labels = _labels_with(kind.labels, kind.by_slices, change)
    return replace(kind, labels=labels, by_slices=_slices_with(kind.by_slices, change))


def _labels_with(labels: Mapping[str, str], said: SliceDriver | None, change: NodeChange) -> dict[str, str]:
    others = {**labels, **_other_labels(labels, said, change)}
    return {key: value for key, value in others.items() if value is not None}


def _slices_with(said: SliceDriver | None, change: NodeChange) -> SliceDriver | None:
    if said is None or change.driver is None:
        return said
    return said._replace(driver=str(change.driver), cuda=str(change.cuda) if said.cuda else "")


def _other_labels(labels: Mapping[str, str], said: SliceDriver | None, change: NodeChange) -> dict[str, str | None]:
    """What changes in labels. Nodes whose ResourceSlices alone tell the driver get no labels about it."""
    if change.driver is None or change.cuda is None:
        return {}
    if said is not None and not any(key.startswith(CUDA_LABELS) for key in labels):
        return {}
    return with_driver(labels, change.driver, change.cuda)


def declared_pools(policies: Iterable[Policy]) -> tuple[NodePool, ...]:
    """The node pools of all policies, each once."""
    return tuple(dict.fromkeys(pool for policy in policies for pool in policy.node_pools))


RUNNING = frozenset({Verdict.COMPATIBLE, Verdict.FORWARD_COMPAT_ONLY})
NO_CUDA = Need(BuiltFor.NONE, None, "")
_CLAIMED = AlikeNodes(-1, -1, pool="")
"""Stands for unknown nodes with the devices of a DeviceClass."""


@dataclass(frozen=True, slots=True)
class Move:
    """Some nodes of a group, or a pool, and the verdict about them now and then; None: no pod like this may land there.

    `count` is the number of nodes, and 0 for a pool.
    """

    group: AlikeNodes
    before: Verdict | None
    after: Verdict | None
    count: int

    @property
    def ran(self) -> bool:
        return self.before in RUNNING

    @property
    def runs(self) -> bool:
        return self.after in RUNNING


@dataclass(frozen=True, slots=True)
class _WithRoom(ClusterFacts):
    """Facts for which a pod matches only nodes with room for all that it requests, if no other pod ran there."""

    def matching_nodes(self, pod: Pod) -> Sequence[NodeClass]:
        return self.feasible_nodes(pod)

    def selected_nodes(self, pod: Pod) -> Sequence[NodeClass]:
        return self.feasible_nodes(replace(pod, tolerations=EVERYTHING))


class PolicyMoment:
    """What a policy knows of the cluster at one moment; `policy` has its node pools as they are then."""

    def __init__(self, policy: Policy, cluster: ClusterFacts) -> None:
        self.policy, self.cluster = policy, cluster
        self._completing = policy.only(lambda bound: bound.rule.stage is not Stage.STEERING)
        under = facts_under(policy, cluster)
        self.facts = _WithRoom(under.cluster, under.images, "", under.pools, under.transient, is_still=True)
        self.tables = (under.table, under.pools or NodeTable({}))
        """The nodes and the pools."""
        self.classes = [table.members(table.everything) for table in self.tables]

    def completed(self, raw: Mapping[str, Any], namespace: str, *, is_queued: bool) -> Pod:
        """The pod as policies complete it, without the node affinity of rules that steer pods."""
        outcome = engine.mutate(raw, self._completing, self.cluster, namespace=namespace)
        pod = with_fractions(pod_from_raw(outcome.object, self.policy.accelerators, namespace))
        return replace(pod, is_gated=True) if is_queued else pod


class PolicyView:
    """What a policy knows of the cluster now and then, and the groups of nodes and pools in its eyes."""

    def __init__(self, policy: Policy, cluster: ChangedCluster) -> None:
        before, after = cluster.policies(policy)
        self.now, self.then = PolicyMoment(before, cluster.before), PolicyMoment(after, cluster.after)
        nodes, pools = (cluster.groups(*tables) for tables in zip(self.now.tables, self.then.tables, strict=True))
        names = [name.removeprefix("pool ").partition(" (")[0] for name in self.now.tables[1].nodes]
        self.groups = list(nodes)
        for group in pools:
            one_by_one = ((at, name) for at, name in enumerate(names) if group.members >> at & 1)
            self.groups += (replace(group, members=1 << at, pool=name, maker="") for at, name in one_by_one)


_Place = tuple[bool, int | None]
"""Whether it is a class of pools, and its place among the classes of the table."""


@dataclass(frozen=True, slots=True)
class PodPlacement:
    """The verdict about each class of candidates of a pod, and which nodes or pools of the class are candidates.

    `survey` is by cudaDriver with these candidates, None if no container needs CUDA. `cramped` are the numbers of
    nodes and of pools that would be candidates if they had room. `is_released`: all candidates still wait for a
    toleration.
    """

    survey: cuda_driver.CudaSurvey | None = None
    candidates: Mapping[_Place, tuple[NodeVerdict, Mask]] = field(default_factory=dict)
    cramped: Sequence[int] = (0, 0)
    is_released: bool = False

    @property
    def uses(self) -> tuple[tuple[Container, Need], ...]:
        return () if self.survey is None else self.survey.uses

    def among(self, group: AlikeNodes, place: int | None) -> tuple[Verdict | None, Mask]:
        found = self.candidates.get((group.pool is not None, place))
        return (None, 0) if found is None else (found[0].result.verdict, found[1] & group.members)

    def verdicts(self, moves: Iterable[Move]) -> list[NodeVerdict]:
        """The verdicts about nodes that have moved here, with the number of these nodes."""
        placed = [((move.group.pool is not None, move.group.after), move.count) for move in moves]
        found = [(self.candidates[place][0], count) for place, count in sorted(placed)]
        return [replace(verdict, nodes=replace(verdict.nodes, count=count)) for verdict, count in found]


NOWHERE = PodPlacement()
"""Pods that could be scheduled to no node."""


def moves_of(groups: Iterable[AlikeNodes], before: PodPlacement, after: PodPlacement) -> tuple[Move, ...]:
    """What becomes of the nodes that a pod could be scheduled to now, then, or both."""
    found = []
    for group in (*groups, _CLAIMED):
        (was, now), (becomes, then) = before.among(group, group.before), after.among(group, group.after)
        for old, new, mask in ((was, becomes, now & then), (was, None, now & ~then), (None, becomes, then & ~now)):
            if mask:
                found.append(Move(group, old, new, mask.bit_count() if group.pool is None else 0))
    return tuple(found)


def placement_of(pod: Pod, settings: cuda_driver.Settings, moment: PolicyMoment) -> PodPlacement | None:
    """Where a pod runs at a moment; None unless it certainly gets NVIDIA GPUs, by number or by resource claims."""
    facts = replace(moment.facts, asker=pod.namespace)
    if not pod.requests_gpus_of(Vendor.NVIDIA) and not _claims_gpus(pod, facts):
        return NOWHERE if _claims_gpus(pod, moment.cluster) else None
    survey = cuda_driver.survey_of(pod, settings, facts)
    if survey is None:
        nodes = candidates(pod, facts)
        verdicts = assess((NO_CUDA,), nodes, settings.tables, is_forward_compat_allowed=True).verdicts
    else:
        nodes, verdicts = survey.nodes, survey.assessment.verdicts
    excluded = _excluded(pod, moment.policy, facts, len(verdicts))
    placed = released(pod, facts)
    runtime_class, everything = facts.runtime_class(pod.runtime_class or ""), facts.matching_nodes(placed)
    masks = [table.feasible_nodes(placed, runtime_class) for table in moment.tables]
    matching = [table.matching_nodes(placed, runtime_class) if pod.accelerators else 0 for table in moment.tables]
    places = (
        ((bool(at), place), own)
        for at, classes in enumerate(moment.classes)
        for place, members in enumerate(classes)
        if (own := members & masks[at])
    )
    found = [((True, -1), 1) if one.by_claim else next(places) for one in everything]
    if len(nodes) < len(everything):  # only nodes that offer what the pod claims
        found = [place for place, one in zip(found, everything, strict=True) if one in nodes]
    kept = {at: one for at, one in enumerate(verdicts) if at not in excluded}
    if survey is not None and excluded:
        assessment = Assessment(tuple(kept.values()), survey.assessment.tables)
        survey = replace(survey, nodes=tuple(one.nodes for one in kept.values()), assessment=assessment)
    return PodPlacement(
        survey,
        {found[at][0]: (one, found[at][1]) for at, one in kept.items()},
        [(every & ~own).bit_count() for every, own in zip(matching, masks, strict=True)],
        is_released=placed is not pod and not pod.is_held,
    )


def _claims_gpus(pod: Pod, facts: ClusterFacts) -> bool:
    return bool(pod.resource_claims) and claimed_nodes(released(pod, facts), facts) is not None


def _excluded(pod: Pod, policy: Policy, facts: ClusterFacts, number: int) -> set[int]:
    found: set[int] = set()
    for bound in policy.validators:
        is_other = bound.mode is Mode.ENFORCE and not isinstance(bound.settings, cuda_driver.Settings)
        if is_other and bound.rule.unsuited is not None and bound.rule.can_be_unsuited(bound.settings):
            judged = bound.rule.unsuited(pod, bound.settings, facts)
            of_candidates = judged.of_candidates if judged is not None else ()
            if len(of_candidates) == number:
                found.update(at for at, unsuited in enumerate(of_candidates) if unsuited is not None)
    return found
