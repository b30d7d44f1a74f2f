"""Containers with GPUs get a memory-backed /dev/shm, no larger than the memory that they may use.

GPUs that come by a resource claim (DRA) count for the containers that use the claim, in the largest number that it may
bring, if the claim is known when the pod is created.

A container that mounts something at /dev/shm keeps it. What a container writes to a volume in memory counts against its
memory limit. So there is a warning about a volume that may hold more than the memory limits of the containers which
mount it, and about a volume without any limit: without `sizeLimit` the kubelet gives it the size of the pod's memory
limit or, if some container has none, of the node's memory (calculateEmptyDirMemorySize in pkg/volume/emptydir of
Kubernetes). No pod is refused for either.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from webhook.model.container import Container, positive
from webhook.model.edits import AddMemoryVolume, AddMount
from webhook.model.pod import Pod, Volume
from webhook.model.quantity import format_bytes, is_some
from webhook.rules.claimed_gpus import claimed_gpus, may_have
from webhook.rules.rule import NO_MEMORY_LIMIT, Advice, Example, Facts, Rule, training_pod
from webhook.rules.rule_settings import ByteSize, InjectionSettings

_DIRECTORY = "/dev/shm"  # noqa: S108  # the mount point that the rule is about
VOLUME = "gpu-policy-shm"
_WITHOUT_LIMIT = 8 * 1024**3
"""Bytes of the volume if no container has a memory limit."""


class Settings(InjectionSettings):
    """Settings of `sharedMemory`."""

    min_gpus: Annotated[int, Field(ge=1)] = 1
    """Least number of GPUs that a container has to request to get the volume."""
    size: ByteSize | None = None
    """Size limit of the volume, such as `16Gi`; never more than the smallest memory limit among the containers.
    Excludes `memoryFraction`."""
    memory_fraction: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Size limit of the volume as a part of the smallest memory limit among the containers, above 0 and at most 1. If
    no container has a limit, the volume gets `8Gi`. Excludes `size`."""
    exclusive: ClassVar[tuple[frozenset[str], ...]] = (frozenset({"size", "memoryFraction"}),)


def mutate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[AddMemoryVolume | AddMount | Advice]:
    """Mount one memory volume at /dev/shm in every container that requests enough GPUs and mounts nothing there."""
    if pod.host_ipc:
        return
    claimed = claimed_gpus(pod, facts) if pod.resource_claims else ()
    least = settings.min_gpus
    asking = [c for c in pod.lasting_containers() if c.gpu_count >= least or (claimed and may_have(c, claimed, least))]
    lacking = [container for container in asking if container.mounts_at(_DIRECTORY) is None]
    if not lacking:
        return
    volume = _volume_of_a_sibling(pod)
    if volume is None:
        volume = _free_name(pod)
        size, advice = _size(pod, settings, asking)
        yield AddMemoryVolume(volume, format_bytes(size))
        yield from advice
    for container in lacking:
        yield AddMount(container, volume, _DIRECTORY)


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Advice]:
    """Advise about memory volumes at /dev/shm that may hold more than memory limits allow, or have no limit."""
    memory = {volume.name: volume for volume in pod.volumes if volume.is_memory}
    if not memory:
        return
    told: set[str] = set()
    least = settings.min_gpus
    claimed = claimed_gpus(pod, facts) if pod.resource_claims else ()
    for container in pod.lasting_containers():
        if container.gpu_count < least and not (claimed and may_have(container, claimed, least)):
            continue
        mount = container.mounts_at(_DIRECTORY)
        if mount is None or mount.volume not in memory or mount.volume in told:
            continue
        volume = memory[mount.volume]
        has_size = is_some(volume.size_limit)
        advice = _above_the_limit(pod, volume) if has_size else _without_a_limit(pod, container, volume)
        if advice is not None:
            told.add(volume.name)
            yield advice


def _above_the_limit(pod: Pod, volume: Volume) -> Advice | None:
    """Advice about a volume that may hold more than the memory limits of the containers which mount it."""
    size, limit = positive(volume.size_limit), _limit_of(pod, volume)
    if size is None or limit is None or size <= limit:
        return None
    return Advice(
        _place(volume),
        f"sizeLimit is {format_bytes(size)}, and what is in {_DIRECTORY} counts against the memory limit of "
        f"{format_bytes(limit)}; the kernel kills the container before the volume is full",
        f"Raise resources.limits.memory above {format_bytes(size)}, or lower sizeLimit",
    )


