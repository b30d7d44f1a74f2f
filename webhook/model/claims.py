"""Resource claims (DRA): the devices that a claim requests, and the claims that a pod names.

The shapes are those of resource.k8s.io in Kubernetes. A request names its device class directly (v1alpha3, v1beta1), or
in `exactly` (v1beta2, v1). Or it names several classes in `firstAvailable` (from 1.33), and the scheduler takes the
first class that is available. Without `count` a request is for one device. `adminAccess` is for monitoring devices
that other pods use. NVIDIA's DRA driver makes the template that a ComputeDomain names, with one channel in it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

from webhook.model.accelerators import BUILT_IN, DEVICE_CLASSES, Accelerators, Vendor
from webhook.model.json_parts import listed, mapped, part
from webhook.model.pod_reader import controller_of
from webhook.model.quantity import positive
from webhook.model.resource_slices import NVIDIA, product_of
from webhook.model.subject import PodSubject, subject_of

CLAIM, TEMPLATE = "ResourceClaim", "ResourceClaimTemplate"
GROUP = "resource.k8s.io"
_DOMAIN = ("resource.nvidia.com", "ComputeDomain")
_CHANNEL = "compute-domain-default-channel.nvidia.com"
_NAMED = ((CLAIM, "resourceClaimName"), (TEMPLATE, "resourceClaimTemplateName"))
MOST_CLAIMS = 128
"""Most claims of a pod that are read. The API server sets no bound."""
MOST_READ = 32
"""Most requests of a claim, and most alternatives of a request, that are read. The API server allows no more."""
MOST_ALLOCATED = 32
"""Most devices that the scheduler allocates for a claim (AllocationResultsMaxSize), also with `adminAccess`."""


class Devices(NamedTuple):
    """Devices of one class. `number` is None for all matching devices.

    Where several alternatives differ in their number only, `number` is the largest and `fewest` the smallest one;
    `fewest` is 0 where both are equal.

    `product` is the only productName that the selectors of the request allow; empty where they say none. `extended` is
    the extended resource of the class, once that was looked up. `tolerated` are the keys of taints of devices that the
    request tolerates, sorted; an empty key tolerates all. `memory` are the bytes that it asks of each device
    (`capacity.requests.memory`), 0 for the whole device, and `part` is how much of a device they are, once looked up.
    `by_mps`: parameters of the claim have NVIDIA's driver share devices by MPS.
    """

    device_class: str
    number: int | None = 1
    is_administrative: bool = False
    fewest: int = 0
    product: str = ""
    extended: str = ""
    by_mps: bool = False
    tolerated: tuple[str, ...] = ()
    memory: int = 0
    part: Fraction = Fraction(1)

    @property
    def least(self) -> int:
        """The number of devices at least; the scheduler allocates none for `All` where a node has none."""
        return self.fewest or self.number or 1

    def may_be_gpus(self, accelerators: Accelerators) -> bool:
        """Whether they are GPUs, or of an unknown class."""
        name = DEVICE_CLASSES + self.device_class
        return accelerators.of(name) is not None or accelerators.may_be_gpus(name)

    def are_gpus(self, accelerators: Accelerators) -> bool:
        return accelerators.of(DEVICE_CLASSES + self.device_class) is not None


DeviceRequest = tuple[Devices, ...]
"""The alternatives of one request; the scheduler takes the first that is available. Empty where the request cannot be
read."""

Requests = tuple[DeviceRequest, ...]

TOO_LARGE: Requests = ((Devices("", None),),)
"""Stands for requests that are too large to be kept: any devices, in any number."""


class ResourceClaim(NamedTuple):
    """A claim or a template of claims: its kind, its name and its requests."""

    kind: str
    name: str
    requests: Requests


class PodResourceClaim(NamedTuple):
    """A claim that a pod names. `name` is its name in the pod.

    `kind` is ResourceClaim or ResourceClaimTemplate, and `target` the name of that object; both are empty where the pod
    names neither.
    """

    name: str
    kind: str = ""
    target: str = ""


def claim_from(raw: Mapping[str, Any]) -> ResourceClaim | None:
    """The claim or template of an object of these kinds, or of a ComputeDomain; None for every other object."""
    group, kind = str(raw.get("apiVersion")).rpartition("/")[0], raw.get("kind")
    if (group, kind) == _DOMAIN:
        name = part(raw, "spec", "channel", "resourceClaimTemplate", "name")
        return ResourceClaim(TEMPLATE, name, ((Devices(_CHANNEL),),)) if isinstance(name, str) else None
    return claim_of_kind(kind, raw) if group == GROUP and kind in (CLAIM, TEMPLATE) else None


def claim_of_kind(kind: str, raw: object) -> ResourceClaim | None:
    """The claim or template in an object of this kind; None without a name. Items of lists do not repeat their kind."""
    name = part(raw, "metadata", "name")
    if not isinstance(name, str) or not name:
        return None
    return ResourceClaim(kind, name, requests_of(kind, raw))


def _listed(kind: str, raw: object, key: str) -> list[Any]:
    spec = mapped(raw, "spec", "spec") if kind == TEMPLATE else mapped(raw, "spec")
    return listed(spec, "devices", key)[:MOST_READ]


def requests_of(kind: str, raw: object) -> Requests:
    """The requests in an object of this kind; if it has none, one request that cannot be read."""
    found = tuple(map(_request, _listed(kind, raw, "requests"))) or ((),)
    for config in _listed(kind, raw, "config"):  # GpuConfig and MigDeviceConfig of resource.nvidia.com
        strategy = part(config, "opaque", "parameters", "sharing", "strategy")
        if part(config, "opaque", "driver") == NVIDIA and strategy == "MPS":
            return tuple(tuple(one._replace(by_mps=True) for one in request) for request in found)
    return found


def claims_of(written: object) -> Iterator[PodResourceClaim]:
    """The claims that a pod names in `spec.resourceClaims`; before Kubernetes 1.31 their names stand in `source`."""
    for entry in (written if isinstance(written, list) else [])[:MOST_CLAIMS]:
        source = {**mapped(entry), **mapped(entry, "source")}
        found = ((kind, source.get(key)) for kind, key in _NAMED)
        kind, target = next(((kind, target) for kind, target in found if isinstance(target, str)), ("", ""))
        yield PodResourceClaim(str(source.get("name") or ""), kind, target)


def is_too_many(written: object) -> bool:
    """Whether a pod has more claims than are read."""
    return isinstance(written, list) and len(written) > MOST_CLAIMS


_NAMES = {
    Vendor.NVIDIA: ("nvidia.com/gpu",),
    Vendor.AMD: ("amd.com/gpu",),
    Vendor.INTEL: ("gpu.intel.com/i915", "gpu.intel.com/xe"),
}
"""Vendor -> resource names of its GPUs in policies. A DeviceClass does not say which driver an Intel GPU has."""


def names_of_gpus(device_class: str, extended: str, known: Accelerators) -> tuple[str, ...]:
    """The resource names of the GPUs that a DeviceClass gives; empty where it is not known to give GPUs.

    `extended` is its extendedResourceName, or empty. It decides where the class itself is unknown.

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
    written = listed(raw, "firstAvailable")[:MOST_READ] or [part(raw, "exactly") or raw]
    found = tuple(devices for one in written if (devices := _devices(mapped(one))) is not None)
    return found if len(found) == len(written) else ()


