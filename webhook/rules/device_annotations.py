"""Annotations of pods by which container runtimes and their plugins give devices to containers.

Sources: CRI-O (server/container_create_linux.go; internal/factory/container copies a pod's annotations to each of its
containers, where the NVIDIA runtime reads cdi.k8s.io/*), containerd (pod_annotations of a runtime), the NRI plugin of
nvidia-container-toolkit (nvidia.cdi.k8s.io), the device injector of containerd/nri, and that of GKE, which takes paths
alone (nri_device_injector in GoogleCloudPlatform/container-engine-accelerators). By the latter the daemons of
GPUDirect-TCPX and -TCPXO get all GPUs of their node.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

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


def asking_for_devices(annotations: Mapping[str, Any]) -> Iterator[str]:
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
