"""Metrics of quotas. A bounded number of quotas have series of their own; all others share one."""

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

from prometheus_client import CollectorRegistry, Counter, Histogram

from webhook.admission.series import OTHER, ScrapedGauge, Series
from webhook.ledger.context import Observer
from webhook.quota.amounts import Usage
from webhook.quota.quotas import Limit, Measure

MOST_QUOTAS = 200
"""Most quotas with series of their own. The platform names shared quotas and namespaces, but there may be many."""
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0, 10.0)


class QuotaMetrics(Observer):
    """Counts as `webhook.ledger.context.Observer`, and shows what is in use, read at each scrape."""

    def __init__(
        self,
        registry: CollectorRegistry,
        usage: Callable[[], Mapping[str, Usage]],
        age: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._usage = usage
        self._keys: set[str] = set()
        self._refused = Series(
            Counter("gpu_policy_quota_refused", "Pods that a quota refused.", ["quota"], registry=registry)
        )
        self._failures = Series(
            Counter(
                "gpu_policy_quota_ledger_failures",
                "Pods for which the ledger of a quota could not be reached in time.",
                ["quota"],
                registry=registry,
            )
        )
        self._conflicts = Series(
            Counter(
                "gpu_policy_quota_conflicts",
                "Writes to the ledger of a quota that were tried again because another replica had written first.",
                ["quota"],
                registry=registry,
            )
        )
        self._repairs = Counter(
            "gpu_policy_quota_ledger_repairs",
            "Ledgers that could not be decoded or changed, and were written anew from the pods of the cluster.",
            registry=registry,
        )
        self._durations = Series(
            Histogram(
                "gpu_policy_quota_ledger_duration_seconds",
                "Time to enter a pod in a ledger (reserve), and to list pods before a refusal (look_up).",
                ["operation"],
                buckets=_SECONDS,
                registry=registry,
            )
        )
        text = "In use of a quota, by limit: gpus, model:<name>, resource:<name>; in GPUs, or units of the resource."
        ScrapedGauge("gpu_policy_quota_used", text, ("quota", "limit"), self._used, registry=registry)
        text = "The part of gpu_policy_quota_used that resource claims count."
        ScrapedGauge("gpu_policy_quota_used_by_claims", text, ("quota", "limit"), self._by_claims, registry=registry)
        text = "What a quota allows, by limit: gpus, model:<name>, resource:<name>; in GPUs, or units of the resource."
        ScrapedGauge("gpu_policy_quota_hard", text, ("quota", "limit"), self._hard, registry=registry)
        text = "Pods entered in the ledger of a quota."
        ScrapedGauge("gpu_policy_quota_entries", text, ("quota",), self._entries, registry=registry)
        text = "Entries of a quota whose pods are not stored, as far as this replica knows."
        ScrapedGauge("gpu_policy_quota_unconfirmed", text, ("quota",), self._unconfirmed, registry=registry)
        ScrapedGauge(
            "gpu_policy_quota_reconcile_age_seconds",
            "Seconds since this replica last compared every ledger with the pods of the cluster.",
            (),
            age,
            registry=registry,
        )
        for operation in ("reserve", "look_up"):
            self._durations[(operation,)]

    def reserved(self, key: str, seconds: float) -> None:
        name = self._name(key)
        self._durations[("reserve",)].observe(seconds)
        for series in (self._refused, self._failures, self._conflicts):
            series[(name,)].inc(0)

    def looked_up(self, seconds: float) -> None:
        self._durations[("look_up",)].observe(seconds)

    def conflicted(self, key: str) -> None:
        self._conflicts[(self._name(key),)].inc()

    def repaired(self) -> None:
        self._repairs.inc()

    def failed(self, key: str) -> None:
        self._failures[(self._name(key),)].inc()

    def refused(self, key: str) -> None:
        self._refused[(self._name(key),)].inc()

    def _name(self, key: str) -> str:
        if key not in self._keys and len(self._keys) < MOST_QUOTAS:
            self._keys.add(key)
        return key if key in self._keys else OTHER

    def _shown(self) -> Iterable[tuple[str, Usage]]:
        return sorted(self._usage().items())[:MOST_QUOTAS]

    def _used(self) -> Mapping[tuple[str, ...], float]:
        return self._amounts(lambda usage: usage.used)

    def _by_claims(self) -> Mapping[tuple[str, ...], float]:
        return self._amounts(lambda usage: usage.by_claims)

    def _amounts(self, of: Callable[[Usage], Mapping[Limit, Fraction]]) -> Mapping[tuple[str, ...], float]:
        return {
            (key, _label(limit)): float(amount) for key, usage in self._shown() for limit, amount in of(usage).items()
        }

    def _hard(self) -> Mapping[tuple[str, ...], float]:
        return {(key, _label(limit)): float(limit.hard) for key, usage in self._shown() for limit in usage.quota.limits}

    def _entries(self) -> Mapping[tuple[str, ...], float]:
        return {(key,): float(usage.entries) for key, usage in self._shown()}

    def _unconfirmed(self) -> Mapping[tuple[str, ...], float]:
        return {(key,): float(usage.unconfirmed) for key, usage in self._shown()}


def _label(limit: Limit) -> str:
    return "gpus" if limit.measure is Measure.GPUS else f"{limit.measure}:{limit.name}"
