"""Oracles of the rules about what containers find where they run."""

import posixpath
from collections.abc import Iterator
from fractions import Fraction

from tests.lab.fuzz.oracles.places import candidates, shares
from tests.lab.fuzz.pods import IMAGES
from tests.lab.fuzz.raw import (
    SHM,
    Raw,
    amount,
    asks_nvidia,
    at,
    count_of,
    gpus_of,
    has_passthrough,
    lasting,
    maps,
    sets,
)
from tests.lab.fuzz.seen import Complaints, Seen, exactly

_CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"


def runtime_class(seen: Seen) -> Complaints:
    """A pod with NVIDIA GPUs, not for Windows, that names no RuntimeClass gets nvidia; what is named stays."""
    named, found = (at(pod, "spec", "runtimeClassName") for pod in (seen.before, seen.after))
    is_due = named is None and asks_nvidia(seen.before) and not has_passthrough(seen.before)
    is_due = is_due and at(seen.before, "spec", "os", "name") != "windows"
    expected = "nvidia" if is_due and seen.completes("runtimeClass") else named
    if found != expected:
        yield f"the RuntimeClass is {found!r} instead of {expected!r}"


def pairs(seen: Seen) -> Iterator[tuple[Raw, Raw]]:
    """Every init and app container before and after."""
    yield from zip(lasting(seen.before), lasting(seen.after), strict=True)


def shared_memory(seen: Seen) -> Complaints:
    """A container with enough GPUs has something at /dev/shm; a new volume is memory, within the limits of the pod.

    The node's own /dev and /dev/shm are something, and Windows has none. MPS, on one of the nodes, has its own.
    """
    least = seen.settings["sharedMemory"]["minGpus"]
    volumes = {one.get("name"): one for one in maps(seen.after, "spec", "volumes")}
    is_open = all(map(shares, candidates(seen.after, whatever_taints=True)))
    for before, after in pairs(seen):
        old = [mount for mount in maps(before, "volumeMounts") if _is_shm(mount)]
        new = maps(after, "volumeMounts")[len(maps(before, "volumeMounts")) :]
        is_due = count_of(before) >= least and not old and not at(seen.before, "spec", "hostIPC")
        is_due = is_due and at(seen.before, "spec", "os", "name") != "windows"
        own = [at(volumes.get(mount["name"]), "hostPath", "path") for mount in maps(before, "volumeMounts")]
        is_due = is_due and "/dev" not in own and SHM not in own
        if not (is_due and is_open):
            yield from exactly(
                bool(new), is_due and seen.completes("sharedMemory"), f"{SHM} mounted in {after.get('name')}"
            )
        for mount in new:
            if not _is_shm(mount) or at(volumes.get(mount["name"]), "emptyDir", "medium") != "Memory":
                yield f"mounted {mount}, which is no memory at {SHM}"
    added = maps(seen.after, "spec", "volumes")[len(maps(seen.before, "spec", "volumes")) :]
    asking = [one for one in lasting(seen.before) if count_of(one) >= least]
    ending = [one for one in maps(seen.before, "spec", "initContainers") if one.get("restartPolicy") != "Always"]
    staying = [one for one in asking if one not in ending] or asking
    limits = [at(one, "resources", "limits", "memory") for one in staying]
    bounds = [bound for limit in limits if (bound := amount(limit)) is not None and bound > 0]
    for volume in added:
        size = amount(at(volume, "emptyDir", "sizeLimit")) or Fraction(0)
        if size <= 0 or (bounds and size > max(bounds)):
            yield f"{volume} is larger than the memory of its container"
    if len(added) > 1:
        yield f"{len(added)} volumes for one {SHM}"
    if seen.judged is not None:
        yield from _large_volumes(seen, least)