def _devices(raw: Mapping[str, Any]) -> Devices | None:
    name, mode, count = raw.get("deviceClassName"), raw.get("allocationMode"), raw.get("count")
    if not isinstance(name, str):
        return None
    count = 1 if count is None or count == 0 else count  # as the API server fills it in
    if mode == "All":
        count = None
    elif mode not in (None, "", "ExactCount") or count.__class__ is not int or count <= 0:
        return None
    return Devices(
        name,
        count,
        raw.get("adminAccess") is True,
        product=product_of(listed(raw, "selectors")),
        tolerated=tolerated_by(raw),
        memory=positive(part(raw, "capacity", "requests", "memory")) or 0,
    )


def tolerated_by(request: object) -> tuple[str, ...]:
    """The keys of taints of devices that a request tolerates for some value or effect; the empty key is for all.

    >>> tolerated_by({"tolerations": [{"key": "example.com/hot"}, {"operator": "Exists"}]})
    ('', 'example.com/hot')
    """
    keys = (part(one, "key") or "" for one in listed(request, "tolerations"))
    return tuple(sorted({key for key in keys if isinstance(key, str)}))


class RequestedClass(NamedTuple):
    """A device class that a claim requests, as the only one or as an alternative. `where` is the place of the request
    or alternative in the object, and `tolerated` as in `Devices`.
    """

    where: str
    device_class: str
    is_administrative: bool
    tolerated: tuple[str, ...] = ()


