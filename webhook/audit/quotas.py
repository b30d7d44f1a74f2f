"""Quotas for reports: counted from the pods of an inventory, or as the objects of a cluster tell of them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from webhook.engine.standings import Place, Standing, Status, statuses
from webhook.ledger.store import SeenPod
from webhook.policy.policy_set import PolicySet
from webhook.quota.amounts import used
from webhook.quota.demand import demand_of
from webhook.quota.quota import Demand, Quota, Scope


@dataclass(frozen=True, slots=True)
class Part:
    """One limit of a quota as texts of exact numbers; `name` is the model or the resource, empty for all GPUs."""

    name: str
    hard: str
    used: str

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
    gpus: Part | None
    models: tuple[Part, ...]
    resources: tuple[Part, ...]

    @property
    def parts(self) -> Iterator[Part]:
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


def counted(policies: PolicySet, pods: Iterable[SeenPod], namespace: str | None) -> list[Reported]:
    """The quotas of one namespace, or of all that policies or pods name, with what these pods use of them."""
    by_namespace: dict[str, list[SeenPod]] = {}
    for pod in pods:
        by_namespace.setdefault(pod.namespace, []).append(pod)
    names = {*by_namespace, *policies.names, *([] if namespace is None else [namespace])}
    bound = {one.quota.key: one for name in names for one in policies.quotas_for(name)}
    bound |= {one.quota.key: one for one in policies.pots}
    standings = (
        Standing(one.quota, one.mode, used(_counts(one.quota, by_namespace), one.quota), names)
        for one in bound.values()
    )
    return reported(
        (place, status or {}) for place, status in statuses(standings).items() if namespace in {None, place[0]}
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
    return sorted(quotas, key=lambda quota: (quota.scope != Scope.NAMESPACE, quota.name))


def _counts(quota: Quota, pods: Mapping[str, Iterable[SeenPod]]) -> Mapping[Demand, int]:
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


def _parts(raws: object) -> tuple[Part, ...]:
    return tuple(_part(raw) for raw in raws if isinstance(raw, dict)) if isinstance(raws, list) else ()


def _part(raw: Mapping[str, Any]) -> Part:
    return Part(*(str(raw.get(key, "")) for key in ("name", "hard", "used")))
