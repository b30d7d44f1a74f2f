"""What one unit of a GPU resource weighs, in whole GPUs: exact fractions.

A MIG slice is 1/(most slices of its profile on one GPU of the pod's model), a partition of an AMD GPU 1/(partitions in
its mode); where the model is open, the heaviest of those that it can be. Sharing by time or MPS says nothing of how
many pods share a GPU, so a share weighs a whole one. The policy's own `weights` come before all of this.
"""

import re
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

from webhook.model.accelerators import SHARED_SUFFIX
from webhook.quota.mig_profiles import MIG_GPUS, CutGpu
from webhook.quota.partitions import PARTITIONED_GPUS
from webhook.quota.quotas import Counting

WHOLE = Fraction(1)

_MIG = re.compile(r"nvidia\.com/mig-(?:([0-9]+)c\.)?([0-9]+)(g\.[0-9]+gb)(.*)", re.ASCII)
_PARTITION = re.compile(r"amd\.com/([a-z]px)_nps[0-9]+", re.ASCII)


def weight(resource: str, models: tuple[str, ...] | None, counting: Counting) -> Fraction:
    """What one unit of `resource` weighs for a pod that may land on `models`; None where they are open.

    >>> weight("nvidia.com/mig-1g.10gb", ("A100-40GB", "A100-80GB"), Counting())
    Fraction(1, 4)
    """
    own = counting.weights.get(resource)
    return own if own is not None else _weight(resource, models)


MIG_RESOURCES: tuple[str, ...] = tuple(
    sorted({f"nvidia.com/mig-{profile.replace('+', '.')}" for gpu in MIG_GPUS for profile in gpu.most})
)
"""The MIG slices of every GPU that is known, as resources are called."""


def is_unknown_slice(resource: str) -> bool:
    """Whether a resource is a MIG slice, and one that no known GPU has.

    >>> is_unknown_slice("nvidia.com/mig-1g.10gb"), is_unknown_slice("nvidia.com/mig-1g.11gb")
    (False, True)
    """
    mig = _MIG.fullmatch(resource)
    return mig is not None and _fewest(MIG_GPUS, _profile(*mig.group(2, 3, 4)), None) is None


@lru_cache(maxsize=4096)
def _weight(resource: str, models: tuple[str, ...] | None) -> Fraction:
    mig = _MIG.fullmatch(resource)
    if mig is not None:
        return _of_slice(*mig.groups(), models=models)
    partition = _PARTITION.fullmatch(resource)
    number = _fewest(PARTITIONED_GPUS, partition.group(1), models) if partition is not None else None
    return Fraction(1, number or 1)


def _of_slice(compute: str | None, size: str, memory: str, suffix: str, *, models: Iterable[str] | None) -> Fraction:
    """What a GPU instance weighs, or a compute instance of `compute` of its `size` compute slices."""
    slices = _fewest(MIG_GPUS, _profile(size, memory, suffix), models)
    parts = 1 if compute is None else _times(int(compute), int(size))
    return Fraction(1, slices * parts) if slices and parts else WHOLE


def _times(part: int, whole: int) -> int:
    """How often a part fits into the whole; 0 for a part that is none."""
    return whole // part if part else 0


def _profile(size: str, memory: str, suffix: str) -> str:
    """The profile of a slice, whose end has a plus where the name of the resource has a dot."""
    suffix = suffix.removesuffix(SHARED_SUFFIX)
    return f"{size}{memory}" + (f"+{suffix[1:]}" if suffix.startswith(".") else suffix)


def _fewest(gpus: Iterable[CutGpu], profile: str, models: Iterable[str] | None) -> int | None:
    """The smallest of the most slices of a profile on a GPU of these models, of any model where none of them has it."""
    rows = [row for row in gpus if profile in row.most]
    own = [row for row in rows if models is not None and not set(row.models).isdisjoint(models)]
    return min((row.most[profile] for row in own or rows), default=None)
