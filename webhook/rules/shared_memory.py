"""Containers with GPUs get a memory-backed /dev/shm, no larger than the memory that they may use.

GPUs by a resource claim count ([dra.md](dra.md)). A container that mounts something at /dev/shm, or the node's `/dev`,
keeps it. There is no volume for Windows, nor where all nodes that the pod could run on share GPUs by MPS, which has its
own /dev/shm; where only some do, there is a volume, and a warning. On Google Kubernetes Engine pods need `hostIPC` to
reach MPS, as a warning says.

Volumes of authors at /dev/shm only bring warnings: one that may hold more than the memory limits of the containers
which mount it, one without any limit, one on disk, and less than 1Gi for two GPUs or more.
"""
# Sources: internal/plugin/mps.go of NVIDIA/k8s-device-plugin, cmd/gpu-kubelet-plugin/sharing.go of
# NVIDIA/k8s-dra-driver-gpu, Google's guide to MPS, "Windows storage" of Kubernetes' documentation, and
# calculateEmptyDirMemorySize in pkg/volume/emptydir of Kubernetes.

import posixpath
from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from webhook.model.claims import claims_of
from webhook.model.edits import AddMemoryVolume, AddMount
from webhook.model.node import GKE_SHARING, GPU_SHARING
from webhook.model.pod import INIT, Container, Pod, Volume
from webhook.model.programs import only_shows_gpus
from webhook.model.quantity import format_bytes, is_some, positive
from webhook.model.requirements import required_label
from webhook.rules.candidates import candidates
from webhook.rules.claimed_gpus import asking, may_have
from webhook.rules.rule import NO_MEMORY_LIMIT, Advice, Example, Facts, Rule, training_pod
from webhook.rules.rule_settings import ByteSize, InjectionSettings

_DIRECTORY = "/dev/shm"  # noqa: S108  # the mount point that the rule is about
VOLUME = "gpu-policy-shm"
_GIB = 1024**3
_WITHOUT_LIMIT = 8 * _GIB
"""Bytes of the volume if no container has a memory limit and the policy sets no size."""
_WITHOUT_VOLUME = 64 * 1024**2
"""Bytes of /dev/shm in a container without the volume, which is never made smaller."""
_OF_THE_NODE = ("/dev/", f"{_DIRECTORY}/")
_OS = "kubernetes.io/os"
_VALUES = {_OS: "windows", GPU_SHARING: "mps", GKE_SHARING: "mps"}
"""Label -> its value on nodes of Windows, and on nodes whose GPUs are shared by MPS."""


