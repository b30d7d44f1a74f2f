"""The cluster of the fuzzer's reviews."""

from collections.abc import Mapping
from typing import Any

Raw = dict[str, Any]


def _node(name: str, gpus: Mapping[str, str], labels: Mapping[str, str], *taints: Raw) -> Raw:
    return {
        "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": {"taints": list(taints)},
        "status": {
            "capacity": {"cpu": "64", "memory": "512Gi", "pods": "110", **gpus},
            "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110", **gpus},
        },
    }


_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
_DRIVER = "nvidia.com/cuda.driver-version.full"
OLD, NEW = "470.82.01", "580.95.05"
"""Drivers that cannot run CUDA 13, and that can."""
SHARED_BY_TWO = {
    "nvidia.com/gpu.count": "1",
    "nvidia.com/gpu.replicas": "2",
    "nvidia.com/gpu.sharing-strategy": "mps",
    "nvidia.com/gpu.product": "Tesla-T4-SHARED",
}
"""The labels of a node whose only GPU two pods share by MPS."""
NODES = [
    _node("big-old", {"nvidia.com/gpu": "8"}, {"pool": "gpu", "zone": "a", "gen": "old", _DRIVER: OLD}, _TAINT),
    _node(
        "big-new",
        {"nvidia.com/gpu": "8"},
        {"pool": "gpu", "zone": "b", "gen": "new", _DRIVER: NEW, "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        _TAINT,
    ),
    _node("desk", {"nvidia.com/gpu": "2"}, {"pool": "gpu", "zone": "a", "gen": "new", _DRIVER: NEW, **SHARED_BY_TWO}),
    _node("slices", {"nvidia.com/mig-1g.10gb": "7"}, {"pool": "gpu", "zone": "b"}, _TAINT),
    _node("amd", {"amd.com/gpu": "4"}, {"pool": "gpu", "zone": "a"}),
    _node("plain", {}, {"pool": "cpu", "zone": "a"}),
]
RUNTIME_CLASSES = [{"metadata": {"name": name}, "handler": name} for name in ("nvidia", "kata")]
PRIORITY_CLASSES = [
    {"metadata": {"name": "ordinary"}, "value": 10, "globalDefault": True},
    {"metadata": {"name": "training"}, "value": 1000, "preemptionPolicy": "Never"},
    {"metadata": {"name": "urgent"}, "value": 5000},
]
PRIORITIES = {
    one["metadata"]["name"]: (one["value"], one.get("preemptionPolicy", "PreemptLowerPriority"))
    for one in PRIORITY_CLASSES
}


def _template(name: str, request: Raw, namespace: str) -> Raw:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": [{"name": "request", **request}]}}},
    }


_REQUESTS: Mapping[str, Raw] = {
    "network": {"exactly": {"deviceClassName": "nic.vendor.io", "count": 2}},
    "denied": {"exactly": {"deviceClassName": "nic.example.com"}},
    "either": {"firstAvailable": [{"deviceClassName": "nic.vendor.io"}, {"deviceClassName": "nic.example.com"}]},
    "monitor": {"exactly": {"deviceClassName": "nic.vendor.io", "allocationMode": "All", "adminAccess": True}},
}
TEMPLATES = [
    _template(name, request, namespace)
    for namespace in ("strict", "helpful", "warned")
    for name, request in _REQUESTS.items()
]
"""Templates of claims for devices that are no GPUs, in each namespace."""
