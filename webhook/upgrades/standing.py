"""Where a pod runs at one of the two moments: its candidates among nodes and pools, and the verdict about each.

The verdicts are those of the rule cudaDriver, with the settings that hold for the pod. Candidates have room for all
that the pod requests, if no other pod ran there. A node that another enforced rule keeps the pod off is no candidate.
The pod is judged before cudaDriver keeps it off nodes, and without its node.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from webhook.cuda.assessment import Assessment, NodeVerdict, assess
from webhook.cuda.checks import Verdict
from webhook.cuda.need import BuiltFor, Need
from webhook.engine.running_rules import facts_under
from webhook.facts import node_index
from webhook.facts.facts import ClusterFacts
from webhook.facts.node_index import Mask, NodeTable
from webhook.model.accelerators import Vendor
from webhook.model.container import Container
from webhook.model.node import EVERYTHING, NodeClass, RuntimeClass
from webhook.model.pod import Pod
from webhook.policy.policy_set import Policy
from webhook.rules import cuda_driver
from webhook.rules.candidates import candidates, released
from webhook.rules.claimed_nodes import claimed_nodes
from webhook.rules.rule_settings import Mode
from webhook.upgrades.changed_cluster import ClusterSide

_Finding = Callable[[NodeTable, Pod, RuntimeClass | None], Mask]
_NO_CUDA = Need(BuiltFor.NONE, None, "")


class RunsOn(StrEnum):
    """Whether a pod runs anywhere, in one word."""

    RUNS = "runs"
    """On some node with the driver alone."""
    COMPAT_ONLY = "compatOnly"
    """Only with the cuda-compat package of its image."""
    UNKNOWN = "unknown"
    """On no node for certain, but on some perhaps."""
    CANNOT_RUN = "cannotRun"
    """On none of the nodes that it could be scheduled to."""
    NO_NODES = "noNodes"
    """It could be scheduled to no node."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The verdict about each candidate of a pod. The masks are in the common order of nodes and pools.

    `survey` is that of cudaDriver with these candidates, None if no container needs CUDA. `members` are the candidates
    of each of `verdicts`. `cramped` are nodes that would be candidates if they had room. `is_released`: all candidates
    still wait for a toleration.
    """

    survey: cuda_driver.CudaSurvey | None
    verdicts: tuple[NodeVerdict, ...]
    members: tuple[Mask, ...]
    native: Mask
    by_compat: Mask
    unknown: Mask
    unfit: Mask
    cramped: Mask = 0
    is_released: bool = False

    @property
    def running(self) -> Mask:
        """The candidates that run the pod for certain."""
        return self.native | self.by_compat

    @property
    def candidates(self) -> Mask:
        """The nodes and pools that the pod could be scheduled to."""
        return self.running | self.unknown | self.unfit

    @property
    def word(self) -> RunsOn:
        """Whether the pod runs anywhere."""
        if self.native:
            return RunsOn.RUNS
        if self.by_compat:
            return RunsOn.COMPAT_ONLY
        if self.unknown:
            return RunsOn.UNKNOWN
        return RunsOn.CANNOT_RUN if self.unfit else RunsOn.NO_NODES

    @property
    def uses(self) -> tuple[tuple[Container, Need], ...]:
        """The containers that use GPUs, with what they need."""
        return () if self.survey is None else self.survey.uses

    def among(self, mask: Mask) -> list[NodeVerdict]:
        """The verdicts about the candidates in a mask, which count only these."""
        return [
            replace(one, nodes=replace(one.nodes, count=(mask & own).bit_count() if one.nodes.count else 0))
            for one, own in zip(self.verdicts, self.members, strict=True)
            if mask & own
        ]


NOWHERE = Standing(None, (), (), 0, 0, 0, 0)
"""Pods that could be scheduled to no node."""


@dataclass(frozen=True, slots=True)
class _WithRoom(ClusterFacts):
    """Facts for which a pod matches only nodes with room for all that it requests, if no other pod ran there."""

    def matching_nodes(self, pod: Pod) -> Sequence[NodeClass]:
        return self.feasible_nodes(pod)

    def selected_nodes(self, pod: Pod) -> Sequence[NodeClass]:
        return self.feasible_nodes(replace(pod, tolerations=EVERYTHING))


def uses_nvidia(pod: Pod, facts: ClusterFacts) -> bool:
    """Whether a pod certainly gets NVIDIA GPUs, by number or by resource claims."""
    if pod.requests_gpus_of(Vendor.NVIDIA):
        return True
    return bool(pod.resource_claims) and claimed_nodes(released(pod, facts), facts) is not None


def settings_in(policy: Policy, others: cuda_driver.Settings) -> cuda_driver.Settings:
    """The settings of cudaDriver in a policy; `others` where it is disabled, since images need their drivers anyway.

    What `forcedCompat` only warns of counts as well.
    """
    bound = next((one.settings for one in policy.rules if isinstance(one.settings, cuda_driver.Settings)), others)
    return bound.for_other_drivers()


def standing_of(pod: Pod, policy: Policy, settings: cuda_driver.Settings, side: ClusterSide) -> Standing:
    """Where a pod runs. `policy` is the pod's policy with the node pools of this side."""
    known = facts_under(policy, side.facts)
    facts = _WithRoom(known.cluster, known.images, pod.namespace, known.pools, known.transient, is_still=True)
    if not uses_nvidia(pod, facts):
        return NOWHERE
    survey = cuda_driver.survey_of(pod, settings, facts)
    if survey is None:
        nodes = candidates(pod, facts)
        verdicts = assess((_NO_CUDA,), nodes, settings.tables, is_forward_compat_allowed=True).verdicts
    else:
        nodes, verdicts = survey.nodes, survey.assessment.verdicts
    kept_off = _kept_off(pod, policy, facts, len(verdicts))
    placed = released(pod, facts)
    members = list(_members(placed, nodes, facts, side))
    matching = sum(_masks(placed, facts, side, node_index.matching_nodes)) if pod.accelerators else 0
    kept = [one for at, one in enumerate(zip(verdicts, members, strict=True)) if at not in kept_off]
    verdicts, masks = tuple(one for one, _ in kept), dict.fromkeys(Verdict, 0)
    for verdict, mask in kept:
        masks[verdict.result.verdict] |= mask
    if survey is not None and kept_off:
        assessment = Assessment(verdicts, survey.assessment.tables)
        survey = replace(survey, nodes=tuple(one.nodes for one in verdicts), assessment=assessment)
    return Standing(
        survey,
        verdicts,
        tuple(mask for _, mask in kept),
        masks[Verdict.COMPATIBLE],
        masks[Verdict.FORWARD_COMPAT_ONLY],
        masks[Verdict.UNKNOWN],
        masks[Verdict.INCOMPATIBLE],
        cramped=matching & ~sum(members),
        is_released=placed is not pod and not pod.is_held,
    )


