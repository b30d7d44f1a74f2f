"""What people read about a quota: exact numbers, and why a pod does not fit."""

from collections.abc import Collection, Sequence
from fractions import Fraction

from webhook.model.wording import counted
from webhook.quota.amounts import amounts
from webhook.quota.quotas import SHARES, Demand, Excess, Limit, Measure, Quota, QuotaScope

_SHOWN = 3
"""Most models that one message gives an example for, and most kinds of pods that it names."""


def number(amount: Fraction) -> str:
    """An exact amount as people write it.

    >>> number(Fraction(6)), number(Fraction(3, 7)), number(Fraction(17, 7))
    ('6', '3/7', '2 3/7')
    """
    whole, rest = divmod(amount.numerator, amount.denominator)
    if not rest:
        return str(whole)
    part = f"{rest}/{amount.denominator}"
    return f"{whole} {part}" if whole else part


def exceeded(
    quota: Quota,
    excesses: Sequence[Excess],
    largest: Sequence[tuple[str, Fraction]] | None,
    *,
    kin: tuple[str, str] = ("", ""),
    is_unspecified: bool = False,
) -> str:
    """Why a pod does not fit into what is left, who uses most of it, and what to do.

    `largest` are names of pods with what they use, in the unit of the first limit; with None, the message does not say
    what is in use. `kin` says what the first of them has in common with the pod, and what helps. `is_unspecified` says
    that the pod selects no model, and so counts against each.
    """
    tells = largest is not None
    over = [
        f"requested {amount_of(one.asks, one.limit)}, "
        + (_in_use(one) if tells else f"more than is free of {number(one.limit.hard)}")
        for one in excesses
    ]
    parts = [f"exceeded GPU quota '{quota.name}': {'; '.join(over)}"]
    if largest:
        parts.append(
            f"largest: {_holders(largest[:1])}{kin[0]}" + (f", {_holders(largest[1:])}" if largest[1:] else "")
        )
    parts.append(kin[1] or (_less(excesses) if tells else "free some or request less"))
    if is_unspecified and all(excess.limit.measure is Measure.MODEL for excess in excesses):
        parts.append(f"or add {choosing(quota, [excess.limit.name for excess in excesses])}")
    return "; ".join(parts)


def group_exceeded(
    quota: Quota,
    excesses: Sequence[Excess],
    group: str,
    pods: int,
    largest: Sequence[tuple[str, Fraction]] | None,
) -> str:
    """Why a group that starts together does not fit into what is left, from the room that `pods` of its pods need.

    `largest` is as in `exceeded`.
    """
    never = next((one for one in excesses if one.asks > one.limit.hard), None)
    first = never or excesses[0]
    needs = f"{group} needs {asked_for(first.asks, first)} for {pods} pods together"
    remedy = f"let {group} start with fewer pods, or request less in each"
    if never is not None:
        return f"{needs}; {called(quota)} allows {_gpus(never.limit.hard, never.limit)} in all; {remedy}"
    parts = [f"exceeded GPU quota '{quota.name}': {needs}"]
    if largest is not None:
        parts.append("; ".join(map(_in_use, excesses)))
    if largest:
        parts.append(f"largest: {_holders(largest)}")
    return "; ".join([*parts, f"free some, or {remedy}"])


def amount_of(amount: Fraction, limit: Limit) -> str:
    """An amount with its unit: `4`, `4 H100`, `4 nvidia.com/mig-1g.10gb`."""
    return f"{number(amount)} {limit.name}".rstrip()


def unspecified(quota: Quota) -> tuple[str, str, str]:
    """Found, allowed and remedy of a pod that has to select a model, and does not."""
    models = ", ".join(limit.name for limit in quota.limits if limit.measure is Measure.MODEL)
    allowed = f"{called(quota)} limits {models}, so a pod has to select one"
    none = [limit.name for limit in quota.limits if limit.measure is Measure.MODEL and not limit.hard]
    return "does not select a GPU model", allowed, f"Add {choosing(quota, none)}"


def choosing(quota: Quota, but: Collection[str] = ()) -> str:
    """How a pod selects one of the limited models, with examples; models in `but` would not help."""
    models = (limit.name for limit in quota.limits if limit.measure is Measure.MODEL)
    examples = {name: found for name in models if (found := quota.counting.catalogue.example(name)) is not None}
    helpful = [f"{key}: {value} for {name}" for name, (key, value) in examples.items() if name not in but]
    if helpful or not examples:
        such_as = f", such as {' or '.join(helpful[:_SHOWN])}" if helpful else ""
        return f"a nodeSelector for the model{such_as}"
    key, _ = next(iter(examples.values()))
    return f"a nodeSelector for another model, by the label {key} for example"


