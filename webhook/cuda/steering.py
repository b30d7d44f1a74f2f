"""Keeping a pod off the nodes where it would fail, by labels that those nodes have and no other candidate does.

Only ever by exclusion (NotIn): a node without the label, one that comes later and an autoscaled pool stay eligible.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from webhook.cuda.verdict import Cause
from webhook.model.selectors import Expression, Operator

_DRIVER = (
    "nvidia.com/cuda.runtime-version.major",
    "nvidia.com/cuda.runtime.major",
    "nvidia.com/cuda.driver-version.major",
    "nvidia.com/cuda.driver.major",
    "nvidia.com/cuda.runtime-version.full",
    "nvidia.com/cuda.driver-version.full",
)
_GPU = (
    "nvidia.com/gpu.compute.major",
    "nvidia.com/gpu.family",
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "eks.amazonaws.com/instance-gpu-name",
    "karpenter.k8s.aws/instance-gpu-name",
    "karpenter.azure.com/sku-gpu-name",
    "gpu.nvidia.com/class",
)
_ARCHITECTURE = ("kubernetes.io/arch",)

_KEYS: Mapping[Cause, tuple[str, ...]] = {
    Cause.DRIVER: (*_DRIVER, *_GPU, *_ARCHITECTURE),
    Cause.GPU: (*_GPU, *_DRIVER, *_ARCHITECTURE),
    Cause.ARCHITECTURE: (*_ARCHITECTURE, *_GPU, *_DRIVER),
}
"""The labels that may separate, by what is wrong with the nodes: what the cause is about first, the coarsest first."""

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Steering:
    """What keeps a pod off nodes that cannot run it. `left` are the positions of those that no label separates."""

    exclusions: tuple[Expression, ...]
    left: tuple[int, ...]


def steer(unfit: Sequence[tuple[Labels, Cause]], others: Sequence[Labels]) -> Steering:
    """Exclude the unfit nodes, and none of the `others`."""
    remaining = dict(enumerate(unfit))
    values: dict[str, set[str]] = {}
    for cause in dict.fromkeys(cause for _, cause in unfit):
        keys = _KEYS.get(cause, ())
        foreign = {key: {labels.get(key) for labels in others} for key in keys}
        while chosen := _best(keys, foreign, [(at, labels) for at, (labels, why) in remaining.items() if why is cause]):
            key, covered = chosen
            values.setdefault(key, set()).update(remaining[at][0][key] for at in covered)
            excluded = values[key]
            remaining = {at: node for at, node in remaining.items() if node[0].get(key) not in excluded}
    exclusions = tuple(Expression(key, Operator.NOT_IN, tuple(sorted(found))) for key, found in values.items())
    return Steering(exclusions, tuple(remaining))


def _best(
    keys: Iterable[str], foreign: Mapping[str, set[str | None]], nodes: Sequence[tuple[int, Labels]]
) -> tuple[str, list[int]] | None:
    """The first label that separates most of the nodes, and which ones; None where none separates any."""
    best: tuple[str, list[int]] | None = None
    for key in keys:
        covered = [at for at, labels in nodes if key in labels and labels[key] not in foreign[key]]
        if covered and (best is None or len(covered) > len(best[1])):
            best = key, covered
    return best
