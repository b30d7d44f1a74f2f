"""Whether an image runs on nodes."""

from dataclasses import dataclass, replace
from functools import lru_cache

from webhook.cuda.checks import find
from webhook.cuda.cuda_finding import Cause, Verdict
from webhook.cuda.gate import Gate, legacy_gate
from webhook.cuda.need import BuiltFor, Need
from webhook.cuda.offer import Offer

__all__ = ("Cause", "Judgement", "Verdict", "judge", "judge_without_gate")


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether an image runs on nodes, what that is about, why, and what the container toolkit's own check says."""

    verdict: Verdict
    cause: Cause
    reason: str
    gate: Gate


@lru_cache(maxsize=2048)
def judge(need: Need, offer: Offer) -> Judgement:
    """The verdict about an image that needs `need` on nodes that offer `offer`."""
    judgement = judge_without_gate(need, offer)
    if need.kind in (BuiltFor.NONE, BuiltFor.OTHER):
        return judgement
    return replace(judgement, gate=legacy_gate(need.env, offer))


def judge_without_gate(need: Need, offer: Offer) -> Judgement:
    """The same where nobody asks for the container toolkit's own check, whose cost tenants decide on."""
    if need.kind is BuiltFor.NONE:
        return Judgement(Verdict.COMPATIBLE, Cause.NONE, "the image needs no CUDA", Gate.NOT_APPLICABLE)
    if need.kind is BuiltFor.OTHER:
        reason = f"the image is built for {need.platform or 'another platform'}, not for NVIDIA GPUs"
        return Judgement(Verdict.INCOMPATIBLE, Cause.IMAGE, reason, Gate.NOT_APPLICABLE)
    return Judgement(*find(need, offer), Gate.UNKNOWN)
