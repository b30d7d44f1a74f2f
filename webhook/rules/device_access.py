"""Ways to GPUs that a pod has without requesting them: variables, paths on the node, and annotations.

Variables: NVIDIA/nvidia-container-toolkit, internal/config/image/cuda_image.go (a value that is set, and be it empty,
is what counts; without one an image with CUDA_VERSION and no NVIDIA_REQUIRE_CUDA gets all GPUs); kubernetes,
pkg/kubelet/kubelet_pods.go (a pod's env beats its envFrom, and both beat what a device plugin sets).

Paths: nvidia-container-toolkit (pkg/nvcdi, cmd/nvidia-ctk; mounts that it reads as requests: cuda_image.go), the
driver's README (device nodes, /proc/driver/nvidia), Documentation/admin-guide/devices.txt of Linux (195 nvidia, 226
DRM).

Annotations: CRI-O (server/container_create_linux.go; internal/factory/container copies a pod's annotations to each of
its containers, where the NVIDIA runtime reads cdi.k8s.io/*), containerd (pod_annotations of a runtime), the NRI plugin
of nvidia-container-toolkit (nvidia.cdi.k8s.io), the device injector of containerd/nri, and that of GKE, which takes
paths alone (nri_device_injector in GoogleCloudPlatform/container-engine-accelerators). The daemons of GPUDirect-TCPX
and -TCPXO get all GPUs of their node from the device injector of GKE.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

from webhook.model.accelerators import Vendor
from webhook.model.container import EPHEMERAL, Container, Mount
from webhook.model.shape import spelled
from webhook.rules.rule import Violation

DEVICE_LIST = "/run/nvidia-container-devices"
"""Each mount whose path begins like this is a GPU to the toolkit: .../all, .../0, .../cdi/nvidia.com/gpu/all. It
compares with /var/run/... as a text, without a slash at the end; /var/run leads to /run on every node."""
_DEVICE_FILE = re.compile(
    r"(.*/)?dev/(nvidia([0-9]|ctl|-(uvm|modeset|caps|nvswitch|nvlink|vgpu|drm))[^/]*(/.*)?|nvidia"
    r"|dri(/.*)?|kfd|char/(195|226):[^/]*)"
    r"|/dev/nvidia.*"
    r"|(.*/)?(var/)?run/nvidia(/driver(/.*)?)?"
    r"|(.*/)?proc/driver/nvidia/capabilities(/.*)?",
    re.DOTALL,
)
"""Device files, also behind another name of the root such as /proc/1/root; the root of a driver that runs in a
container, with device files of its own; and the capabilities of MIG."""
_LONGEST = 80


def is_device_file(host_path: str) -> bool:
    """Whether a path on the node is a GPU's device file, or a folder that is there for GPUs alone.

    >>> is_device_file("//dev/./nvidia0"), is_device_file("/run/nvidia/driver"), is_device_file("/dev")
    (True, True, False)
    """
    if "nvidia" not in host_path and "dev" not in host_path:
        return False
    return _DEVICE_FILE.fullmatch(_plain(host_path)) is not None


def requests_devices(mount: Mount) -> bool:
    """Whether the container toolkit takes the mount for the request of a GPU, however its path is spelled.

    >>> asks_for_devices(Mount("null", "/var/run/nvidia-container-devices/all"))
    True
    """
    if "-container-devices" not in mount.path:
        return False
    return _plain(mount.path).removeprefix("/var").startswith(DEVICE_LIST)


def shown(path: str) -> str:
    """A path for messages: as it is written, and a long one in quotes and cut."""
    return path if len(path) <= _LONGEST and path.isprintable() else spelled(path)


def _plain(path: str) -> str:
    """The path from the root on; the kubelet reads a relative one from there."""
    return posixpath.normpath("/" + path.lstrip("/"))


GKE_KEYS = "devices.gke.io"
"""What the keys of GKE's device injector begin with. The values are YAML with paths on the node."""
DEVICE_KEYS = (
    "cdi.k8s.io/",
    "cdi-devices.nri.io",
    "cdi-devices.noderesource.dev",
    "devices.nri.io",
    "devices.noderesource.dev",
    "mounts.nri.io",
    "mounts.noderesource.dev",
)
"""What the keys begin with whose values name devices, by names and numbers of which any may be a GPU's, or mounts, of
which any may be on the toolkit's device list."""
VENDORS_KEYS = ".cdi.k8s.io"
"""What is in the keys, before the slash, by which plugins of vendors give devices; NVIDIA has nvidia.cdi.k8s.io."""
PATH_KEYS = ("devices.crio.io", "io.kubernetes.cri-o.Devices", GKE_KEYS)
"""What the keys begin with whose values are paths on the node; /dev/fuse is one that people need."""

_ALL_KEYS = (*DEVICE_KEYS, *PATH_KEYS)
_GPU_PATH = re.compile(r"/(nvidia|kfd|dri\b|(195|226):)|[\\!]")
"""However the way there is spelled. In YAML an escape or a tag may hide it, which no path of a device has."""
_HIDING = ("\\", "!")
_NVIDIA_GPU = re.compile(r"(?:/nvidia|/195:)([0-9]+)")


