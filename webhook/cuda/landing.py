"""Where a pod could land, and what would become of its containers there.

Steering keeps a pod off the nodes where it would fail, by labels that those nodes have and no other candidate has.

Only ever by exclusion (NotIn): a node without the label, one that comes later and an autoscaled pool stay eligible.
Nodes get labels late, and pools declare few, so what is known to follow from the others counts as if it stood there.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.evidence import ImageContext, need_of
from webhook.cuda.gate import Gate
from webhook.cuda.need import Need
from webhook.cuda.offer import Offer, offer_of
from webhook.cuda.remedies import remedy
from webhook.cuda.suggestions import suggest
from webhook.cuda.verdict import Cause, Judgement, Verdict, judge, judge_without_gate
from webhook.model.node import NodeClass
from webhook.model.selectors import Expression, Operator

_RUNTIME_MAJOR = ("nvidia.com/cuda.runtime-version.major", "nvidia.com/cuda.runtime.major")
_DRIVER_MAJOR = ("nvidia.com/cuda.driver-version.major", "nvidia.com/cuda.driver.major")
_RUNTIME, _FULL = "nvidia.com/cuda.runtime-version.full", "nvidia.com/cuda.driver-version.full"
_COMPUTE = "nvidia.com/gpu.compute.major"
_FAMILY = "nvidia.com/gpu.family"

_DRIVER = (*_RUNTIME_MAJOR, *_DRIVER_MAJOR, _RUNTIME, _FULL)
_GPU = (
    _COMPUTE,
    _FAMILY,
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "eks.amazonaws.com/instance-gpu-name",
    "karpenter.k8s.aws/instance-gpu-name",
    "karpenter.azure.com/sku-gpu-name",
    "gpu.nvidia.com/class",
)
_ARCHITECTURE = ("kubernetes.io/arch",)

_KEYS: Mapping[Cause, tuple[str, ...]] = {
    Cause.DRIVER: (*_DRIVER, *_GPU, *_ARCHITECTURE),
    Cause.GPU: (*_GPU, *_DRIVER, *_ARCHITECTURE),
    Cause.ARCHITECTURE: (*_ARCHITECTURE, *_GPU, *_DRIVER),
}
"""The labels that may separate, by what is wrong with the nodes: what the cause is about first, the coarsest first."""

Labels = Mapping[str, str]

_NO_NAME = "undefined"
"""What GPU Feature Discovery writes for a family that it does not know: that of whatever GPU comes next, too."""


@dataclass(frozen=True, slots=True)
class Steering:
    """What keeps a pod off nodes that cannot run it. `left` are the positions of those that no label separates."""

    exclusions: tuple[Expression, ...]
    left: tuple[int, ...]


def steer(unfit: Sequence[tuple[Labels, Cause]], others: Sequence[Labels]) -> Steering:
    """Exclude the unfit nodes, and none of the `others`."""
    remaining = dict(enumerate(unfit))
    values: dict[str, set[str]] = {}
    for cause in dict.fromkeys(cause for _, cause in unfit):
        keys = _KEYS.get(cause, ())
        foreign = {key: {_NO_NAME, *(labels.get(key) for labels in others)} for key in keys}
        while chosen := _best(keys, foreign, [(at, labels) for at, (labels, why) in remaining.items() if why is cause]):
            key, covered = chosen
            values.setdefault(key, set()).update(remaining[at][0][key] for at in covered)
            excluded = values[key]
            remaining = {at: node for at, node in remaining.items() if node[0].get(key) not in excluded}
    exclusions = tuple(Expression(key, Operator.NOT_IN, tuple(sorted(found))) for key, found in values.items())
    return Steering(exclusions, tuple(remaining))


def foreseen(labels: Labels, offer: Offer, tables: CudaTables = SHIPPED) -> Labels:
    """The labels of nodes, and those that GPU Feature Discovery will write by what is known of driver and GPU."""
    return {**_following_from(offer, tables), **labels}


@lru_cache(maxsize=1024)
def _following_from(offer: Offer, tables: CudaTables) -> Labels:
    found: dict[str, str] = {}
    if offer.driver is not None:
        found |= dict.fromkeys(_DRIVER_MAJOR, str(offer.driver.major))
        found |= {_FULL: str(offer.driver)} if offer.is_driver_exact else {}
    cuda = offer.cuda or (tables.drivers.reported_by(offer.driver) if offer.driver is not None else None)
    if cuda is not None:
        found |= dict.fromkeys(_RUNTIME_MAJOR, str(cuda.major))
        found[_RUNTIME] = str(cuda.cut(2))
    if offer.compute is not None:
        found[_COMPUTE] = str(offer.compute.major)
        generation = tables.generation_of(offer.compute)
        found |= {_FAMILY: generation.family} if generation is not None else {}
    return found


def _best(
    keys: Iterable[str], foreign: Mapping[str, set[str | None]], nodes: Sequence[tuple[int, Labels]]
) -> tuple[str, list[int]] | None:
    """The first label that separates most of the nodes, and which ones; None where none separates any."""
    best: tuple[str, list[int]] | None = None
    for key in keys:
        covered = [at for at, labels in nodes if key in labels and labels[key] not in foreign[key]]
        if covered and (best is None or len(covered) > len(best[1])):
            best = key, covered
    return best


_WORST_FIRST = (Verdict.INCOMPATIBLE, Verdict.UNKNOWN, Verdict.FORWARD_COMPAT_ONLY, Verdict.COMPATIBLE)


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of containers on nodes that offer `offer`: a judgement about each, in their order.

    `verdict` is about all of them together: that of the one that fares worst, where an image that runs only through
    cuda-compat counts as incompatible if that is not allowed. `cause` says what is wrong with the nodes.
    """

    offer: Offer
    judgements: tuple[Judgement, ...]
    verdict: Verdict
    cause: Cause
    unfit: frozenset[int]
    """Positions of the containers that cannot run."""

    @property
    def fails_gate(self) -> bool:
        """Whether the container toolkit's own check refuses a container here, where it is still in use."""
        return any(judgement.gate is Gate.FAIL for judgement in self.judgements)


