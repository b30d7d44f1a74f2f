"""Claims of a pod that the scheduler can never allocate: unknown device classes, and too many devices.

A claim that a pod names by itself may have been allocated earlier: what is impossible now is advice there, and a
violation for a claim that is made from a template. Nothing here evaluates CEL: selectors only narrow down, so that what
is too much for a whole class is too much for a part of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from webhook.model.accelerators import DEVICE_CLASSES
from webhook.model.claims import (
    CLAIM,
    MOST_ALLOCATED,
    TEMPLATE,
    TOO_LARGE,
    ClaimObject,
    DeviceRequest,
    Devices,
    PodResourceClaim,
    Requests,
    claims_of,
)
from webhook.model.pod import Pod
from webhook.model.requirements import demand_of
from webhook.model.wording import PLATFORM_TEAM, counted, cut, few, one_slip_away
from webhook.rules.rule import Advice, Facts, Violation

_MISSING = "the cluster has no DeviceClass of this name"
_WAIT = f"Ask {PLATFORM_TEAM}, or wait"
_UNLESS_ALLOCATED = "the pod waits, unless the claim was allocated earlier"


def impossible_claims(pod: Pod, facts: Facts) -> Iterator[Violation | Advice]:
    """Why no node can ever meet the claims of a pod, and its requests of device classes as resources."""
    claims = list(_known_claims(pod, facts)) if pod.resource_claims else []
    requested = _classes_as_resources(pod)
    if not claims and not requested:
        return
    yield from _unknown_classes(pod, claims, requested, facts)
    for named, requests in claims:
        least = sum(map(_least, requests))
        if least > MOST_ALLOCATED:
            found, most = f"requests at least {least} devices", f"the scheduler allocates at most {MOST_ALLOCATED}"
            yield Violation(_place(named), f"{_object(named)} {found}", f"{most} for a claim", "Split the claim")
    yield from _more_than_any_node(claims, requested, facts)


def beyond_classes(pod: Pod, facts: Facts) -> Iterator[Violation]:
    """GPUs that no node lists in a sufficient number, and that no node offers in this number for a DeviceClass either.

    Asked about a pod that can run only where devices of a DeviceClass satisfy its requests. The scheduler never takes
    some GPUs of a request from a device plugin and some from a DRA driver.
    """
    for name, amount in demand_of(pod).items():
        giving = [one for one in facts.device_classes() or () if facts.extended_resource(one) == name]
        numbers = [facts.most_devices(one) for one in giving if name in pod.gpus]
        most = None if None in numbers else max(filter(None, numbers), default=None)
        if most and amount > most:
            containers = [one for one in pod.containers if any(asked.resource == name for asked in one.gpu_requests)]
            yield Violation(
                f"{containers[0].path}.resources" if len(containers) == 1 else "spec",
                f"requests {amount} {name}{'' if len(containers) == 1 else ' in all'}",
                f"no node offers more than {most} for the DeviceClass that gives it",
                f"Request {most} or fewer in one pod",
            )


def _known_claims(pod: Pod, facts: Facts) -> Iterator[tuple[PodResourceClaim, Requests]]:
    """The claims of the pod whose requests are known. A claim that the pod names several times is one claim."""
    seen = set()
    for named in claims_of(pod.resource_claims):
        requests = facts.claim(named, pod.namespace)
        if requests is None or requests == TOO_LARGE or named.target in seen:
            continue
        if named.kind == CLAIM:
            seen.add(named.target)
        yield named, requests


def _classes_as_resources(pod: Pod) -> Mapping[str, int]:
    """DeviceClass -> number of devices that are requested in `resources` by the name of the class."""
    asked = demand_of(pod).items() if pod.requests_classes else ()
    return {name.removeprefix(DEVICE_CLASSES): amount for name, amount in asked if name.startswith(DEVICE_CLASSES)}


def _unknown_classes(
    pod: Pod, claims: Sequence[tuple[PodResourceClaim, Requests]], requested: Mapping[str, int], facts: Facts
) -> Iterator[Violation | Advice]:
    """DeviceClasses that the cluster does not have, each reported once. Classes declared as no GPUs are left out."""
    known = facts.device_classes()
    if known is None:
        return
    seen = set(known)
    for name in requested:
        if name not in seen and Devices(name).may_be_gpus(pod.known):
            seen.add(name)
            resource = DEVICE_CLASSES + name
            where = next((one.path for one in pod.containers if resource in {**one.limits, **one.requests}), "spec")
            yield Violation(
                f"{where}.resources", f"requests DeviceClass {cut(name)}", _MISSING, _correction(name, known)
            )
    for named, requests in claims:
        classes = dict.fromkeys(devices.device_class for request in requests for devices in request)
        for name in classes:
            if name in seen or not Devices(name).may_be_gpus(pod.known):
                continue
            seen.add(name)
            found = f"{_object(named)} requests DeviceClass {cut(name)}"
            yield _reported(named, found, _MISSING, _correction(name, known))


def unknown_classes(claim: ClaimObject, facts: Facts) -> Iterator[Advice]:
    """DeviceClasses that the cluster does not have, in a claim or template that is applied. They may come later."""
    known = facts.device_classes()
    seen = set(known or ())
    for one in claim.classes if known is not None else ():
        name = one.device_class
        if name not in seen and Devices(name).may_be_gpus(claim.known):
            seen.add(name)
            found = f"requests DeviceClass {cut(name)}, but {_MISSING}; pods with the claim wait until it has one"
            yield Advice(f"{one.where}.deviceClassName", found, _correction(name, known or ()))


def _correction(name: str, known: Sequence[str]) -> str:
    meant = one_slip_away(name, known)
    if meant:
        return f"Did you mean {cut(meant)}? Correct the name"
    return f"Correct the name, or ask {PLATFORM_TEAM} for the driver that brings the class"


@dataclass
class _Total:
    """The devices of one class that a pod requests together, the claims for them, and what device taints these
    tolerate.
    """

    number: int
    claims: list[PodResourceClaim] = field(default_factory=list)
    tolerated: set[str] = field(default_factory=set)


def _more_than_any_node(
    claims: Sequence[tuple[PodResourceClaim, Requests]], requested: Mapping[str, int], facts: Facts
) -> Iterator[Violation | Advice]:
    """Classes with more requested devices than any node offers. All devices of a pod have to be on one node."""
    totals = {name: _Total(number) for name, number in requested.items()}
    for named, requests in claims:
        for request in requests:
            name = _only_class(request)
            if name is not None:
                total = totals.setdefault(name, _Total(0))
                total.tolerated.update(*[one.tolerated for one in request])
                total.number += _least(request)
                total.claims.append(named)
            elif request and all(0 < (facts.most_devices(one.device_class) or 0) < one.least for one in request):
                found = f"{_object(named)} requests more devices than any node offers, whichever alternative is taken"
                allowed = "no node will meet the request"
                yield _reported(named, found, allowed, "Request fewer devices in one of the alternatives")
    for name, total in totals.items():
        most = facts.most_devices(name)
        if most is None:
            continue
        found = f"requests {counted(total.number, 'device')} of DeviceClass {cut(name)}"
        where = _place(total.claims[0]) if len({one.name for one in total.claims}) == 1 else "spec"
        if total.number <= most:
            yield from _tainted(name, total, where, found, facts)
        elif not most:
            yield Advice(where, f"{found}, and no node offers any at the moment", _WAIT)
        elif any(one.kind != TEMPLATE for one in total.claims):
            found = f"{found}, and no node offers more than {most}; {_UNLESS_ALLOCATED}"
            yield Advice(where, found, f"Request {most} or fewer")
        else:
            yield Violation(where, found, f"no node offers more than {most}", f"Request {most} or fewer")


def _tainted(name: str, total: _Total, where: str, found: str, facts: Facts) -> Iterator[Advice]:
    """Advice where nodes have enough devices, but too many of them have taints, which go away or come back."""
    untainted, taints = facts.untainted_devices(name, total.tolerated) or (total.number, ())
    if total.number > untainted:
        most = f"more than {untainted}" if untainted else "any"
        these = f"{'taint' if len(taints) == 1 else 'taints'} {few(sorted(taints))}"
        yield Advice(where, f"{found}, and no node offers {most} at the moment without the device {these}", _WAIT)


def _only_class(request: DeviceRequest) -> str | None:
    """The class of all alternatives of a request; None where they differ, or where one reserves no device."""
    classes = {devices.device_class for devices in request}
    return classes.pop() if len(classes) == 1 and not any(one.is_administrative for one in request) else None


def _least(request: DeviceRequest) -> int:
    """The devices that a request is for at least; 0 where nobody can read it."""
    return min((devices.least for devices in request), default=0)


def _reported(named: PodResourceClaim, found: str, allowed: str, remedy: str) -> Violation | Advice:
    if named.kind == TEMPLATE:
        return Violation(_place(named), found, allowed, remedy)
    return Advice(_place(named), f"{found}, but {allowed}; {_UNLESS_ALLOCATED}", remedy)


def _place(named: PodResourceClaim) -> str:
    return f"spec.resourceClaims[{cut(named.name)}]"


def _object(named: PodResourceClaim) -> str:
    return f"{named.kind} {cut(named.target)}"
