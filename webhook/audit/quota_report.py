"""Quotas for reports: counted from the pods of an inventory, or as the objects of a cluster tell of them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from webhook.engine.quota_usage import Place, QuotaUsage, Status, statuses
from webhook.ledger.ledger_store import GpuPod
from webhook.policy.bound_quotas import BoundQuota
from webhook.policy.policy_set import PolicySet
from webhook.quota.amounts import used
from webhook.quota.gpu_demand import demand_of
from webhook.quota.quota_wording import number
from webhook.quota.quotas import Demand, Quota, QuotaScope

_LONGEST_NUMBER = 40
_WRITTEN_WITH = frozenset("0123456789./- ")
"""Characters of an exact number; with an exponent, a short text would be a number of a gigabyte."""


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """One limit of a quota as texts of exact numbers; `name` is the model or the resource, empty for all GPUs."""

    name: str
    hard: str
    used: str

    @property
    def share(self) -> Fraction | None:
        """How much of it is used: 1 is all, more is too much. None where the texts are no numbers."""
        used, hard = exact(self.used), exact(self.hard)
        if used is None or hard is None:
            return None
        return used / hard if hard else Fraction(1)

    @property
    def rest(self) -> str:
        """What people ask first: `2 free`, `full` or `1/2 over`; empty where the texts are no numbers."""
        used, hard = exact(self.used), exact(self.hard)
        if used is None or hard is None:
            return ""
        if used == hard:
            return "full"
        return f"{number(hard - used)} free" if used < hard else f"{number(used - hard)} over"

    def to_json(self) -> dict[str, str]:
        """The same as an object has it."""
        return {**({"name": self.name} if self.name else {}), "hard": self.hard, "used": self.used}


@dataclass(frozen=True, slots=True)
class Reported:
    """A quota and the namespaces in which it is seen, as far as was looked."""

    name: str
    scope: str
    mode: str
    namespaces: tuple[str, ...]
    gpus: LimitUsage | None
    models: tuple[LimitUsage, ...]
    resources: tuple[LimitUsage, ...]

    @property
    def parts(self) -> Iterator[LimitUsage]:
        """Every limit."""
        if self.gpus is not None:
            yield self.gpus
        yield from (*self.models, *self.resources)

    def to_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "quota": self.name,
            "scope": self.scope,
            "mode": self.mode,
            "namespaces": list(self.namespaces),
            **({"gpus": self.gpus.to_json()} if self.gpus is not None else {}),
            "byModel": [part.to_json() for part in self.models],
            "byResource": [part.to_json() for part in self.resources],
        }


@dataclass(frozen=True, slots=True)
class InUse:
    """A quota as policies set it, and how it stands."""

    bound: BoundQuota
    standing: QuotaUsage


def counted(policies: PolicySet, pods: Iterable[GpuPod], namespace: str | None) -> list[Reported]:
    """The quotas of one namespace, or of all that policies or pods name, with what these pods use of them."""
    return told(in_use(policies, pods, [] if namespace is None else [namespace]), namespace)


def in_use(policies: PolicySet, pods: Iterable[GpuPod], namespaces: Iterable[str] = ()) -> list[InUse]:
    """What these pods use of the quotas of all namespaces that they, or policies, or `namespaces` name."""
    by_namespace: dict[str, list[GpuPod]] = {}
    for pod in pods:
        by_namespace.setdefault(pod.namespace, []).append(pod)
    names = {*by_namespace, *policies.names, *namespaces}
    bound = {one.quota.key: one for name in names for one in policies.quotas_for(name)}
    bound |= {one.quota.key: one for one in policies.pots}
    return [
        InUse(one, QuotaUsage(one.quota, one.mode, used(_counts(one.quota, by_namespace), one.quota), names))
        for one in bound.values()
    ]


def told(found: Iterable[InUse], namespace: str | None = None) -> list[Reported]:
    """The same as one namespace sees it, or all of it."""
    return reported(
        (place, status or {})
        for place, status in statuses(one.standing for one in found).items()
        if namespace in {None, place[0]}
    )


def of_objects(raws: Iterable[Mapping[str, Any]]) -> list[Reported]:
    """The quotas that objects of kind GPUQuota tell of."""
    places = (((raw["metadata"]["namespace"], raw["metadata"]["name"]), raw.get("status")) for raw in raws)
    return reported((place, status if isinstance(status, dict) else {}) for place, status in places)


def reported(found: Iterable[tuple[Place, Status]]) -> list[Reported]:
    """Each quota once, those of namespaces first; what was written last counts where namespaces are told different."""
    by_key: dict[str, list[tuple[str, Status]]] = {}
    for (namespace, key), status in found:
        by_key.setdefault(key, []).append((namespace, status))
    quotas = [_reported(key, told) for key, told in by_key.items()]
    return sorted(quotas, key=lambda quota: (quota.scope != QuotaScope.NAMESPACE, quota.name))


def _counts(quota: Quota, pods: Mapping[str, Iterable[GpuPod]]) -> Mapping[Demand, int]:
    demands = (
        demand_of(pod.pod, namespace, quota.counting)
        for namespace, of_namespace in pods.items()
        if quota.covers(namespace)
        for pod in of_namespace
    )
    return Counter(demand for demand in demands if demand is not None)


def _reported(key: str, told: Iterable[tuple[str, Status]]) -> Reported:
    told = sorted(told, key=lambda one: (str(one[1].get("updated", "")), one[0]))
    status = told[-1][1]
    gpus = status.get("gpus")
    return Reported(
        str(status.get("quota") or key),
        str(status.get("scope", "")),
        str(status.get("mode", "")),
        tuple(sorted(namespace for namespace, _ in told)),
        _part(gpus) if isinstance(gpus, dict) else None,
        _parts(status.get("byModel")),
        _parts(status.get("byResource")),
    )


def _parts(raws: object) -> tuple[LimitUsage, ...]:
    return tuple(_part(raw) for raw in raws if isinstance(raw, dict)) if isinstance(raws, list) else ()


def _part(raw: Mapping[str, Any]) -> LimitUsage:
    return LimitUsage(*(str(raw.get(key, "")) for key in ("name", "hard", "used")))


def exact(text: str) -> Fraction | None:
    """The number that `2 3/7` stands for; None for what is none."""
    if not text or len(text) > _LONGEST_NUMBER or not _WRITTEN_WITH.issuperset(text):
        return None
    try:
        return sum(map(Fraction, text.split()), start=Fraction(0))
    except (ValueError, ZeroDivisionError):
        return None
