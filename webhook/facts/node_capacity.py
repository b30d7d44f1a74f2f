"""How much a node has of what pods ask for, as it says itself."""

from collections.abc import Mapping
from typing import Any

from webhook.model.accelerators import accelerator
from webhook.model.requirements import is_compared, is_extended, rounded_up, thousandths_of

EVERYWHERE = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Resources that every node has, whether or not it lists them."""


_GPU, _COUNT, _REPLICAS = "nvidia.com/gpu", "nvidia.com/gpu.count", "nvidia.com/gpu.replicas"
"""A resource, and the labels in which GPU Feature Discovery says how many of it there are: GPUs times replicas."""

_PLAUSIBLE = range(1, 1025)
"""Numbers of GPUs, or of those who share one, that a node may have."""


def amounts_of(
    capacity: Mapping[Any, Any], allocatable: Mapping[Any, Any], labels: Mapping[str, str]
) -> dict[str, int]:
    """Resource name -> amount, in the units of demands, of all that decides where a pod can run.

    An extended resource counts as the node has it, since a unit that is ill may recover, and all else as pods may use
    it, since what the system reserves stays reserved. GPUs that read 0, as they do while their device plugin is away,
    count as the labels have it, which stay.
    """
    amounts: dict[str, int] = {}
    for name in {**capacity, **allocatable}:
        if isinstance(name, str) and is_compared(name):
            first, second = (capacity, allocatable) if is_extended(name) else (allocatable, capacity)
            amount = thousandths_of(first[name] if name in first else second[name])
            if amount is not None:
                amounts[name] = rounded_up(name, amount)
    amounts = {name: amount for name, amount in amounts.items() if amount or _has_none(name, amounts)}
    if _GPU not in amounts and (_GPU in capacity or _GPU in allocatable):
        said = _number(labels.get(_COUNT)) * max(1, _number(labels.get(_REPLICAS)))
        return {**amounts, _GPU: said} if said else amounts
    return amounts


def _number(label: str | None) -> int:
    """What a label says, 0 where that is no likely number of GPUs."""
    number = int(label) if label and label.isascii() and label.isdigit() and len(label) < 5 else 0
    return number if number in _PLAUSIBLE else 0


def _has_none(resource: str, amounts: Mapping[str, int]) -> bool:
    """Whether a resource that reads 0 is not there at all.

    GPUs may be there while their device plugin is away. It is not while it offers others, such as slices instead.
    """
    gpu = accelerator(resource)
    if gpu is None:
        return True
    others = (other for name, amount in amounts.items() if amount and (other := accelerator(name)) is not None)
    return any(other.vendor is gpu.vendor and other.is_listed for other in others)
