"""Node affinity that keeps a pod off nodes that do not suit it.

A pod is kept off nodes by labels that only those nodes have. Steering excludes (NotIn), so that nodes without the
label, nodes that are added later and autoscaled pools stay eligible. Only where a policy lists all that pods may use,
and all suitable nodes have a label that names their GPU, is a pod held to the values of that label (In).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from webhook.gpus.gpu_memory import AMD_MEMORY, GPU_MEMORY
from webhook.gpus.gpu_names import AMD_PRODUCT, AUTOSCALED, CLOUDS, COREWEAVE, INTEL_PRODUCT, NVIDIA_PRODUCT
from webhook.model.node import GKE_CLIENTS, GKE_PARTITION, GKE_SHARING, GPU_REPLICAS, GPU_SHARING, LAST_RESORT_LABELS
from webhook.model.selectors import Expression, Operator

RUNTIME_MAJOR = ("nvidia.com/cuda.runtime-version.major", "nvidia.com/cuda.runtime.major")
DRIVER_MAJOR = ("nvidia.com/cuda.driver-version.major", "nvidia.com/cuda.driver.major")
RUNTIME, DRIVER = "nvidia.com/cuda.runtime-version.full", "nvidia.com/cuda.driver-version.full"
COMPUTE = "nvidia.com/gpu.compute.major"
FAMILY = "nvidia.com/gpu.family"


class Cause(StrEnum):
    """What about nodes does not suit a pod."""

    DRIVER = "driver"
    GPU = "gpu"
    ARCHITECTURE = "architecture"
    """The architecture of their CPU."""
    MODEL = "model"
    """The model of their GPUs."""
    PROFILE = "profile"
    """The MIG profile of one unit."""
    MEMORY = "memory"
    """The memory of one unit that is a whole GPU."""
    PART_MEMORY = "part memory"
    """The memory of one unit that is a slice or a share of a GPU."""
    SHARED = "shared"
    """Other pods use their GPUs at the same time."""
    WHOLE = "whole"
    """One unit is a whole GPU."""
    IMAGE = "image"
    """Nothing: the image runs on no node."""
    NONE = "none"
    """Nothing."""


_DRIVERS = (*RUNTIME_MAJOR, *DRIVER_MAJOR, RUNTIME, DRIVER)
_NAMES = (NVIDIA_PRODUCT, *CLOUDS, COREWEAVE, AMD_PRODUCT, INTEL_PRODUCT)
_GPUS = (COMPUTE, FAMILY, *_NAMES)
_ARCHITECTURE = "kubernetes.io/arch"
_KNOWN_BEFORE = frozenset({*AUTOSCALED, _ARCHITECTURE})
OF_IMAGES = frozenset({Cause.DRIVER, Cause.GPU, Cause.ARCHITECTURE})
"""What is wrong with nodes for an image, and forbidden by nobody."""

_KEYS: Mapping[Cause, tuple[str, ...]] = {
    Cause.DRIVER: (*_DRIVERS, *_GPUS),
    Cause.GPU: (*_GPUS, *_DRIVERS),
    Cause.ARCHITECTURE: (_ARCHITECTURE, *_GPUS, *_DRIVERS),
    Cause.MODEL: (*_NAMES, FAMILY, COMPUTE, *LAST_RESORT_LABELS),
    Cause.PROFILE: (GKE_PARTITION, *_NAMES, FAMILY, COMPUTE),
    Cause.MEMORY: (GPU_MEMORY, AMD_MEMORY, *_NAMES, *LAST_RESORT_LABELS),
    Cause.PART_MEMORY: (GKE_PARTITION, *_NAMES[:1], GPU_REPLICAS, GKE_CLIENTS, *_NAMES[1:], GPU_MEMORY),
    Cause.SHARED: (GPU_SHARING, GKE_SHARING, GPU_REPLICAS, GKE_CLIENTS, *_NAMES),
    Cause.WHOLE: (NVIDIA_PRODUCT, GPU_SHARING, GPU_REPLICAS, *_NAMES[1:]),
}
"""The labels that may exclude nodes, by cause. Labels about the cause come first, coarse before fine.

