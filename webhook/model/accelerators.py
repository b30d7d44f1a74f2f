"""Which extended resource names are GPUs, and whose.

Sources: NVIDIA k8s-device-plugin (gpu, gpu.shared, mig-*), kubevirt-gpu-device-plugin and sandbox-device-plugin (pgpu
and names in capitals such as GA102GL_A10 or GRID_T4-16Q), ROCm k8s-device-plugin (gpu and partitions such as
cpx_nps4), Intel device plugins (i915, xe, and *_monitoring, which opens all GPUs of a node). Device classes are those
of the charts of the DRA drivers: NVIDIA k8s-dra-driver-gpu, ROCm k8s-gpu-dra-driver, Intel resource drivers, whose
class is called intel.com/gpu as well.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

from webhook.model.globs import matcher


class Vendor(StrEnum):
    """Who made a GPU."""

    NVIDIA = "nvidia"
    AMD = "amd"
    INTEL = "intel"
    OTHER = "other"
    """Whoever makes what only a policy declares; no GPU that is known by itself has it."""


class Share(StrEnum):
    """How much of a GPU one unit of a resource is."""

    WHOLE = "whole"
    SHARED = "shared"
    SLICE = "slice"
    PASSTHROUGH = "passthrough"
    NODE = "node"
    """A unit opens every GPU of its node, however many they are."""


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A resource name that stands for GPUs: whose they are and how much of one a unit is."""

    resource: str
    vendor: Vendor
    share: Share
    by_dra: bool = False
    """Whether a DRA driver gives it: no node lists it, and CDI brings it into the container."""

    @property
    def is_listed(self) -> bool:
        """Whether nodes list it, and list one for each GPU, or for each part or share of one."""
        return not self.by_dra and self.share is not Share.NODE

    @property
    def is_of_a_class(self) -> bool:
        """Whether it is a device class by its name. Kubernetes takes requests for these without limits."""
        return self.resource.startswith(DEVICE_CLASSES)

    @property
    def is_shared(self) -> bool:
        """Whether a unit is access to a GPU, or to a MIG slice, that other pods use at the same time."""
        return self.share is Share.SHARED or (self.share is Share.SLICE and self.resource.endswith(SHARED_SUFFIX))


SHARED_SUFFIX = ".shared"
"""What NVIDIA's device plugin appends to the names of resources that it shares between pods (renameByDefault)."""


DEVICE_CLASSES = "deviceclass.resource.kubernetes.io/"
"""Prefix of the name that every DeviceClass is an extended resource by (KEP-5004; on by default from 1.36)."""

_CLASS = re.escape(DEVICE_CLASSES)

GPU_PATTERNS: tuple[tuple[Vendor, Share, str], ...] = (
    (Vendor.NVIDIA, Share.WHOLE, r"nvidia\.com/gpu"),
    (Vendor.NVIDIA, Share.SHARED, r"nvidia\.com/gpu\.shared"),
    (Vendor.NVIDIA, Share.SLICE, r"nvidia\.com/mig-([0-9]+c\.)?[0-9]+g\.[0-9]+gb([.+-][A-Za-z0-9.+-]+)?"),
    (Vendor.NVIDIA, Share.PASSTHROUGH, r"nvidia\.com/(pgpu|[A-Z][A-Za-z0-9_.-]*)"),
    (Vendor.AMD, Share.WHOLE, r"amd\.com/gpu"),
    (Vendor.AMD, Share.SLICE, r"amd\.com/[sdqc]px_nps[0-9]+"),
    (Vendor.INTEL, Share.WHOLE, r"gpu\.intel\.com/(i915|xe)"),
    (Vendor.INTEL, Share.NODE, r"gpu\.intel\.com/(i915|xe)_monitoring"),
    (Vendor.INTEL, Share.WHOLE, r"intel\.com/gpu"),
    (Vendor.NVIDIA, Share.WHOLE, _CLASS + r"gpu\.nvidia\.com"),
    (Vendor.NVIDIA, Share.SLICE, _CLASS + r"mig\.nvidia\.com"),
    (Vendor.NVIDIA, Share.PASSTHROUGH, _CLASS + r"vfio\.gpu\.nvidia\.com"),
    (Vendor.AMD, Share.WHOLE, _CLASS + r"gpu\.amd\.com"),
    (Vendor.AMD, Share.PASSTHROUGH, _CLASS + r"vfio\.gpu\.amd\.com"),
    (Vendor.INTEL, Share.WHOLE, _CLASS + r"gpu\.intel\.com"),
    (Vendor.INTEL, Share.PASSTHROUGH, _CLASS + r"gpu-vfio\.intel\.com"),
)
"""Every name that is a GPU, as regular expressions that RE2 and Python read alike; the CEL in deploy/ has them too."""

_COMPILED = tuple((vendor, share, re.compile(pattern)) for vendor, share, pattern in GPU_PATTERNS)

