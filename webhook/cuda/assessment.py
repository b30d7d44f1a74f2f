"""Whether a pod runs on the nodes it may be scheduled to.

To tell such nodes from others, a label that GPU Feature Discovery will write later counts as if the node had it
already.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal

from webhook.cuda.checks import Verdict
from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.gate import Gate
from webhook.cuda.need import Need
from webhook.cuda.offer import Offer, offer_of
from webhook.cuda.verdict import Effect, Judgement, judge
from webhook.gpus.steering import COMPUTE, DRIVER, DRIVER_MAJOR, FAMILY, RUNTIME, RUNTIME_MAJOR, Cause, Labels
from webhook.model.node import NodeClass, NodeClassState


def expected_labels(labels: Labels, offer: Offer, tables: CudaTables = SHIPPED) -> Labels:
    """The labels of nodes, and the labels that GPU Feature Discovery will add for this driver and GPU."""
    return {**_following_from(offer, tables), **labels}


@lru_cache(maxsize=1024)
def _following_from(offer: Offer, tables: CudaTables) -> Labels:
    found: dict[str, str] = {}
    if offer.driver is not None:
        found |= dict.fromkeys(DRIVER_MAJOR, str(offer.driver.major))
        found |= {DRIVER: str(offer.driver)} if offer.is_driver_exact else {}
    cuda = offer.cuda or (tables.drivers.reported_by(offer.driver) if offer.driver is not None else None)
    if cuda is not None:
        found |= dict.fromkeys(RUNTIME_MAJOR, str(cuda.major))
        found[RUNTIME] = str(cuda.cut(2))
    if offer.compute is not None:
        found[COMPUTE] = str(offer.compute.major)
        generation = tables.generation_of(offer.compute)
        found |= {FAMILY: generation.family} if generation is not None else {}
    return found


ForcedCompat = Literal["warn", "deny", "allow"]
_COUNTING: Mapping[ForcedCompat, tuple[Effect, ...]] = {
    "allow": (),
    "warn": (Effect.DOUBT,),
    "deny": (Effect.DOUBT, Effect.FAILS),
}
"""What goes wrong with libcuda and counts as part of the verdict, by the setting `forcedCompat`."""

_WORST_FIRST = (Verdict.INCOMPATIBLE, Verdict.UNKNOWN, Verdict.FORWARD_COMPAT_ONLY, Verdict.COMPATIBLE)


@dataclass(frozen=True, slots=True)
class PodVerdict:
    """Whether the containers of a pod run on nodes with this offer: a judgement for each container, in order.

    `verdict` is the verdict of the worst container. An image that runs only through cuda-compat counts as incompatible
    if the policy does not allow that. `cause` says what is wrong with the nodes.
    """

    offer: Offer
    judgements: tuple[Judgement, ...]
    verdict: Verdict
    cause: Cause
    failing: frozenset[int]
    """Positions of the containers that cannot run."""

    @property
    def gates(self) -> Sequence[Gate]:
        return [judgement.gate for judgement in self.judgements]


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """A class of nodes that the pod may be scheduled to, and whether the pod runs there."""

    nodes: NodeClass
    result: PodVerdict

    def __str__(self) -> str:
        """The nodes as people know them: how many, their GPU, their driver."""
        count, offer = self.nodes.count, self.result.offer
        what = "a node of a DeviceClass" if self.nodes.by_claim else "a pool"
        if self.nodes.made_by:
            return f"a node that {self.nodes.made_by} makes"
        if self.nodes.pool:
            what = f"a node that {self.nodes.pool} makes"
        if count:
            state = "starting " if self.nodes.state is NodeClassState.STARTING else ""
            what = f"{count} {state}{'node' if count == 1 else 'nodes'}"
        known = [offer.product] if offer.product else []
        known.append(f"driver {offer.driver}" if offer.driver is not None else "an unknown driver")
        return f"{what} with {', '.join(known)}"


@dataclass(frozen=True)
class Assessment:
    """The verdicts about a pod, one for each class of nodes. The properties are computed when they are first read."""

    verdicts: tuple[NodeVerdict, ...]
    tables: CudaTables

    @cached_property
    def incompatible(self) -> tuple[NodeVerdict, ...]:
        return tuple(one for one in self.verdicts if one.result.verdict is Verdict.INCOMPATIBLE)

    @property
    def is_none_left(self) -> bool:
        return bool(self.verdicts) and len(self.incompatible) == len(self.verdicts)

    @cached_property
    def compatible(self) -> tuple[NodeVerdict, ...]:
        runs = (Verdict.COMPATIBLE, Verdict.FORWARD_COMPAT_ONLY)
        return tuple(one for one in self.verdicts if one.result.verdict in runs)

    @cached_property
    def has_wrong_libcuda(self) -> bool:
        return any(judgement.libcuda is not None for one in self.verdicts for judgement in one.result.judgements)


def assess(
    needs: tuple[Need, ...],
    classes: Sequence[NodeClass],
    tables: CudaTables = SHIPPED,
    *,
    is_forward_compat_allowed: bool,
    forced_compat: ForcedCompat = "warn",
) -> Assessment:
    """Judge containers with these needs on nodes of each class.

    Most pods are assessed against the same classes, so assessments are kept. The assessment of a pod with many
    containers is not kept, because it would take up memory.
    """
    allowed = is_forward_compat_allowed, forced_compat
    if len(needs) > _MOST_NEEDS_KEPT:
        return _assessment.__wrapped__(needs, tuple(classes), tables, allowed)
    return _assessment(needs, tuple(classes), tables, allowed)


_MOST_NEEDS_KEPT = 4
"""Containers of a pod whose assessment is kept. Tenants decide how many containers a pod has."""

_Allowed = tuple[bool, ForcedCompat]
"""Whether images may need forward compatibility, and the setting `forcedCompat`."""


@lru_cache(maxsize=256)
def _assessment(
    needs: tuple[Need, ...], classes: tuple[NodeClass, ...], tables: CudaTables, allowed: _Allowed
) -> Assessment:
    offers = [(nodes, offer_of(nodes.labels, tables.gpus, nodes.by_slices)) for nodes in classes]
    judged = {offer: _judged(needs, offer, tables, allowed) for offer in dict.fromkeys(offer for _, offer in offers)}
    return Assessment(tuple([NodeVerdict(nodes, judged[offer]) for nodes, offer in offers]), tables)


def merged_by_offer(verdicts: Iterable[NodeVerdict]) -> list[NodeVerdict]:
    """The verdicts with classes of the same offer counted as one. The largest comes first, pools come last."""
    by_offer: dict[Offer, NodeVerdict] = {}
    for one in verdicts:
        known = by_offer.setdefault(one.result.offer, one)
        if known is not one:
            count = known.nodes.count + one.nodes.count
            by_offer[one.result.offer] = replace(known, nodes=replace(known.nodes, count=count))
    return sorted(by_offer.values(), key=lambda one: -one.nodes.count)


def _judged(needs: tuple[Need, ...], offer: Offer, tables: CudaTables, allowed: _Allowed) -> PodVerdict:
    is_forward_compat_allowed, forced_compat = allowed
    judgements = tuple(judge(need, offer, tables).counting(*_COUNTING[forced_compat]) for need in needs)
    refused = {Verdict.INCOMPATIBLE}
    if not is_forward_compat_allowed:
        refused.add(Verdict.FORWARD_COMPAT_ONLY)
    failing = frozenset(at for at, judgement in enumerate(judgements) if judgement.verdict in refused)
    if failing:
        return PodVerdict(offer, judgements, Verdict.INCOMPATIBLE, judgements[min(failing)].cause, failing)
    found = {judgement.verdict for judgement in judgements}
    return PodVerdict(offer, judgements, next(one for one in _WORST_FIRST if one in found), Cause.NONE, failing)
