"""Where a pod could land, and what would become of its containers there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from webhook.cuda.evidence import Claims, need_of
from webhook.cuda.gate import Gate
from webhook.cuda.need import Need
from webhook.cuda.offer import Offer, offer_of
from webhook.cuda.suggestions import suggest
from webhook.cuda.verdict import Cause, Judgement, Verdict, judge
from webhook.model.node import NodeClass
from webhook.model.versions import Version

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
        what = f"{count} {'node' if count == 1 else 'nodes'}" if count else "a pool"
        known = [offer.product] if offer.product else []
        known.append(f"driver {offer.driver}" if offer.driver is not None else "an unknown driver")
        return f"{what} with {', '.join(known)}"


def land(
    needs: tuple[Need, ...], classes: Sequence[NodeClass], *, is_forward_compat_allowed: bool
) -> tuple[Landing, ...]:
    """What becomes of containers with these needs on nodes of each class.

    The same sequence of classes is given for one pod after another, so what was found for it is kept.
    """
    key = id(classes), needs, is_forward_compat_allowed
    known = _kept.get(key)
    if known is None:
        found = [Landing(nodes, _fate(needs, offer_of(nodes.labels), is_forward_compat_allowed)) for nodes in classes]
        known = classes, tuple(found)
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[key] = known
    return known[1]


_MOST_KEPT = 256
_kept: dict[tuple[int, tuple[Need, ...], bool], tuple[Sequence[NodeClass], tuple[Landing, ...]]] = {}
"""Holds on to the classes too, so that no others get their id meanwhile."""


def suggestion_for(image: str, offers: Sequence[Offer]) -> Callable[[Version], str | None]:
    """What names an image like this one that needs at most some CUDA version and runs where one of these is offered."""

    def runs(other: str) -> bool:
        need = need_of(other, Claims())
        return any(judge(need, offer).verdict is Verdict.COMPATIBLE for offer in offers)

    return lambda newest: suggest(image, newest, runs)


@lru_cache(maxsize=2048)
def _fate(needs: tuple[Need, ...], offer: Offer, is_forward_compat_allowed: bool) -> Fate:
    judgements = tuple(judge(need, offer) for need in needs)
    refused = {Verdict.INCOMPATIBLE}
    if not is_forward_compat_allowed:
        refused.add(Verdict.FORWARD_COMPAT_ONLY)
    unfit = frozenset(at for at, judgement in enumerate(judgements) if judgement.verdict in refused)
    if unfit:
        return Fate(offer, judgements, Verdict.INCOMPATIBLE, judgements[min(unfit)].cause, unfit)
    found = {judgement.verdict for judgement in judgements}
    return Fate(offer, judgements, next(one for one in _WORST_FIRST if one in found), Cause.NONE, unfit)
