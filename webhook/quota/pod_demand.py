"""What a pod counts against quotas together with the resource claims that Kubernetes makes for it.

A claim from a template exists once the pod is stored, so the pod brings room for it, as the template is at that moment.
A claim that the pod names by its own name is there before the pod or comes later, and counts by itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from webhook.model.claims import MOST_CLAIMS, TEMPLATE, PodResourceClaim, Requests, claims_of, is_too_many
from webhook.model.pod import Pod
from webhook.quota.claimed_devices import DeviceClasses, claims_demand, is_uncounted, looked_up, together
from webhook.quota.demand import BY_CLAIM, CLAIMS, REQUEST_COUNTED, allowed_by, demand_of, opens_more
from webhook.quota.quota_wording import Objection
from webhook.quota.quotas import ANY_NODES, ClaimsMode, Counting, Demand, Nodes, Quota
from webhook.quota.unit_parts import NodesOfPods, unit_parts


class ResourceClaims(DeviceClasses, NodesOfPods, Protocol):
    """What is known about the resource claims and the nodes of a cluster."""

    def claim(self, named: PodResourceClaim, namespace: str) -> Requests | None:
        """What a claim requests that a pod of the namespace names; None where it is not known."""
        ...

    def claim_names(self, kind: str, namespace: str) -> Sequence[str] | None:
        """The names of the claims, or templates, of a namespace; None where there may be others."""
        ...


MOST_ALTERNATIVES = 64
"""Most alternatives in all device requests of a pod's templates together; in a claim, requests without alternatives for
one class are one."""


@dataclass(frozen=True, slots=True)
class PodDemand:
    """What a pod counts: by its own requests, by each claim from a template (by its name in the pod), and in all.

    `is_too_large` says that its claims have more alternatives than are counted.
    """

    own: Demand | None
    reserved: tuple[tuple[str, Demand], ...] = ()
    is_too_large: bool = False

    @property
    def all(self) -> Demand | None:
        """Everything together; None where nothing counts."""
        return together([self.own, *(demand for _, demand in self.reserved)]) if self.reserved else self.own


def pod_demand(pod: Pod, namespace: str, counting: Counting, claims: ResourceClaims) -> PodDemand:
    """What a pod of a namespace counts."""
    parts = unit_parts(pod, claims, counting.catalogue.table)
    own = demand_of(pod, namespace, counting, parts, nodes_for(pod, claims))
    return with_claims(own, pod, namespace, counting, claims)


def nodes_for(pod: Pod, known: NodesOfPods) -> Nodes:
    """The nodes that decide which GPU models a pod counts as."""
    return Nodes([one.labels for one in known.selected_nodes(pod)]) if pod.gpus else ANY_NODES


def with_claims(own: Demand | None, pod: Pod, namespace: str, counting: Counting, claims: ResourceClaims) -> PodDemand:
    """What a pod counts with this demand of its own."""
    reserved: list[tuple[str, Demand]] = []
    alternatives = 0
    for name, demand in _claimed(pod, namespace, counting, claims):
        alternatives += sum([len(request) for request in demand.requests])
        if alternatives > MOST_ALTERNATIVES:
            return PodDemand(own, tuple(reserved), is_too_large=True)
        reserved.append((name, demand))
    return PodDemand(own, tuple(reserved))


def too_large() -> Objection:
    """The objection to a pod whose claims have more alternatives than are counted."""
    found = f"requests devices by templates of claims in more than {MOST_ALTERNATIVES} alternatives"
    return Objection(CLAIMS, found, f"at most {MOST_ALTERNATIVES} are counted", "Use fewer claims, or simpler ones")


def _claimed(pod: Pod, namespace: str, counting: Counting, claims: ResourceClaims) -> Iterator[tuple[str, Demand]]:
    """What each claim counts that Kubernetes will make for a pod, by the claim's name in the pod."""
    names = set[str]()
    for named in claims_of(pod.resource_claims):
        if named.kind != TEMPLATE or named.name in names:
            continue
        names.add(named.name)  # the API server refuses a second claim of this name
        requests = claims.claim(named, pod.namespace or namespace)
        demand = claims_demand([looked_up(requests, claims)], namespace, counting) if requests else None
        if demand is not None:
            yield named.name, demand


_NAME_CLASSES = (
    "Request devices of classes that are known to give GPUs, or ask the platform team to declare the class in "
    "accelerators.extra"
)


def uncountable(quota: Quota) -> tuple[str, str, str]:
    """Found, allowed and remedy of a claim whose GPUs a quota cannot count."""
    return "requests devices which may be GPUs or not", allowed_by(quota), _NAME_CLASSES


def uncounted(pod: Pod, quota: Quota, claims: ResourceClaims) -> Iterator[Objection]:
    """What in a pod may be GPUs in a number that the quota cannot know; nothing where the quota allows them."""
    if quota.counting.claims is ClaimsMode.ALLOW or not pod.may_be_more:
        return
    if pod.resource_claims:
        yield from _uncounted_claims(pod, quota, claims)
    yield from opens_more(pod, quota)


def _uncounted_claims(pod: Pod, quota: Quota, claims: ResourceClaims) -> Iterator[Objection]:
    allowed = allowed_by(quota)
    if is_too_many(pod.resource_claims):
        yield Objection(CLAIMS, f"has more than {MOST_CLAIMS} resource claims", allowed, "Use fewer claims")
    for named in claims_of(pod.resource_claims):
        requests = claims.claim(named, pod.namespace) if named.kind else None
        if requests is not None:
            if is_uncounted(looked_up(requests, claims), quota.counting):
                yield Objection(CLAIMS, BY_CLAIM, allowed, _NAME_CLASSES)
                return
        elif not named.kind or claims.claim_names(named.kind, pod.namespace) is None:
            yield Objection(CLAIMS, BY_CLAIM, allowed, REQUEST_COUNTED)
            return
