"""Nodes as rules see them: labels, taints and tolerations, node pools, RuntimeClasses and PriorityClasses."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from webhook.model.resource_slices import SliceDriver
from webhook.model.selectors import Expression, as_integer

COMPARING = frozenset({"Gt", "Lt"})
"""Operators that compare a taint's value as a number (TaintTolerationComparisonOperators, alpha in Kubernetes 1.35)."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node, which keeps away pods that do not tolerate it."""

    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    """A toleration of a pod, which lets it onto tainted nodes. `seconds` is None where it does not end."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None

    def to_raw(self) -> dict[str, object]:
        raw: dict[str, object] = {"operator": self.operator}
        if self.key:
            raw["key"] = self.key
        if self.operator != "Exists":
            raw["value"] = self.value
        if self.effect:
            raw["effect"] = self.effect
        if self.seconds is not None:
            raw["tolerationSeconds"] = self.seconds
        return raw

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        if self.operator in COMPARING:
            mine, other = as_integer(self.value), as_integer(taint.value)
            if not self.key or mine is None or other is None:
                return False
            return other > mine if self.operator == "Gt" else other < mine
        return self.operator == "Equal" and bool(self.key) and self.value == taint.value

    def covers(self, other: "Toleration") -> bool:
        """Whether this toleration tolerates everything that `other` tolerates, for at least as long."""
        if self.effect and self.effect != other.effect:
            return False
        if self.key and self.key != other.key:
            return False
        if not self.key and self.operator != "Exists":
            return False
        if self.seconds is not None and (other.seconds is None or other.seconds > self.seconds):
            return False
        return self.operator == "Exists" or (self.operator == other.operator and self.value == other.value)


EVERYTHING = (Toleration(operator="Exists"),)
"""Tolerates every taint."""


def toleration_from_raw(raw: Mapping[str, object]) -> Toleration:
    """A pod's toleration; missing parts take the API server's defaults."""
    seconds = raw.get("tolerationSeconds")
    return Toleration(
        str(raw.get("key") or ""),
        str(raw.get("operator") or "Equal"),
        str(raw.get("value") or ""),
        str(raw.get("effect") or ""),
        seconds if isinstance(seconds, int) else None,
    )


def distinct(tolerations: Iterable[Toleration]) -> tuple[Toleration, ...]:
    """The tolerations without repetitions. Of tolerations that compare numbers, only the loosest is kept.

    So few are left of thousands of tolerations with the same key.

    >>> [one.value for one in distinct([Toleration("sku", "Gt", bound) for bound in ("7", "3", "5")])]
    ['3']
    """
    found: dict[tuple[str, ...], Toleration] = {}
    for one in tolerations:
        compares = one.operator in COMPARING
        place = (one.key, one.operator, "" if compares or one.operator == "Exists" else one.value, one.effect)
        if place not in found or (compares and _is_looser(one, found[place])):
            found[place] = one
    return tuple(found.values())


def _is_looser(one: Toleration, other: Toleration) -> bool:
    """Whether `one` tolerates more numbers than `other`, by the same operator. Without a number it tolerates none."""
    mine, theirs = as_integer(one.value), as_integer(other.value)
    if mine is None or theirs is None:
        return theirs is None
    return mine < theirs if one.operator == "Gt" else mine > theirs


GPU_REPLICAS = "nvidia.com/gpu.replicas"
GPU_SHARING = "nvidia.com/gpu.sharing-strategy"
MIG_STRATEGY = "nvidia.com/mig.strategy"
GKE_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
GKE_SHARING = "cloud.google.com/gke-gpu-sharing-strategy"
GKE_PARTITION = "cloud.google.com/gke-gpu-partition-size"
"""The labels that say how GPUs are divided and shared: of GPU Feature Discovery, and of Google Kubernetes Engine."""

GKE_DRIVER = "cloud.google.com/gke-gpu-driver-version"
GKE_WITHOUT_PLUGIN = "gke-no-default-nvidia-gpu-device-plugin"
"""The labels of nodes of Google Kubernetes Engine: its driver, and that its device plugin does not run."""

GPU_LABELS: tuple[str, ...] = (
    "amd.com/compute-memory-partition",
    "amd.com/gpu.product-name",
    "amd.com/gpu.vram",
    "cloud.google.com/gke-accelerator",
    GKE_DRIVER,
    GKE_PARTITION,
    GKE_SHARING,
    GKE_CLIENTS,
    "eks.amazonaws.com/instance-gpu-name",
    GKE_WITHOUT_PLUGIN,
    "gpu.intel.com/product",
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
    GPU_REPLICAS,
    GPU_SHARING,
    "nvidia.com/mig.capable",
    MIG_STRATEGY,
)
"""The node labels that rules may read, in order: what GPU Feature Discovery and clouds say about GPUs and drivers.
Labels with another value on every node do not belong here, because each combination of values is a node class."""


class NodeClassState(StrEnum):
    """What nodes of a class do now. All of them may run a pod within the hour."""

    SERVING = "serving"
    STARTING = "starting"
    """They start, or are maintained: a taint keeps pods away, and goes away by itself."""
    MAKEABLE = "makeable"
    """There are none. A policy declares the pool, or an autoscaler makes nodes."""


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes that are alike in everything that rules ask about; `count` is their number.

    `labels` are the labels of GPU_LABELS that the nodes have, with equal values, and those of LAST_RESORT_LABELS if no
    label of GPU_NAME_LABELS names their GPUs. `gpu_resources` are the GPU resource names in their capacity.
    `runtime_handlers` are the names in status.runtimeHandlers; None where the nodes do not publish them (before
    containerd 2 or CRI-O 1.31). `by_claim`: the class stands for unknown nodes with the devices of a DeviceClass.
    `by_slices` is what their ResourceSlices say of the NVIDIA driver; None where they offer no GPU by slices.
    `transient_taint` is the key of a taint that keeps pods away and goes away by itself; empty for none. `made_by`: the
    class stands for unknown nodes that this autoscaler may make. `pool` is the object that makes such nodes, such as
    NodePool inference; empty for other nodes, and for pools that a policy declares.
    """

    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    gpu_resources: frozenset[str] = frozenset()
    runtime_handlers: frozenset[str] | None = None
    count: int = 1
    by_claim: bool = False
    by_slices: SliceDriver | None = None
    transient_taint: str = ""
    made_by: str = ""
    pool: str = ""
    _hash: int = field(init=False, compare=False, repr=False)
    """Computed once: answers about classes are looked up for every pod."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.count, self.taints, self.gpu_resources, *self.labels.values())))

    def __hash__(self) -> int:
        return self._hash

    @property
    def state(self) -> NodeClassState:
        if not self.count:
            return NodeClassState.MAKEABLE
        return NodeClassState.STARTING if self.transient_taint else NodeClassState.SERVING

    @property
    def maker(self) -> str:
        """Who may make such nodes: an object that says which, or an autoscaler; empty where nobody is known to."""
        return self.pool or self.made_by

    @property
    def may_offer(self) -> bool:
        """Whether nodes without ResourceSlices of GPUs may get some: pools, and nodes whose GPUs nobody offers yet."""
        is_open = self.by_slices is None and not self.by_claim and bool(self.count) != bool(self.gpu_resources)
        return is_open and (not self.count or any(key in self.labels for key in GPU_NAME_LABELS))


def makers_of(classes: Iterable[NodeClass]) -> str:
    """Who may make nodes of one of these classes, in words; empty where nobody is known to."""
    first, *others = list(dict.fromkeys(one.maker for one in classes if one.maker)) or [""]
    return f"{first} or another" if others else first


GPU_NAME_LABELS: tuple[str, ...] = (
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "eks.amazonaws.com/instance-gpu-name",
    "gpu.intel.com/product",
    "gpu.nvidia.com/class",
    "k8s.amazonaws.com/accelerator",
    "karpenter.azure.com/sku-gpu-name",
    "karpenter.k8s.aws/instance-gpu-name",
    "nvidia.com/gpu.product",
)
"""The labels of GPU_LABELS that name the GPUs of a node."""

LAST_RESORT_LABELS: tuple[str, ...] = (
    "gpu.nvidia.com/model",
    "accelerator",
    "gpu-model",
    "gpu-type",
    "gpu_type",
    "gpu",
    "node.kubernetes.io/instance-type",
)
"""Labels that tell the GPUs of nodes without any of GPU_NAME_LABELS: people's own, and the machine type. Classes of
other nodes leave them out, since nodes of one GPU model may have many of their values."""


CUDA_LABELS = "nvidia.com/cuda."
"""Prefix of the labels of a driver, and of the newest CUDA that it reports."""

DRIVER_PARTS = (
    ("nvidia.com/cuda.driver-version.major", "nvidia.com/cuda.driver.major"),
    ("nvidia.com/cuda.driver-version.minor", "nvidia.com/cuda.driver.minor"),
    ("nvidia.com/cuda.driver-version.revision", "nvidia.com/cuda.driver.rev"),
)
"""Labels of the three numbers in a driver version: the present label, and the deprecated one."""


def driver_labels(version: str) -> dict[str, str]:
    """The labels that GPU Feature Discovery publishes for a driver version, or for what is known of a branch."""
    numbers = version.split(".")
    if len(numbers) == 1:
        return dict.fromkeys(DRIVER_PARTS[0], version)
    labels = {"nvidia.com/cuda.driver-version.full": version}
    for keys, number in zip(DRIVER_PARTS, (*numbers, "")[:3], strict=True):
        labels |= dict.fromkeys(keys, number)
    return labels


@dataclass(frozen=True, slots=True)
class NextDriver:
    """The driver that the nodes of a pool will have from a moment on.

    `begins` is the moment in seconds since 1970, and `day` how messages name it; empty where an object of the cluster
    brings the driver at some moment. `labels` are what nodes have for this
    driver. Existing nodes belong to the pool if they have all labels of `members`, and none does if it is empty.
    """

    driver: str
    begins: float
    day: str
    labels: tuple[tuple[str, str], ...]
    members: tuple[tuple[str, str], ...] = ()

    def over(self, labels: Mapping[str, str]) -> dict[str, str]:
        return {key: value for key, value in labels.items() if not key.startswith(CUDA_LABELS)} | dict(self.labels)


@dataclass(frozen=True, slots=True)
class OpenLabels:
    """What is known of labels whose values differ between the nodes of a pool.

    A label with a key in `required` meets these expressions. One that matches a glob of `keys` may have any value, as
    far as it names none but these `models` of GPUs; empty models stand for unknown ones. No node has any other label.
    """

    required: tuple[Expression, ...] = ()
    keys: tuple[str, ...] = ()
    models: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NodePool:
    """Nodes that a policy declares, because autoscaling may have removed all of them, or that an autoscaler may make.

    `labels` are all labels of its nodes, sorted by key; `gpus` is the number of GPUs on each node, None where it is not
    declared. `next` is the driver that they will have one day; None where no change is declared. Existing nodes belong
    to the pool if they have all labels of `members`, and none does if it is empty; `members` alone makes no other pool.
    `made_by` is the object that makes the nodes, such as NodePool inference, which makes others, too; `open` says what
    is known of their other labels. Both are empty for a pool that a policy declares.
    """

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    gpu_resources: frozenset[str] = frozenset()
    gpus: int | None = None
    next: NextDriver | None = None
    members: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    made_by: str = ""
    open: OpenLabels | None = None

    @property
    def called(self) -> str:
        """The name of the NodePool that makes it, or its own."""
        return self.made_by.removeprefix("NodePool ") or self.name

    def __hash__(self) -> int:
        return hash(self.name)  # pools are looked up on every review, and those of one policy differ in their names

    def at(self, now: float) -> "NodePool":
        """The pool at a moment in seconds since 1970: with its next driver, once that has begun."""
        if self.next is None or now < self.next.begins:
            return self
        return replace(self, labels=tuple(sorted(self.next.over(dict(self.labels)).items())), next=None)


class ChangingNodes(NamedTuple):
    """Nodes that match a pod and belong to a pool whose driver will change: as they are, and as they will be.

    Both have the same order. The pool itself is the last of them, if it matches the pod. `pool` is the name of the
    pool, or of the object that changes the driver.
    """

    pool: str
    change: NextDriver
    now: Sequence[NodeClass]
    then: Sequence[NodeClass]


@dataclass(frozen=True, slots=True)
class RuntimeClass:
    """A RuntimeClass object; `handler` is its name in the container runtime."""

    name: str
    handler: str
    node_selector: tuple[Expression, ...] = ()
    tolerations: tuple[Toleration, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A PriorityClass object.

    `is_default`: Kubernetes gives it to every pod that names no class. `preempts`: its pods may evict pods of lower
    priority.
    """

    name: str
    value: int = 0
    is_default: bool = False
    preempts: bool = True
