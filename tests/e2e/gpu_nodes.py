"""Nodes as GPU Feature Discovery and the device plugin leave them, on a real API server."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.e2e.control_plane import ControlPlane

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
NODES = {
    "v100": ("470.82.01", "Tesla-V100-SXM2-32GB", "7.0"),
    "t4": ("535.183.01", "Tesla-T4-SHARED", "7.5"),
    "a100": ("550.54.15", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "8.0"),
    "l4": ("550.54.15", "NVIDIA-L4", "8.9"),
    "h100": ("580.95.05", "NVIDIA-H100-80GB-HBM3", "9.0"),
    "b200": ("580.95.05", "NVIDIA-B200", "10.0"),
}
"""Four driver branches and six products: name of the node, driver, product, compute capability."""
_CUDA = {"470": "11.4", "535": "12.2", "550": "12.4", "580": "13.0", "595": "13.2"}


def labels(driver: str, product: str, compute: str) -> dict[str, str]:
    """What GPU Feature Discovery writes for one GPU of this kind."""
    branch, minor, revision = driver.split(".")
    major, minor_cuda = _CUDA[branch].split(".")
    compute_major, compute_minor = compute.split(".")
    return {
        "kubernetes.io/arch": "amd64",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.compute.major": compute_major,
        "nvidia.com/gpu.compute.minor": compute_minor,
        "nvidia.com/cuda.driver-version.full": driver,
        "nvidia.com/cuda.driver-version.major": branch,
        "nvidia.com/cuda.driver-version.minor": minor,
        "nvidia.com/cuda.driver-version.revision": revision,
        "nvidia.com/cuda.runtime-version.full": _CUDA[branch],
        "nvidia.com/cuda.runtime-version.major": major,
        "nvidia.com/cuda.runtime-version.minor": minor_cuda,
    }


@contextmanager
def present(plane: ControlPlane) -> Iterator[None]:
    """The six nodes, as long as the block runs."""
    try:
        for name, what in NODES.items():
            add_node(plane, name, labels(*what))
        yield
    finally:
        for name in NODES:
            remove_node(plane, name)


def cuda_pod(name: str, image: str, on: str = "", **spec: Any) -> dict[str, Any]:
    """A pod with one GPU that runs this image, on one node where one is named."""
    resources = {"requests": {"cpu": "100m"}, "limits": {"memory": "4Gi", "nvidia.com/gpu": "1"}}
    container = {"name": "main", "image": image, "resources": resources}
    selector = {"nodeSelector": {"kubernetes.io/hostname": on}} if on else {}
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    spec = {"containers": [container], "tolerations": tolerations, **selector, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def add_node(
    plane: ControlPlane, name: str, found: dict[str, str], *, gpus: int = 8, resource: str = "nvidia.com/gpu"
) -> None:
    """A node that is ready for pods, with these labels and GPUs; one without GPUs has no taint either."""
    metadata = {"name": name, "labels": {**found, "kubernetes.io/hostname": name}}
    taints = [TAINT] if gpus else []
    status, answer = plane.raw("POST", "/api/v1/nodes", {"metadata": metadata, "spec": {"taints": taints}})
    assert status == 201, answer
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "110", **({resource: str(gpus)} if gpus else {})}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    state = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
    change(plane, name, {"status": state}, subresource="/status")
    change(plane, name, {"spec": {"taints": taints}})  # without the one that marks every new node as not ready


def change(plane: ControlPlane, name: str, patch: dict[str, Any], subresource: str = "") -> None:
    """Merge into a node."""
    status, answer = plane.raw("PATCH", f"/api/v1/nodes/{name}{subresource}", patch)
    assert status == 200, answer


def remove_node(plane: ControlPlane, name: str) -> None:
    """Delete a node."""
    plane.raw("DELETE", f"/api/v1/nodes/{name}")
