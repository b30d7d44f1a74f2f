"""Parts of GPUs: by annotations of the schedulers KAI and Run:ai, and by attributes of a GPU that HAMi reads.

With the annotations a pod requests no resource. Its scheduler gives it a part of one GPU, or of several, and no device
plugin knows of it. A pod that requests nvidia.com/gpu gets nothing by them: KAI refuses both together. What KAI cannot
read counts as a whole GPU, because others may read it.

HAMi gives each unit of nvidia.com/gpu of a container so much memory and so many cores, and refuses pods that name their
node: on a node without HAMi, a kubelet would start them with whole GPUs.

Sources: pkg/common/resources/gpu_sharing.go of kai-scheduler/KAI-Scheduler, "Dynamic GPU Fractions" of the documents of
NVIDIA Run:ai, pkg/device/nvidia/device.go and pkg/scheduler/webhook.go of Project-HAMi/HAMi.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from webhook.model.accelerators import GPU, GPUCORES, GPUMEM, PERCENTAGE
from webhook.model.pod import APP, INIT, Container, GpuFraction, GpuRequest, Pod, changed
from webhook.model.quantity import parse_quantity, positive
from webhook.model.shape import FormatError, spelled
from webhook.model.violation import Violation

FRACTION, MEMORY, DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
KEYS = (FRACTION, MEMORY, DEVICES)
"""The annotations that say how many GPUs a pod gets a part of, and which part of each."""
ASKING = KEYS[:2]
"""A pod without one of these gets no GPU by annotations."""
FAULT = "unreadable part of a GPU"
"""The fault of annotations that KAI and Run:ai do not read."""

_NUMBER = re.compile(r"\+?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?", re.ASCII)
_COUNT = re.compile(r"\+?[0-9]{1,18}", re.ASCII)
_WHOLE = Fraction(1)
_NAME = "gpu-fraction-container-name"
_ALLOWED = {
    FRACTION: ("a number above 0 and below 1", 'Write one such as "0.5", or request nvidia.com/gpu for whole GPUs'),
    MEMORY: ("a whole number of MiB above 0", 'Write one such as "8192"'),
    DEVICES: ("a whole number above 0", 'Write one such as "2"'),
}


def fractions_of(
    annotations: Mapping[str, Any], containers: Sequence[Container], gpus: Mapping[str, int], node_name: str
) -> tuple[GpuFraction, ...]:
    """The GPUs of which a pod with these containers gets a part; `gpus` are those that it requests."""
    if GPU in gpus:
        return () if node_name else tuple(_by_attributes(containers))
    if not (annotations.get(FRACTION) or annotations.get(MEMORY)):
        return ()
    devices, mib = _count(annotations.get(DEVICES)) or 1, _count(annotations.get(MEMORY))
    part = _portion(annotations.get(FRACTION))
    if part and not annotations.get(MEMORY):
        mib = 0
    elif annotations.get(FRACTION) or not mib:
        part, mib = _WHOLE, 0
    places = {one.name: at for at, one in enumerate(containers) if one.list_name in (INIT, APP)}
    first = next((at for at, one in enumerate(containers) if one.list_name == APP), 0)
    name = annotations.get(_NAME)
    at = places.get(name, first) if isinstance(name, str) else first
    return (GpuFraction(devices, part, mib, at, by_annotation=True),)


def _by_attributes(containers: Sequence[Container]) -> Iterator[GpuFraction]:
    """Units of nvidia.com/gpu with less than a GPU. Init containers use GPUs at another time, so all count whole."""
    if any(one.list_name == INIT and one.gpu_count for one in containers):
        return
    for at, one in enumerate(containers):
        units = sum(request.count for request in one.gpu_requests if request.resource == GPU)
        if not (units and one.asks_gpu_attributes):
            continue
        amounts = {**one.requests, **one.limits}
        mib, percent, cores = (positive(amounts.get(key)) or 0 for key in (GPUMEM, PERCENTAGE, GPUCORES))
        part = Fraction(max(0 if mib else percent or 100, cores), 100)
        if part < 1:
            yield GpuFraction(units, part, mib, at)


def _portion(value: object) -> Fraction:
    """A part of a GPU, rounded up to one nano; 0 for what is none."""
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        return Fraction(0)
    try:
        found = Fraction(parse_quantity(value.removeprefix("+")))
    except FormatError:
        return Fraction(0)
    return found if 0 < found < 1 else Fraction(0)


def _count(value: object) -> int:
    """A whole number; 0 for what is none."""
    return int(value) if isinstance(value, str) and _COUNT.fullmatch(value) else 0


def fraction_faults(pod: Pod) -> Iterator[Violation]:
    """What KAI and Run:ai do not read in the annotations of a pod."""
    own = {key: pod.annotations[key] for key in KEYS if pod.annotations.get(key)}
    if not own or (GPU in pod.gpus and not any(one.by_annotation for one in pod.fractions)):
        return
    wrong = [key for key, value in own.items() if not (_portion if key == FRACTION else _count)(value)]
    for key in wrong:
        allowed, remedy = _ALLOWED[key]
        found = f"is {spelled(own[key])}"
        if not isinstance(own[key], str):
            found += ", which is no text"
            remedy = "Put the value in quotes"
        yield Violation(_place(key), found, f"KAI and Run:ai take {allowed}", remedy, fault=FAULT)
    if len(own.keys() & set(ASKING)) != 1 and not wrong:
        key, found, remedy = MEMORY, f"stands beside {FRACTION}", "Remove one of them"
        if MEMORY not in own:
            key, found, remedy = DEVICES, f"stands without {FRACTION} and {MEMORY}", "Add one of them, or remove it"
        yield Violation(_place(key), found, "KAI and Run:ai take exactly one of them", remedy, fault=FAULT)


def changed_key(now: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    """The first of these annotations that differs; empty where none does."""
    return next((key for key in KEYS if now.get(key) != before.get(key)), "")


def changed_fraction(key: str, now: Mapping[str, Any], before: Mapping[str, Any]) -> Violation:
    """That an annotation asks for another part of a GPU than before."""
    old, new = (spelled(one[key]) if key in one else "missing" for one in (before, now))
    found, why = f"was {old} and is {new}", "a pod counts what it asked for when it was created"
    return Violation(_place(key), found, why, "Leave it as it was, or create the pod again")


def _place(key: str) -> str:
    return f"metadata.annotations[{key}]"


def with_fractions(pod: Pod) -> Pod:
    """`pod` with the GPUs that its annotations ask for, as if the container requested whole GPUs.

    For what counts and judges GPUs. What completes pods must not see them: no device plugin gives them.
    """
    gpu = pod.known.of(GPU)
    if gpu is None or GPU in pod.gpus or not pod.fractions:
        return pod
    (asked,), containers = pod.fractions, list(pod.containers)
    number = asked.devices
    if containers:
        own = containers[asked.container]
        requests = (*own.gpu_requests, GpuRequest(gpu, number, number, (number, number), number))
        containers[asked.container] = replace(own, gpu_requests=requests, gpu_count=own.gpu_count + number)
    gpus, accelerators = {**pod.gpus, GPU: number}, (*pod.accelerators, gpu)
    return changed(pod, containers=tuple(containers), gpus=gpus, accelerators=accelerators)