def _limit_of(pod: Pod, volume: Volume) -> int | None:
    """Bytes of memory that the containers which mount a volume may use together; None without a limit."""
    users = [c for c in pod.lasting_containers() if any(mount.volume == volume.name for mount in c.mounts)]
    limits = [container.memory_limit for container in users if container.memory_limit is not None]
    together = [sum(limits)] if len(limits) == len(users) else []
    if pod.memory_limit is not None:
        together.append(pod.memory_limit)
    return min(together, default=None)


def _without_a_limit(pod: Pod, container: Container, volume: Volume) -> Advice | None:
    """Advice about a volume without a size in a container without a memory limit."""
    if is_some(container.limits.get("memory")) or is_some((pod.resources.get("limits") or {}).get("memory")):
        return None
    return Advice(
        _place(volume),
        f"has no sizeLimit, and {container.path} has no memory limit; what is written to {_DIRECTORY} can take all "
        "memory of the node",
        "Set resources.limits.memory",
        fault=NO_MEMORY_LIMIT,
    )


def _place(volume: Volume) -> str:
    return f"spec.volumes[{volume.name}].emptyDir"


def _volume_of_a_sibling(pod: Pod) -> str | None:
    """The memory volume that some container already mounts at /dev/shm."""
    memory = {volume.name for volume in pod.volumes if volume.is_memory}
    if not memory:
        return None
    mounts = (container.mounts_at(_DIRECTORY) for container in pod.lasting_containers())
    return next((m.volume for m in mounts if m is not None and m.volume in memory and not m.sub_path), None)


def _free_name(pod: Pod) -> str:
    """A volume name that the pod neither declares nor mounts."""
    taken = {volume.name for volume in pod.volumes}
    taken.update(mount.volume for container in pod.containers for mount in container.mounts)
    name, number = VOLUME, 2
    while name in taken:
        name, number = f"{VOLUME}-{number}", number + 1
    return name


def _size(pod: Pod, settings: Settings, containers: Sequence[Container]) -> tuple[int, list[Advice]]:
    """Bytes of the volume, and advice about them."""
    limits = [container.memory_limit for container in containers if container.memory_limit is not None]
    if pod.memory_limit is not None:
        limits.append(pod.memory_limit)
    where = "spec.volumes"
    if not limits:
        size = settings.size or _WITHOUT_LIMIT
        if any(is_some(container.limits.get("memory")) for container in containers):
            return size, []  # a limit that an operator fills in later
        found = (
            f"{_DIRECTORY} may take {format_bytes(size)} of the node's memory, because no container has a memory limit"
        )
        return size, [Advice(where, found, "Set resources.limits.memory", fault=NO_MEMORY_LIMIT)]
    smallest = min(limits)
    if settings.size is None:
        return min(max(int(smallest * settings.memory_fraction), 1), smallest), []
    if settings.size <= smallest:
        return settings.size, []
    wanted = format_bytes(settings.size)
    found = f"{_DIRECTORY} gets {format_bytes(smallest)}, the smallest memory limit, instead of {wanted}"
    return smallest, [Advice(where, found, f"Raise resources.limits.memory to {wanted} or more")]


_LARGER_THAN_ITS_LIMIT = """
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 128Gi}}]
  containers:
    - name: trainer
      image: registry.example.com/train:1
      volumeMounts: [{name: shm, mountPath: /dev/shm}]
      resources: {limits: {nvidia.com/gpu: 2, memory: 64Gi}}
"""

RULE = Rule(
    key="sharedMemory",
    promise="Containers with GPUs get a memory-backed /dev/shm.",
    problem='Data loaders of PyTorch die of a bus error and NCCL of "No space left on device", because processes share '
    "data in /dev/shm, which has only 64 MiB in a container.",
    examples=(
        Example(training_pod(resources="{limits: {nvidia.com/gpu: 2, memory: 64Gi}}")),
        Example(_LARGER_THAN_ITS_LIMIT),
    ),
    settings=Settings,
    mutate=mutate,
    validate=validate,
    only_advises=True,
)