def too_many_unconfirmed(quota: Quota, excess: Excess, most: Fraction) -> tuple[str, str, str]:
    """Found, allowed and remedy of a pod that would fit without the unconfirmed entries of its namespace.

    `excess.used` is what these entries hold, `most` what they may hold together with the pod.
    """
    asks = f"exceeded GPU quota '{quota.name}': requested {amount_of(excess.asks, excess.limit)}"
    allowed = f"such pods may hold {amount_of(most, excess.limit)}, half of what is free for the namespace"
    if not excess.used:
        found = f"{asks}, and pods of this namespace were admitted lately and never created"
        remedy = "Find out what refuses them after this webhook, such as a ResourceQuota, and try again later"
        return found, allowed, remedy
    held = amount_of(excess.used, excess.limit)
    found = f"{asks}, while pods of this namespace that were admitted but are not created yet hold {held}"
    return found, allowed, "Try again in a moment; if that does not help, find out what refuses those pods"


def ledger_full(quota: Quota, needed: int, most: int) -> tuple[str, str, str]:
    """Found, allowed and remedy of a pod for which the ledger has no room."""
    found = (
        f"with this pod, the namespace would have {needed} different combinations of requested GPUs and their models "
        f"in {called(quota)}"
    )
    remedy = "Let pods request GPUs and select nodes in fewer different ways, or end some pods"
    return found, f"at most {most} are kept", remedy


def alone_too_much(excess: Excess, quota: Quota, *, is_unspecified: bool = False) -> tuple[str, str, str]:
    """Found, allowed and remedy of a pod that does not fit although nothing else is in use."""
    limit = excess.limit
    found = f"requests {asked_for(excess.asks, excess)}"
    if not limit.hard:
        allowed = f"{called(quota)} allows none"
    else:
        allowed = f"{called(quota)} allows {_gpus(limit.hard, limit)} in all"
    most = _askable(excess)
    remedy = f"Request {_requestable(most, excess)} or fewer" if most else "Request none"
    if is_unspecified and limit.measure is Measure.MODEL:
        remedy += f", or add {choosing(quota, _too_small(quota, excess.asks))}"
    return found, allowed, remedy


def too_many_pods(
    quota: Quota, excess: Excess, pods: int, kinds: Sequence[str] = (), *, is_unspecified: bool = False
) -> tuple[str, str]:
    """Found and remedy of a workload whose pods fit one by one and not all together.

    `excess` is of one pod, or of all pods where these are of several `kinds`.
    """
    limit, fitting = excess.limit, excess.limit.hard // excess.asks
    asks = excess.asks if kinds else excess.asks * pods
    whose = f" of {' and '.join(kinds)}" if all(kinds) and 0 < len(kinds) <= _SHOWN else ""
    found = (
        f"its {pods} pods{whose} request {asked_for(asks, excess)} together; {called(quota)} allows "
        f"{_gpus(limit.hard, limit)} in all{'' if kinds else f', enough for {fitting} of them'}"
    )
    remedy = f"Run {'fewer' if kinds else f'{fitting} or fewer'}, or request less in each"
    if is_unspecified and limit.measure is Measure.MODEL:
        remedy += f", or add {choosing(quota, _too_small(quota, asks))}"
    return found, remedy


def too_many_groups(quota: Quota, excess: Excess, name: str, number: int, pods: int) -> tuple[str, str]:
    """Found and remedy of a workload whose groups, of `pods` each, do not all fit, or of which not one does."""
    limit, fitting = excess.limit, excess.limit.hard // excess.asks
    allowed = f"{called(quota)} allows {_gpus(limit.hard, limit)} in all"
    if not fitting:
        asks = asked_for(excess.asks, excess)
        found = f"{name} ({counted(pods, 'pod')}) requests {asks} together; {allowed}, so it is never complete"
        return found, "Use fewer pods, or request less in each"
    asks = asked_for(excess.asks * number, excess)
    found = f"its {number} groups of {pods} pods request {asks} together; {allowed}, enough for {fitting} of them"
    return found, f"Run {counted(int(fitting), 'group')} or fewer, or request less in each pod"


