"""How many GPUs a pod requests, if shares, MIG slices and partitions count as their part of a GPU.

If a pod could run on nodes with other parts, the largest part counts, so that the pod never gets more than was counted.
"""

from collections.abc import Iterable
from fractions import Fraction

from webhook.gpus.gpu_catalogue import Catalogue
from webhook.gpus.gpu_shares import SHAREABLE, share_of
from webhook.gpus.gpu_table import GpuTable
from webhook.model.pod import Container, Pod
from webhook.model.wording import counted
from webhook.quota.amounts import WHOLE, UnitParts, unit_parts, weight
from webhook.quota.quota_wording import number
from webhook.quota.quotas import Counting
from webhook.rules.rule import Facts

Gpus = Fraction | int
"""A number of GPUs; a fraction where some units are parts of a GPU."""

UNITS: UnitParts = {}
"""Every unit counts as one."""


def parts_of(
    pod: Pod, facts: Facts, catalogue: Catalogue, weights: UnitParts = UNITS, *, counts_slices: bool = True
) -> UnitParts:
    """Resource -> what one unit counts for this pod; resources with whole GPUs are left out.

    The labels of nodes say what nvidia.com/gpu is, and `weights` come before them. Names of MIG slices and partitions
    say their part; without `counts_slices`, they are left out, too.
    """
    names = {gpu.resource for gpu in pod.accelerators}
    found = unit_parts(pod, facts, catalogue.table, only_shared=not counts_slices)
    parts = {name: part for name, part in found.items() if name in names}
    others = names - SHAREABLE if counts_slices else None
    if others:
        models, counting = catalogue.models_of(pod), Counting(catalogue)
        parts |= {name: part for name in others if (part := weight(name, models, counting)) < 1}
    return parts | {name: weights[name] for name in names if name in weights}


def gpus_of(container: Container, parts: UnitParts) -> Gpus:
    """The GPUs that a container requests."""
    if not parts:
        return container.gpu_count
    return _together(((one.resource, one.count) for one in container.gpu_requests), parts)


def gpus_of_pod(pod: Pod, parts: UnitParts) -> Gpus:
    """The GPUs that the scheduler reserves for a pod."""
    return _together(pod.gpus.items(), parts) if parts else pod.gpu_count


def _together(units: Iterable[tuple[str, int]], parts: UnitParts) -> Fraction:
    return sum((count * parts.get(resource, WHOLE) for resource, count in units), Fraction(0))


def unit_name(pod: Pod, facts: Facts, table: GpuTable) -> str:
    """What a unit of the pod's GPU resources is called: a share, by its name or the labels of all nodes, or a unit."""
    nodes = facts.selected_nodes(pod) if facts.divides_gpus() and not SHAREABLE.isdisjoint(pod.gpus) else ()
    kinds = [share_of(one.labels, table) for one in nodes]
    are_shares = (
        gpu.is_shared or (bool(kinds) and all(kind.is_shared(gpu.resource) for kind in kinds))
        for gpu in pod.accelerators
    )
    return "share" if pod.accelerators and all(are_shares) else "unit"


def spelled_gpus(gpus: Gpus, units: int | None = None, unit: str = "unit") -> str:
    """A number of GPUs for people, with the number of their units if it is another one, or if they are shares.

    >>> spelled_gpus(1), spelled_gpus(Fraction(15, 7), 15)
    ('1 GPU', '2 1/7 GPUs (15 units)')
    >>> spelled_gpus(9, 9, "share"), spelled_gpus(Fraction(5, 4), 5, "share")
    ('9 shares of GPUs, each counted as a GPU', '1 1/4 GPUs (5 shares)')
    """
    if units is not None and units == gpus and unit == "share":
        return f"{counted(units, 'share')} of GPUs, each counted as a GPU"
    of_units = "" if units is None or units == gpus else f" ({counted(units, unit)})"
    return f"{number(Fraction(gpus))} {'GPU' if gpus <= 1 else 'GPUs'}{of_units}"


def fewer(allowed: int, resources: Iterable[str], parts: UnitParts, unit: str) -> str:
    """What to request of these resources instead, in units where one counts as something else than a GPU."""
    counts = {parts.get(resource, WHOLE) for resource in resources}
    part = counts.pop() if len(counts) == 1 else WHOLE
    if allowed < part != WHOLE:
        return "other GPUs"
    return f"{allowed if part == WHOLE else counted(int(allowed / part), unit)} or fewer"
