"""Where a pod could land, and what would become of its containers there."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from webhook.cuda.evidence import ImageContext, need_of
from webhook.cuda.gate import Gate
from webhook.cuda.need import Need
from webhook.cuda.offer import Offer, offer_of
from webhook.cuda.remedies import remedy
from webhook.cuda.steering import Steering, foreseen, steer
from webhook.cuda.suggestions import suggest
from webhook.cuda.verdict import Cause, Judgement, Verdict, judge, judge_without_gate
from webhook.model.node import NodeClass

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
            [foreseen(one.nodes.labels, one.fate.offer) for one in others],
        )


def land(needs: tuple[Need, ...], classes: Sequence[NodeClass], *, is_forward_compat_allowed: bool) -> Ground:
    """What becomes of containers with these needs on nodes of each class.

    The same sequence of classes is given for one pod after another, so what was found for it is kept, unless the pod
    has so many containers that it would take up memory.
    """
    if len(needs) > _MOST_NEEDS_KEPT:
        return _ground(_judged, needs, classes, is_forward_compat_allowed)
    key = id(classes), needs, is_forward_compat_allowed
    known = _kept.get(key)
    if known is None:
        known = classes, _ground(_fate, needs, classes, is_forward_compat_allowed)
        if len(_kept) * (len(classes) + 1) >= _MOST_KEPT:
            _kept.clear()
        _kept[key] = known
    return known[1]


_MOST_NEEDS_KEPT = 4
"""Containers of pods whose fate is remembered. Tenants decide on their number."""
_MOST_KEPT = 4096
"""Landings that are remembered, about: some megabytes at most."""
_kept: dict[tuple[int, tuple[Need, ...], bool], tuple[Sequence[NodeClass], Ground]] = {}
"""Holds on to the classes too, so that no others get their id meanwhile."""


def _ground(
    judged: Callable[[tuple[Need, ...], Offer, bool], Fate],
    needs: tuple[Need, ...],
    classes: Iterable[NodeClass],
    is_allowed: bool,
) -> Ground:
    return Ground(tuple([Landing(nodes, judged(needs, offer_of(nodes.labels), is_allowed)) for nodes in classes]))


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


def remedy_for(image: str, need: Need, offers: Sequence[Offer]) -> str:
    """What would help an image that runs where none of these is offered, as a sentence without its period.

    Finding it takes much longer than the verdict, so it is kept, unless a tenant's text would take up memory.
    """
    find = _remedy if len(image) <= _LONGEST_IMAGE_KEPT else _remedy.__wrapped__
    return find(image, need, tuple(offers))


_LONGEST_IMAGE_KEPT = 512
"""Characters."""


@lru_cache(maxsize=512)
def _remedy(image: str, need: Need, offers: tuple[Offer, ...]) -> str:
    def runs(other: str) -> bool:
        need = need_of(other, ImageContext())
        return any(judge(need, offer).verdict is Verdict.COMPATIBLE for offer in offers)

    return remedy(need, offers, lambda newest: suggest(image, newest, runs))


def _judged(needs: tuple[Need, ...], offer: Offer, is_forward_compat_allowed: bool) -> Fate:
    ask = judge if len(needs) <= _MOST_NEEDS_KEPT else judge_without_gate
    judgements = tuple(ask(need, offer) for need in needs)
    refused = {Verdict.INCOMPATIBLE}
    if not is_forward_compat_allowed:
        refused.add(Verdict.FORWARD_COMPAT_ONLY)
    unfit = frozenset(at for at, judgement in enumerate(judgements) if judgement.verdict in refused)
    if unfit:
        return Fate(offer, judgements, Verdict.INCOMPATIBLE, judgements[min(unfit)].cause, unfit)
    found = {judgement.verdict for judgement in judgements}
    return Fate(offer, judgements, next(one for one in _WORST_FIRST if one in found), Cause.NONE, unfit)


_fate = lru_cache(maxsize=2048)(_judged)
