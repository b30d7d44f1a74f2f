"""GPUs that a pod gets by resource claims (DRA): their names and their number.

Only known claims count, and only requests of device classes that are known to give GPUs. A request with `adminAccess`
reserves no device, so it does not count.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from webhook.model.claims import DeviceRequest, PodResourceClaim, claims_of, names_of_gpus
from webhook.model.container import Container
from webhook.model.pod import Pod
from webhook.rules.names import ResourceGlobs, is_one_of
from webhook.rules.rule import Facts

Alternatives = Sequence[tuple[str, ...]]
"""A request that only GPUs can satisfy: for each of its alternatives, the names by which the GPUs are known."""


class ClaimedGpus(NamedTuple):
    """The GPUs of one claim.

    `name` is the name of the claim in the pod. `certain` are the requests that only GPUs can satisfy. `most` is the
    number of GPUs if the scheduler takes the alternatives with most GPUs, without requests for all GPUs of a node;
    `may_be_all` tells whether there is such a request. `is_single` tells whether the claim has only one request.
    """

    name: str
    certain: Sequence[Alternatives]
    most: int
    may_be_all: bool
    is_single: bool


def claimed_gpus(pod: Pod, facts: Facts) -> list[ClaimedGpus]:
    """The known claims of a pod that may give GPUs."""
    found = (_of_claim(named, pod, facts) for named in claims_of(pod.resource_claims))
    return [one for one in found if one.most or one.may_be_all]


def used_by(container: Container, claimed: Sequence[ClaimedGpus]) -> list[ClaimedGpus]:
    """The claims that a container uses, wholly or in part."""
    names = {used.name for used in container.claims}
    return [one for one in claimed if one.name in names]


def used_wholly_by(container: Container, claimed: Sequence[ClaimedGpus]) -> list[ClaimedGpus]:
    """The claims of which a container uses all requests."""
    wholes = {used.name for used in container.claims if not used.request}
    return [one for one in used_by(container, claimed) if one.is_single or one.name in wholes]


def may_have(container: Container, claimed: Sequence[ClaimedGpus], least: int) -> bool:
    """Whether a container may have `least` GPUs or more, in its resources and in these claims of its pod together."""
    used = used_by(container, claimed)
    return any(one.may_be_all for one in used) or container.gpu_count + sum(one.most for one in used) >= least


def all_are_of(alternatives: Alternatives, globs: ResourceGlobs) -> bool:
    """Whether every alternative is a GPU that one of the globs matches. Without any glob, every GPU matches."""
    return not globs or all(any(is_one_of(name, globs) for name in names) for names in alternatives)


def certain_of(claimed: Sequence[ClaimedGpus]) -> Iterator[Alternatives]:
    """The requests in all these claims that only GPUs can satisfy."""
    for one in claimed:
        yield from one.certain


def _of_claim(named: PodResourceClaim, pod: Pod, facts: Facts) -> ClaimedGpus:
    certain, most, may_be_all = [], 0, False
    requests = facts.claim(named, pod.namespace) or ()
    for request in requests:
        names, numbers = _of_request(request, pod, facts)
        most += max((number for number in numbers if number is not None), default=0)
        may_be_all = may_be_all or None in numbers
        if len(names) == len(request) > 0:
            certain.append(names)
    return ClaimedGpus(named.name, certain, most, may_be_all, len(requests) == 1)


def _of_request(request: DeviceRequest, pod: Pod, facts: Facts) -> tuple[Alternatives, list[int | None]]:
    """The names, and the number, of the GPUs in each alternative that gives GPUs; None for all GPUs of a node."""
    names, numbers = [], []
    for devices in request:
        if devices.is_administrative:
            continue
        extended = facts.extended_resource(devices.device_class)
        if found := names_of_gpus(devices.device_class, extended, pod.known):
            names.append(found)
            numbers.append(devices.number)
    return names, numbers
