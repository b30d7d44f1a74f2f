"""A small cluster with GPU nodes, and pods that want to run there, for the tests of `schedulable`."""

from tests.facts.samples import GPU_TAINT, node
from tests.rules.samples import container, pod, violations
from webhook.facts.facts import ClusterFacts
from webhook.rules.schedulable import RULE

PRODUCT, POOL = "nvidia.com/gpu.product", "example.com/pool"
A100, T4, MIG = "NVIDIA-A100-SXM4-80GB", "Tesla-T4", "nvidia.com/mig-1g.10gb"
TOLERANT = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
TEAM = {"key": "team", "value": "vision", "effect": "NoSchedule"}


def gpu_node(name, product, gpus, memory, taints=(GPU_TAINT,), **labels):
    """A node of 96 cores with so many GPUs, by resource name."""
    resources = {"cpu": "96", "memory": memory, "pods": "110", **gpus}
    return node(name, labels={PRODUCT: product, **labels}, taints=taints, capacity=resources)


BIG = gpu_node("big", A100, {"nvidia.com/gpu": "8", "rdma/hca": "4"}, "1000Gi", **{POOL: "training"})
SMALL = gpu_node("small", T4, {"nvidia.com/gpu": "1"}, "60Gi", **{POOL: "serving"})
SLICED = gpu_node("sliced", f"{A100}-MIG-1g.10gb", {MIG: "7", "nvidia.com/mig-3g.40gb": "2"}, "500Gi")
PLAIN = node("plain", labels={POOL: "web"}, capacity={"cpu": "192", "memory": "2Ti", "pods": "110"})
CLUSTER = ClusterFacts.of([BIG, SMALL, SLICED, PLAIN])


def told(raw, facts=CLUSTER):
    """What the rule says of a pod."""
    return [str(violation) for violation in violations(RULE, raw, {}, facts)]


def asking(gpus=1, resource="nvidia.com/gpu", resources=None, **spec):
    """A pod of one container that tolerates the GPU nodes."""
    limits = {resource: gpus, **(resources or {})}
    return pod(container(resources={"limits": limits, "requests": limits}), **{**TOLERANT, **spec})
