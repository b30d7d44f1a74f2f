"""Which pods may get GPUs that no quota can count, whatever is in use: it can be said without asking the ledger.

`demand_of` counts what a pod requests of the quotas of its namespace.
"""

from collections.abc import Iterator

from webhook.model.accelerators import Share
from webhook.model.container import Container
from webhook.model.pod import Pod
from webhook.model.wording import cut, few
from webhook.quota.quota_wording import Objection
from webhook.quota.quotas import ClaimsMode, Counting, Demand, Quota
from webhook.quota.resources import PLAIN, entered_name

CLAIMS = "spec.resourceClaims"
"""Where the claims of a pod stand."""
BY_CLAIM = "requests devices by resource claims, which may be GPUs"
"""What is found of a pod with resource claims, by whoever does not know these."""

_ASK = "Request GPUs that are counted, such as nvidia.com/gpu, in resources.limits"
_DECLARE = f"{_ASK}, or ask the platform team to declare the class in accelerators.extra"
_WEIGH = f"{_ASK}, or ask the platform team to set what it counts as in weights"


def uncounted(pod: Pod, quota: Quota) -> Iterator[Objection]:
    """What of a pod may be GPUs in a number that the quota cannot know; nothing where the quota allows that."""
    mode = quota.counting.claims
    if mode is ClaimsMode.ALLOW or not pod.may_be_more:
        return
    name = f"GPU quota '{quota.name}'" if quota.name else "the GPU quota"
    only = f"{name} allows only what it can count"
    allowed = only if mode is ClaimsMode.DENY else f"{name} does not count them"
    if pod.resource_claims:
        yield Objection(CLAIMS, BY_CLAIM, allowed, _ASK)
    for container in pod.containers:
        where = f"{container.path}.resources"
        if container.has_claims and not (pod.resource_claims or container.unknown_classes):
            yield Objection(f"{where}.claims", "uses a resource claim, which may be GPUs", allowed, _ASK)
        if container.unknown_classes:
            names = few([cut(one) for one, _ in container.unknown_classes])
            found = f"requests {names}, which may be GPUs or not"
            yield Objection(where, found, allowed, _DECLARE)
        opening = _opening(container, quota)
        if opening:
            found = f"requests {few(opening)}, which gives access to all GPUs of a node"
            counted = only if mode is ClaimsMode.DENY else f"{name} counts it as 1"
            yield Objection(where, found, counted, _WEIGH)


def _opening(container: Container, quota: Quota) -> list[str]:
    """The resources of a container that open all GPUs of a node, and of which nobody has said what that weighs."""
    return [
        cut(request.resource)
        for request in container.gpu_requests
        if request.count and request.accelerator.share is Share.NODE and request.resource not in quota.counting.weights
    ]


MOST_UNITS = 10**15
"""Of one resource, as a pod is counted: more than any limit allows, and a number that every reader of JSON can hold."""


def demand_of(pod: Pod, namespace: str, counting: Counting) -> Demand | None:
    """The GPUs that the scheduler reserves for a pod, and the models it may land on; None for a pod without GPUs.

    Attributes of a GPU, such as its share of memory (nvidia.com/gpumem), are no GPUs and never count. Resources that
    count alike whatever they are called go by one name.
    """
    if not pod.gpus:
        return None
    gpus: dict[str, int] = {}
    table = counting.catalogue.table
    for resource, count in pod.gpus.items():
        plain = resource in PLAIN
        name = resource if plain else entered_name(resource, counting.named, counting.accelerators, table)
        gpus[name] = min(gpus.get(name, 0) + count, MOST_UNITS)
    return Demand(namespace, tuple(sorted(gpus.items())), counting.catalogue.models_of(pod))
