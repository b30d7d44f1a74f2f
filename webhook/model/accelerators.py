"""Which names of extended resources are GPUs, and which vendor they have.

Sources: NVIDIA k8s-device-plugin (gpu, gpu.shared, mig-*), kubevirt-gpu-device-plugin and sandbox-device-plugin (pgpu
and names in capitals such as GA102GL_A10 or GRID_T4-16Q), ROCm k8s-device-plugin (gpu and partitions such as
cpx_nps4), Intel device plugins (i915, xe, and *_monitoring, which opens all GPUs of a node). Device classes are from
the charts of the DRA drivers: NVIDIA k8s-dra-driver-gpu, ROCm k8s-gpu-dra-driver, Intel resource drivers, whose class
is called intel.com/gpu as well.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

from webhook.model.globs import matcher


class Vendor(StrEnum):
    """The vendor of a GPU."""

    NVIDIA = "nvidia"
    AMD = "amd"
    INTEL = "intel"
    OTHER = "other"
    """The vendor of GPUs whose names only a policy declares. No built-in name has it."""


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
    """A resource name that stands for GPUs: their vendor, and how much of a GPU one unit is."""

    resource: str
    vendor: Vendor
    share: Share
    by_dra: bool = False
    """Whether a DRA driver allocates it: no node lists it, and CDI brings it into the container."""

    @property
    def is_listed(self) -> bool:
        """Whether nodes list it in their capacity, one unit for each GPU, partition or share."""
        return not self.by_dra and self.share is not Share.NODE

    @property
    def is_of_a_class(self) -> bool:
        """Whether the name stands for a device class. Kubernetes accepts requests for such names without limits."""
        return self.resource.startswith(DEVICE_CLASSES)

    @property
    def is_shared(self) -> bool:
        """Whether other pods use the same GPU, or the same MIG partition, at the same time."""
        return self.share is Share.SHARED or (self.share is Share.SLICE and self.resource.endswith(SHARED_SUFFIX))


SHARED_SUFFIX = ".shared"
"""What NVIDIA's device plugin appends to the names of resources that it shares between pods (renameByDefault)."""


DEVICE_CLASSES = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource name that every DeviceClass has (KEP-5004; on by default from 1.36)."""

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
"""Every built-in name of GPUs, as regular expressions that RE2 and Python read alike; the CEL in deploy/ uses them."""

_COMPILED = tuple((vendor, share, re.compile(pattern)) for vendor, share, pattern in GPU_PATTERNS)

OTHER_CLASSES = r"compute-domain-(daemon|default-channel)\.nvidia\.com|(mrdma|netdev|tpu)\.google\.com|dra\.(net|cpu)"
"""Device classes that are no GPUs: channels between GPUs, network cards, TPUs and CPUs."""

_OTHERS = re.compile(f"{_CLASS}({OTHER_CLASSES})")

GPU = "nvidia.com/gpu"
GPUMEM, GPUCORES, PERCENTAGE = "nvidia.com/gpumem", "nvidia.com/gpucores", "nvidia.com/gpumem-percentage"
GPU_ATTRIBUTES = frozenset({GPUMEM, GPUCORES, PERCENTAGE, "nvidia.com/priority"})
"""Names that describe a share of a GPU. Another webhook (HAMi) may turn them into a GPU later."""


_LONGEST_NAME = 253 + 1 + 63
"""Most characters of a resource name: a DNS subdomain, a slash and a name. Longer names are not cached."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A name of resources, or a glob of names with `*` and `?`, that a policy declares.

    `share` is None where the names stand for no GPUs.
    """

    name: str
    vendor: Vendor = Vendor.OTHER
    share: Share | None = Share.WHOLE
    by_dra: bool = False

    @property
    def pattern(self) -> str:
        """The name or glob as a regular expression for RE2 and Python. The chart makes equal ones from its values."""
        return "".join({"*": ".*", "?": "."}.get(one) or re.escape(one).replace("\\-", "-") for one in self.name)


@dataclass(frozen=True)
class Accelerators:
    """The resource names that are GPUs in a cluster: the built-in names, and the names that a policy declares.

    Built-in names come first, and no declaration changes their meaning.
    """

    declared: tuple[Declared, ...] = ()
    of: Callable[[str], Accelerator | None] = field(init=False, compare=False, repr=False)
    """The GPU behind a resource name; None for everything else, including look-alikes such as nvidia.com/gpumem.

    >>> BUILT_IN.of("nvidia.com/mig-1g.10gb").share
    <Share.SLICE: 'slice'>
    >>> BUILT_IN.of("nvidia.com/rdma-vf") is None
    True
    """

    def __post_init__(self) -> None:
        known = lru_cache(maxsize=1024)(lambda resource: _built_in(resource) or self._declared(resource))
        object.__setattr__(self, "of", lambda resource: known(resource) if len(resource) <= _LONGEST_NAME else None)

    def may_be_gpus(self, resource: str) -> bool:
        """Whether a name is a device class that may be GPUs: it is neither built in nor declared.

        >>> BUILT_IN.may_be_gpus(DEVICE_CLASSES + "h100"), BUILT_IN.may_be_gpus(DEVICE_CLASSES + "gpu.nvidia.com")
        (True, False)
        """
        if not resource.startswith(DEVICE_CLASSES) or self.of(resource) is not None:
            return False
        return not (_OTHERS.fullmatch(resource) or any(self._matching(resource)))

    def has_nvidia(self, resources: Iterable[str]) -> bool:
        return any(gpu is not None and gpu.vendor is Vendor.NVIDIA for gpu in map(self.of, resources))

    def declaration(self, resource: str) -> str:
        """The name or glob by which a policy declares a resource; empty for built-in names and for unknown ones."""
        if not self.declared or _built_in(resource) is not None:
            return ""
        return next((one.name for one in self._matching(resource)), "")

    def _matching(self, resource: str) -> list[Declared]:
        return [one for one in self.declared if matcher(one.name).fullmatch(resource)]

    def _declared(self, resource: str) -> Accelerator | None:
        """The GPU by the first declaration that matches. Attributes of GPUs are never GPUs themselves."""
        one = next(iter(self._matching(resource)), None)
        if one is None or one.share is None or resource in GPU_ATTRIBUTES:
            return None
        return Accelerator(resource, one.vendor, one.share, one.by_dra or resource.startswith(DEVICE_CLASSES))


def _built_in(resource: str) -> Accelerator | None:
    for vendor, share, pattern in _COMPILED:
        if pattern.fullmatch(resource):
            by_dra = resource.startswith(DEVICE_CLASSES) or resource == "intel.com/gpu"
            return Accelerator(resource, vendor, share, by_dra)
    return None


BUILT_IN = Accelerators()
"""The names that are known without a policy."""

ANY = Accelerators((Declared("*/*", Vendor.NVIDIA),))
"""For code that does not know the policy: any name with a domain may be a GPU. The vendor is NVIDIA, because most
rules are about NVIDIA's GPUs."""

CONTEXT = "accelerators"
"""The key in the context of pydantic's validation that holds the names of GPUs, as `Accelerators`."""


def accelerators_in(context: Any) -> Accelerators:
    """The names of GPUs in the context in which settings are validated; without a context the built-in names."""
    found: Accelerators = (context or {}).get(CONTEXT, BUILT_IN)
    return found


accelerator = BUILT_IN.of
"""The GPU behind a built-in name. Code that knows the policy asks the policy's `Accelerators` instead."""
