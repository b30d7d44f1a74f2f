"""What is wrong with a pod under a quota whatever else is in use: it can be said without asking the ledger."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from webhook.model.wording import not_enabled
from webhook.quota.amounts import amounts, fits_alone
from webhook.quota.quota_wording import alone_too_much, asks_for, unspecified
from webhook.quota.quotas import Demand, Excess, Measure, Quota, QuotaScope, UnspecifiedModel


@dataclass(frozen=True, slots=True)
class Objection:
    """The four parts of a refusal: where, what was found, what is allowed, and how to mend it."""

    where: str
    found: str
    allowed: str
    remedy: str


def objections(demand: Demand, quota: Quota, namespace: str = "") -> Iterator[Objection]:
    """Why a pod never fits into a quota; nothing for one that would fit if nothing else were in use.

    `demand` is the pod's, as the quota counts. `namespace` is that of the pod, for the message where its own quota has
    no GPUs at all.
    """
    denies = quota.counting.unspecified_model is UnspecifiedModel.DENY
    if not denies and fits_alone(demand, quota):
        return  # as nearly every pod does
    asked = amounts(demand, quota)
    none = next((limit for limit in asked if limit.measure is Measure.GPUS and not limit.hard), None)
    if none is not None and asked[none] and quota.scope is QuotaScope.NAMESPACE:
        yield Objection("spec", asks_for(asked[none], none), *not_enabled(namespace))
        return
    is_open = is_unspecified(demand, quota)
    is_refused = is_open and denies
    if is_refused:
        yield Objection("spec", *unspecified(quota))
    for limit, asks in asked.items():
        if asks > limit.hard and not (is_refused and limit.measure is Measure.MODEL):
            excess = Excess(limit, asks, Fraction(0))
            yield Objection("spec", *alone_too_much(excess, quota, is_unspecified=is_open))


def is_unspecified(demand: Demand, quota: Quota) -> bool:
    """Whether a pod counts against a model only because it does not say which one it wants."""
    return demand.models is None and any(
        asks > 0 and limit.measure is Measure.MODEL for limit, asks in amounts(demand, quota).items()
    )
