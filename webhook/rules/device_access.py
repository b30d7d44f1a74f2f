"""Ways in which a pod uses GPUs without requesting them: variables, paths on the node, and annotations.

Variables: NVIDIA/nvidia-container-toolkit, internal/config/image/cuda_image.go (a value that is set counts, even an
empty one; without one, an image with CUDA_VERSION and no NVIDIA_REQUIRE_CUDA gets all GPUs); kubernetes,
pkg/kubelet/kubelet_pods.go (env of a container takes precedence over its envFrom, and both over a device plugin).

Paths: nvidia-container-toolkit (pkg/nvcdi, cmd/nvidia-ctk; mounts that it takes for requests: cuda_image.go), the
driver's README (device nodes, /proc/driver/nvidia), Documentation/admin-guide/devices.txt of Linux (195 nvidia, 226
DRM).

Annotations: CRI-O (server/container_create_linux.go; internal/factory/container copies a pod's annotations to each of
its containers, where the NVIDIA runtime reads cdi.k8s.io/*), containerd (pod_annotations of a runtime), the NRI plugin
of nvidia-container-toolkit (nvidia.cdi.k8s.io), the device injector of containerd/nri, and the device injector of GKE,
which takes paths only (nri_device_injector in GoogleCloudPlatform/container-engine-accelerators). The daemons of
GPUDirect-TCPX and -TCPXO get all GPUs of their node from the device injector of GKE.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

from webhook.model.accelerators import Vendor
from webhook.model.pod import EPHEMERAL, Container, Mount
from webhook.model.shape import spelled
from webhook.rules.rule import Violation

DEVICE_LIST = "/run/nvidia-container-devices"
"""The toolkit takes a mount whose path begins so for a request of a GPU: .../all, .../0, .../cdi/nvidia.com/gpu/all. It
compares with the text /var/run/..., without a slash at the end. On every node /var/run leads to /run."""
_DEVICE_FILE = re.compile(
    r"(.*/)?dev/(nvidia([0-9]|ctl|-(uvm|modeset|caps|nvswitch|nvlink|vgpu|drm))[^/]*(/.*)?|nvidia"
    r"|dri(/.*)?|kfd|char/(195|226):[^/]*)"
    r"|/dev/nvidia.*"
    r"|(.*/)?(var/)?run/nvidia(/driver(/.*)?)?"
    r"|(.*/)?proc/driver/nvidia/capabilities(/.*)?",
    re.DOTALL,
)
"""Device files, also below another path to the root such as /proc/1/root; the root of a driver in a container, with
device files of its own; and the capabilities of MIG."""


def is_device_file(host_path: str) -> bool:
    """Whether a path on the node is a device file of a GPU, or a folder that is there only for GPUs.

    >>> is_device_file("//dev/./nvidia0"), is_device_file("/run/nvidia/driver"), is_device_file("/dev")
    (True, True, False)
    """
    if "nvidia" not in host_path and "dev" not in host_path:
        return False
    return _DEVICE_FILE.fullmatch(_plain(host_path)) is not None


def requests_devices(mount: Mount) -> bool:
    """Whether the container toolkit takes the mount for a request of a GPU, in any spelling of its path.

    >>> requests_devices(Mount("null", "/var/run/nvidia-container-devices/all"))
    True
    """
    if "-container-devices" not in mount.path:
        return False
    return _plain(mount.path).removeprefix("/var").startswith(DEVICE_LIST)


def _plain(path: str) -> str:
    """The path from the root. The kubelet reads relative paths from the root, too."""
    return posixpath.normpath("/" + path.lstrip("/"))


GKE_KEYS = "devices.gke.io"
"""The beginning of keys of GKE's device injector. The values are YAML with paths on the node."""
DEVICE_KEYS = (
    "cdi.k8s.io/",
    "cdi-devices.nri.io",
    "cdi-devices.noderesource.dev",
    "devices.nri.io",
    "devices.noderesource.dev",
    "mounts.nri.io",
    "mounts.noderesource.dev",
)
"""Beginnings of keys whose values name devices, which may be GPUs, or mounts, which may stand at `DEVICE_LIST`."""
VENDORS_KEYS = ".cdi.k8s.io"
"""The end of the domain of keys by which plugins of vendors give devices; NVIDIA's is nvidia.cdi.k8s.io."""
PATH_KEYS = ("devices.crio.io", "io.kubernetes.cri-o.Devices", GKE_KEYS)
"""Beginnings of keys whose values are paths on the node. Some paths are no GPUs: people need /dev/fuse."""

_ALL_KEYS = (*DEVICE_KEYS, *PATH_KEYS)
_GPU_PATH = re.compile(r"/(nvidia|kfd|dri\b|(195|226):)|[\\!]")
"""A device file of a GPU in any spelling. An escape or a tag of YAML counts, too: it may hide one."""
_NVIDIA_GPU = re.compile(r"(?:/nvidia|/195:)([0-9]+)")