@dataclass(frozen=True, slots=True)
class Landing:
    """One class of nodes that the pod could land on, and its fate there."""

    nodes: NodeClass
    fate: Fate

    def __str__(self) -> str:
        """The nodes as people know them: how many, their GPU, their driver."""
        count, offer = self.nodes.count, self.fate.offer
        what = "a node of a DeviceClass" if self.nodes.by_claim else "a pool"
        if count:
            what = f"{count} {'node' if count == 1 else 'nodes'}"
        known = [offer.product] if offer.product else []
        known.append(f"driver {offer.driver}" if offer.driver is not None else "an unknown driver")
        return f"{what} with {', '.join(known)}"


@dataclass(frozen=True)
class Ground:
    """Everywhere that a pod could land. What follows from it is found when first asked for."""

    landings: tuple[Landing, ...]
    tables: CudaTables

    @cached_property
    def unfit(self) -> tuple[Landing, ...]:
        """Where it cannot run."""
        return tuple(one for one in self.landings if one.fate.verdict is Verdict.INCOMPATIBLE)

    @cached_property
    def fit(self) -> tuple[Landing, ...]:
        """Where it runs."""
        runs = (Verdict.COMPATIBLE, Verdict.FORWARD_COMPAT_ONLY)
        return tuple(one for one in self.landings if one.fate.verdict in runs)

    @cached_property
    def steering(self) -> Steering:
        """What keeps the pod off where it cannot run, as long as there is anything else."""
        if not self.unfit or len(self.unfit) == len(self.landings):
            return Steering((), ())
        others = [one for one in self.landings if one.fate.verdict is not Verdict.INCOMPATIBLE]
        return steer(
            [(one.nodes.labels, one.fate.cause) for one in self.unfit],
            [foreseen(one.nodes.labels, one.fate.offer, self.tables) for one in others],
        )


