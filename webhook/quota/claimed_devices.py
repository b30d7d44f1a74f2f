"""What the device requests of resource claims count against quotas.

A request counts as the alternative that counts most against each limit. `allocationMode: All` counts as the most
devices that one claim can get. A request for a part of the memory of a device (`capacity.requests.memory`) counts as
that part where ResourceSlices say how much the device has, else as the whole device. A request with `adminAccess`
reserves no device, so it does not count.

The models of devices follow from their DeviceClass, where the policy says it, or from the selectors of the request. The
nodes that a pod selects say nothing: a claim may be used by other pods, too.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Protocol

from webhook.model.accelerators import DEVICE_CLASSES
from webhook.model.claims import MOST_ALLOCATED, TOO_LARGE, Devices, Requests
from webhook.quota.demand import MOST_UNITS, entered_name
from webhook.quota.quotas import ClaimedDevices, ClaimedRequest, Counting, Demand
from webhook.quota.unit_parts import with_part

_ANY_GPU = "nvidia.com/gpu"
"""What a claim counts as that is too large to be kept."""


class DeviceClasses(Protocol):
    """What is known about the DeviceClasses of a cluster."""

    def extended_resource(self, device_class: str) -> str:
        """The extended resource that a DeviceClass gives; empty if it gives none, or is not known."""
        ...

    def most_devices(self, device_class: str) -> int | None:
        """The largest number of devices of a DeviceClass on one node; None where nobody knows."""
        ...

    def part_of_device(self, device_class: str, memory: int) -> Fraction:
        """The largest part of a device of a DeviceClass that so many bytes of its memory are; 1 where nobody knows."""
        ...


def looked_up(requests: Requests, classes: DeviceClasses) -> Requests:
    """The requests with the extended resource of each DeviceClass, and a number for all devices of a node."""
    if requests == TOO_LARGE:
        return requests
    return tuple(tuple(_looked_up(one, classes) for one in request) for request in requests)


def _looked_up(devices: Devices, classes: DeviceClasses) -> Devices:
    number = devices.number
    if number is None:
        most = classes.most_devices(devices.device_class)
        number = min(most, MOST_ALLOCATED) if most else MOST_ALLOCATED  # a node may come for this very claim
    part = classes.part_of_device(devices.device_class, devices.memory) if devices.memory else devices.part
    return devices._replace(extended=classes.extended_resource(devices.device_class), number=number, part=part)


def claims_demand(claims: Iterable[Requests], namespace: str, counting: Counting) -> Demand | None:
    """What claims of a namespace count together; None where they are not known to give GPUs.

    The extended resources of their DeviceClasses have been looked up.
    """
    added: dict[tuple[str, tuple[str, ...] | None], int] = {}
    choices: list[ClaimedRequest] = []
    for requests in claims:
        if requests == TOO_LARGE:
            added[_ANY_GPU, None] = min(added.get((_ANY_GPU, None), 0) + MOST_ALLOCATED, MOST_UNITS)
            continue
        for request in requests:
            found = tuple(sorted(set(_gpus(request, counting)), key=_order))
            if len(found) == 1:
                ((resource, number, models),) = found
                added[resource, models] = min(added.get((resource, models), 0) + number, MOST_UNITS)
            elif found:
                choices.append(found)
    single = [(ClaimedDevices(resource, number, models),) for (resource, models), number in added.items()]
    demanded = sorted([*single, *choices], key=lambda request: [_order(one) for one in request])
    return Demand(namespace, (), None, tuple(demanded)) if demanded else None


def most_devices(requests: Requests) -> int:
    """The most devices that a claim may get; its requests have been looked up."""
    most = (max(((one.number or MOST_ALLOCATED) for one in request), default=MOST_ALLOCATED) for request in requests)
    return sum(most)


def together(demands: Iterable[Demand | None]) -> Demand | None:
    """What several parts of one pod count together; None where nothing counts. At most one part has `gpus`."""
    found = [one for one in demands if one is not None]
    if len(found) <= 1:
        return found[0] if found else None
    own = next((one for one in found if one.gpus), found[0])
    requests = sorted(
        (request for one in found for request in one.requests), key=lambda request: [_order(one) for one in request]
    )
    return replace(own, requests=tuple(requests))


def is_uncounted(requests: Requests, counting: Counting) -> bool:
    """Whether a claim may give GPUs in a number that no quota can know."""
    if requests == TOO_LARGE:
        return True
    return any(not request or any(_may_be_more(one, counting) for one in request) for request in requests)


def _may_be_more(devices: Devices, counting: Counting) -> bool:
    name = DEVICE_CLASSES + devices.device_class
    return (
        not devices.is_administrative and not _resource(devices, counting) and counting.accelerators.may_be_gpus(name)
    )


def _gpus(request: Iterable[Devices], counting: Counting) -> Iterator[ClaimedDevices]:
    for one in request:
        resource = "" if one.is_administrative else _resource(one, counting)
        if resource:
            number = MOST_ALLOCATED if one.number is None else min(one.number, MOST_UNITS)
            name = with_part(resource, one.part) if one.part < 1 and resource not in counting.weights else resource
            yield ClaimedDevices(name, number, _models(one, counting))


def _resource(devices: Devices, counting: Counting) -> str:
    """The name in ledgers of the GPUs that a DeviceClass gives; empty where it is not known to give GPUs."""
    name = DEVICE_CLASSES + devices.device_class
    if devices.device_class in counting.class_models:
        return name
    if counting.accelerators.of(name) is None:
        name = devices.extended if counting.accelerators.may_be_gpus(name) else ""
        if not name or counting.accelerators.of(name) is None:
            return ""
    return entered_name(name, counting.named, counting.accelerators, counting.catalogue.table)


def _models(devices: Devices, counting: Counting) -> tuple[str, ...] | None:
    said = counting.class_models.get(devices.device_class)
    if said is not None:
        return said
    return counting.catalogue.models_of_product(devices.product) if devices.product else None


def _order(one: ClaimedDevices) -> tuple[str, int, tuple[str, ...]]:
    return one.resource, one.number, one.models or ()