For a model and for whole GPUs the name comes first, because it is also right for nodes that are added later: the next
model of a family may be allowed, and nodes with slices are labelled as not shared, like whole GPUs. For slices and
shares the labels about parts come first: `nvidia.com/gpu.memory` is the memory of a whole GPU even if it is shared."""

Labels = Mapping[str, str]

_NO_NAME = "undefined"
"""What GPU Feature Discovery writes for an unknown family. The next GPU may get this value, so it excludes no node."""


@dataclass(frozen=True, slots=True)
class Steering:
    """Node affinity that keeps a pod off nodes. `left` are the positions of the nodes that no label can exclude.

    `held` is what holds the pod to the suitable nodes and to later ones like them; None if nothing does.
    """

    exclusions: tuple[Expression, ...]
    left: tuple[int, ...]
    held: Expression | None = None


def steer(
    unfit: Sequence[tuple[Labels, Cause]],
    others: Sequence[Labels],
    holding: Sequence[Labels] = (),
    *,
    is_made: bool = False,
) -> Steering:
    """Exclude as many of the unfit nodes as labels can, and none of the `others`.

    A label of LAST_RESORT_LABELS excludes nodes only if it is known of all others: classes of other nodes leave it out.
    `holding` are the labels of the nodes to which the pod is held as well. `is_made` says that an autoscaler may have
    to make a node for the pod: it would make one after the other if only labels were excluded that nodes get later. So
    labels that it knows come first, and others exclude only what the policy forbids.
    """
    remaining = dict(enumerate(unfit))
    values: dict[str, set[str]] = {}
    for cause in dict.fromkeys(cause for _, cause in unfit):
        keys = [
            key
            for key in _KEYS.get(cause, ())
            if key not in LAST_RESORT_LABELS or all(key in labels for labels in others)
        ]
        foreign = {key: {_NO_NAME, *(labels.get(key) for labels in others)} for key in keys}
        first = [key for key in keys if key in _KNOWN_BEFORE] if is_made else keys
        for among in (first,) if first is keys or cause in OF_IMAGES else (first, keys):
            left = [(at, labels) for at, (labels, why) in remaining.items() if why is cause]
            while chosen := _best(among, foreign, left):
                key, covered = chosen
                values.setdefault(key, set()).update(remaining[at][0][key] for at in covered)
                remaining = {at: node for at, node in remaining.items() if node[0].get(key) not in values[key]}
                left = [(at, labels) for at, labels in left if at in remaining]
    exclusions = tuple(Expression(key, Operator.NOT_IN, tuple(sorted(found))) for key, found in values.items())
    return Steering(exclusions, tuple(remaining), _held(holding, is_made=is_made) if holding else None)


def _held(suitable: Sequence[Labels], *, is_made: bool) -> Expression | None:
    """What holds a pod to nodes with these labels; None if no label names the GPUs of all of them.

    Autoscalers make no node for a label that they do not know. So where some of the nodes have one that an autoscaler
    knows, no other label may hold the pod.
    """
    for key in AUTOSCALED if is_made else (*AUTOSCALED, *_NAMES):
        values = {labels.get(key, "") for labels in suitable}
        if "" not in values:
            return Expression(key, Operator.IN, tuple(sorted(values)))
        if len(values) > 1 and key in AUTOSCALED:
            return None
    return None


def _best(
    keys: Iterable[str], foreign: Mapping[str, set[str | None]], nodes: Sequence[tuple[int, Labels]]
) -> tuple[str, list[int]] | None:
    """The first label that excludes the most nodes, and their positions; None if no label excludes any."""
    best: tuple[str, list[int]] | None = None
    for key in keys:
        covered = [at for at, labels in nodes if key in labels and labels[key] not in foreign[key]]
        if covered and (best is None or len(covered) > len(best[1])):
            best = key, covered
    return best
