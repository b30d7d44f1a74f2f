"""What the checks of an image against nodes say."""

from enum import StrEnum
from typing import NamedTuple

from webhook.cuda.offer import Offer


class Verdict(StrEnum):
    """Whether an image runs on nodes."""

    COMPATIBLE = "compatible"
    INCOMPATIBLE = "incompatible"
    FORWARD_COMPAT_ONLY = "forward-compat-only"
    """Only with the cuda-compat package that the image brings."""
    UNKNOWN = "unknown"


class Cause(StrEnum):
    """What a verdict is about: the nodes' driver, GPU or CPU architecture, the image alone, or nothing."""

    DRIVER = "driver"
    GPU = "gpu"
    ARCHITECTURE = "architecture"
    IMAGE = "image"
    NONE = "none"


class CudaFinding(NamedTuple):
    """What one check says; the reason is a sentence without capital and period, with both sides in it."""

    verdict: Verdict
    cause: Cause
    reason: str


def gpu_of(offer: Offer) -> str:
    """The GPU as people know it, with its compute capability where that is known."""
    name = offer.product or "the GPU"
    return f"{name} has {offer.compute}" if offer.compute is not None else name


def driver_of(offer: Offer) -> str:
    """What the nodes have for a driver."""
    if offer.driver is None:
        return f"the node's driver reports CUDA {offer.cuda}"
    return f"the node has {offer.driver}{'' if offer.is_driver_exact else ', and the rest of its version is not known'}"
