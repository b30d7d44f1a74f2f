"""Nodes whose GPUs are offered by ResourceSlices, written by hand, as DRA drivers and a kubelet leave them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.e2e.control_plane import ControlPlane
from tests.e2e.gpu_nodes import change, remove_node

Raw = dict[str, Any]
API = "/apis/resource.k8s.io/v1"
ONLY = {"key": "claims", "value": "only", "effect": "NoSchedule"}
"""A taint of every node here, which keeps away pods that other tests have left."""
DRIVER = "gpu.nvidia.com"


def selector(kind: str) -> str:
    """As NVIDIA's chart writes the selector of a DeviceClass."""
    return f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'"


CLASSES = {
    "gpu.nvidia.com": selector("gpu"),
    "mig.nvidia.com": selector("mig"),
    "vfio.gpu.nvidia.com": selector("vfio"),
    "large.example.com": f"{selector('gpu')} && device.attributes['{DRIVER}'].productName == 'H100'",
}
"""DeviceClass -> its selector."""
SLICES: dict[str, tuple[tuple[str, str, int], ...]] = {
    "dra-large": (("gpu", "H100", 4),),
    "dra-small": (("gpu", "T4", 2), ("mig", "A100", 3)),
}
"""Node -> type, product and number of its devices, one slice for each type. The policy allows 8 GPUs for a pod."""


def device_class(name: str, expression: str) -> Raw:
    spec: Raw = {"selectors": [{"cel": {"expression": expression}}]}
    spec |= {"extendedResourceName": "nvidia.com/gpu"} if name == DRIVER else {}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def slices_of(node: str) -> list[Raw]:
    """The slices of one pool."""
    kinds = SLICES[node]
    pool = {"name": node, "generation": 1, "resourceSliceCount": len(kinds)}
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-{kind}"},
            "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": _devices(kind, product, number)},
        }
        for kind, product, number in kinds
    ]


def _devices(kind: str, product: str, number: int) -> list[Raw]:
    said = {"type": {"string": kind}, "productName": {"string": product}, "driverVersion": {"version": "580.65.6"}}
    return [{"name": f"{kind}-{place}", "attributes": said} for place in range(number)]


@contextmanager
def offered(plane: ControlPlane) -> Iterator[None]:
    """The classes, the nodes and their slices, as long as the block runs."""
    try:
        for name, expression in CLASSES.items():
            _create(plane, f"{API}/deviceclasses", device_class(name, expression))
        for node in SLICES:
            _add(plane, node)
            for raw in slices_of(node):
                _create(plane, f"{API}/resourceslices", raw)
        yield
    finally:
        for name in CLASSES:
            plane.raw("DELETE", f"{API}/deviceclasses/{name}")
        for node in SLICES:
            for raw in slices_of(node):
                plane.raw("DELETE", f"{API}/resourceslices/{raw['metadata']['name']}")
            remove_node(plane, node)


def _create(plane: ControlPlane, path: str, raw: Raw) -> None:
    status, answer = plane.raw("POST", path, raw)
    assert status == 201, answer


def _add(plane: ControlPlane, name: str) -> None:
    _create(plane, "/api/v1/nodes", {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
    resources = {"pods": "110", "cpu": "64", "memory": "256Gi"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    state = {"capacity": resources, "allocatable": resources, "conditions": [ready]}
    change(plane, name, {"status": state}, subresource="/status")
    change(plane, name, {"spec": {"taints": [ONLY]}})  # without the one that marks every new node as not ready
