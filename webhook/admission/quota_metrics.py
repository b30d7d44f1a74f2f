"""Metrics of quotas. A bounded number of quotas have series of their own; all others share one."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from prometheus_client import CollectorRegistry, Counter, Histogram

from webhook.admission.series import FirstNames, Labels, ScrapedGauge, Values
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
        self._names = FirstNames(MOST_QUOTAS)

        def counter(name: str, text: str) -> Counter:
            return Counter(f"gpu_policy_quota_{name}", text, ["quota"], registry=registry)

        self._refused = counter("refused", "Pods that a quota refused.")
        self._failures = counter(
            "ledger_failures", "Pods for which the ledger of a quota could not be reached in time."
        )
        self._conflicts = counter(
            "conflicts",
            "Writes to the ledger of a quota that were tried again because another replica had written first.",
        )
        self._repairs = Counter(
            "gpu_policy_quota_ledger_repairs",
            "Ledgers that could not be decoded or changed, and were written anew from the pods of the cluster.",
            registry=registry,
        )
        self._durations = Histogram(
            "gpu_policy_quota_ledger_duration_seconds",
            "Time to enter a pod in a ledger (reserve), and to list pods before a refusal (look_up).",
            ["operation"],
            buckets=_SECONDS,
            registry=registry,
        )
        for operation in ("reserve", "look_up"):
            self._durations.labels(operation)
        limits = "limit: gpus, model:<name>, resource:<name>; in GPUs, or units of the resource."
        shown: Sequence[tuple[str, str, Labels, Callable[[], Values]]] = (
            (
                "used",
                f"In use of a quota, by {limits}",
                ("quota", "limit"),
                lambda: self._by_limit(lambda usage: usage.used),
            ),
            (
                "used_by_claims",
                "The part of gpu_policy_quota_used that resource claims count.",
                ("quota", "limit"),
                lambda: self._by_limit(lambda usage: usage.by_claims),
            ),
            (
                "gated",
                "What pods with scheduling gates will use of a quota when they start; no part of used.",
                ("quota", "limit"),
                lambda: self._by_limit(_gated),
            ),
            (
                "hard",
                f"What a quota allows, by {limits}",
                ("quota", "limit"),
                lambda: self._by_limit(lambda usage: {limit: limit.hard for limit in usage.quota.limits}),
            ),
            (
                "entries",
                "Pods entered in the ledger of a quota.",
                ("quota",),
                lambda: {key: float(usage.entries) for key, usage in self._shown()},
            ),
            (
                "unconfirmed",
                "Entries of a quota whose pods are not stored, as far as this replica knows.",
                ("quota",),
                lambda: {key: float(usage.unconfirmed) for key, usage in self._shown()},
            ),
            (
                "reconcile_age_seconds",
                "Seconds since this replica last compared every ledger with the pods of the cluster.",
                (),
                age,
            ),
        )
        for name, text, labels, read in shown:
            ScrapedGauge(f"gpu_policy_quota_{name}", text, labels, read, registry=registry)

    def reserved(self, key: str, seconds: float) -> None:
        self._durations.labels("reserve").observe(seconds)
        for counter in (self._refused, self._failures, self._conflicts):
            counter.labels(self._names.label(key)).inc(0)

    def looked_up(self, seconds: float) -> None:
        self._durations.labels("look_up").observe(seconds)

    def conflicted(self, key: str) -> None:
        self._conflicts.labels(self._names.label(key)).inc()

    def repaired(self) -> None:
        self._repairs.inc()

    def failed(self, key: str) -> None:
        self._failures.labels(self._names.label(key)).inc()

    def refused(self, key: str) -> None:
        self._refused.labels(self._names.label(key)).inc()

    def _shown(self) -> Sequence[tuple[str, Usage]]:
        return sorted(self._usage().items())[:MOST_QUOTAS]

    def _by_limit(self, of: Callable[[Usage], Mapping[Limit, Fraction]]) -> Mapping[Labels, float]:
        return {
            (key, _label(limit)): float(amount) for key, usage in self._shown() for limit, amount in of(usage).items()
        }


def _label(limit: Limit) -> str:
    return "gpus" if limit.measure is Measure.GPUS else f"{limit.measure}:{limit.name}"


def _gated(usage: Usage) -> Mapping[Limit, Fraction]:
    return {limit: usage.gated.get(limit, Fraction(0)) for limit in usage.quota.limits}
