"""The parts of messages about images: what they need, and why nodes cannot run them."""

import re
from collections.abc import Sequence

from webhook.cuda.assessment import NodeVerdict, merged_by_offer
from webhook.cuda.need import BuiltFor, Need
from webhook.cuda.verdict import Cause, Judgement, Verdict
from webhook.model.shape import shortened

_SHOWN = 3
"""Most kinds of nodes that a message describes."""
_LONGEST_IMAGE = 150
"""Most characters of the image in a message."""
_IN_BRIEF = 80
"""Most characters of the image in the brief text of a warning, which has 256 in all."""
_NO_EVIDENCE = "none"
_ASIDE = re.compile(r" \([^()]*\)")


def needs(image: str, need: Need) -> str:
    """What an image needs, and by which evidence."""
    image = shortened(image, _LONGEST_IMAGE)
    notes = f"; {need.notes[0]}" if need.notes else ""
    if need.kind is BuiltFor.OTHER:
        return f"{image} is built for {need.platform} ({need.evidence}{notes})"
    if need.cuda is None:
        said = "; ".join(text for text in (need.evidence, *need.notes[:1]) if text != _NO_EVIDENCE)
        return f"{image} does not say which CUDA version it needs" + (f" ({said})" if said else "")
    return f"{image} needs CUDA {need.cuda} ({need.evidence}{notes})"


def reasons(verdicts: Sequence[NodeVerdict], at: int) -> str:
    """Why each kind of these nodes cannot run the container at this position."""
    kinds = merged_by_offer(verdicts)
    shown = [f"{kind}: {_reason(kind.result.judgements[at])}" for kind in kinds[:_SHOWN]]
    more = len(kinds) - _SHOWN
    if more > 0:
        shown.append(f"and {more} more {'kind' if more == 1 else 'kinds'} of nodes")
    return "; ".join(shown)


def _reason(judgement: Judgement) -> str:
    """The reason of a judgement. It names the policy if only the policy forbids the nodes."""
    by_policy = judgement.verdict is Verdict.FORWARD_COMPAT_ONLY
    return judgement.reason + (", which the policy does not allow" if by_policy else "")


def in_brief(image: str, need: Need, verdicts: Sequence[NodeVerdict], at: int) -> str:
    """What an image needs, and why the first kind of nodes cannot run it, in few words."""
    image = shortened(image, _IN_BRIEF)
    if need.kind is BuiltFor.OTHER:
        return f"{image} is built for {need.platform}"
    first = merged_by_offer(verdicts)[0].result
    judgement = first.judgements[at]
    why = _ASIDE.sub("", judgement.reason).partition("; ")[0]
    which = f"{first.offer.product}: " if first.offer.product and judgement.cause is Cause.DRIVER else ""
    said = f"{image} needs CUDA {need.cuda}; " if need.cuda is not None else ""
    return f"{said}{which}{why}"


def other_processor(image: str, need: Need, verdicts: Sequence[NodeVerdict], at: int) -> tuple[str, str] | None:
    """The processors of an image and of the nodes; None unless they are the cause for all nodes."""
    if any(one.result.judgements[at].cause is not Cause.ARCHITECTURE for one in verdicts):
        return None
    theirs = sorted({one.result.offer.arch for one in verdicts})
    return f"{shortened(image, _LONGEST_IMAGE)} is for {' and '.join(need.architectures)}", " or ".join(theirs)


def doubt(image: str, need: Need, at: int, verdicts: Sequence[NodeVerdict]) -> str:
    """What is not known about one container; empty if it runs on all nodes that the pod may be scheduled to."""
    if need.kind is BuiltFor.NONE:
        return ""
    if need.is_pending:
        return f"{needs(image, need)}: its registry has not answered yet"
    if not verdicts:
        return f"{needs(image, need)}, and no node is known that the pod could land on"
    doubtful = [one for one in verdicts if one.result.judgements[at].verdict is Verdict.UNKNOWN]
    return f"{needs(image, need)}, and it is not known whether it runs: {reasons(doubtful, at)}" if doubtful else ""


def doubt_in_brief(need: Need) -> str:
    """What is not known about a container, in few words."""
    if need.is_pending:
        return "its registry has not answered yet, so it is not known whether the image runs"
    if need.kind is not BuiltFor.OTHER and need.cuda is None:
        return "does not say which CUDA version it needs; it is not known whether it runs"
    return "it is not known whether the image runs on the nodes that the pod could land on"
