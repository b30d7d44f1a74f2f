"""What pods count against the limits of a quota."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from webhook.quota.quotas import Demand, Excess, Limit, Measure, Quota
from webhook.quota.weights import weight


def amounts(demand: Demand, quota: Quota) -> Mapping[Limit, Fraction]:
    """What one pod with this demand counts against every limit of the quota; not to be changed, callers share it."""
    return _known(demand, quota).amounts


def fits_alone(demand: Demand, quota: Quota) -> bool:
    """Whether a pod with this demand passes no limit of the quota while nothing else uses it."""
    return _known(demand, quota).fits


def used(counts: Mapping[Demand, int], quota: Quota) -> dict[Limit, Fraction]:
    """What so many pods with these demands use; those of namespaces that the quota does not cover use nothing."""
    sums: dict[tuple[int, int], int] = {}  # by place of the limit and denominator: whole numbers are added up faster
    for demand, count in counts.items():
        for at, numerator, denominator in _known(demand, quota).parts:
            sums[at, denominator] = sums.get((at, denominator), 0) + numerator * count
    in_use = dict.fromkeys(quota.limits, Fraction(0))
    for (at, denominator), numerator in sums.items():
        in_use[quota.limits[at]] += Fraction(numerator, denominator)
    return in_use


def excesses(demand: Demand, used: Mapping[Limit, Fraction], quota: Quota) -> tuple[Excess, ...]:
    """The limits that one more pod with this demand would pass, in the order of the quota."""
    return tuple(
        Excess(limit, asks, used[limit])
        for limit, asks in amounts(demand, quota).items()
        if asks > 0 and used[limit] + asks > limit.hard
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """What a demand comes to under a quota, which is held so that no other one gets its id meanwhile.

    `parts` are the amounts that use the quota up: the place of the limit among its limits, numerator and denominator.
    """

    quota: Quota
    amounts: Mapping[Limit, Fraction]
    parts: tuple[tuple[int, int, int], ...]
    fits: bool
    """Whether none of the amounts is above its limit."""


_MOST_KEPT = 16_384
"""Demands that are remembered, about: some megabytes at most."""
_kept: dict[tuple[int, Demand], _Known] = {}


def _known(demand: Demand, quota: Quota) -> _Known:
    key = id(quota), demand
    known = _kept.get(key)
    if known is None:
        asked = dict(_amounts(demand, quota))
        parts = [(at, *asked[limit].as_integer_ratio()) for at, limit in enumerate(quota.limits) if asked[limit]]
        fits = all(asks <= limit.hard for limit, asks in asked.items())
        known = _Known(quota, asked, tuple(parts) if quota.covers(demand.namespace) else (), fits)
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[key] = known
    return known


def _amounts(demand: Demand, quota: Quota) -> Iterator[tuple[Limit, Fraction]]:
    weighed = {name: count * weight(name, demand.models, quota.counting) for name, count in demand.gpus}
    for limit in quota.limits:
        match limit.measure:
            case Measure.GPUS:
                yield limit, sum(weighed.values(), Fraction(0))
            case Measure.MODEL:
                yield limit, sum(_of_model(limit.name, demand, quota, weighed), Fraction(0))
            case Measure.RESOURCE:
                yield limit, Fraction(dict(demand.gpus).get(limit.name, 0))


def _of_model(name: str, demand: Demand, quota: Quota, weighed: Mapping[str, Fraction]) -> Iterator[Fraction]:
    """What the pod may use of a model: of the resources of its vendor, where it may land on it."""
    catalogue = quota.counting.catalogue
    meant = catalogue.leaves(name)
    if demand.models is not None:
        meant = meant.intersection(demand.models)
    vendors = {catalogue.vendor(leaf) for leaf in meant}
    for resource, amount in weighed.items():
        gpu = quota.counting.accelerators.of(resource)
        if vendors and (None in vendors or gpu is None or gpu.vendor in vendors):
            yield amount
