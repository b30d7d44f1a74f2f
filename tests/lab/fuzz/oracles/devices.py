"""The oracle of the rule that nobody gets a GPU without asking for one."""

import posixpath

from tests.lab.fuzz.raw import Raw, asks_nvidia, at, containers, gpus_of, has_passthrough, lasting, maps, reserved, sets
from tests.lab.fuzz.seen import Complaints, Seen, exactly

_VARIABLE = "NVIDIA_VISIBLE_DEVICES"
_LIST = "/var/run/nvidia-container-devices/"
_DEVICES = ("/dev/nvidia", "/dev/dri", "/dev/kfd", "/dev/char/195:", "/run/nvidia/driver", "/proc/1/root/dev/nvidia")
_RUNTIMES = ("nvidia", "nvidia-cdi", "nvidia-legacy")


def visible_devices(seen: Seen) -> Complaints:
    """The variable with a device, device files and privileges are refused; what reaches for no GPU never is.

    The variable may be set where the pod takes whole nodes, if the settings let it: by some GPU, that is.
    """
    refused = {finding.field for finding in seen.violations("visibleDevices")}
    may_take_nodes = seen.settings["visibleDevices"]["wholeNodes"] == "allow" and bool(reserved(seen.after))
    for name, one in containers(seen.after):
        where = f"spec.{name}[{one.get('name')}].env[{_VARIABLE}]"
        if _shows_gpus(one) and where not in refused and not may_take_nodes:
            yield f"not refused: {where}"
    yield from _must_be_refused(seen, refused)
    for volume in maps(seen.after, "spec", "volumes"):
        path = posixpath.normpath("/" + str(at(volume, "hostPath", "path") or "data").lstrip("/"))
        if path.startswith(_DEVICES) and f"spec.volumes[{volume.get('name')}].hostPath" not in refused:
            yield f"not refused: {path}"
    if refused and not _reaches_out(seen.after):
        yield f"refused for {sorted(refused)}, although it reaches for no GPU"
    asks = asks_nvidia(seen.before) and not has_passthrough(seen.before)
    for before, after in zip(lasting(seen.before), lasting(seen.after), strict=True):
        voids = [one for one in maps(after, "env")[len(maps(before, "env")) :] if one.get("name") == _VARIABLE]
        own = [name for name in gpus_of(before) if "amd.com" not in name and "intel.com" not in name]
        is_due = asks and not own and not sets(before, _VARIABLE) and not _shares(before)
        is_due = is_due and seen.completes("visibleDevices")
        yield from exactly(bool(voids), is_due, f"{_VARIABLE} set in {after.get('name')}")
        if voids not in ([], [{"name": _VARIABLE, "value": "void"}]):
            yield f"set {voids}"


def _must_be_refused(seen: Seen, refused: set[str]) -> Complaints:
    """Privileges in GPU pods and under the toolkit, its list of devices, and annotations for container runtimes."""
    runtime = at(seen.after, "spec", "runtimeClassName") in _RUNTIMES
    for name, one in containers(seen.after):
        where = f"spec.{name}[{one.get('name')}]"
        is_open = at(one, "securityContext", "privileged") is True and (reserved(seen.after) or runtime)
        if is_open and f"{where}.securityContext.privileged" not in refused:
            yield f"not refused: privileged {where}"
        for mount in maps(one, "volumeMounts"):
            path = posixpath.normpath("/" + str(mount.get("mountPath")).lstrip("/"))
            if path.startswith(_LIST) and f"{where}.volumeMounts[{mount.get('name')}]" not in refused:
                yield f"not refused: {path}"
    for key in at(seen.after, "metadata", "annotations") or {}:
        if key.startswith("cdi.k8s.io/") and f"metadata.annotations[{key}]" not in refused:
            yield f"not refused: {key}"


def _shows_gpus(container: Raw) -> bool:
    """Whether a container names devices in the variable, or has the plugin's value replaced."""
    entries = [one for one in maps(container, "env") if one.get("name") == _VARIABLE]
    asks = any(name.startswith("nvidia.com/") for name in gpus_of(container))
    return bool(entries) and (
        asks or any(one.get("value", "") not in ("", "void", "none") or one.get("valueFrom") for one in entries)
    )


def _shares(container: Raw) -> bool:
    """Whether another webhook may still give it a part of a GPU."""
    return any(
        name.startswith("nvidia.com/gpumem") for part in (at(container, "resources") or {}).values() for name in part
    )


def _reaches_out(pod: Raw) -> bool:
    """Whether anything in it is, by any stretch, a way to a GPU that it did not ask for."""
    spec = pod["spec"]
    if spec.get("runtimeClassName") or spec.get("nodeName") or at(pod, "metadata", "annotations"):
        return True
    if any(at(volume, "hostPath", "path") for volume in maps(spec, "volumes")):
        return True
    return any(
        one.get("envFrom")
        or any("devices" in str(mount.get("mountPath")) for mount in maps(one, "volumeMounts"))
        or at(one, "securityContext", "privileged")
        or any(str(entry.get("name")).startswith(("NVIDIA_", "CUDA_")) for entry in maps(one, "env"))
        for _, one in containers(pod)
    )