def requesting_devices(annotations: Mapping[str, Any]) -> Iterator[str]:
    """The keys of annotations that request GPUs from a container runtime.

    >>> list(requesting_devices({"cdi.k8s.io/a": "nvidia.com/gpu=all", "devices.crio.io": "/dev/fuse"}))
    ['cdi.k8s.io/a']
    """
    for key in [key for key in annotations if key.startswith(_ALL_KEYS) or VENDORS_KEYS in key]:
        if key.startswith(PATH_KEYS):
            if _GPU_PATH.search(str(annotations[key])) is not None:
                yield key
        elif key.startswith(DEVICE_KEYS) or VENDORS_KEYS in key.partition("/")[0]:
            yield key


def named_gpus(value: object) -> int | None:
    """How many GPUs of NVIDIA the value of an annotation names by the paths of their device files; None if an escape or
    a tag may hide some.

    >>> named_gpus("[{path: /dev/nvidia0}, {path: /dev/nvidia1}, {path: /dev/nvidiactl}]")
    2
    """
    text = str(value)
    return None if "\\" in text or "!" in text else len(set(_NVIDIA_GPU.findall(text)))


VARIABLE = "NVIDIA_VISIBLE_DEVICES"
HARMLESS = frozenset({"", "void", "none"})
"""Values for which the container toolkit gives no device (its cmd/nvidia-container-runtime and docs)."""
LEGACY = "CUDA_VERSION"
"""The variable of images that are older than `VARIABLE`. It means all GPUs if neither `VARIABLE` nor `MODERN` is
set."""
MODERN = "NVIDIA_REQUIRE_CUDA"


def requests_nvidia(container: Container) -> bool:
    """Whether the container requests a GPU of NVIDIA, so that a device plugin sets the variable."""
    return bool(container.gpu_count) and any(
        one.count and one.accelerator.vendor is Vendor.NVIDIA for one in container.gpu_requests
    )


def exposing_value(container: Container, *, by_claim: bool) -> Violation | None:
    """The violation of a container that sets the variable itself; None if it does not, or to a harmless value."""
    if not container.sets_env(VARIABLE):
        return None
    entries = [value for name, value in container.env if name == VARIABLE]
    found, remedy = (
        "in a container without NVIDIA GPUs in its limits",
        "Request a GPU in resources.limits, or set it to void",
    )
    allowed = "it may only be void, none or empty there"
    if requests_nvidia(container) and not all(one.accelerator.by_dra for one in container.gpu_requests):
        found, remedy = "in a container that requests GPUs", "Remove the variable"
        allowed = "the device plugin sets it, and a value in the pod beats the plugin's"
    else:
        entries = [value for value in entries if value not in HARMLESS]
    if not entries:
        return None
    if by_claim:
        found, remedy = f"{found}, which gets GPUs by a claim", "Remove the variable"
    value = "set by valueFrom" if entries[-1] is None else spelled(entries[-1])
    return Violation(f"{container.path}.env[{VARIABLE}]", f"is {value} {found}", allowed, remedy)


def set_elsewhere(container: Container) -> Violation | None:
    """The violation of a container whose ConfigMap or Secret may set the variable, if `env` does not set it."""
    requests = requests_nvidia(container)
    names = (VARIABLE,) if requests else (VARIABLE, LEGACY)
    if not container.env_from or container.sets_env(VARIABLE) or not any(map(container.may_take_env, names)):
        return None
    remedy = f"Set {VARIABLE} to void in env, which beats envFrom"
    if requests:
        remedy = f"Take single keys with env.valueFrom, or set a prefix that {VARIABLE} does not begin with"
    found, why = (
        f"may set {VARIABLE}, which the ConfigMap or Secret decides",
        "nobody can see here which GPUs the container gets",
    )
    return Violation(f"{container.path}.envFrom", found, why, remedy)


def left_to_the_image(container: Container, runtime: str) -> Violation | None:
    """The violation of a container without GPUs under the NVIDIA runtime that leaves the variable to its image.

    If the pod sets CUDA_VERSION, the container sees all GPUs unless its image sets the variable.
    """
    if requests_nvidia(container) or container.sets_env(VARIABLE):
        return None
    remedy = f"Request a GPU in resources.limits, or set {VARIABLE} to void"
    if sets_legacy(container):
        found = f"is set {runtime} without {VARIABLE}, in a container that requests no NVIDIA GPU"
        why = "the container toolkit takes that for an old image of CUDA, which sees every GPU of its node"
        return Violation(f"{container.path}.env[{LEGACY}]", found, why, remedy)
    if container.list_name == EPHEMERAL:
        remedy = f"Use kubectl debug --env={VARIABLE}=void"
    found = f"has no {VARIABLE} {runtime.rstrip(',')}, and the container requests no NVIDIA GPU"
    why = "its image may set the variable, as CUDA images do, and then the container sees every GPU of its node"
    return Violation(f"{container.path}.env", found, why, remedy)


def sets_legacy(container: Container) -> bool:
    """Whether the container's variables give it all GPUs by default."""
    last = dict(container.env)
    modern = last.get(MODERN, "")  # empty, or perhaps empty: from elsewhere, or made of other variables
    return last.get(LEGACY, "") != "" and (not modern or "$(" in modern)
