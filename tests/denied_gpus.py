"""Pods that try to reach GPUs which a policy forbids, with what people with the role `edit` may do to them later."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.rules.samples import container, terms

Raw = dict[str, Any]
PRODUCT, HOSTNAME = "nvidia.com/gpu.product", "kubernetes.io/hostname"
STRATEGY, REPLICAS = "nvidia.com/gpu.sharing-strategy", "nvidia.com/gpu.replicas"
GPU = "nvidia.com/gpu"
_TEAM = {"key": "team", "value": "a", "effect": "NoSchedule"}
_SCARCE = {"key": "scarce", "effect": "NoSchedule"}


def _labels(product: str, strategy: str = "none", replicas: str = "1") -> dict[str, str]:
    return {PRODUCT: product, STRATEGY: strategy, REPLICAS: replicas, "nvidia.com/mig.strategy": "mixed"}


NODES: dict[str, tuple[dict[str, str], list[Raw]]] = {
    "t4-0": (_labels("Tesla-T4"), []),
    "t4-1": (_labels("Tesla-T4"), [_TEAM]),
    "shared-0": (_labels("Tesla-T4-SHARED", "time-slicing", "4"), []),
    "l4-0": (_labels("NVIDIA-L4"), [_SCARCE]),
    "h100-0": (_labels("NVIDIA-H100-80GB-HBM3"), [_SCARCE]),
    "h100-1": (_labels("NVIDIA-H100-80GB-HBM3"), []),
    "cpu-0": ({}, []),
}
"""Labels and taints of each node."""
LATER: dict[str, tuple[dict[str, str], list[Raw]]] = {
    "h100-2": (_labels("NVIDIA-H100-80GB-HBM3"), []),
    "h100-nvl": (_labels("NVIDIA-H100-NVL"), []),
}
"""Nodes that come while pods wait. Only a policy that lists what is allowed knows of the second one's model."""
RULES: dict[str, Raw] = {
    "allowing": {"gpuTypes": {"mode": "enforce", "allowed": ["T4"]}},
    "denying": {"gpuTypes": {"mode": "enforce", "denied": ["H100"]}},
    "exclusive": {"sharedGpus": {"mode": "enforce", "isolation": "exclusive"}},
    "both": {
        "gpuTypes": {"mode": "enforce", "denied": ["H100"]},
        "sharedGpus": {"mode": "enforce", "isolation": "exclusive"},
    },
}
"""The rules of each policy."""


def is_forbidden(policy: str, node: str) -> bool:
    """Whether a policy forbids the GPUs of a node; said a second time."""
    by_policy = {
        "allowing": not node.startswith(("t4", "shared")),
        "denying": node.startswith("h100"),
        "exclusive": node == "shared-0",
        "both": node.startswith("h100") or node == "shared-0",
    }
    return by_policy[policy] and node != "cpu-0"


@dataclass(frozen=True)
class Attempt:
    """A pod, and the updates that its author tries one after the other."""

    pod: Raw
    updates: tuple[Raw, ...]
    """Parts of the spec: `tolerations` are added, `nodeSelector` is merged, `schedulingGates` replaced."""

    def after(self, pod: Raw, update: Raw) -> Raw:
        """The pod with an update."""
        spec = dict(pod["spec"])
        if "tolerations" in update:
            spec["tolerations"] = [*spec.get("tolerations", []), *update["tolerations"]]
        if "nodeSelector" in update:
            spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **update["nodeSelector"]}
        if "schedulingGates" in update:
            spec["schedulingGates"] = update["schedulingGates"]
        if "labels" in update:
            return {**pod, "metadata": {**pod["metadata"], "labels": update["labels"]}, "spec": spec}
        return {**pod, "spec": spec}


_NAMES = [*NODES, *LATER]
_TOLERATIONS = ({"key": "team", "operator": "Exists"}, {"key": "scarce", "operator": "Exists"}, {"operator": "Exists"})


def _terms(chance: random.Random) -> Raw | None:
    """A required node affinity of one to three terms; some select by field, some match nothing."""
    kinds = (
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["cpu-0"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [chance.choice(_NAMES)]}]},
        {"matchExpressions": [{"key": HOSTNAME, "operator": "NotIn", "values": list(NODES)}]},
        {"matchExpressions": [{"key": PRODUCT, "operator": "Exists"}]},
        {"matchExpressions": [{"key": PRODUCT, "operator": "NotIn", "values": ["Tesla-T4"]}]},
        {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": chance.sample(_NAMES, 2)}]},
        {
            "matchExpressions": [{"key": HOSTNAME, "operator": "NotIn", "values": ["t4-0"]}],
            "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["t4-1"]}],
        },
    )
    return terms(*chance.sample(kinds, chance.randint(1, 3))) if chance.random() < 0.6 else None


def _updates(chance: random.Random, *, is_gated: bool) -> Iterator[Raw]:
    for _ in range(chance.randint(0, 3)):
        kind = chance.choice(("tolerations", "tolerations", "nodeSelector", "labels"))
        if kind == "tolerations":
            yield {"tolerations": [chance.choice(_TOLERATIONS)]}
        elif kind == "labels":
            yield {"labels": chance.choice(({"kueue.x-k8s.io/queue-name": "q"}, {"a": "b"}))}
        elif is_gated:
            yield {"nodeSelector": {HOSTNAME: chance.choice(_NAMES)}}
    if is_gated:
        yield {"schedulingGates": []}


def attempts(seed: int, number: int) -> Iterator[Attempt]:
    """So many attempts, the same for each seed."""
    chance = random.Random(seed)
    for at in range(number):
        spec: Raw = {"containers": [container(gpus=1)]}
        spec["containers"][0]["resources"]["requests"] |= {"cpu": "10m"}
        if (affinity := _terms(chance)) is not None:
            spec["affinity"] = affinity
        if chance.random() < 0.3:
            spec["nodeSelector"] = {HOSTNAME: chance.choice(_NAMES)}
        if chance.random() < 0.3:
            spec["tolerations"] = [chance.choice(_TOLERATIONS)]
        is_gated = chance.random() < 0.6
        if is_gated:
            spec["schedulingGates"] = [{"name": "example.com/queue"}]
        raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{at}"}, "spec": spec}
        yield Attempt(raw, tuple(_updates(chance, is_gated=is_gated)))
