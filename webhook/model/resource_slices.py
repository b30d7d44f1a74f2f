"""ResourceSlices (DRA): the GPUs that a driver offers for claims, on a node or elsewhere.

The shapes are those of resource.k8s.io in Kubernetes 1.36. The attributes and capacities of a device stand in `basic`
in v1beta1, and in the device itself in v1beta2 and v1. The name of an attribute may begin with the driver and a slash.

A device is allocated once, unless it allows multiple allocations. So the number of devices that are listed is the most
that can be allocated at a time. Devices that share counters (partitions of one GPU) may be fewer at a time.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from webhook.model.json_parts import listed, mapped, part, text
from webhook.model.quantity import positive

SLICE = "ResourceSlice"
NVIDIA, AMD, INTEL = "gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com"
GPU_DRIVERS = frozenset({NVIDIA, AMD, INTEL})
"""The DRA drivers of GPUs. Sources: NVIDIA/k8s-dra-driver-gpu (cmd/gpu-kubelet-plugin), ROCm/k8s-gpu-dra-driver
(pkg/consts/consts.go), intel/intel-resource-drivers-for-kubernetes (charts/intel-gpu-resource-driver)."""

_ATTRIBUTES = {
    "type": ("type",),
    "product": ("productName", "model"),
    "driver_version": ("driverVersion",),
    "cuda_driver_version": ("cudaDriverVersion",),
    "compute_capability": ("cudaComputeCapability",),
    "profile": ("profile", "partitionProfile"),
}
"""What is kept of a device -> the attributes that say it. Sources: deviceinfo.go of NVIDIA's and AMD's drivers, which
say a product's name in `productName`, and node_state.go of Intel's driver, which says it in `model`. The profile of a
MIG device is `profile`, the one of AMD's partitions `partitionProfile`."""

_VFIO = "vfio"
"""The type of devices that go to virtual machines, whose own driver nobody knows."""
_BARRING = ("NoSchedule", "NoExecute")
"""Effects of taints that keep claims off a device (DeviceTaintEffect in k8s.io/api/resource/v1/types.go)."""
_PARTS = 1000
"""Parts of a device are rounded to one of so many parts of it."""