class Settings(InjectionSettings):
    """Settings of `sharedMemory`."""

    min_gpus: Annotated[int, Field(ge=1)] = 1
    """Least number of GPUs that a container has to request to get the volume."""
    size: ByteSize | None = None
    """Size limit of the volume, such as `16Gi`, up to the largest memory limit of a GPU container. Init containers
    count only if no other has GPUs. Excludes `memoryFraction`."""
    memory_fraction: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Size limit as a part of that memory limit, above 0 and at most 1; `8Gi` where there is none. Excludes `size`."""
    exclusive: ClassVar[tuple[frozenset[str], ...]] = (frozenset({"size", "memoryFraction"}),)


def mutate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[AddMemoryVolume | AddMount | Advice]:
    """Mount one memory volume at /dev/shm in every container that requests enough GPUs and mounts nothing there."""
    if pod.host_ipc:
        return
    containers, _ = asking(pod, settings.min_gpus, facts)
    lacking = [container for container in containers if container.mounts_at(_DIRECTORY) is None]
    if own := {volume.name for volume in pod.volumes if volume.host_path and _path(volume) in _OF_THE_NODE}:
        lacking = [one for one in lacking if own.isdisjoint(mount.volume for mount in one.mounts)]
    if pod.resource_claims:
        claims = _claims_by_mps(pod, facts)
        lacking = [one for one in lacking if claims.isdisjoint(used.name for used in one.claims)]
    if not lacking or all(_kinds_of_nodes(pod, facts)):
        return
    volume = _volume_of_a_sibling(pod)
    if volume is None:
        volume = _free_name(pod)
        size, advice = _size(pod, settings, containers)
        yield AddMemoryVolume(volume, format_bytes(size))
        yield from advice
    for container in lacking:
        yield AddMount(container, volume, _DIRECTORY)


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Advice]:
    """Advise about volumes at /dev/shm that hide the shared memory of MPS, are on disk, too small, or too large."""
    containers, claimed = asking(pod, settings.min_gpus, facts)
    kinds = {*_kinds_of_nodes(pod, facts)} if containers else set[str]()
    if kinds <= {_OS}:
        return
    if not pod.host_ipc and kinds == {GKE_SHARING}:
        found = "is not true, and GPUs are shared by MPS, which GKE offers in the IPC namespace of the node only"
        yield Advice("spec.hostIPC", found, "Set hostIPC: true", follows_nodes=True)
    claims = _claims_by_mps(pod, facts) if pod.resource_claims else frozenset()
    volumes, limits = {volume.name: volume for volume in pod.volumes}, _limits(pod)
    for container in containers:
        mount = container.mounts_at(_DIRECTORY)
        volume = volumes.get(mount.volume) if mount is not None else None
        if volume is None:
            continue
        if claims and not claims.isdisjoint(used.name for used in container.claims):
            advice: Advice | None = _hiding(volume, "a claim shares its GPUs")
        elif GPU_SHARING in kinds or GKE_SHARING in kinds:
            some = "" if all(kinds) else "some of "
            advice = _hiding(volume, f"{some}the nodes that the pod could run on share GPUs")
        elif volume.is_memory and not is_some(volume.size_limit):
            advice = _without_a_limit(pod, container, volume)
        else:
            has_several = container.gpu_count > 1 or bool(claimed and may_have(container, claimed, 2))
            advice = _unfit(volume, limits[volume.name], has_several=has_several)
        if advice is not None:
            del volumes[volume.name]
            yield advice


def _kinds_of_nodes(pod: Pod, facts: Facts) -> Sequence[str]:
    """For each kind of node that the pod could run on, the label that says it is of Windows or shares GPUs by MPS.

    The label is empty where none says so. Where no node is known, what the pod itself requires counts, and that all
    nodes which share GPUs do so by MPS if it requests a share.
    """
    if key := _OS if pod.os == "windows" else required_label(pod, _VALUES):
        return [key]
    if not facts.divides_gpus():
        return [""]
    nodes = [one.labels for one in candidates(pod, facts) if not one.by_claim]
    known = [next((key for key, value in _VALUES.items() if one.get(key) == value), "") for one in nodes]
    is_by_mps = any(gpu.is_shared for gpu in pod.accelerators) and [*facts.label_values(GPU_SHARING)] == ["mps"]
    return known or [GPU_SHARING if is_by_mps else ""]


def _claims_by_mps(pod: Pod, facts: Facts) -> set[str]:
    claims = ((claim.name, facts.claim(claim, pod.namespace) or ()) for claim in claims_of(pod.resource_claims))
    return {name for name, requests in claims for request in requests for devices in request if devices.by_mps}


def _path(volume: Volume) -> str:
    """The path on the node, with a slash at its end; one slash for volumes of other kinds."""
    return posixpath.normpath(f"/{volume.host_path.lstrip('/')}/").rstrip("/") + "/"


def _hiding(volume: Volume, who: str) -> Advice:
    found = f"is mounted at {_DIRECTORY} and hides the shared memory of MPS, by which {who}; CUDA cannot start there"
    remedy = "Mount nothing there, or select other nodes"
    if volume.name.startswith(VOLUME):
        remedy = (
            f"Select only nodes that share GPUs by MPS ({GPU_SHARING}: mps), where no volume is injected, or only "
            "nodes that do not"
        )
    return Advice(f"spec.volumes[{volume.name}]", found, remedy, follows_nodes=True)


def _unfit(volume: Volume, limit: int | None, *, has_several: bool) -> Advice | None:
    """Advice about a volume that is larger than the memory `limit` of who mounts it, on disk, or small for several
    GPUs.
    """
    size = positive(volume.size_limit)
    if size is not None and limit is not None and size > limit:
        counts = f"what is in {_DIRECTORY} counts against the memory limit of {_text(limit)}"
        found = f"sizeLimit is {_text(size)}, and {counts}; the kernel kills the container before the volume is full"
        return Advice(_place(volume), found, f"Raise resources.limits.memory above {_text(size)}, or lower sizeLimit")
    if volume.is_memory:
        if size is None or size >= _GIB or not has_several or volume.name.startswith(VOLUME):
            return None
        found = f"sizeLimit is {_text(size)}, and NCCL and data loaders of several GPUs fill {_DIRECTORY} with more"
        return Advice(_place(volume), found, "Set sizeLimit to 1Gi or more")
    if volume.is_huge or _path(volume).startswith(("/dev/", "/run/")):
        return None
    found = f"is mounted at {_DIRECTORY} and is on disk, which slows down all that processes share there"
    return Advice(f"spec.volumes[{volume.name}]", found, "Mount an emptyDir with medium: Memory")


def _text(size: int) -> str:
    text = format_bytes(size)
    return f"{text} bytes" if text.isdigit() else text


def _limits(pod: Pod) -> dict[str, int | None]:
    """Volume -> bytes of memory that the containers which mount it may use together; None without a limit."""
    together: dict[str, int | None] = {}
    for container in pod.lasting_containers():
        for name in {mount.volume for mount in container.mounts}:
            before, own = together.get(name, 0), container.memory_limit
            together[name] = None if before is None or own is None else before + own
    of_pod = pod.memory_limit
    if of_pod is None:
        return together
    return {name: of_pod if total is None else min(total, of_pod) for name, total in together.items()}


def _without_a_limit(pod: Pod, container: Container, volume: Volume) -> Advice | None:
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


def _runs_with_apps(container: Container) -> bool:
    return container.list_name != INIT or container.is_sidecar


def _volume_of_a_sibling(pod: Pod) -> str | None:
    """The memory volume that an app container or a sidecar already mounts at /dev/shm."""
    memory = {volume.name for volume in pod.volumes if volume.is_memory}
    if not memory:
        return None
    mounts = (container.mounts_at(_DIRECTORY) for container in pod.lasting_containers() if _runs_with_apps(container))
    return next((m.volume for m in mounts if m is not None and m.volume in memory and not m.sub_path), None)


def _free_name(pod: Pod) -> str:
    taken = {volume.name for volume in pod.volumes}
    taken.update(mount.volume for container in pod.containers for mount in container.mounts)
    name, number = VOLUME, 2
    while name in taken:
        name, number = f"{VOLUME}-{number}", number + 1
    return name


def _size(pod: Pod, settings: Settings, having: Sequence[Container]) -> tuple[int, list[Advice]]:
    """Bytes of the volume, and advice about them."""
    containers = [container for container in having if _runs_with_apps(container)] or having
    limits = [container.memory_limit for container in containers if container.memory_limit is not None]
    of_pod = [] if pod.memory_limit is None else [pod.memory_limit]
    limit = min([*([max(limits)] if limits else []), *of_pod], default=None)
    where = "spec.volumes"
    if limit is None:
        size = settings.size or _WITHOUT_LIMIT
        if any(is_some(container.limits.get("memory")) for container in containers):
            return size, []  # a limit that an operator fills in later
        if all(only_shows_gpus(container.words) for container in containers):
            return size, []
        found = f"{_DIRECTORY} may take {_text(size)} of the node's memory, because no container has a memory limit"
        return size, [Advice(where, found, "Set resources.limits.memory", fault=NO_MEMORY_LIMIT)]
    if settings.size is None:
        size = min(max(int(limit * settings.memory_fraction), _WITHOUT_VOLUME), limit)
        return size - size % 1024 or size, []  # whole KiB are printed with a unit
    if settings.size <= limit:
        return settings.size, []
    wanted = _text(settings.size)
    found = f"{_DIRECTORY} gets {_text(limit)}, which is the memory limit, instead of {wanted}"
    return limit, [Advice(where, found, f"Raise resources.limits.memory to {wanted} or more")]


RULE = Rule(
    key="sharedMemory",
    promise="Containers with GPUs get a memory-backed /dev/shm.",
    problem='Data loaders of PyTorch die of a bus error and NCCL of "No space left on device", because /dev/shm '
    "has only 64 MiB.",
    example=Example(training_pod(resources="{limits: {nvidia.com/gpu: 2, memory: 64Gi}}")),
    settings=Settings,
    mutate=mutate,
    validate=validate,
    only_advises=True,
)
