"""How GPUs suit what a pod may use: kinds of GPUs, and sizes of their memory.

One unit of a resource is judged, by what the pod says or by the labels of a class of nodes. Of a resource claim, what
it selects or its DeviceClass gives is judged. What is not certain suits every pod.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, NamedTuple

from pydantic import AfterValidator

from webhook.gpus.gpu_catalogue import Catalogue, Models
from webhook.gpus.gpu_kinds import Bar, Unit, UsableGpus, of_vendor
from webhook.gpus.gpu_memory import GPU_MEMORY, UNKNOWN, UnitMemory, memory_of, profile_of
from webhook.gpus.gpu_names import NVIDIA_PRODUCT
from webhook.gpus.gpu_shares import SHAREABLE, GpuShare, share_of
from webhook.gpus.steering import Cause
from webhook.model.accelerators import DEVICE_CLASSES, Accelerator, Share, Vendor
from webhook.model.claims import MOST_ALLOCATED, TOO_LARGE, DeviceRequest, Requests
from webhook.model.node import NodeClass
from webhook.model.pod import Pod, changed
from webhook.model.pod_reader import pod_from_raw
from webhook.model.quantity import format_bytes, parse_quantity
from webhook.model.shape import FormatError, spelled
from webhook.model.wording import PLATFORM_TEAM, few, offered
from webhook.rules.candidates import released
from webhook.rules.rule import Advice, Facts, Violation
from webhook.rules.rule_settings import LARGEST_SIZE, ByteSize

_NO_LABELS: Mapping[str, str] = {}


class Sizes(NamedTuple):
    """The memory in bytes that units may have; None for no bound."""

    min: int | None = None
    max: int | None = None


@dataclass(frozen=True, slots=True)
class Usable:
    """What pods may use: kinds of GPUs, with memory of these sizes. The catalogue knows the models of the kinds."""

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


@lru_cache(maxsize=256)
def judged_on(
    classes: tuple[NodeClass, ...], gpus: tuple[Accelerator, ...], usable: Usable
) -> tuple[Misfit | None, ...]:
    """Why nodes of each class do not suit a pod that requests these GPUs; None where they may suit."""
    return tuple([_misfit(nodes, gpus, usable) for nodes in classes])


def _misfit(nodes: NodeClass, gpus: tuple[Accelerator, ...], usable: Usable) -> Misfit | None:
    share = share_of(nodes.labels, usable.catalogue.table)
    for gpu in gpus:
        unit = _unit(gpu, usable.catalogue.models_at(nodes.labels), share, usable.catalogue)
        if (found := _judged(unit, share, nodes.labels, usable, usable.sizes)) is not None:
            return found
    return None


def memory_on(nodes: NodeClass, gpu: Accelerator, catalogue: Catalogue) -> UnitMemory:
    """The memory of one unit of a resource on nodes of a class."""
    share = share_of(nodes.labels, catalogue.table)
    unit = _unit(gpu, catalogue.models_at(nodes.labels), share, catalogue)
    return memory_of(gpu.resource, nodes.labels, share, unit.models, catalogue.table)


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
    GPUs of vendors that no table has.
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


ANY_POD = pod_from_raw({"spec": {"tolerations": [{"operator": "Exists"}]}})  # could be scheduled to every node


def barred_models(requests: Requests, usable: Usable, facts: Facts, pod: Pod = ANY_POD) -> Iterator[str]:
    """What is wrong with the claim of a pod: it selects, or can give, only models that may not be used."""
    if requests == TOO_LARGE:
        if _by_models(usable.gpus):
            yield "has too many alternatives, so nobody can check which GPUs it gives"
        return
    for request in requests:
        if (found := barred_request(request, usable, facts, pod)) is not None:
            verb = "selects" if all(devices.product for devices in request) else "can give only"
            yield f"{verb} {found.name}"


def barred_request(request: DeviceRequest, usable: Usable, facts: Facts, pod: Pod) -> Misfit | None:
    """The models that a request can give, if none of them may be used; None if one may, or that is not certain."""
    gpus, placed = _by_models(usable.gpus), released(changed(pod, accelerators=()), facts)  # nodes need not list them
    found: dict[str, Bar] = {}
    for devices in request if gpus else ():
        if devices.least > min(facts.most_devices(devices.device_class) or MOST_ALLOCATED, MOST_ALLOCATED):
            continue
        product = "-".join(devices.product.split())
        given = [{NVIDIA_PRODUCT: product}] if product else facts.gpus_given(devices.device_class, placed)
        for labels in given or [{}]:
            models = frozenset() if devices.is_administrative else usable.catalogue.models_at(labels)
            bar = gpus.bar(Unit(DEVICE_CLASSES + devices.device_class, None, models)) if models else None
            if bar is None:
                return None
            found[usable.catalogue.called(models) or few(sorted(models))] = bar
    return Misfit(" or ".join(found), min(found.values())) if found else None


def _by_models(gpus: UsableGpus) -> UsableGpus:
    """What is said of models alone: devices of claims have no resource names. Their profile is open."""
    allowed = None if any(kind.glob for kind in gpus.allowed or ()) else gpus.allowed
    return UsableGpus(allowed, tuple([kind for kind in gpus.denied if not kind.glob]))


ANNOTATION = "gpupolicy.dev/gpu-memory"
"""The annotation with which a pod asks for GPUs with so much memory."""
_WHERE = f"metadata.annotations[{ANNOTATION}]"

LEAST_MEMORY = 2**27
"""Bytes: no GPU, slice or share has less, so a smaller amount was written without its unit."""


def _of_gpus(size: int) -> int:
    if size < LEAST_MEMORY:
        raise ValueError(f"{size} bytes are no amount of GPU memory; write it with its unit, such as 16Gi")
    return size


GpuMemorySize = Annotated[ByteSize, AfterValidator(_of_gpus)]


def asked(pod: Pod, least: int = LEAST_MEMORY) -> int | None:
    """The bytes that the annotation asks for; None without it, for what is no size, and for less than `least`."""
    written = pod.annotations.get(ANNOTATION)
    try:
        size = parse_quantity(written) if isinstance(written, str) else 0
    except FormatError:
        return None
    return size if isinstance(size, int) and least <= size < LARGEST_SIZE else None


def annotation_faults(pod: Pod, most: int | None) -> Iterator[Violation]:
    """What is wrong with the memory that the annotation asks for."""
    if ANNOTATION not in pod.annotations:
        return
    size = asked(pod)
    if size is None:
        found = f"{spelled(pod.annotations[ANNOTATION])} is no amount of GPU memory"
        if few_bytes := asked(pod, least=1):
            found += f", but {few_bytes} bytes"
        remedy = "Write a quantity with its unit, such as 40Gi"
        yield Violation(_WHERE, found, "the annotation says how much memory each GPU of the pod must have", remedy)
    elif most is not None and size > most:
        found, allowed = f"asks for {size_text(size)} of GPU memory", f"the policy allows at most {format_bytes(most)}"
        yield Violation(_WHERE, found, allowed, f"Ask for {format_bytes(most)} or less, or ask {PLATFORM_TEAM}")


def without_effect(pod: Pod) -> Iterator[Advice]:
    """Advice about an annotation without effect, because the memory of no GPU of the pod is known."""
    if any(gpu.resource in SHAREABLE or profile_of(gpu.resource) for gpu in pod.accelerators):
        return
    names = sorted({gpu.resource for gpu in pod.accelerators})
    if names:
        what = f"the memory of {names[0]} is not known"
    elif pod.resource_claims:
        what = "the memory of devices of resource claims is not compared"
    else:
        return
    found = f"{what}, so {spelled(pod.annotations[ANNOTATION])} has no effect"
    remedy = "Select nodes with GPUs of this size, or write the capacity into a selector of the claim"
    yield Advice(_WHERE, found, remedy)


def reasons(misfits: Iterable[Misfit]) -> str:
    """Why a pod may not use GPUs, each reason once."""
    return ", ".join(dict.fromkeys(map(str, misfits)))


def allowed(usable: Usable, wanted: int | None, misfits: Iterable[Misfit]) -> str:
    """What the policy says, as far as it matters for these misfits; `wanted` is what the annotation of the pod says."""
    bars, (least, most) = {misfit.bar for misfit in misfits}, usable.sizes
    said = []
    if Bar.NOT_ALLOWED in bars:
        said.append(f"the policy allows only {few([one.name for one in usable.gpus.left])}")
    if Bar.DENIED in bars:
        said.append(f"the policy denies {few([one.name for one in usable.gpus.denied])}")
    if None in bars and least is not None:
        who = f"the annotation {ANNOTATION} asks for" if wanted == least else "the policy requires"
        said.append(f"{who} {size_text(least)} of GPU memory")
    if None in bars and most is not None:
        said.append(f"the policy allows at most {size_text(most)} of GPU memory")
    return " and ".join(said)


def said_of_gpus(gpus: UsableGpus) -> str:
    """What the policy says of kinds of GPUs."""
    said = [f"allows only {few([one.name for one in gpus.left])}"] if gpus.allowed is not None else []
    said += [f"denies {few([one.name for one in gpus.denied])}"] if gpus.denied else []
    return f"the policy {' and '.join(said)}"