class Portions(NamedTuple):
    """The amounts of memory, in bytes, in which several claims share a device: one of `values`, or else `least` and any
    number of `step` more.

    Source: CapacityRequestPolicy in k8s.io/api/resource/v1/types.go.
    """

    least: int = 0
    step: int = 1
    values: tuple[int, ...] = ()

    def rounded(self, amount: int) -> int | None:
        """The smallest such amount that is enough; None where none is."""
        if self.values:
            return min((value for value in self.values if value >= amount), default=None)
        return self.least + -(-max(amount - self.least, 0) // self.step) * self.step


class DeviceKind(NamedTuple):
    """Devices that are alike. What a driver does not say is empty; `memory` is in bytes, None where it is not said.

    `type` is `gpu`, `mig` or `vfio` of NVIDIA's driver, `amdgpu`, `amdgpu-partition` or `vfio` of AMD's, and empty of
    Intel's. `shares_counters`: a device is a partition, or may be partitioned, so perhaps not all fit at a time.
    `taints` are the sorted keys of taints that keep claims off the devices. `portions`: several claims may have one
    device, each a part of its memory; None for devices that are allocated whole.
    """

    driver: str
    type: str = ""
    product: str = ""
    driver_version: str = ""
    cuda_driver_version: str = ""
    compute_capability: str = ""
    profile: str = ""
    memory: int | None = None
    shares_counters: bool = False
    taints: tuple[str, ...] = ()
    portions: Portions | None = None

    def part(self, memory: int) -> Fraction:
        """How much of a device a claim gets that asks for so much of its memory, rounded up; 1 where nobody knows."""
        if not memory or self.portions is None or self.memory is None or self.profile:
            return Fraction(1)
        amount = self.portions.rounded(memory) or self.memory
        return min(Fraction(-(-amount * _PARTS // self.memory), _PARTS), Fraction(1))


class SliceDriver(NamedTuple):
    """What the ResourceSlices of a node say of its NVIDIA driver and GPUs.

    Empty is what they do not say, or say differently of several devices. `cuda` is the newest CUDA of the driver.
    """

    driver: str = ""
    cuda: str = ""
    product: str = ""
    compute: str = ""


CountedDevices = tuple[tuple[DeviceKind, int], ...]
"""Kinds of devices, each with the number of devices."""


class ResourceSlice(NamedTuple):
    """A ResourceSlice of a driver of GPUs.

    `node` is empty where its devices do not belong to one node. `pool_slices` is the number of slices that the pool has
    in this generation. `is_bounded`: no more devices than are listed can be allocated at a time.
    """

    name: str
    node: str
    driver: str
    pool: str
    generation: int
    pool_slices: int
    devices: CountedDevices
    is_bounded: bool


def slice_from_raw(raw: object) -> ResourceSlice | None:
    """Read a ResourceSlice of any shape; None without a name, and of a driver that has no GPUs."""
    name, spec = part(raw, "metadata", "name"), mapped(raw, "spec")
    driver, pool = spec.get("driver"), mapped(spec, "pool")
    if not isinstance(name, str) or not name:
        return None
    if not isinstance(driver, str) or driver not in GPU_DRIVERS:
        return None
    node, pool_name = text(spec, "nodeName"), text(pool, "name")
    devices = [mapped(one) for one in listed(spec, "devices")]
    return ResourceSlice(
        name,
        node,
        driver,
        node if pool_name == node else pool_name,
        _number(pool.get("generation")),
        _number(pool.get("resourceSliceCount")),
        _alike(tuple(sorted(Counter(_kind(one, driver) for one in devices).items(), key=str))),
        is_bounded=not any(map(_is_shared, devices)),
    )


@lru_cache(maxsize=1024)
def driver_of_slices(devices: CountedDevices) -> SliceDriver | None:
    """What these devices say of the NVIDIA driver; None where none of them is for containers."""
    kinds = [kind for kind, _ in devices if kind.driver == NVIDIA and kind.type != _VFIO]
    if not kinds:
        return None
    fields = ("driver_version", "cuda_driver_version", "product", "compute_capability")
    said = ({getattr(kind, name) for kind in kinds} for name in fields)
    return SliceDriver(*(texts.pop() if len(texts) == 1 else "" for texts in said))


@lru_cache(maxsize=4096)
def _alike(devices: CountedDevices) -> CountedDevices:
    return devices


def _is_shared(device: Mapping[str, Any]) -> bool:
    """Whether a device may be allocated several times (`allowMultipleAllocations`)."""
    return bool(device.get("allowMultipleAllocations") or mapped(device, "basic").get("allowMultipleAllocations"))


def _kind(device: Mapping[str, Any], driver: str) -> DeviceKind:
    device = {**device, **mapped(device, "basic")}
    attributes, capacity = mapped(device, "attributes"), mapped(device, "capacity")
    texts = {field: _attribute(attributes, driver, names) for field, names in _ATTRIBUTES.items()}
    memory = capacity.get("memory", capacity.get(f"{driver}/memory"))
    consumes, portions = bool(listed(device, "consumesCounters")), None
    if _is_shared(device):
        policy = mapped(memory, "requestPolicy")
        least, step = (positive(part(policy, "validRange", key)) for key in ("min", "step"))
        values = tuple([size for one in listed(policy, "validValues") if (size := positive(one))])
        portions = Portions(least or 0, step or 1, values)
    size = positive(mapped(memory).get("value"))
    barring = [one for one in listed(device, "taints") if part(one, "effect") in _BARRING]
    taints = tuple(sorted({text(one, "key") for one in barring} - {""}))
    return DeviceKind(driver, memory=size, shares_counters=consumes, taints=taints, portions=portions, **texts)


def _attribute(attributes: Mapping[str, Any], driver: str, names: Iterable[str]) -> str:
    for name in names:
        found = mapped(attributes.get(name, attributes.get(f"{driver}/{name}")))
        if said := text(found, "string") or text(found, "version"):
            return said
    return ""


def _number(value: object) -> int:
    return value if type(value) is int and value >= 0 else 0


_IN_CONTAINERS = frozenset({"gpu", "mig"})
"""Types of devices of NVIDIA's driver that containers use."""
_LONGEST_KEPT = 2048
"""Most characters of an expression about products; tenants write it in claims, and answers are kept."""
_DRIVER = re.compile(r"""\s*device\.driver\s*==\s*(['"])([a-z0-9.-]{1,63})\1\s*(?:&&(.*))?""", re.DOTALL)
_TYPE = re.compile(
    r"""\s*device\.attributes\[(['"])([a-z0-9.-]{1,63})\1\]\.type\s*==\s*(['"])([A-Za-z0-9-]{1,64})\3\s*(?:&&.*)?""",
    re.DOTALL,
)


class DeviceClass(NamedTuple):
    """What is known of a DeviceClass.

    `extended` is its extended resource, empty where it has none. Its devices are of this `driver` of GPUs and of this
    `type`, and `product`; these are empty where that is not certain.

    Source: `extendedResourceName` of DeviceClassSpec, in all versions of resource.k8s.io that have DeviceClasses of
    Kubernetes 1.34 and newer (KEP-5004).
    """

    extended: str = ""
    driver: str = ""
    type: str = ""
    product: str = ""

    @property
    def is_for_nvidia_containers(self) -> bool:
        return self.driver == NVIDIA and self.type in _IN_CONTAINERS


def device_class_from_raw(raw: object) -> tuple[str, DeviceClass] | None:
    """The name of a DeviceClass, and what is known of the class. None where it has no name."""
    name = part(raw, "metadata", "name")
    if not isinstance(name, str) or not name:
        return None
    spec = mapped(raw, "spec")
    resource = spec.get("extendedResourceName")
    selected = (_selected(part(one, "cel", "expression")) for one in listed(spec, "selectors"))
    driver, kind = max(selected, default=("", ""), key=lambda found: (bool(found[0]), bool(found[1])))
    product = product_of(listed(spec, "selectors"))
    return name, DeviceClass(resource if isinstance(resource, str) else "", driver, kind, product)


def _selected(expression: object) -> tuple[str, str]:
    """The driver and the type of all devices that a selector may select; empty where they are not certain.

    `||` and `?` bind less tightly than `&&`, so nothing is certain of an expression that has one of them anywhere.

    >>> _selected("device.driver == 'gpu.amd.com'"), _selected("device.driver == 'gpu.amd.com' || true")
    (('gpu.amd.com', ''), ('', ''))
    """
    if not isinstance(expression, str) or "||" in expression or "?" in expression:
        return "", ""
    found = _DRIVER.fullmatch(expression)
    if found is None or found[2] not in GPU_DRIVERS:
        return "", ""
    of_type = _TYPE.fullmatch(found[3] or "")
    return found[2], of_type[4] if of_type is not None and of_type[2] == found[2] else ""


_COMPARED = re.compile(
    r"""device\.attributes\[(?:"[a-z0-9.-]+"|'[a-z0-9.-]+')\]\.productName\s*==\s*(?:"([^"\\]{1,64})"|'([^'\\]{1,64})')"""
)
_TEXT = re.compile(r"""(?:"[^"\n]*"|'[^'\n]*')""")


def product_of(selectors: Iterable[object]) -> str:
    """The product that all devices of a request have; empty where the selectors leave it open."""
    for selector in selectors:
        expression = part(selector, "cel", "expression")
        if isinstance(expression, str) and len(expression) <= _LONGEST_KEPT and (found := _product(expression)):
            return found
    return ""


@lru_cache(maxsize=1024)
def _product(expression: str) -> str:
    for one in _conjunction(expression):
        compared = _COMPARED.fullmatch(one.strip())
        if compared is not None:
            return compared.group(1) or compared.group(2)
    return ""


def _conjunction(expression: str) -> Iterator[str]:
    """The parts of an expression that all have to be true; nothing where it is no plain conjunction."""
    if "\\" in expression or '"""' in expression or "'''" in expression:
        return  # where such texts end would need all of the grammar
    bare = _TEXT.sub(lambda text: "_" * len(text.group()), expression)  # operators in texts are none
    if any(sign in bare for sign in ("||", "?", "//", '"', "'")):
        return
    depth = start = 0
    for at, sign in enumerate(bare):
        depth += (sign in "([{") - (sign in ")]}")
        if not depth and bare.startswith("&&", at):
            yield expression[start:at]
            start = at + 2
    if not depth:
        yield expression[start:]
