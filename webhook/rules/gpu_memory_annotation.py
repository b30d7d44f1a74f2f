"""The annotation with which a pod asks for GPUs with so much memory, and sizes of GPU memory as people write them."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator

from webhook.gpus.gpu_memory import profile_of
from webhook.gpus.gpu_shares import SHAREABLE
from webhook.model.pod import Pod
from webhook.model.quantity import format_bytes, parse_quantity
from webhook.model.shape import FormatError, spelled
from webhook.model.wording import PLATFORM_TEAM
from webhook.rules.rule import Advice, Violation
from webhook.rules.rule_settings import LARGEST_SIZE, ByteSize
from webhook.rules.usable_gpus import size_text

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


def asked(pod: Pod) -> int | None:
    """The bytes that the annotation asks for; None without it, and for what is no amount of GPU memory."""
    size = _written(pod)
    return size if size is not None and size >= LEAST_MEMORY else None


def _written(pod: Pod) -> int | None:
    """The bytes in the annotation, however few; None without it, and for what is no size."""
    written = pod.annotations.get(ANNOTATION)
    try:
        size = parse_quantity(written) if isinstance(written, str) else 0
    except FormatError:
        return None
    return size if isinstance(size, int) and 0 < size < LARGEST_SIZE else None


def annotation_faults(pod: Pod, most: int | None) -> Iterator[Violation]:
    """What is wrong with the memory that the annotation asks for."""
    if ANNOTATION not in pod.annotations:
        return
    size = asked(pod)
    if size is None:
        found = f"{spelled(pod.annotations[ANNOTATION])} is no amount of GPU memory"
        if few_bytes := _written(pod):
            found += f", but {few_bytes} bytes"
        remedy = "Write a quantity with its unit, such as 40Gi"
        yield Violation(_WHERE, found, "the pod asks for so much memory in each GPU", remedy)
    elif most is not None and size > most:
        found, allowed = f"asks for {size_text(size)} of GPU memory", f"the policy allows at most {format_bytes(most)}"
        yield Violation(_WHERE, found, allowed, f"Ask for {format_bytes(most)} or less, or ask {PLATFORM_TEAM}")


def without_effect(pod: Pod) -> Iterator[Advice]:
    """Advice about an annotation on a pod none of whose GPUs has a memory that is known."""
    if any(gpu.resource in SHAREABLE or profile_of(gpu.resource) for gpu in pod.accelerators):
        return
    names = sorted({gpu.resource for gpu in pod.accelerators})
    if names:
        what = f"the memory of {names[0]} is not known"
    elif pod.resource_claims:
        what = "the memory of devices of resource claims is not compared"
    else:
        return
    told = f"{what}, so {spelled(pod.annotations[ANNOTATION])} has no effect"
    yield Advice(_WHERE, told, "Select nodes with such GPUs, or devices by capacity in a selector of the claim")