def _kept_off(pod: Pod, policy: Policy, facts: ClusterFacts, number: int) -> set[int]:
    """The positions of candidates that other enforced rules keep the pod off."""
    found: set[int] = set()
    for bound in policy.validators:
        is_other = bound.mode is Mode.ENFORCE and not isinstance(bound.settings, cuda_driver.Settings)
        if is_other and bound.rule.unsuited is not None and bound.rule.can_be_unsuited(bound.settings):
            judged = bound.rule.unsuited(pod, bound.settings, facts)
            of_candidates = judged.of_candidates if judged is not None else ()
            if len(of_candidates) == number:
                found.update(at for at, unsuited in enumerate(of_candidates) if unsuited is not None)
    return found


def _members(pod: Pod, nodes: Sequence[NodeClass], facts: ClusterFacts, side: ClusterSide) -> Iterator[Mask]:
    """Which nodes and pools are in each of the classes, in the common order."""
    everything, found = facts.matching_nodes(pod), _masks(pod, facts, side, node_index.feasible_nodes)
    for one in everything:
        mask = side.order.claimed if one.by_claim else next(found)
        if len(nodes) == len(everything) or one in nodes:  # perhaps only those that offer what the pod claims
            yield mask


def _masks(pod: Pod, facts: ClusterFacts, side: ClusterSide, find: _Finding) -> Iterator[Mask]:
    """The nodes, and then the pools, that are found for a pod, class by class, in the common order."""
    pools, runtime_class = facts.pools, facts.cluster.runtime_classes.get(pod.runtime_class or "")
    yield from map(side.of_nodes, facts.table.members(find(facts.table, pod, runtime_class)))
    if pools is not None:
        names = [name.removeprefix("pool ") for name in pools.nodes]
        yield from (side.of_pools(one, names) for one in pools.members(find(pools, pod, runtime_class)))