def _large_volumes(seen: Seen, least: int) -> Complaints:
    """A memory volume at /dev/shm is told that may hold more than the limits of all who mount it, and no other.

    That some GPU container has no limit at all is left to memoryAndCpu, which is on in every namespace.
    """
    told = {finding.field for finding in seen.advice("sharedMemory")}
    everyone = lasting(seen.after)
    mounted = {
        mount["name"]
        for one in everyone
        for mount in [mount for mount in maps(one, "volumeMounts") if _is_shm(mount)][:1]
        if count_of(one) >= least
    }
    for volume in maps(seen.after, "spec", "volumes"):
        name = volume["name"]
        users = [one for one in everyone if any(mount["name"] == name for mount in maps(one, "volumeMounts"))]
        limits = [amount(at(one, "resources", "limits", "memory")) or 0 for one in users]
        size = amount(at(volume, "emptyDir", "sizeLimit")) or 0
        is_memory = at(volume, "emptyDir", "medium") == "Memory"
        is_large = is_memory and name in mounted and all(limits) and size > sum(limits)
        is_large = is_large and at(seen.after, "spec", "os", "name") != "windows"
        may_hide = any(map(shares, candidates(seen.after, whatever_taints=True)))
        may_hide = may_hide or ".shared" in str([one.get("resources") for one in everyone])  # maybe a share by MPS
        if not (is_large and may_hide):
            yield from exactly(f"spec.volumes[{name}].emptyDir" in told, is_large, f"told of {name} at {SHM}")


def _is_shm(mount: Raw) -> bool:
    return posixpath.normpath("/" + str(mount.get("mountPath")).lstrip("/")) == SHM


def nccl_env(seen: Seen) -> Complaints:
    """A container with enough GPUs has the variables of the platform, unless it sets or may take them itself."""
    settings = seen.settings["ncclEnv"]
    for before, after in pairs(seen):
        for name, value in settings["env"].items():
            may = not settings["alsoWithEnvFrom"] and _may_take(before, name)
            is_due = count_of(before) >= settings["minGpus"] and not sets(before, name) and not may
            is_due = is_due and not (name == "NCCL_IB_HCA" and _is_in_another_network(seen.before))
            yield from _variable(seen, "ncclEnv", (before, after), (name, value), is_due=is_due)


def _is_in_another_network(pod: Raw) -> bool:
    networks = at(pod, "metadata", "annotations", "k8s.v1.cni.cncf.io/networks")
    return bool(at(pod, "spec", "hostNetwork") or networks)


def driver_capabilities(seen: Seen) -> Complaints:
    """A container with NVIDIA GPUs has the variable, unless it sets it or may take it elsewhere."""
    settings = seen.settings["driverCapabilities"]
    for before, after in pairs(seen):
        asks = any(name.startswith("nvidia.com/") for name in gpus_of(before)) and not has_passthrough(seen.before)
        is_due = asks and not sets(before, _CAPABILITIES) and not _may_take(before, _CAPABILITIES)
        value = ",".join(settings["capabilities"])
        yield from _variable(seen, "driverCapabilities", (before, after), (_CAPABILITIES, value), is_due=is_due)


def _variable(seen: Seen, rule: str, pair: tuple[Raw, Raw], wanted: tuple[str, str], *, is_due: bool) -> Complaints:
    before, after = pair
    name, value = wanted
    added = [one for one in maps(after, "env")[len(maps(before, "env")) :] if one.get("name") == name]
    yield from exactly(bool(added), is_due and seen.completes(rule), f"{name} set in {after.get('name')}")
    if added not in ([], [{"name": name, "value": value}]):
        yield f"{name} set as {added}"


def _may_take(container: Raw, name: str) -> bool:
    return any(name.startswith(one.get("prefix") or "") for one in maps(container, "envFrom"))


def image_pinning(seen: Seen) -> Complaints:
    """GPU containers whose image says no version are refused, each of them, and no others."""
    refused = {finding.field for finding in seen.violations("imagePinning")}
    for where, one in named(seen.after, "image"):
        pinned = IMAGES.get(str(one.get("image")))
        if pinned is not None or count_of(one) == 0:
            yield from exactly(where in refused, count_of(one) > 0 and not pinned, f"refused {where}")


def named(pod: Raw, field: str) -> Iterator[tuple[str, Raw]]:
    """Every init and app container with the place of one of its fields, as people read it."""
    for part in ("initContainers", "containers"):
        yield from ((f"spec.{part}[{one.get('name')}].{field}", one) for one in maps(pod, "spec", part))
