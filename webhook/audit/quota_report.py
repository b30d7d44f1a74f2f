"""Quotas and their usage for reports: counted from the pods of an inventory, or read from GPUQuota objects."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction
from math import floor
from typing import Any

from rich.console import Console
from rich.text import Text

from webhook.engine.quota_usage import Place, Status, statuses
from webhook.ledger.ledger_store import GpuPod, by_namespace, entered_demand, gated_demands
from webhook.model.wording import few
from webhook.outcome import printable
from webhook.policy.policy_quotas import ConfiguredQuota
from webhook.policy.policy_set import PolicySet
from webhook.quota.amounts import Usage
from webhook.quota.quota_wording import number
from webhook.quota.quotas import QuotaScope

_KEYS = ("name", "hard", "used", "byClaims", "units", "gated")
"""The keys of a limit in a GPUQuota object, in the order of LimitUsage."""


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """One limit of a quota, as texts of exact numbers. `name` is the model or the resource; empty for all GPUs.

    `by_claims` is the part of `used` that claims count; empty where none does. `units` is how many units of resources
    and devices `used` is; empty where each is a whole GPU. `gated` is what pods with scheduling gates will use.
    """

    name: str
    hard: str
    used: str
    by_claims: str = ""
    units: str = ""
    gated: str = ""

    @property
    def share(self) -> Fraction | None:
        """Used share of the limit: 1 is all of it, more is too much. None if the texts are no numbers."""
        used, hard = exact(self.used), exact(self.hard)
        if used is None or hard is None:
            return None
        return used / hard if hard else Fraction(1)

    @property
    def rest(self) -> str:
        """The rest of the limit, as `2 free`, `full` or `1/2 over`; empty if the texts are no numbers."""
        used, hard = exact(self.used), exact(self.hard)
        if used is None or hard is None:
            return ""
        if used == hard:
            return "full"
        return f"{number(hard - used)} free" if used < hard else f"{number(used - hard)} over"

    def to_json(self) -> dict[str, str]:
        return {key: text for key, text in zip(_KEYS, astuple(self), strict=True) if text or key in ("hard", "used")}


@dataclass(frozen=True, slots=True)
class ReportedQuota:
    """A quota and its usage, and the namespaces in which it was found."""

    name: str
    scope: str
    mode: str
    namespaces: tuple[str, ...]
    gpus: LimitUsage | None
    models: tuple[LimitUsage, ...]
    resources: tuple[LimitUsage, ...]

    @property
    def parts(self) -> Iterator[LimitUsage]:
        if self.gpus is not None:
            yield self.gpus
        yield from (*self.models, *self.resources)

    def to_json(self) -> dict[str, Any]:
        return {
            "quota": self.name,
            "scope": self.scope,
            "mode": self.mode,
            "namespaces": list(self.namespaces),
            **({"gpus": self.gpus.to_json()} if self.gpus is not None else {}),
            "byModel": [part.to_json() for part in self.models],
            "byResource": [part.to_json() for part in self.resources],
        }


QuotaInUse = tuple[ConfiguredQuota, Usage]


def quotas_with_pods(policies: PolicySet, pods: Iterable[GpuPod], namespace: str | None) -> list[ReportedQuota]:
    """The quotas of one namespace, or of all that policies or pods name (None), with the usage by these pods."""
    return reported_quotas(quotas_in_use(policies, pods, [] if namespace is None else [namespace]), namespace)


def quotas_in_use(policies: PolicySet, pods: Iterable[GpuPod], namespaces: Iterable[str] = ()) -> list[QuotaInUse]:
    """The usage by these pods of the quotas of all namespaces that the pods, the policies or `namespaces` name."""
    in_namespaces = by_namespace(pods)
    names = {*in_namespaces, *policies.names, *namespaces}
    every = {one.quota.key: one for name in names for one in policies.quotas_for(name)}
    every |= {one.quota.key: one for one in policies.shared_quotas}
    in_use = []
    for active in every.values():
        quota = active.quota
        covered = [pod for name, of_one in in_namespaces.items() if quota.covers(name) for pod in of_one]
        demands = (entered_demand(pod, quota.counting) for pod in covered)
        counts = Counter(demand for demand in demands if demand is not None)
        in_use.append((active, Usage.of(counts, quota, names, gated_demands(covered, quota.counting))))
    return in_use


def reported_quotas(found: Iterable[QuotaInUse], namespace: str | None = None) -> list[ReportedQuota]:
    """The quotas for a report, of one namespace or of all (None)."""
    return _each_once((place, status) for place, status in statuses(found).items() if namespace in {None, place[0]})


def quotas_of_objects(raws: Iterable[Mapping[str, Any]]) -> list[ReportedQuota]:
    """The quotas in objects of kind GPUQuota, as JSON has them."""
    places = (((raw["metadata"]["namespace"], raw["metadata"]["name"]), raw.get("status")) for raw in raws)
    return _each_once((place, status if isinstance(status, dict) else {}) for place, status in places)


def _each_once(found: Iterable[tuple[Place, Status]]) -> list[ReportedQuota]:
    """Each quota once, quotas of namespaces first. Of several statuses of one quota the last one written counts."""
    by_key: dict[str, list[tuple[str, Status]]] = {}
    for (namespace, key), status in found:
        by_key.setdefault(key, []).append((namespace, status))
    quotas = [_reported(key, found) for key, found in by_key.items()]
    return sorted(quotas, key=lambda quota: (quota.scope != QuotaScope.NAMESPACE, quota.name))


def _reported(key: str, found: Iterable[tuple[str, Status]]) -> ReportedQuota:
    found = sorted(found, key=lambda one: (str(one[1].get("updated", "")), one[0]))
    status = found[-1][1]
    gpus = status.get("gpus")
    return ReportedQuota(
        str(status.get("quota") or key),
        str(status.get("scope", "")),
        str(status.get("mode", "")),
        tuple(sorted(namespace for namespace, _ in found)),
        _part(gpus) if isinstance(gpus, dict) else None,
        _parts(status.get("byModel")),
        _parts(status.get("byResource")),
    )


def _parts(raws: object) -> tuple[LimitUsage, ...]:
    return tuple(_part(raw) for raw in raws if isinstance(raw, dict)) if isinstance(raws, list) else ()


def _part(raw: Mapping[str, Any]) -> LimitUsage:
    return LimitUsage(*(str(raw.get(key, "")) for key in _KEYS))


def exact(text: str) -> Fraction | None:
    """The number in a text such as `2 3/7`; None if the text is no number."""
    try:
        return sum(map(Fraction, text.split()), start=Fraction(0)) if text else None
    except (ValueError, ZeroDivisionError):
        return None


_COLUMNS = 80
_WIDEST_BAR = 24
_NARROWEST_BAR = 6
_ALL = "GPUs"


def render(quotas: Sequence[ReportedQuota], console: Console, *, names_namespaces: bool) -> None:
    """Print every quota in at most 80 columns. `names_namespaces`: also print the namespaces of shared quotas."""
    parts = [part for quota in quotas for part in quota.parts]
    names = max((len(_name(part)) for part in parts), default=0)
    amounts = max((len(_amount(part)) for part in parts), default=0)
    rests = max((len(_rest(part)) for part in parts), default=0)
    columns = min(_COLUMNS, console.width)
    bar = max(_NARROWEST_BAR, min(_WIDEST_BAR, columns - names - amounts - rests - len("    []  ") - len("  ")))
    for quota in quotas:
        console.print(_title(quota), soft_wrap=True)
        if names_namespaces and quota.scope != QuotaScope.NAMESPACE:
            console.print(Text(f"  in {printable(few(quota.namespaces))}", style="dim"), soft_wrap=True)
        for part in quota.parts:
            line = Text(f"  {_name(part):<{names}}  {_amount(part):>{amounts}}  ")
            line.append(f"[{_bar(part, bar)}]", style=_style(part)).append(f"  {_rest(part)}")
            line.rstrip()
            console.print(line, soft_wrap=True)


def _title(quota: ReportedQuota) -> Text:
    scope = "shared quota" if quota.scope == QuotaScope.SHARED else quota.scope
    title = Text(printable(f"{scope} {quota.name}".strip()), style="bold")
    return title.append(printable(f" ({quota.mode})" if quota.mode else ""), style="not bold")


def _name(part: LimitUsage) -> str:
    return printable(part.name) or _ALL


def _amount(part: LimitUsage) -> str:
    return printable(f"{part.used} of {part.hard}")


def _rest(part: LimitUsage) -> str:
    claimed = f"{part.by_claims} by claims" if part.by_claims else ""
    units = f"{part.units} {'unit' if part.units == '1' else 'units'}" if part.units else ""
    gated = f"{part.gated} gated" if part.gated else ""
    return printable(", ".join(filter(None, (part.rest, claimed, units, gated))))


def _bar(part: LimitUsage, width: int) -> str:
    """A bar of the used share; only a full limit looks full, and only an unused one looks empty."""
    share = part.share
    if share is None:
        return "?" * width
    filled = width if share >= 1 else max(floor(share * width), 1 if share else 0)
    return "#" * filled + "-" * (width - filled)


def _style(part: LimitUsage) -> str:
    share = part.share
    if share is None:
        return "dim"
    return "red" if share >= 1 else "yellow" if share >= Fraction(9, 10) else "green"
