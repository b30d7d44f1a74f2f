"""A resource claim (DRA), or a template of claims, as its author applies it: what it requests, and at which places.

The shapes are explained in `webhook.model.claims`. A place is a field of the object, such as
`spec.devices.requests[0].exactly`, so that the author finds what is meant. The class of a request, and `adminAccess`,
are read even if its number of devices cannot be read.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.claims import MOST_READ, TEMPLATE, TOO_LARGE, Requests, tolerated_by, written_requests
from webhook.model.json_parts import listed, part


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
    for number, request in enumerate(written_requests(kind, raw)):
        where = f"{place_of_requests(kind)}[{number}]"
        for place, one in _alternatives(request):
            name = part(one, "deviceClassName")
            if isinstance(name, str):
                yield RequestedClass(where + place, name, part(one, "adminAccess") is True, tolerated_by(one))


def _alternatives(request: object) -> Iterator[tuple[str, object]]:
    for number, one in enumerate(listed(request, "firstAvailable")[:MOST_READ]):
        yield f".firstAvailable[{number}]", one
    yield ".exactly", part(request, "exactly")
    yield "", request
