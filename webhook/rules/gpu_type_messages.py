"""What people read about GPUs that their pods may not use: the reasons, and what the policy says."""

from collections.abc import Iterable, Sequence

from webhook.gpus.gpu_kinds import Bar, Kind, UsableGpus
from webhook.model.wording import few
from webhook.rules.gpu_memory_annotation import ANNOTATION
from webhook.rules.usable_gpus import Misfit, Usable, size_text

_MOST_REASONS = 8
"""Kinds of GPUs that one message names."""


def reasons(misfits: Iterable[Misfit]) -> str:
    """Why a pod may not use GPUs, each reason once."""
    found = list(dict.fromkeys(map(str, misfits)))
    more = len(found) - _MOST_REASONS
    return ", ".join(found[:_MOST_REASONS]) + (f" and {more} more" if more > 0 else "")


def allowed(usable: Usable, asked: int | None, misfits: Iterable[Misfit]) -> str:
    """What the policy says, as far as it matters for these misfits; `asked` is what the annotation of the pod says."""
    bars, (least, most) = {misfit.bar for misfit in misfits}, usable.sizes
    said = []
    if Bar.NOT_ALLOWED in bars:
        said.append(f"the policy allows only {few(_names(usable.gpus.left))}")
    if Bar.DENIED in bars:
        said.append(f"the policy denies {few(_names(usable.gpus.denied))}")
    if None in bars and least is not None:
        who = f"the annotation {ANNOTATION} asks for" if asked == least else "the policy requires"
        said.append(f"{who} {size_text(least)} of GPU memory")
    if None in bars and most is not None:
        said.append(f"the policy allows at most {size_text(most)} of GPU memory")
    return " and ".join(said)


def said_of_gpus(gpus: UsableGpus) -> str:
    """What the policy says of kinds of GPUs."""
    said = [f"allows only {few(_names(gpus.left))}"] if gpus.allowed is not None else []
    said += [f"denies {few(_names(gpus.denied))}"] if gpus.denied else []
    return f"the policy {' and '.join(said)}"


def _names(kinds: Iterable[Kind]) -> Sequence[str]:
    return [kind.name for kind in kinds]