_OTHER_CLASSES = re.compile(
    _CLASS + r"(compute-domain-(daemon|default-channel)\.nvidia\.com|(mrdma|netdev|tpu)\.google\.com|dra\.(net|cpu))"
)
"""Device classes that are no GPUs: channels between GPUs, network cards, TPUs and CPUs, as their drivers call them."""

GPU_ATTRIBUTES = frozenset(
    {"nvidia.com/gpumem", "nvidia.com/gpucores", "nvidia.com/gpumem-percentage", "nvidia.com/priority"}
)
"""Names that describe a share of a GPU, which another webhook (HAMi) may still turn into a GPU."""


_LONGEST_NAME = 253 + 1 + 63
"""Most characters of a resource name: a DNS subdomain, a slash and a name. Longer ones are not worth remembering."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a policy says of names that nobody else knows: a name, or a glob of names with `*` and `?`.

    `share` is None where they are no GPUs at all.
    """

    name: str
    vendor: Vendor = Vendor.OTHER
    share: Share | None = Share.WHOLE
    by_dra: bool = False

    @property
    def pattern(self) -> str:
        """The names as a regular expression for RE2 and Python; the chart makes the same of its values."""
        return "".join({"*": ".*", "?": "."}.get(one) or re.escape(one).replace("\\-", "-") for one in self.name)


@dataclass(frozen=True)
class Accelerators:
    """Which resource names are GPUs in a cluster: those that everybody knows, and those that a policy declares.

    What everybody knows comes first, and no declaration changes it.
    """

    declared: tuple[Declared, ...] = ()
    of: Callable[[str], Accelerator | None] = field(init=False, compare=False, repr=False)
    """The GPU behind a resource name, or None for anything else, look-alikes such as nvidia.com/gpumem included.

    >>> BUILT_IN.of("nvidia.com/mig-1g.10gb").share
    <Share.SLICE: 'slice'>
    >>> BUILT_IN.of("nvidia.com/rdma-vf") is None
    True
    """

    def __post_init__(self) -> None:
        own = tuple((one, matcher(one.name)) for one in self.declared)

        @lru_cache(maxsize=1024)
        def known(resource: str) -> Accelerator | None:
            return _built_in(resource) or _declared(resource, own)

        object.__setattr__(self, "of", lambda resource: known(resource) if len(resource) <= _LONGEST_NAME else None)

    def may_be_gpus(self, resource: str) -> bool:
        """Whether a name is a device class of which nobody has said whether it is GPUs.

        >>> BUILT_IN.may_be_gpus(DEVICE_CLASSES + "h100"), BUILT_IN.may_be_gpus(DEVICE_CLASSES + "gpu.nvidia.com")
        (True, False)
        """
        if not resource.startswith(DEVICE_CLASSES) or self.of(resource) is not None:
            return False
        return not (_OTHER_CLASSES.fullmatch(resource) or any(self._matching(resource)))

    def declaration(self, resource: str) -> str:
        """The name or glob by which a policy declares a resource; empty where none does, or it is known anyway."""
        if not self.declared or _built_in(resource) is not None:
            return ""
        return next((one.name for one in self._matching(resource)), "")

    def _matching(self, resource: str) -> list[Declared]:
        return [one for one in self.declared if matcher(one.name).fullmatch(resource)]


def _built_in(resource: str) -> Accelerator | None:
    for vendor, share, pattern in _COMPILED:
        if pattern.fullmatch(resource):
            by_dra = resource.startswith(DEVICE_CLASSES) or resource == "intel.com/gpu"
            return Accelerator(resource, vendor, share, by_dra)
    return None


def _declared(resource: str, declared: tuple[tuple[Declared, re.Pattern[str]], ...]) -> Accelerator | None:
    """By the first declaration that matches; attributes of GPUs stay none."""
    for one, pattern in declared:
        if resource not in GPU_ATTRIBUTES and pattern.fullmatch(resource):
            by_dra = one.by_dra or resource.startswith(DEVICE_CLASSES)
            return None if one.share is None else Accelerator(resource, one.vendor, one.share, by_dra)
    return None


BUILT_IN = Accelerators()
"""What is known without a policy."""

ANY = Accelerators((Declared("*/*", Vendor.NVIDIA),))
"""Where what a policy declares is not known: any name with a domain may be a GPU's, and NVIDIA's, of which policies may
say most."""

CONTEXT = "accelerators"
"""Under which key whoever validates settings says which names are GPUs."""


def accelerators_in(context: Any) -> Accelerators:
    """Those of the context in which settings are validated; without one, those that everybody knows."""
    found: Accelerators = (context or {}).get(CONTEXT, BUILT_IN)
    return found


accelerator = BUILT_IN.of
"""The GPU behind a name that everybody knows. Where a policy may have declared more, its `Accelerators` is asked."""
