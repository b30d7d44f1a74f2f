"""How GPUs suit what a pod may use: kinds of GPUs, and sizes of their memory.

Judged is one unit of a resource, by what a pod says of itself or by the labels of a class of nodes. What is not certain
suits every pod.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from webhook.gpus.gpu_catalogue import Catalogue, Models
from webhook.gpus.gpu_kinds import Bar, Unit, UsableGpus, of_vendor
from webhook.gpus.gpu_memory import GPU_MEMORY, UNKNOWN, UnitMemory, memory_of, profile_of
from webhook.gpus.gpu_shares import SHAREABLE, GpuShare, share_of
from webhook.gpus.steering import Cause
from webhook.model.accelerators import Accelerator, Share, Vendor
from webhook.model.node import NodeClass
from webhook.model.wording import few, offered

_NO_LABELS: Mapping[str, str] = {}


class Sizes(NamedTuple):
    """The memory in bytes that units may have; None for no bound."""

    min: int | None = None
    max: int | None = None


@dataclass(frozen=True, slots=True)
class Usable:
    """What pods may use: kinds of GPUs, of which the catalogue knows the models, with memory of these sizes."""

    gpus: UsableGpus
    sizes: Sizes
    catalogue: Catalogue

    def __bool__(self) -> bool:
        """Whether anything is barred."""
        return bool(self.gpus) or self.sizes != Sizes()


class Misfit(NamedTuple):
    """Why a unit does not suit a pod: `bar`, or its memory if that is None. `name` is what people call the unit.

    `is_small` says that it has too little memory, and not too much. `is_part` says that it is a slice or a share whose
    GPU as a whole might suit.
    """

    name: str
    bar: Bar | None = None
    memory: UnitMemory = UNKNOWN
    is_small: bool = False
    is_part: bool = False

    @property
    def cause(self) -> Cause:
        """What about nodes with such units does not suit."""
        if self.bar is None:
            return Cause.PART_MEMORY if self.is_part else Cause.MEMORY
        return Cause.PROFILE if self.is_part else Cause.MODEL

    def __str__(self) -> str:
        match self.bar:
            case Bar.DENIED:
                return f"{self.name} is denied"
            case Bar.NOT_ALLOWED:
                return f"{self.name} is not allowed here"
        if self.is_small:
            return f"{self.name} is too small ({size_text(self.memory.most or 0)})"
        return f"{self.name} is too large ({size_text(self.memory.least or 0)})"


def size_text(size: int) -> str:
    """An amount of memory for people, as a pod can ask for it.

    >>> size_text(40 * 2**30), size_text(81559 * 2**20)
    ('40Gi', '79.6Gi')
    """
    return offered("memory", size)


def judged(gpu: Accelerator, models: Models, usable: Usable) -> Misfit | None:
    """Why units of a resource suit no pod, if their GPUs have one of these models, or any; None if they may suit.

    A unit of a GPU may be a part of it, so no unit is too large by the name of its model.
    """
    share = GpuShare()
    unit = _unit(gpu, models, share, usable.catalogue)
    sizes = usable.sizes._replace(max=None) if gpu.resource in SHAREABLE else usable.sizes
    return _judged(unit, share, _NO_LABELS, usable, sizes)


def judged_on(classes: Sequence[NodeClass], gpus: tuple[Accelerator, ...], usable: Usable) -> tuple[Misfit | None, ...]:
    """Why nodes of each class do not suit a pod that requests these GPUs; None if they may suit.

    Most pods are judged on the same sequence of classes, so judgements are kept.
    """
    key = id(classes), gpus, usable
    known = _kept.get(key)
    if known is None:
        known = classes, tuple([_judged_on(nodes, gpus, usable) for nodes in classes])
        if len(_kept) * (len(classes) + 1) >= _MOST_KEPT:
            _kept.clear()
        _kept[key] = known
    return known[1]


_MOST_KEPT = 4096
"""Judgements that are kept, approximately."""
_kept: dict[tuple[int, tuple[Accelerator, ...], Usable], tuple[Sequence[NodeClass], tuple[Misfit | None, ...]]] = {}
"""Each value holds on to its classes, so that no other sequence gets the same id meanwhile."""


def _judged_on(nodes: NodeClass, gpus: Sequence[Accelerator], usable: Usable) -> Misfit | None:
    labels = tuple(nodes.labels.items())
    return next((found for gpu in gpus if (found := _judged_at(gpu, labels, usable)) is not None), None)


def memory_on(nodes: NodeClass, gpu: Accelerator, catalogue: Catalogue) -> UnitMemory:
    """The memory of one unit of a resource on nodes of a class."""
    share = share_of(nodes.labels, catalogue.table)
    unit = _unit(gpu, catalogue.models_at(nodes.labels), share, catalogue)
    return memory_of(gpu.resource, nodes.labels, share, unit.models, catalogue.table)


@lru_cache(maxsize=4096)
def _judged_at(gpu: Accelerator, labels: tuple[tuple[str, str], ...], usable: Usable) -> Misfit | None:
    by_key = dict(labels)
    share = share_of(by_key, usable.catalogue.table)
    unit = _unit(gpu, usable.catalogue.models_at(by_key), share, usable.catalogue)
    return _judged(unit, share, by_key, usable, usable.sizes)


def _judged(unit: Unit, share: GpuShare, labels: Mapping[str, str], usable: Usable, sizes: Sizes) -> Misfit | None:
    if (bar := usable.gpus.bar(unit)) is not None:
        is_part = bool(unit.profile) and usable.gpus.bar(unit._replace(profile="")) is None
        return Misfit(_name(unit, share, usable.catalogue), bar, is_part=is_part)
    least, most = sizes
    if least is None and most is None:
        return None
    memory = memory_of(unit.resource, labels, share, unit.models, usable.catalogue.table)
    is_small = least is not None and memory.is_below(least)
    if is_small or (most is not None and memory.is_above(most)):
        is_part = share.is_shared(unit.resource) or (bool(unit.profile) and GPU_MEMORY not in labels)
        return Misfit(_name(unit, share, usable.catalogue), None, memory, is_small, is_part)
    return None


def has_labels(gpu: Accelerator) -> bool:
    """Whether labels of nodes say the model of a resource.

    They say nothing about GPUs for virtual machines, whose driver is another, about GPUs that come by DRA, and about
    those of vendors that no table has.
    """
    return gpu.share is not Share.PASSTHROUGH and not gpu.by_dra and gpu.vendor is not Vendor.OTHER


def _unit(gpu: Accelerator, models: Models, share: GpuShare, catalogue: Catalogue) -> Unit:
    """A unit of a resource, as far as labels of its node, and what the pod says, make it known."""
    vendor = None if gpu.vendor is Vendor.OTHER else gpu.vendor
    if vendor is None or not has_labels(gpu):
        return Unit(gpu.resource, vendor)
    profile: str | None = profile_of(gpu.resource)
    if gpu.resource in SHAREABLE:
        profile = share.profile if share.is_known and not share.fault else None
    return Unit(gpu.resource, vendor, of_vendor(models, vendor, catalogue), profile)


def _name(unit: Unit, share: GpuShare, catalogue: Catalogue) -> str:
    """What people call a unit: by its model and its part of a GPU, or by its resource."""
    name = catalogue.called(unit.models) or few(sorted(unit.models)) if unit.models else ""
    if unit.profile:
        name = f"{unit.profile} of {name}" if name else unit.profile
    if name and share.is_shared(unit.resource):
        name = f"{name} shared by {share.replicas}"
    return name or unit.resource
