"""Resource claims (DRA): which devices a claim asks for, and which claims a pod names.

The shapes are those of resource.k8s.io in Kubernetes. A request names its class itself (v1alpha3, v1beta1), or in
`exactly` (v1beta2, v1), or it names several in `firstAvailable` (from 1.33), of which the scheduler takes the first
that it can have. Without `count` it is for one device. `adminAccess` is for those who watch devices that others use.
NVIDIA's DRA driver makes the template that a ComputeDomain names, with one channel in it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from webhook.model.accelerators import DEVICE_CLASSES, Accelerators, Vendor
from webhook.model.workloads.parts import listed, mapped, part

CLAIM, TEMPLATE = "ResourceClaim", "ResourceClaimTemplate"
GROUP = "resource.k8s.io"
_DOMAIN = ("resource.nvidia.com", "ComputeDomain")
_CHANNEL = "compute-domain-default-channel.nvidia.com"
_NAMED = ((CLAIM, "resourceClaimName"), (TEMPLATE, "resourceClaimTemplateName"))
_MOST = 32
"""Requests of a claim, and claims of a pod, that are looked at; the API server takes no more of the former."""
_LARGEST = 2**63
"""No count is larger than what 64 bits hold."""


class Devices(NamedTuple):
    """Devices of one class. `number` is None for all that match."""

    device_class: str
    number: int | None = 1
    is_administrative: bool = False

    def may_be_gpus(self, accelerators: Accelerators) -> bool:
        """Whether they are GPUs, or of a class of which nobody has said what it is."""
        name = DEVICE_CLASSES + self.device_class
        return accelerators.of(name) is not None or accelerators.may_be_gpus(name)

    def are_gpus(self, accelerators: Accelerators) -> bool:
        """Whether it is known that they are GPUs."""
        return accelerators.of(DEVICE_CLASSES + self.device_class) is not None


DeviceRequest = tuple[Devices, ...]
"""The devices that a request is satisfied with, of which the scheduler takes the first that it can have. Empty where it
cannot be read."""

Requests = tuple[DeviceRequest, ...]
"""All requests of a claim."""


class ResourceClaim(NamedTuple):
    """A claim, or a template of claims, by its kind and name, with its requests."""

    kind: str
    name: str
    requests: Requests


class PodResourceClaim(NamedTuple):
    """A claim that a pod names: by `kind` and `target`, which are empty where the pod says neither. `name` is what the
    pod calls it.
    """

    name: str
    kind: str = ""
    target: str = ""


def claim_from(raw: Mapping[str, Any]) -> ResourceClaim | None:
    """The claim, or the template of claims, that an object is or leads to; None for every other object."""
    group, kind = str(raw.get("apiVersion")).rpartition("/")[0], raw.get("kind")
    if (group, kind) == _DOMAIN:
        name = part(raw, "spec", "channel", "resourceClaimTemplate", "name")
        return ResourceClaim(TEMPLATE, name, ((Devices(_CHANNEL),),)) if isinstance(name, str) else None
    return claim_of_kind(kind, raw) if group == GROUP and kind in (CLAIM, TEMPLATE) else None


def claim_of_kind(kind: str, raw: object) -> ResourceClaim | None:
    """A claim or a template, which lists of one kind do not call by it; None where it has no name."""
    name = part(raw, "metadata", "name")
    if not isinstance(name, str) or not name:
        return None
    spec = mapped(raw, "spec", "spec") if kind == TEMPLATE else mapped(raw, "spec")
    found = tuple(map(_request, listed(spec, "devices", "requests")[:_MOST]))
    return ResourceClaim(kind, name, found or ((),))


def claims_of(written: object) -> Iterator[PodResourceClaim]:
    """The claims that a pod names in `spec.resourceClaims`; before Kubernetes 1.31 their names stand in `source`."""
    for entry in (written if isinstance(written, list) else [])[:_MOST]:
        source = {**mapped(entry), **mapped(entry, "source")}
        found = ((kind, source.get(key)) for kind, key in _NAMED)
        kind, target = next(((kind, target) for kind, target in found if isinstance(target, str)), ("", ""))
        yield PodResourceClaim(str(source.get("name") or ""), kind, target)


_NAMES = {
    Vendor.NVIDIA: ("nvidia.com/gpu",),
    Vendor.AMD: ("amd.com/gpu",),
    Vendor.INTEL: ("gpu.intel.com/i915", "gpu.intel.com/xe"),
}
"""By which names the policies know the GPUs of a vendor. Which of its drivers an Intel GPU has, no DeviceClass says."""


def names_of_gpus(device_class: str, extended: str, known: Accelerators) -> tuple[str, ...]:
    """The resource names of the GPUs that a DeviceClass gives; empty where nobody knows that it gives GPUs.

    `extended` is its extendedResourceName, empty where it has none. It says what a class is that nobody knows by name.

    >>> names_of_gpus("gpu.nvidia.com", "", Accelerators())
    ('deviceclass.resource.kubernetes.io/gpu.nvidia.com', 'nvidia.com/gpu')
    >>> names_of_gpus("h100", "nvidia.com/gpu", Accelerators()), names_of_gpus("h100", "", Accelerators())
    (('deviceclass.resource.kubernetes.io/h100', 'nvidia.com/gpu'), ())
    """
    name = DEVICE_CLASSES + device_class
    gpu = known.of(name)
    if gpu is None and known.may_be_gpus(name):
        gpu = known.of(extended)
    if gpu is None:
        return ()
    return tuple(dict.fromkeys((name, gpu.resource, *_NAMES.get(gpu.vendor, ()))))


def _request(raw: object) -> DeviceRequest:
    written = listed(raw, "firstAvailable")[:_MOST] or [part(raw, "exactly") or raw]
    found = tuple(devices for one in written if (devices := _devices(mapped(one))) is not None)
    return found if len(found) == len(written) else ()


def _devices(raw: Mapping[str, Any]) -> Devices | None:
    name, mode, count = raw.get("deviceClassName"), raw.get("allocationMode"), raw.get("count")
    is_administrative = raw.get("adminAccess") is True
    if not isinstance(name, str):
        return None
    if mode == "All":
        return Devices(name, None, is_administrative)
    count = 1 if count is None else count
    if mode not in (None, "", "ExactCount") or count.__class__ is not int or not 0 < count < _LARGEST:
        return None
    return Devices(name, count, is_administrative)
