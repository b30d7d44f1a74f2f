"""Keeping a pod off the nodes where it would fail, by labels that those nodes have and no other candidate does.

Only ever by exclusion (NotIn): a node without the label, one that comes later and an autoscaled pool stay eligible.
Nodes get labels late, and pools declare few, so what is known to follow from the others counts as if it stood there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from webhook.cuda.drivers import reported_by
from webhook.cuda.gpus import generation_of
from webhook.cuda.offer import Offer
from webhook.cuda.verdict import Cause
from webhook.model.selectors import Expression, Operator

_RUNTIME_MAJOR = ("nvidia.com/cuda.runtime-version.major", "nvidia.com/cuda.runtime.major")
_DRIVER_MAJOR = ("nvidia.com/cuda.driver-version.major", "nvidia.com/cuda.driver.major")
_RUNTIME, _FULL = "nvidia.com/cuda.runtime-version.full", "nvidia.com/cuda.driver-version.full"
_COMPUTE = "nvidia.com/gpu.compute.major"
_FAMILY = "nvidia.com/gpu.family"

_DRIVER = (*_RUNTIME_MAJOR, *_DRIVER_MAJOR, _RUNTIME, _FULL)
_GPU = (
    _COMPUTE,
    _FAMILY,
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

_NO_NAME = "undefined"
"""What GPU Feature Discovery writes for a family that it does not know: that of whatever GPU comes next, too."""


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
        foreign = {key: {_NO_NAME, *(labels.get(key) for labels in others)} for key in keys}
        while chosen := _best(keys, foreign, [(at, labels) for at, (labels, why) in remaining.items() if why is cause]):
            key, covered = chosen
            values.setdefault(key, set()).update(remaining[at][0][key] for at in covered)
            excluded = values[key]
            remaining = {at: node for at, node in remaining.items() if node[0].get(key) not in excluded}
    exclusions = tuple(Expression(key, Operator.NOT_IN, tuple(sorted(found))) for key, found in values.items())
    return Steering(exclusions, tuple(remaining))


def foreseen(labels: Labels, offer: Offer) -> Labels:
    """The labels of nodes, and those that GPU Feature Discovery will write by what is known of driver and GPU."""
    return {**_following_from(offer), **labels}


@lru_cache(maxsize=1024)
def _following_from(offer: Offer) -> Labels:
    found: dict[str, str] = {}
    if offer.driver is not None:
        found |= dict.fromkeys(_DRIVER_MAJOR, str(offer.driver.major))
        found |= {_FULL: str(offer.driver)} if offer.is_driver_exact else {}
    cuda = offer.cuda or (reported_by(offer.driver) if offer.driver is not None else None)
    if cuda is not None:
        found |= dict.fromkeys(_RUNTIME_MAJOR, str(cuda.major))
        found[_RUNTIME] = str(cuda.cut(2))
    if offer.compute is not None:
        found[_COMPUTE] = str(offer.compute.major)
        generation = generation_of(offer.compute)
        found |= {_FAMILY: generation.family} if generation is not None else {}
    return found


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
