"""GPUs that a pod gets by resource claims (DRA): their names and their number.

Only known claims count, and only requests of device classes that are known to give GPUs. A request with `adminAccess`
reserves no device, so it does not count.
"""

from collections.abc import Sequence
from typing import NamedTuple

from webhook.model.accelerators import Accelerators
from webhook.model.claims import MOST_ALLOCATED, TOO_LARGE, DeviceRequest, Requests, claims_of, names_of_gpus
from webhook.model.pod import Container, Pod
from webhook.rules.names import ResourceGlobs, is_one_of
from webhook.rules.rule import Facts

Alternatives = Sequence[tuple[str, ...]]
"""A request that only GPUs can satisfy: for each of its alternatives, the names by which the GPUs are known."""


class ClaimedGpus(NamedTuple):
    """GPUs that one claim of a pod brings.

    `name` is its name in the pod. `certain` are the requests that only GPUs can satisfy. `numbers` are the GPUs of each
    request, the smallest first, if the scheduler takes the alternative with most; all GPUs of a node count as one.
    `more` is how many more these may be; None if nobody knows. `is_too_large` says that the claim has too many
    alternatives to be counted.
    """

    name: str
    certain: Sequence[Alternatives]
    numbers: Sequence[int]
    more: int | None
    is_too_large: bool

    @property
    def most(self) -> int:
        return sum(self.numbers)


def claimed_gpus(pod: Pod, facts: Facts) -> list[ClaimedGpus]:
    """The known claims of a pod that may give GPUs."""
    named = ((one.name, facts.claim(one, pod.namespace)) for one in claims_of(pod.resource_claims))
    found = (gpus_of_claim(requests or (), pod.known, facts, name) for name, requests in named)
    return [one for one in found if one.most or one.is_too_large]


def asking(pod: Pod, least: int, facts: Facts) -> tuple[list[Container], Sequence[ClaimedGpus]]:
    """The init and app containers that may have at least so many GPUs, and the claims that may bring some of them."""
    if not pod.accelerators and not pod.resource_claims:
        return [], ()
    claimed = claimed_gpus(pod, facts) if pod.resource_claims else ()
    return [
        container
        for container in pod.lasting_containers()
        if container.gpu_count >= least or (claimed and may_have(container, claimed, least))
    ], claimed


def used_by(container: Container, claimed: Sequence[ClaimedGpus]) -> list[ClaimedGpus]:
    """The claims that a container uses, wholly or in part."""
    names = {used.name for used in container.claims}
    return [one for one in claimed if one.name in names]


def at_least(container: Container, claim: ClaimedGpus) -> int:
    """The least GPUs that a container gets by a claim, if the scheduler takes the alternatives with most GPUs.

    A container that names some requests of the claim gets as many GPUs as the smallest ones have.
    """
    named = {used.request.partition("/")[0] for used in container.claims if used.name == claim.name}
    return claim.most if "" in named else sum(claim.numbers[: len(named)])


def may_have(container: Container, claimed: Sequence[ClaimedGpus], least: int) -> bool:
    """Whether a container may have at least so many GPUs, by number and by these claims of its pod."""
    used = used_by(container, claimed)
    if any(one.more is None for one in used):
        return True
    return container.gpu_count + sum(one.most + (one.more or 0) for one in used) >= least


def certain_claims(pod: Pod, facts: Facts) -> Sequence[Alternatives]:
    """The requests in claims of a pod that only GPUs can satisfy."""
    return [one for claim in claimed_gpus(pod, facts) for one in claim.certain] if pod.resource_claims else ()


def gets_any(pod: Pod, claimed: Sequence[Alternatives], globs: ResourceGlobs) -> bool:
    """Whether the pod requests, or is certain to get by these claims, a GPU that one of the globs matches.

    Without globs every GPU matches. Every alternative of a request in a claim has to match.
    """
    if not globs:
        return bool(pod.gpus or claimed)
    if any(is_one_of(gpu, globs) for gpu in pod.gpus):
        return True
    return bool(claimed) and any(
        all(any(is_one_of(name, globs) for name in names) for names in each) for each in claimed
    )


def gpus_of_claim(requests: Requests, known: Accelerators, facts: Facts, name: str = "") -> ClaimedGpus:
    """The GPUs of a claim with these requests; `name` is its name in the pod."""
    if requests == TOO_LARGE:
        return ClaimedGpus(name, (), (), more=0, is_too_large=True)
    certain: list[Alternatives] = []
    most: list[int] = []
    more: list[int | None] = []
    for request in requests:
        names, least, at_most = _of_request(request, known, facts)
        most.append(max(least, default=0))
        more.append(None if None in at_most else max(filter(None, at_most), default=0) - most[-1])
        if len(names) == len(request) > 0:
            certain.append(names)
    return ClaimedGpus(
        name, certain, sorted(most), None if None in more else sum(filter(None, more)), is_too_large=False
    )


def _of_request(
    request: DeviceRequest, known: Accelerators, facts: Facts
) -> tuple[Alternatives, Sequence[int], Sequence[int | None]]:
    """The names of the GPUs in each alternative that gives GPUs, how many they are at least, and how many at most.

    The numbers differ for all GPUs of a node: at least one, and no more than a node offers and the scheduler allocates
    for a claim.
    """
    names, numbers, at_most = [], [], []
    for devices in request:
        if devices.is_administrative:
            continue
        extended = facts.extended_resource(devices.device_class)
        if found := names_of_gpus(devices.device_class, extended, known):
            names.append(found)
            numbers.append(devices.number or 1)
            of_a_node = None if devices.number else facts.most_devices(devices.device_class)
            at_most.append(devices.number or (min(of_a_node, MOST_ALLOCATED) if of_a_node else None))
    return names, numbers, at_most
