"""Which extended resource names are GPUs, and whose.

Sources: NVIDIA k8s-device-plugin (gpu, gpu.shared, mig-*), kubevirt-gpu-device-plugin and sandbox-device-plugin (pgpu
and names in capitals such as GA102GL_A10 or GRID_T4-16Q), ROCm k8s-device-plugin (gpu and partitions such as
cpx_nps4), Intel device plugins (i915, xe).
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache


class Vendor(StrEnum):
    """Who made a GPU."""

    NVIDIA = "nvidia"
    AMD = "amd"
    INTEL = "intel"


class Share(StrEnum):
    """How much of a GPU one unit of a resource is."""

    WHOLE = "whole"
    SHARED = "shared"
    SLICE = "slice"
    PASSTHROUGH = "passthrough"


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A resource name that stands for GPUs: whose they are and how much of one a unit is."""

    resource: str
    vendor: Vendor
    share: Share

    @property
    def is_shared(self) -> bool:
        """Whether a unit is access to a GPU, or to a MIG slice, that other pods use at the same time."""
        return self.share is Share.SHARED or (self.share is Share.SLICE and self.resource.endswith(SHARED_SUFFIX))


SHARED_SUFFIX = ".shared"
"""What NVIDIA's device plugin appends to the names of resources that it shares between pods (renameByDefault)."""


GPU_PATTERNS: tuple[tuple[Vendor, Share, str], ...] = (
    (Vendor.NVIDIA, Share.WHOLE, r"nvidia\.com/gpu"),
    (Vendor.NVIDIA, Share.SHARED, r"nvidia\.com/gpu\.shared"),
    (Vendor.NVIDIA, Share.SLICE, r"nvidia\.com/mig-([0-9]+c\.)?[0-9]+g\.[0-9]+gb([.+-][A-Za-z0-9.+-]+)?"),
    (Vendor.NVIDIA, Share.PASSTHROUGH, r"nvidia\.com/(pgpu|[A-Z][A-Za-z0-9_.-]*)"),
    (Vendor.AMD, Share.WHOLE, r"amd\.com/gpu"),
    (Vendor.AMD, Share.SLICE, r"amd\.com/[sdqc]px_nps[0-9]+"),
    (Vendor.INTEL, Share.WHOLE, r"gpu\.intel\.com/(i915|xe)"),
)
"""Every name that is a GPU, as regular expressions that RE2 and Python read alike; the CEL in deploy/ has them too."""

_COMPILED = tuple((vendor, share, re.compile(pattern)) for vendor, share, pattern in GPU_PATTERNS)

GPU_ATTRIBUTES = frozenset(
    {"nvidia.com/gpumem", "nvidia.com/gpucores", "nvidia.com/gpumem-percentage", "nvidia.com/priority"}
)
"""Names that describe a share of a GPU, which another webhook (HAMi) may still turn into a GPU."""


_LONGEST_NAME = 253 + 1 + 63
"""Most characters of a resource name: a DNS subdomain, a slash and a name. Longer ones are not worth remembering."""


def accelerator(resource: str) -> Accelerator | None:
    """The GPU behind a resource name, or None for anything else, look-alikes such as nvidia.com/gpumem included.

    >>> accelerator("nvidia.com/mig-1g.10gb").share
    <Share.SLICE: 'slice'>
    >>> accelerator("nvidia.com/rdma-vf") is None
    True
    """
    return _known(resource) if len(resource) <= _LONGEST_NAME else None


@lru_cache(maxsize=1024)
def _known(resource: str) -> Accelerator | None:
    for vendor, share, pattern in _COMPILED:
        if pattern.fullmatch(resource):
            return Accelerator(resource, vendor, share)
    return None
