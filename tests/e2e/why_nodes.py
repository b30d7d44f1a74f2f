"""Nodes on which pods do not run for reasons that `gpu-policy why` has to find."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.e2e.control_plane import ControlPlane
from tests.e2e.gpu_nodes import add_node, change, labels, remove_node

POOL = "example.com/why"
H100 = ("580.95.05", "NVIDIA-H100-80GB-HBM3", "9.0")
V100 = ("470.82.01", "Tesla-V100-SXM2-32GB", "7.0")
NODES: dict[str, tuple[str, tuple[str, str, str], int]] = {
    "why-old": ("mixed", V100, 8),
    "why-small": ("mixed", H100, 2),
    "why-busy": ("busy", H100, 4),
    "why-cordoned": ("cordoned", H100, 4),
    "why-dark": ("dark", H100, 4),
    "why-gone": ("gone", H100, 4),
    "why-good": ("good", H100, 64),
}
"""Name -> pool, hardware and GPUs."""


@contextmanager
def present(plane: ControlPlane) -> Iterator[None]:
    """The nodes, as long as the block runs."""
    try:
        for name, (pool, hardware, gpus) in NODES.items():
            add_node(plane, name, {**labels(*hardware), POOL: pool}, gpus=gpus)
        change(plane, "why-cordoned", {"spec": {"unschedulable": True}})
        dark = {
            "type": "Ready",
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting",
        }
        change(plane, "why-dark", {"status": {"conditions": [dark]}}, subresource="/status")
        change(plane, "why-gone", {"status": {"allocatable": {"nvidia.com/gpu": "0"}}}, subresource="/status")
        yield
    finally:
        for name in NODES:
            remove_node(plane, name)


def on(pool: str, **spec: Any) -> dict[str, Any]:
    """The parts of a pod's spec that put it on the nodes of a pool."""
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    return {"nodeSelector": {POOL: pool}, "tolerations": tolerations, **spec}
