"""What the rules may know about nodes and classes of pods."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.model.selectors import Expression
from webhook.model.taints import Taint, Toleration

GPU_LABELS: tuple[str, ...] = (
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-gpu-driver-version",
    "eks.amazonaws.com/instance-gpu-name",
    "gpu.nvidia.com/class",
    "k8s.amazonaws.com/accelerator",
    "karpenter.azure.com/sku-gpu-name",
    "karpenter.k8s.aws/instance-gpu-name",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "nvidia.com/cuda.driver-version.full",
    "nvidia.com/cuda.driver-version.major",
    "nvidia.com/cuda.driver-version.minor",
    "nvidia.com/cuda.driver-version.revision",
    "nvidia.com/cuda.driver.major",
    "nvidia.com/cuda.driver.minor",
    "nvidia.com/cuda.driver.rev",
    "nvidia.com/cuda.runtime-version.full",
    "nvidia.com/cuda.runtime-version.major",
    "nvidia.com/cuda.runtime-version.minor",
    "nvidia.com/cuda.runtime.major",
    "nvidia.com/cuda.runtime.minor",
    "nvidia.com/gpu.compute.major",
    "nvidia.com/gpu.compute.minor",
    "nvidia.com/gpu.count",
    "nvidia.com/gpu.family",
    "nvidia.com/gpu.memory",
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.replicas",
    "nvidia.com/gpu.sharing-strategy",
    "nvidia.com/mig.capable",
    "nvidia.com/mig.strategy",
)
"""The node labels that rules may read, in order: what GPU Feature Discovery and clouds say about GPUs and drivers.
Labels that differ on every node do not belong here, since each combination of values is a class of its own."""


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes that nothing a rule asks about tells apart.

    `labels` are the GPU_LABELS that they have, with equal values; `gpu_resources` the GPU resource names in their
    capacity; `runtime_handlers` the names in status.runtimeHandlers, None where the nodes do not publish them (before
    containerd 2 or CRI-O 1.31). `by_claim`: whichever nodes have what a DeviceClass gives, of which nothing is known.
    """

    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    gpu_resources: frozenset[str] = frozenset()
    runtime_handlers: frozenset[str] | None = None
    count: int = 1
    by_claim: bool = False


@dataclass(frozen=True, slots=True)
class NodePool:
    """Nodes that a platform declares although none of them may exist now, because the pool scales from zero.

    `labels` are all that its nodes will have, sorted by key; `gpus` is the number of GPUs on each, None where nobody
    said.
    """

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    gpu_resources: frozenset[str] = frozenset()
    gpus: int | None = None

    def __hash__(self) -> int:
        return hash(self.name)  # pools are looked up on every review, and those of one policy differ in their names


@dataclass(frozen=True, slots=True)
class RuntimeClass:
    """A RuntimeClass object; `handler` is what the container runtime knows it by."""

    name: str
    handler: str
    node_selector: tuple[Expression, ...] = ()
    tolerations: tuple[Toleration, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A PriorityClass object.

    `is_default`: Kubernetes gives it to every pod that names none. `preempts`: its pods push out those of less
    importance, where nothing else is left.
    """

    name: str
    value: int = 0
    is_default: bool = False
    preempts: bool = True