def at_peak(quota: Quota, excess: Excess, why: str, pods: int, tail: str) -> str:
    """That `pods` at a time are too many, which `why` says when."""
    request = f"{pods} pods request" if pods > 1 else "1 pod requests"
    allowed = f"{called(quota)} allows {_gpus(excess.limit.hard, excess.limit)} in all"
    return f"{why}, so {request} {asked_for(excess.asks, excess)} together; {allowed}{tail}"


def not_free(
    quota: Quota, excess: Excess, largest: Sequence[tuple[str, Fraction]] | None, asks: str, remedy: str
) -> tuple[str, str]:
    """Found and remedy of pods that do not fit beside what is in use now. `largest` is as in `exceeded`.

    `asks` says who requests how much.
    """
    if largest is None:
        return (
            f"{asks}, more than is free of {_gpus(excess.limit.hard, excess.limit)}",
            remedy or "Free some or request less",
        )
    of = "" if quota.scope is QuotaScope.NAMESPACE else f" of {called(quota)}"
    taken = f"{number(excess.used)} of {amount_of(excess.limit.hard, excess.limit)}{of}"
    found = f"{asks}; {taken} {'is' if excess.used == 1 else 'are'} in use, {number(excess.free)} free"
    if largest:
        found += f"; largest: {_holders(largest)}"
    less = _less([excess])
    return found, remedy or less[0].upper() + less[1:]


def _holders(largest: Sequence[tuple[str, Fraction]]) -> str:
    return ", ".join(f"{name} {number(amount)}" for name, amount in largest)


def _too_small(quota: Quota, asks: Fraction) -> list[str]:
    return [limit.name for limit in quota.limits if limit.measure is Measure.MODEL and limit.hard < asks]


def called(quota: Quota) -> str:
    """The quota in the middle of a sentence."""
    return f"GPU quota '{quota.name}'" if quota.name else "the GPU quota"


def _requestable(amount: Fraction, excess: Excess) -> str:
    """An amount as a pod can request it: in units of its resource, where a unit is a part of a GPU.

    >>> _requestable(Fraction(1, 2), Excess(Limit(Measure.GPUS, "", Fraction(1)), Fraction(2), Fraction(0),
    ...                                     unit=("nvidia.com/gpu", Fraction(1, 4))))
    '2 nvidia.com/gpu'
    """
    if excess.unit is None:
        return amount_of(amount, excess.limit)
    what, part = excess.unit
    return f"{number(amount / part)} {what if amount != part or what != SHARES else what[:-1]}"


def asked_for(amount: Fraction, excess: Excess) -> str:
    """An amount of GPUs, with the number of shares where it is of shares."""
    if excess.unit is None or excess.unit[0] != SHARES:
        return _gpus(amount, excess.limit)
    if excess.unit[1] == 1 and not excess.limit.name:
        return f"{_requestable(amount, excess)} of GPUs, each counted as a GPU"
    return f"{_gpus(amount, excess.limit)} ({_requestable(amount, excess)})"


def _gpus(amount: Fraction, limit: Limit) -> str:
    if limit.name:
        return amount_of(amount, limit)
    return f"{number(amount)} {'GPU' if amount <= 1 else 'GPUs'}"


def _in_use(excess: Excess) -> str:
    return f"used {number(excess.used)} of {number(excess.limit.hard)} ({number(excess.free)} free)"


def _less(excesses: Sequence[Excess]) -> str:
    askable = [_askable(excess) for excess in excesses]
    if not all(askable):
        return "free some"
    if len({(excess.asks, excess.unit) for excess in excesses}) > 1:
        return "free some or request less"
    least = min(excesses, key=_askable)
    return f"free some or request {number(min(askable)) if least.unit is None else _requestable(min(askable), least)}"


def _askable(excess: Excess) -> Fraction:
    """The most that the pod could request instead, in whole units; 0 for nothing."""
    step = Fraction(1, excess.asks.denominator) if excess.unit is None else excess.unit[1]
    return excess.free // step * step


def is_unspecified(demand: Demand, quota: Quota) -> bool:
    """Whether a pod counts against a model only because it could get others as well."""
    if not demand.gpus or demand.models is None:
        return bool(demand.gpus) and has_models(demand, quota)
    catalogue, counting = quota.counting.catalogue, amounts(demand, quota).items()
    models = [catalogue.leaves(limit.name) for limit, asks in counting if asks > 0 and limit.measure is Measure.MODEL]
    return any(not models[0] & other for other in models[1:])


def has_models(demand: Demand, quota: Quota) -> bool:
    """Whether a demand counts against the limit of a model."""
    return any(asks > 0 and limit.measure is Measure.MODEL for limit, asks in amounts(demand, quota).items())
