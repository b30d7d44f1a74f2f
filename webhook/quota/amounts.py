"""What pods count against the limits of a quota.

A weight says what one unit of a GPU resource counts, in whole GPUs, as an exact fraction:

- a MIG slice counts 1/(most slices of its profile on one GPU of the pod's model),
- a partition of an AMD GPU counts 1/(partitions in its mode),
- a share by time-slicing or MPS counts 1/(replicas), where the labels of nodes say how many pods share the GPU.

If a pod may land on several models, or on nodes with other shares, the largest weight counts. The `weights` of a policy
come before all of these.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from webhook.facts.facts import ClusterFacts
from webhook.gpus.gpu_shares import SHAREABLE, share_of
from webhook.gpus.gpu_table import GPUS, GpuTable
from webhook.model.accelerators import DEVICE_CLASSES, SHARED_SUFFIX
from webhook.model.pod import Pod
from webhook.quota.quotas import SHARES, ClaimedDevices, Counting, Demand, Limit, Measure, Quota

UnitParts = Mapping[str, Fraction]
"""Resource -> the largest part of a GPU that one unit may be, below 1."""

WHOLE_UNITS: UnitParts = {}
WHOLE = Fraction(1)

_MIG = re.compile(r"nvidia\.com/mig-(?:([0-9]+)c\.)?([0-9]+)(g\.[0-9]+gb)(.*)", re.ASCII)
_PARTITION = re.compile(r"amd\.com/([a-z]px)_nps[0-9]+", re.ASCII)


def weight(resource: str, models: tuple[str, ...] | None, counting: Counting) -> Fraction:
    """What one unit of `resource` weighs for a pod that may land on `models`; None stands for every model.

    >>> weight("nvidia.com/mig-1g.10gb", ("A100-40GB", "A100-80GB"), Counting())
    Fraction(1, 4)
    """
    own = counting.weights.get(resource)
    return own if own is not None else _weight(resource, models, counting.catalogue.table)


MIG_RESOURCES: tuple[str, ...] = tuple(
    sorted(f"nvidia.com/mig-{profile.replace('+', '.')}" for profile in GPUS.profiles if "g." in profile)
)
"""The names of the resources of all MIG slices that GPUs of this release have."""


def is_unknown_slice(resource: str, table: GpuTable = GPUS) -> bool:
    """Whether a resource is a MIG slice that no GPU of the table has.

    >>> is_unknown_slice("nvidia.com/mig-1g.10gb"), is_unknown_slice("nvidia.com/mig-1g.11gb")
    (False, True)
    """
    mig = _MIG.fullmatch(resource)
    return mig is not None and _profile(*mig.group(2, 3, 4)) not in table.profiles


@lru_cache(maxsize=4096)
def _weight(resource: str, models: tuple[str, ...] | None, table: GpuTable) -> Fraction:
    mig = _MIG.fullmatch(resource)
    if mig is not None:
        compute, size, memory, suffix = mig.groups()
        slices = table.fewest_slices(_profile(size, memory, suffix), models)
        # a compute instance has `compute` of the compute slices of its GPU instance
        parts = 1 if compute is None else int(compute) and int(size) // int(compute)
        return Fraction(1, slices * parts) if slices and parts else WHOLE
    partition = _PARTITION.fullmatch(resource)
    number = table.fewest_slices(partition.group(1), models) if partition is not None else None
    return Fraction(1, number or 1)


def _profile(size: str, memory: str, suffix: str) -> str:
    """The profile of a slice. It has a plus before its suffix, where the name of the resource has a dot."""
    suffix = suffix.removesuffix(SHARED_SUFFIX)
    return f"{size}{memory}" + (f"+{suffix[1:]}" if suffix.startswith(".") else suffix)


_MOST_KEPT = 2048
"""Most demands of one quota whose amounts are remembered. Tenants write the demands."""


def amounts(demand: Demand, quota: Quota) -> Mapping[Limit, Fraction]:
    """What one pod with this demand counts against every limit of the quota. Callers share the map and only read it."""
    known = quota.known_amounts.get(demand)
    if known is None:
        if len(quota.known_amounts) >= _MOST_KEPT:
            quota.known_amounts.clear()
        requests = [*([one] for one in _own(demand, quota)), *demand.requests]
        known = quota.known_amounts[demand] = {
            limit: sum((max(_against(limit, one, quota) for one in request) for request in requests), Fraction(0))
            for limit in quota.limits
        }
    return known


def used(counts: Mapping[Demand, int], quota: Quota) -> dict[Limit, Fraction]:
    """What pods use, from the number of pods with each demand. Namespaces that the quota does not cover use nothing."""
    sums: list[Counter[int]] = [Counter() for _ in quota.limits]  # by denominator: whole numbers are added up faster
    covered = {namespace: quota.covers(namespace) for namespace in {demand.namespace for demand in counts}}
    for demand, count in counts.items():
        if covered[demand.namespace]:
            for by_denominator, amount in zip(sums, amounts(demand, quota).values(), strict=True):
                by_denominator[amount.denominator] += amount.numerator * count
    return {
        limit: sum((Fraction(numerator, denominator) for denominator, numerator in one.items()), Fraction(0))
        for limit, one in zip(quota.limits, sums, strict=True)
    }


@dataclass(frozen=True, slots=True)
class Usage:
    """What is in use of one quota, and by how many `entries` of pods and claims.

    `by_claims` is the part of `used` that claims count: claims in the namespace, and what pods bring for their
    templates. What pods request by name in `resources` is no part of it, also where a DeviceClass stands behind the
    name. `units` is how many units of GPU resources and devices are used, whatever part of a GPU each of them is.

    `gated` is what pods with scheduling gates will use once they start; it is no part of `used`.

    `namespaces` are those that the quota covers, as far as they are known. `version` is the ledger's; empty without a
    ledger. `unconfirmed` is the number of entries whose pods are not stored, as far as this replica knows.
    """

    quota: Quota
    used: Mapping[Limit, Fraction]
    by_claims: Mapping[Limit, Fraction]
    units: int
    entries: int
    namespaces: frozenset[str]
    version: str = ""
    unconfirmed: int = 0
    gated: Mapping[Limit, Fraction] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        counts: Mapping[Demand, int],
        quota: Quota,
        known: Iterable[str] = (),
        gated: Mapping[Demand, int] | None = None,
        **more: Any,
    ) -> "Usage":
        """The usage by so many pods and claims with each demand; `known` are further namespaces that exist."""
        namespaces = frozenset(
            filter(quota.covers, {*known, *(demand.namespace for demand in (*counts, *(gated or ())))})
        )
        claimed, units = Counter[Demand](), 0
        for demand, count in counts.items():
            if demand.requests:
                claimed[replace(demand, gpus=(), models=None)] += count
            if demand.namespace in namespaces:
                devices = sum(max(one.number for one in request) for request in demand.requests)
                units += count * (sum(number for _, number in demand.gpus) + devices)
        by_claims = used(claimed, quota)
        entries = sum(counts.values())
        waiting = used(gated or {}, quota)
        return cls(quota, used(counts, quota), by_claims, units, entries, namespaces, gated=waiting, **more)


def unit_of(demand: Demand, limit: Limit, quota: Quota) -> tuple[str, Fraction] | None:
    """The one resource of a demand, or `shares`, and what a unit of it counts; None for several, and for whole GPUs."""
    if len(demand.gpus) != 1 or demand.requests or limit.measure is Measure.RESOURCE:
        return None
    (own,) = _own(demand, quota)
    one = _weight_of(own, quota.counting)
    resource = SHARES if demand.are_shares else without_part(own.resource)[0]
    return (resource, one) if 0 < one < 1 or demand.are_shares else None


def _own(demand: Demand, quota: Quota) -> Iterator[ClaimedDevices]:
    """What a pod requests by number. What the policy says of the models of a DeviceClass comes first."""
    for name, count in demand.gpus:
        resource, models = without_part(name)[0], demand.models
        if resource.startswith(DEVICE_CLASSES):
            said = quota.counting.class_models.get(resource.removeprefix(DEVICE_CLASSES))
            models = models if said is None else said
        yield ClaimedDevices(name, count, models)


def _weight_of(devices: ClaimedDevices, counting: Counting) -> Fraction:
    """What one unit weighs: by the policy, by the part of a GPU that its name says, or by its resource and models."""
    resource, part = without_part(devices.resource)
    return weight(resource, devices.models, counting) if part is None or resource in counting.weights else part


def _against(limit: Limit, devices: ClaimedDevices, quota: Quota) -> Fraction:
    resource, _ = without_part(devices.resource)
    if limit.measure == Measure.RESOURCE:
        return Fraction(devices.number if _may_be(resource, limit.name, quota) else 0)
    if limit.measure == Measure.MODEL and not _may_have_model(limit.name, resource, devices.models, quota):
        return Fraction(0)
    return devices.number * _weight_of(devices, quota.counting)


def _may_be(resource: str, limited: str, quota: Quota) -> bool:
    """Whether units of a resource may be what a limit names: devices of a DeviceClass have other names as well."""
    if resource == limited:
        return True
    if not resource.startswith(DEVICE_CLASSES):
        return False
    gpu, other = quota.counting.accelerators.of(resource), quota.counting.accelerators.of(limited)
    if gpu is None or other is None or limited.startswith(DEVICE_CLASSES):
        return False
    return (gpu.vendor, gpu.share) == (other.vendor, other.share)


def _may_have_model(name: str, resource: str, models: tuple[str, ...] | None, quota: Quota) -> bool:
    """Whether units of a resource may be GPUs of a model, by their models and their vendor."""
    catalogue = quota.counting.catalogue
    meant = catalogue.leaves(name)
    if models is not None:
        meant = meant.intersection(models)
    vendors = {catalogue.vendor(leaf) for leaf in meant}
    gpu = quota.counting.accelerators.of(resource)
    return bool(vendors) and (None in vendors or gpu is None or gpu.vendor in vendors)


# What part of a GPU one unit of nvidia.com/gpu is on the nodes that a pod may be scheduled to


def unit_parts(pod: Pod, facts: ClusterFacts, table: GpuTable, *, only_shared: bool = False) -> UnitParts:
    """What part of a GPU one unit of a pod's resources is at most, on whichever node the scheduler puts it.

    `only_shared`: units that no other pod uses at the same time, such as MIG slices, are whole.
    """
    if SHAREABLE.isdisjoint(pod.gpus) or not facts.divides_gpus():
        return WHOLE_UNITS
    return parts_on((one.labels for one in facts.selected_nodes(pod)), table, only_shared=only_shared)


def parts_on(labels: Iterable[Mapping[str, str]], table: GpuTable, *, only_shared: bool = False) -> UnitParts:
    """What part of a GPU one unit is at most on nodes with these labels; whole where there is no such node."""
    shares = [share_of(one, table) for one in labels]
    if not shares:
        return WHOLE_UNITS
    largest = {
        resource: max(one.part(resource) if one.is_shared(resource) or not only_shared else WHOLE for one in shares)
        for resource in SHAREABLE
    }
    return {resource: part for resource, part in largest.items() if part < 1}


_SEPARATOR = "@"
"""Stands in a name between the resource and the part, which no resource of Kubernetes has. So an entry keeps what it
counts, whatever becomes of nodes, until its pod is on a node."""


def with_part(resource: str, part: Fraction) -> str:
    """The name in a ledger of a resource with units that are this part of a GPU.

    >>> with_part("nvidia.com/gpu", Fraction(1, 4))
    'nvidia.com/gpu@1/4'
    """
    return f"{resource}{_SEPARATOR}{part}"


@lru_cache(maxsize=1024)
def without_part(name: str) -> tuple[str, Fraction | None]:
    """A resource by its name in a ledger, and the part of a GPU that its units are; None where the name says none.

    >>> without_part("nvidia.com/gpu@1/4")
    ('nvidia.com/gpu', Fraction(1, 4))
    """
    resource, separator, text = name.partition(_SEPARATOR)
    if not separator:
        return name, None
    numerator, _, denominator = text.partition("/")
    if not (_is_number(numerator) and _is_number(denominator)):
        return resource, None
    part = Fraction(int(numerator), int(denominator))
    return resource, part if part < 1 else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 12 and int(text) > 0