def land(
    needs: tuple[Need, ...],
    classes: Sequence[NodeClass],
    tables: CudaTables = SHIPPED,
    *,
    is_forward_compat_allowed: bool,
) -> Ground:
    """What becomes of containers with these needs on nodes of each class.

    The same sequence of classes is given for one pod after another, so what was found for it is kept, unless the pod
    has so many containers that it would take up memory.
    """
    if len(needs) > _MOST_NEEDS_KEPT:
        return _ground(_judged, needs, classes, tables, is_allowed=is_forward_compat_allowed)
    key = id(classes), needs, tables, is_forward_compat_allowed
    known = _kept.get(key)
    if known is None:
        known = classes, _ground(_fate, needs, classes, tables, is_allowed=is_forward_compat_allowed)
        if len(_kept) * (len(classes) + 1) >= _MOST_KEPT:
            _kept.clear()
        _kept[key] = known
    return known[1]


_MOST_NEEDS_KEPT = 4
"""Containers of pods whose fate is remembered. Tenants decide on their number."""
_MOST_KEPT = 4096
"""Landings that are remembered, about: some megabytes at most."""
_kept: dict[tuple[int, tuple[Need, ...], CudaTables, bool], tuple[Sequence[NodeClass], Ground]] = {}
"""Holds on to the classes too, so that no others get their id meanwhile."""


def _ground(
    judged: Callable[[tuple[Need, ...], Offer, CudaTables, bool], Fate],
    needs: tuple[Need, ...],
    classes: Iterable[NodeClass],
    tables: CudaTables,
    *,
    is_allowed: bool,
) -> Ground:
    offers = [(nodes, offer_of(nodes.labels, tables.gpus)) for nodes in classes]
    landings = [Landing(nodes, judged(needs, offer, tables, is_allowed)) for nodes, offer in offers]
    return Ground(tuple(landings), tables)


def merged(landings: Iterable[Landing]) -> list[Landing]:
    """The landings as people count them: classes that offer the same are one, the largest first, pools last."""
    by_offer: dict[Offer, Landing] = {}
    for landing in landings:
        known = by_offer.get(landing.fate.offer)
        if known is not None:
            count = known.nodes.count + landing.nodes.count
            landing = replace(known, nodes=replace(known.nodes, count=count))  # noqa: PLW2901  # the sum of both
        by_offer[landing.fate.offer] = landing
    return sorted(by_offer.values(), key=lambda landing: -landing.nodes.count)


def remedy_for(image: str, need: Need, offers: Sequence[Offer], tables: CudaTables = SHIPPED) -> str:
    """What would help an image that runs where none of these is offered, as a sentence without its period.

    Finding it takes much longer than the verdict, so it is kept, unless a tenant's text would take up memory.
    """
    find = _remedy if len(image) <= _LONGEST_IMAGE_KEPT else _remedy.__wrapped__
    return find(image, need, tuple(offers), tables)


_LONGEST_IMAGE_KEPT = 512
"""Characters."""


@lru_cache(maxsize=512)
def _remedy(image: str, need: Need, offers: tuple[Offer, ...], tables: CudaTables) -> str:
    def runs(other: str) -> bool:
        need = need_of(other, ImageContext(tables=tables))
        return any(judge(need, offer, tables).verdict is Verdict.COMPATIBLE for offer in offers)

    return remedy(need, offers, lambda newest: suggest(image, newest, runs), tables)


def _judged(needs: tuple[Need, ...], offer: Offer, tables: CudaTables, is_forward_compat_allowed: bool) -> Fate:
    ask = judge if len(needs) <= _MOST_NEEDS_KEPT else judge_without_gate
    judgements = tuple(ask(need, offer, tables) for need in needs)
    refused = {Verdict.INCOMPATIBLE}
    if not is_forward_compat_allowed:
        refused.add(Verdict.FORWARD_COMPAT_ONLY)
    unfit = frozenset(at for at, judgement in enumerate(judgements) if judgement.verdict in refused)
    if unfit:
        return Fate(offer, judgements, Verdict.INCOMPATIBLE, judgements[min(unfit)].cause, unfit)
    found = {judgement.verdict for judgement in judgements}
    return Fate(offer, judgements, next(one for one in _WORST_FIRST if one in found), Cause.NONE, unfit)


_fate = lru_cache(maxsize=2048)(_judged)