def requesting_devices(annotations: Mapping[str, Any]) -> Iterator[str]:
    """The keys of annotations that ask a container runtime for GPUs.

    >>> list(asking_for_devices({"cdi.k8s.io/a": "nvidia.com/gpu=all", "devices.crio.io": "/dev/fuse"}))
    ['cdi.k8s.io/a']
    """
    for key in [key for key in annotations if key.startswith(_ALL_KEYS) or VENDORS_KEYS in key]:
        if key.startswith(PATH_KEYS):
            if _GPU_PATH.search(str(annotations[key])) is not None:
                yield key
        elif key.startswith(DEVICE_KEYS) or VENDORS_KEYS in key.partition("/")[0]:
            yield key


def named_gpus(value: object) -> int | None:
    """How many GPUs of NVIDIA the value of an annotation names by the paths of their device files; None where an escape
    or a tag may hide some.

    >>> named_gpus("[{path: /dev/nvidia0}, {path: /dev/nvidia1}, {path: /dev/nvidiactl}]")
    2
    """
    text = str(value)
    return None if any(sign in text for sign in _HIDING) else len(set(_NVIDIA_GPU.findall(text)))


VARIABLE = "NVIDIA_VISIBLE_DEVICES"
HARMLESS = frozenset({"", "void", "none"})
"""Values with which the container toolkit gives no device (its cmd/nvidia-container-runtime and docs)."""
LEGACY = "CUDA_VERSION"
"""What images had before there was `VARIABLE`; it is taken for `all` where neither that nor `MODERN` is set."""
MODERN = "NVIDIA_REQUIRE_CUDA"
_DEBUG = f"kubectl debug --env={VARIABLE}=void"


def requests_nvidia(container: Container) -> bool:
    """Whether the container asks for a GPU of NVIDIA, so that a device plugin sets the variable."""
    return bool(container.gpu_count) and any(
        one.count and one.accelerator.vendor is Vendor.NVIDIA for one in container.gpu_requests
    )


def exposing_value(container: Container) -> Violation | None:
    """What is wrong with the variable where the container sets it itself."""
    if not container.sets_env(VARIABLE):
        return None
    entries = [value for name, value in container.env if name == VARIABLE]
    where = f"{container.path}.env[{VARIABLE}]"
    if requests_nvidia(container) and not all(one.accelerator.by_dra for one in container.gpu_requests):
        return Violation(
            where,
            f"is {_spell(entries[-1])} in a container that requests GPUs",
            "the device plugin sets it, and a value in the pod beats the plugin's",
            "Remove the variable",
        )
    exposing = [value for value in entries if value not in HARMLESS]
    if not exposing:
        return None
    return Violation(
        where,
        f"is {_spell(exposing[-1])} in a container without NVIDIA GPUs in its limits",
        "it may only be void, none or empty there",
        "Request a GPU in resources.limits, or set it to void",
    )


def shows_all(container: Container) -> bool:
    """Whether the variable is set to `all`, in these words."""
    return dict(container.env).get(VARIABLE) == "all"


def set_elsewhere(container: Container) -> Violation | None:
    """What is wrong where a ConfigMap or Secret may set the variable, and nothing in the pod beats it."""
    names = (VARIABLE,) if requests_nvidia(container) else (VARIABLE, LEGACY)
    if not container.env_from or container.sets_env(VARIABLE) or not any(map(container.may_take_env, names)):
        return None
    remedy = f"Take single keys with env.valueFrom, or set a prefix that {VARIABLE} does not begin with"
    if not requests_nvidia(container):
        remedy = f"Set {VARIABLE} to void in env, which beats envFrom"
    return Violation(
        f"{container.path}.envFrom",
        f"may set {VARIABLE}, which the ConfigMap or Secret decides",
        "nobody can see here which GPUs the container gets",
        remedy,
    )


def left_to_the_image(container: Container, runtime: str) -> Violation | None:
    """What is wrong where a container without GPUs runs under the NVIDIA runtime and leaves the variable to its image.

    With CUDA_VERSION in the pod it is certain that it sees all GPUs, unless the image says otherwise.
    """
    if requests_nvidia(container) or container.sets_env(VARIABLE):
        return None
    if sets_legacy(container):
        return Violation(
            f"{container.path}.env[{LEGACY}]",
            f"is set {runtime} without {VARIABLE}, in a container that requests no NVIDIA GPU",
            "the container toolkit takes that for an old image of CUDA, which sees every GPU of its node",
            f"Request a GPU in resources.limits, or set {VARIABLE} to void",
            brief=f"is set {runtime} without {VARIABLE}; such a container sees every GPU of its node",
        )
    is_debugger = container.list_name == EPHEMERAL
    return Violation(
        f"{container.path}.env",
        f"has no {VARIABLE} {runtime}, and the container requests no NVIDIA GPU",
        "its image may set the variable, as those of CUDA do, and then it sees every GPU of its node",
        f"Use {_DEBUG}" if is_debugger else f"Request a GPU in resources.limits, or set {VARIABLE} to void",
        brief=f"has no {VARIABLE} {runtime}; its image may set it, and then it sees every GPU of its node",
    )


def sets_legacy(container: Container) -> bool:
    """Whether the container makes its image one that gets all GPUs by default."""
    last = dict(container.env)
    return last.get(LEGACY, "") != "" and _may_be_empty(last.get(MODERN, ""))


def _may_be_empty(value: str | None) -> bool:
    """Whether a variable may have no value: one that comes from elsewhere, or is made of other variables, may."""
    return not value or "$(" in value


def _spell(value: str | None) -> str:
    return "set by valueFrom" if value is None else spelled(value)
