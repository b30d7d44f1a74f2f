"""What part of a GPU one unit of `nvidia.com/gpu` is on the nodes that a pod may be scheduled to.

The part is entered with the name of the resource, as in `nvidia.com/gpu@1/4`, which no resource of Kubernetes can be
called. So an entry keeps what it counts, whatever becomes of nodes, until its pod is on a node.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache

from webhook.facts.facts import ClusterFacts
from webhook.gpus.gpu_shares import SHAREABLE, share_of
from webhook.gpus.gpu_table import GpuTable
from webhook.model.pod import Pod

UnitParts = Mapping[str, Fraction]
"""Resource -> the largest part of a GPU that one unit may be, below 1."""

WHOLE_UNITS: UnitParts = {}
WHOLE = Fraction(1)


def unit_parts(pod: Pod, facts: ClusterFacts, table: GpuTable, *, only_shared: bool = False) -> UnitParts:
    """What part of a GPU one unit of a pod's resources is at most, on whichever node the scheduler puts it.

    `only_shared`: units that no other pod uses at the same time, such as MIG slices, are whole.
    """
    if SHAREABLE.isdisjoint(pod.gpus) or not facts.divides_gpus():
        return WHOLE_UNITS
    return parts_on((one.labels for one in facts.selected_nodes(pod)), table, only_shared=only_shared)


def parts_on(labels: Iterable[Mapping[str, str]], table: GpuTable, *, only_shared: bool = False) -> UnitParts:
    """What part of a GPU one unit is at most on nodes with these labels; whole where there is no such node."""
    shares = [share_of(one, table) for one in labels]
    if not shares:
        return WHOLE_UNITS
    largest = {
        resource: max(one.part(resource) if one.is_shared(resource) or not only_shared else WHOLE for one in shares)
        for resource in SHAREABLE
    }
    return {resource: part for resource, part in largest.items() if part < 1}


_SEPARATOR = "@"


def with_part(resource: str, part: Fraction) -> str:
    """The name in a ledger of a resource with units that are this part of a GPU.

    >>> with_part("nvidia.com/gpu", Fraction(1, 4))
    'nvidia.com/gpu@1/4'
    """
    return f"{resource}{_SEPARATOR}{part}"


@lru_cache(maxsize=1024)
def without_part(name: str) -> tuple[str, Fraction | None]:
    """A resource by its name in a ledger, and the part of a GPU that its units are; None where the name says none.

    >>> without_part("nvidia.com/gpu@1/4")
    ('nvidia.com/gpu', Fraction(1, 4))
    """
    resource, separator, text = name.partition(_SEPARATOR)
    if not separator:
        return name, None
    numerator, _, denominator = text.partition("/")
    if not (_is_number(numerator) and _is_number(denominator)):
        return resource, None
    part = Fraction(int(numerator), int(denominator))
    return resource, part if part < 1 else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 12 and int(text) > 0
