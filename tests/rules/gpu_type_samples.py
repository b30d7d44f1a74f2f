"""Nodes with GPUs of several kinds, pods that ask for GPUs, and what the rule `gpuTypes` makes of them."""

from typing import Any

from tests.facts.samples import node
from tests.rules.samples import container, mutated, pod, settings_of
from webhook.facts.facts import ClusterFacts
from webhook.model.pod_reader import pod_from_raw
from webhook.rules.gpu_types import RULE
from webhook.rules.rule import Advice, Violation
from webhook.rules.usable_gpus import ANNOTATION

GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
PRODUCT, MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"
REPLICAS, STRATEGY = "nvidia.com/gpu.replicas", "nvidia.com/gpu.sharing-strategy"

T4 = {PRODUCT: "Tesla-T4", MEMORY: "15360"}
L4 = {PRODUCT: "NVIDIA-L4", MEMORY: "23034"}
A100 = {PRODUCT: "NVIDIA-A100-SXM4-40GB", MEMORY: "40960"}
H100 = {PRODUCT: "NVIDIA-H100-80GB-HBM3", MEMORY: "81559"}
SLICED = {PRODUCT: "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", MEMORY: "9728", "nvidia.com/mig.strategy": "single"}
SHARED_T4 = {**T4, PRODUCT: "Tesla-T4-SHARED", REPLICAS: "4", STRATEGY: "time-slicing"}
GKE_T4 = {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}
SILENT: dict[str, str] = {}
SMALL = {"allowed": ["T4", "L4"]}


def cluster(*nodes: dict[str, str], resource: str = GPU) -> ClusterFacts:
    """Nodes with eight GPUs each and these labels; n0, n1 and so on."""
    return ClusterFacts.of([node(f"n{at}", labels=labels, capacity={resource: "8"}) for at, labels in enumerate(nodes)])


def gpu_pod(memory: Any = None, resource: str = GPU, **spec: Any) -> dict[str, Any]:
    raw = pod(container(gpus=1, resource=resource), **spec)
    if memory is not None:
        raw["metadata"]["annotations"] = {ANNOTATION: memory}
    return raw


def told(raw: dict[str, Any], facts: Any, values: dict[str, Any]) -> list[Violation | Advice]:
    return list(RULE.validate(pod_from_raw(raw), settings_of(RULE, values), facts))


def refused(raw: dict[str, Any], facts: Any, values: dict[str, Any]) -> list[str]:
    return [str(one) for one in told(raw, facts, values) if isinstance(one, Violation)]


def affinity(raw: dict[str, Any], facts: Any, values: dict[str, Any], part: str) -> list[Any]:
    found = mutated(RULE, raw, values, facts)["spec"].get("affinity", {}).get("nodeAffinity", {})
    return found.get(part) or []


def excluded(raw: dict[str, Any], facts: Any, values: dict[str, Any]) -> list[dict[str, Any]]:
    """The expressions of the first term after the mutator."""
    required = affinity(raw, facts, values, "requiredDuringSchedulingIgnoredDuringExecution")
    return list(required["nodeSelectorTerms"][0]["matchExpressions"]) if required else []


def preferred(raw: dict[str, Any], facts: Any, values: dict[str, Any]) -> list[tuple[int, str, list[str]]]:
    found = affinity(raw, facts, values, "preferredDuringSchedulingIgnoredDuringExecution")
    expressions = [(one["weight"], *one["preference"]["matchExpressions"]) for one in found]
    return [(weight, one["key"], one["values"]) for weight, one in expressions]


def without(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "NotIn", "values": list(values)}


def only(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": sorted(values)}
