"""How many GPUs a pod requests where MIG slices, partitions and shares count as the part of a GPU that they are.

If a pod could run on nodes with other parts, the largest part counts, so that the scheduler never makes more of it.
"""

from collections.abc import Iterable
from fractions import Fraction

from webhook.gpus.gpu_catalogue import Catalogue
from webhook.gpus.gpu_shares import SHAREABLE
from webhook.model.container import Container
from webhook.model.pod import Pod
from webhook.model.wording import counted
from webhook.quota.amounts import weight
from webhook.quota.quota_wording import number
from webhook.quota.quotas import Counting
from webhook.quota.unit_parts import UnitParts, unit_parts
from webhook.rules.rule import Facts

Gpus = Fraction | int
"""A number of GPUs; a fraction where some units are parts of a GPU."""

UNITS: UnitParts = {}
"""Every unit counts as one."""
_WHOLE = Fraction(1)


def parts_of(pod: Pod, facts: Facts, catalogue: Catalogue) -> UnitParts:
    """Resource -> the largest part of a GPU that one unit may be for this pod; resources with whole GPUs are left out.

    Names of MIG slices and partitions say their part, and the labels of nodes say what nvidia.com/gpu is.
    """
    names = {gpu.resource for gpu in pod.accelerators}
    parts = {name: part for name, part in unit_parts(pod, facts, catalogue.table).items() if name in names}
    others = names - SHAREABLE
    if others:
        models, counting = catalogue.models_of(pod), Counting(catalogue)
        parts |= {name: part for name in others if (part := weight(name, models, counting)) < 1}
    return parts


def gpus_of(container: Container, parts: UnitParts) -> Gpus:
    """The GPUs that a container requests."""
    if not parts:
        return container.gpu_count
    return _together(((one.resource, one.count) for one in container.gpu_requests), parts)


def gpus_of_pod(pod: Pod, parts: UnitParts) -> Gpus:
    """The GPUs that the scheduler reserves for a pod."""
    return _together(pod.gpus.items(), parts) if parts else pod.gpu_count


def _together(units: Iterable[tuple[str, int]], parts: UnitParts) -> Fraction:
    return sum((count * parts.get(resource, _WHOLE) for resource, count in units), Fraction(0))


def spelled_gpus(gpus: Gpus, units: int | None = None) -> str:
    """A number of GPUs for people, with the number of their units if it is another one.

    >>> spelled_gpus(1), spelled_gpus(Fraction(15, 7), 15)
    ('1 GPU', '2 1/7 GPUs (15 units)')
    """
    of_units = "" if units is None or units == gpus else f" ({counted(units, 'unit')})"
    return f"{spelled(gpus)} {'GPU' if gpus <= 1 else 'GPUs'}{of_units}"


def spelled(gpus: Gpus) -> str:
    """A number of GPUs for people, without a unit."""
    return str(gpus) if isinstance(gpus, int) else number(gpus)
