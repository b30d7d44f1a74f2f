"""What images need and why nodes do not have it, in words that fit into a message."""

from collections.abc import Sequence

from webhook.cuda.landing import Landing, merged
from webhook.cuda.need import Kind, Need
from webhook.cuda.verdict import Judgement, Verdict

_SHOWN = 3
"""Classes of nodes that one message describes."""
_LONGEST_IMAGE = 150


def needs(image: str, need: Need) -> str:
    """What an image needs, and who says so."""
    image = image if len(image) <= _LONGEST_IMAGE else image[: _LONGEST_IMAGE - 3] + "..."
    notes = f"; {need.notes[0]}" if need.notes else ""
    if need.kind is Kind.OTHER:
        return f"{image} is built for {need.platform} ({need.evidence}{notes})"
    if need.cuda is None:
        return f"{image} says nothing of the CUDA version it needs ({need.evidence}{notes})"
    return f"{image} needs CUDA {need.cuda} ({need.evidence}{notes})"


def reasons(landings: Sequence[Landing], at: int) -> str:
    """The nodes, and what is wrong with each kind of them for the need at this position."""
    kinds = merged(landings)
    shown = [f"{kind}: {_reason(kind.fate.judgements[at])}" for kind in kinds[:_SHOWN]]
    more = len(kinds) - _SHOWN
    if more > 0:
        shown.append(f"and {more} more {'kind' if more == 1 else 'kinds'} of nodes")
    return "; ".join(shown)


def _reason(judgement: Judgement) -> str:
    """Why, and that it is the policy's will where that alone decides."""
    by_policy = judgement.verdict is Verdict.FORWARD_COMPAT_ONLY
    return judgement.reason + (", which the policy does not allow" if by_policy else "")


def doubt(image: str, need: Need, at: int, landings: Sequence[Landing]) -> str:
    """What is not known about one container; empty where it runs wherever the pod could land."""
    if need.kind is Kind.NONE:
        return ""
    if need.is_pending:
        return f"{needs(image, need)}: its registry has not answered yet"
    if not landings:
        return f"{needs(image, need)}, and no node is known that the pod could land on"
    doubtful = [landing for landing in landings if landing.fate.judgements[at].verdict is Verdict.UNKNOWN]
    return f"{needs(image, need)}, and whether it runs is not known: {reasons(doubtful, at)}" if doubtful else ""
