"""Why a pod or claim never fits into a quota, whatever else is in use. No ledger is asked for that."""

from collections.abc import Iterator

from webhook.facts.facts import ClusterFacts
from webhook.model.accelerators import Share
from webhook.model.claims import MOST_CLAIMS, Requests, claims_of, is_too_many
from webhook.model.pod import Pod
from webhook.model.violation import Violation
from webhook.model.wording import cut, few, not_enabled
from webhook.quota.amounts import amounts, unit_of
from webhook.quota.demand import is_uncounted, looked_up
from webhook.quota.quota_wording import alone_too_much, asked_for, called, has_models, is_unspecified, unspecified
from webhook.quota.quotas import (
    MOST_PARTS,
    ClaimsMode,
    Demand,
    Excess,
    Measure,
    Quota,
    QuotaScope,
    UnspecifiedModel,
)


def objections(demand: Demand, quota: Quota, namespace: str = "") -> Iterator[Violation]:
    """Why a pod with this demand never fits into a quota; nothing if it would fit while nothing else is in use.

    `namespace` is the pod's, for the message where the namespace's own quota has no GPUs at all.
    """
    if demand.is_too_large:
        found = f"the claims from templates have more than {MOST_PARTS} alternatives together"
        yield Violation(_CLAIMS, found, f"at most {MOST_PARTS} are counted", "Use fewer claims, or simpler ones")
        return
    denies = quota.counting.unspecified_model is UnspecifiedModel.DENY
    asked = amounts(demand, quota)
    if not denies and all(asks <= limit.hard for limit, asks in asked.items()):
        return  # the usual case
    none = next((limit for limit in asked if limit.measure is Measure.GPUS and not limit.hard), None)
    if none is not None and asked[none] and quota.scope is QuotaScope.NAMESPACE:
        excess = Excess.alone(none, asked[none], unit_of(demand, none, quota))
        yield Violation("spec", f"requests {asked_for(excess.asks, excess)}", *not_enabled(namespace))
        return
    is_open = is_unspecified(demand, quota)
    selects_none = bool(demand.gpus) and demand.models is None and has_models(demand, quota)
    of_claims = any(one.models is None for each in demand.requests for one in each) and has_models(demand, quota)
    is_refused = denies and (selects_none or of_claims)
    if is_refused:
        found, allowed, remedy = unspecified(quota)
        by_claims = "requests devices of any GPU model by claims", allowed, _NAME_MODEL
        yield Violation("spec", *((found, allowed, remedy) if selects_none else by_claims))
    for limit, asks in asked.items():
        if asks > limit.hard and not (is_refused and limit.measure is Measure.MODEL):
            excess = Excess.alone(limit, asks, unit_of(demand, limit, quota))
            found, allowed, remedy = alone_too_much(excess, quota, is_unspecified=is_open)
            if of_claims and limit.measure is Measure.MODEL:
                remedy += f", or n{_NAME_MODEL[1:]}"
            yield Violation("spec", found, allowed, remedy)


_NAME_MODEL = (
    'Name the model in the claim, by a selector such as device.attributes["gpu.nvidia.com"].productName == '
    '"NVIDIA H100 80GB HBM3"'
)

# What cannot be counted

_CLAIMS = "spec.resourceClaims"
_BY_CLAIM = "requests devices by resource claims, which may be GPUs"
_REQUEST_COUNTED = "Request a GPU resource that is counted, in resources.limits"
_DECLARE = f"{_REQUEST_COUNTED}, or ask the platform team to declare the class in accelerators.extra"
_WEIGH = f"{_REQUEST_COUNTED}, or ask the platform team to set what it counts as in weights"
_NAME_CLASSES = (
    "Request devices of classes that are known to give GPUs, or ask the platform team to declare the class in "
    "accelerators.extra"
)


def uncounted(pod: Pod, quota: Quota, facts: ClusterFacts) -> Iterator[Violation]:
    """What in a pod may be GPUs in a number that the quota cannot know; nothing where the quota allows them."""
    if quota.counting.claims is ClaimsMode.ALLOW or not pod.may_be_more:
        return
    allowed = _allowed_by(quota)
    if pod.resource_claims:
        yield from _uncounted_claims(pod, quota, facts)
    for container in pod.containers:
        where = f"{container.path}.resources"
        if container.has_claims and not (pod.resource_claims or container.unknown_classes):
            yield Violation(f"{where}.claims", "uses a resource claim, which may be GPUs", allowed, _REQUEST_COUNTED)
        if container.unknown_classes:
            names = few([cut(one) for one, _ in container.unknown_classes])
            yield Violation(where, f"requests {names}, which may be GPUs or not", allowed, _DECLARE)
        named = [one for one in container.gpu_requests if one.count and one.accelerator.share is Share.NODE]
        if opening := [cut(one.resource) for one in named if one.resource not in quota.counting.weights]:
            found = f"requests {few(opening)}, which gives access to all GPUs of a node"
            is_denied = quota.counting.claims is ClaimsMode.DENY
            yield Violation(where, found, allowed if is_denied else f"{called(quota)} counts it as 1", _WEIGH)


def uncounted_claim(requests: Requests, quota: Quota) -> Iterator[Violation]:
    """That a claim may give GPUs which the quota cannot count, unless the quota allows that."""
    if quota.counting.claims is not ClaimsMode.ALLOW and is_uncounted(requests, quota.counting):
        found = "requests devices which may be GPUs or not"
        yield Violation("spec.devices.requests", found, _allowed_by(quota), _NAME_CLASSES)


def _allowed_by(quota: Quota) -> str:
    if quota.counting.claims is ClaimsMode.DENY:
        return f"{called(quota)} allows only what it can count"
    return f"{called(quota)} does not count them"


def _uncounted_claims(pod: Pod, quota: Quota, facts: ClusterFacts) -> Iterator[Violation]:
    allowed = _allowed_by(quota)
    if is_too_many(pod.resource_claims):
        yield Violation(_CLAIMS, f"has more than {MOST_CLAIMS} resource claims", allowed, "Use fewer claims")
    for named in claims_of(pod.resource_claims):
        requests = facts.claim(named, pod.namespace) if named.kind else None
        if requests is not None:
            if is_uncounted(looked_up(requests, facts), quota.counting):
                yield Violation(_CLAIMS, _BY_CLAIM, allowed, _NAME_CLASSES)
                return
        elif not named.kind or facts.claim_names(named.kind, pod.namespace) is None:
            yield Violation(_CLAIMS, _BY_CLAIM, allowed, _REQUEST_COUNTED)
            return
