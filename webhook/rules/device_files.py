"""Ways to the device files of GPUs on a node: host paths, and mounts that the container toolkit reads as requests.

Sources: NVIDIA/nvidia-container-toolkit (internal/config/image/cuda_image.go, pkg/nvcdi, cmd/nvidia-ctk), the driver's
README (device nodes, /proc/driver/nvidia), Documentation/admin-guide/devices.txt of Linux (195 nvidia, 226 DRM).
"""

import posixpath
import re

from webhook.model.container import Mount
from webhook.model.shape import spelled

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


def asks_for_devices(mount: Mount) -> bool:
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