class ClaimObject(NamedTuple):
    """A ResourceClaim or ResourceClaimTemplate.

    `where` is the place of its list of requests, and `classes` are in the order of that list. `requests` is what a pod
    with the claim gets, or `TOO_LARGE`. `known` says which devices are GPUs.
    """

    namespace: str
    where: str
    requests: Requests
    classes: Sequence[RequestedClass] = ()
    known: Accelerators = BUILT_IN

    @property
    def is_too_large(self) -> bool:
        return self.requests == TOO_LARGE


def place_of_requests(kind: str) -> str:
    """The place of the list of requests in an object of this kind."""
    return "spec.spec.devices.requests" if kind == TEMPLATE else "spec.devices.requests"


def requested_classes(kind: str, raw: Mapping[str, Any]) -> Iterator[RequestedClass]:
    """Every device class in a claim or template, with its place. What cannot be read is left out.

    >>> request = {"name": "a", "exactly": {"deviceClassName": "gpu.nvidia.com", "adminAccess": True}}
    >>> list(requested_classes("ResourceClaim", {"spec": {"devices": {"requests": [request]}}}))[0][:3]
    ('spec.devices.requests[0].exactly', 'gpu.nvidia.com', True)
    """
    for number, request in enumerate(_listed(kind, raw, "requests")):
        where = f"{place_of_requests(kind)}[{number}]"
        first = enumerate(listed(request, "firstAvailable")[:MOST_READ])
        alternatives = [*((f".firstAvailable[{at}]", one) for at, one in first)]
        for place, one in (*alternatives, (".exactly", part(request, "exactly")), ("", request)):
            name = part(one, "deviceClassName")
            if isinstance(name, str):
                yield RequestedClass(where + place, name, part(one, "adminAccess") is True, tolerated_by(one))


CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a claim that Kubernetes made from a template: its name in the pod that owns it."""


@dataclass(frozen=True, slots=True)
class ClaimOwner:
    """The pod that controls a claim, by name and uid. `claim` is the name that the pod has for a claim from a template;
    empty for a claim for extended resources.
    """

    name: str
    uid: str
    claim: str = ""

    def is_of(self, pod: Mapping[str, Any]) -> bool:
        metadata = mapped(pod, "metadata")
        if (metadata.get("name"), metadata.get("uid")) != (self.name, self.uid):
            return False
        return not self.claim or self.claim in template_claims(pod)


def template_claims(pod: Mapping[str, Any]) -> frozenset[str]:
    """The names that a pod has for its claims from templates."""
    claims = [one for one in listed(pod, "spec", "resourceClaims") if part(one, "resourceClaimTemplateName")]
    return frozenset(name for one in claims if isinstance(name := part(one, "name"), str))


def claim_owner(claim: Mapping[str, Any]) -> ClaimOwner | None:
    """The pod that controls a claim, as the claim says; None for claims without such a pod, as for PodGroups."""
    owner, name = mapped(controller_of(claim)), mapped(claim, "metadata", "annotations").get(CLAIM_NAME)
    if (owner.get("apiVersion"), owner.get("kind")) != ("v1", "Pod"):
        return None
    found = ClaimOwner(*(one if isinstance(one, str) else "" for one in (owner.get("name"), owner.get("uid"), name)))
    return found if found.name and found.uid else None


def subject_for_pod(claim: Mapping[str, Any], pod: PodSubject) -> PodSubject:
    """What exceptions are compared with for a claim that was made for a pod: the pod, and the claim itself."""
    own = subject_of(claim, CLAIM)
    members = tuple(dict.fromkeys((*pod.members, *own.members)))
    return replace(pod, members=members, labels={**own.labels, **pod.labels})
