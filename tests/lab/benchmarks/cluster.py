"""Policies and nodes in any number, for measurements."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.rules.every_rule import enforced

PRIORITY_CLASS = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "training"},
    "value": 1000,
}


def default_policy(*left_out: str, **changes: Mapping[str, Any]) -> str:
    """The text of a policy file by which every rule is enforced, but those of these keys.

    `changes` are further settings by key of the rule.
    """
    rules = {key: settings for key, settings in enforced(**changes).items() if key not in left_out}
    head = {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "GPUPolicy", "metadata": {"name": "_default"}}
    return json.dumps({**head, "spec": {"rules": rules}})


DEFAULT = default_policy()
SHIPPED = Path(__file__).resolve().parents[3] / "policies" / "_default.yaml"


def write_policies(directory: Path, count: int, default: str = DEFAULT) -> None:
    """A default, by which every rule is enforced, and `count` namespaces with a file of their own."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "_default.yaml").write_text(default)
    for number in range(count):
        (directory / f"team-{number}.yaml").write_text(
            "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\n"
            f"metadata: {{name: team-{number}}}\n"
            f"spec: {{rules: {{gpuLimits: {{maxPerPod: {number % 8 + 1}}}}}}}\n"
        )


def nodes(count: int) -> list[dict[str, Any]]:
    """A RuntimeClass and `count` GPU nodes as GPU Feature Discovery labels them, of four products.

    The nodes with T4s have an old release of it, which says nothing about sharing.

    Each has a little more memory than the one before, as no two machines have the same.
    """
    runtime_class = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "handler": "nvidia",
    }
    return [runtime_class, *(_node(number) for number in range(count))]


PRODUCTS = ("NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4", "Tesla-T4")


def _node(number: int) -> dict[str, Any]:
    name = f"gpu-{number}"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
        "example.com/pool": "gpu" if number % 2 else "other",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": PRODUCTS[number % 4],
        "nvidia.com/gpu.count": "8",
        "nvidia.com/cuda.driver-version.full": f"{550 + number % 4 * 10}.54.15",
        **({"nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.sharing-strategy": "none"} if number % 4 < 3 else {}),
        **{f"feature.node.kubernetes.io/cpu-feature-{feature}": "true" for feature in range(50)},
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{number}", "labels": labels},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
        "status": {
            "capacity": {"cpu": "96", "memory": f"{1_048_576_000 + 4 * number}Ki", "nvidia.com/gpu": "8"},
            "runtimeHandlers": [{"name": ""}, {"name": "runc"}, {"name": "nvidia"}],
        },
    }
