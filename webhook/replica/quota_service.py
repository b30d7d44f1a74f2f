"""The quotas of one replica: its ledgers, the reconciler, and what is published about usage.

A bounded number of quotas have series of their own in the metrics; all others share one.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Histogram

from webhook.admission.metrics import FirstNames, Labels, Metrics, ScrapedGauge, Values
from webhook.engine.quota_usage import quota_usages, statuses
from webhook.facts.facts import ClusterFacts
from webhook.ledger.context import LEAST_IDLE, LONGEST_ROUND, LedgerContext, LedgerTiming, Observer, ReconcileIntervals
from webhook.ledger.ledgers import Ledgers
from webhook.ledger.pod_source import PodsAndClaims
from webhook.ledger.reconciler import QuotasInForce, Reconciler
from webhook.ledger.static_pods import StaticPods
from webhook.policy.policy_store import HELD_SECONDS, PolicyStore
from webhook.quota.amounts import Usage
from webhook.quota.quotas import Limit, Measure, Quota, QuotaScope
from webhook.replica.status_objects import QuotaStatus

MOST_QUOTAS = 200
"""Most quotas with series of their own. The platform names shared quotas and namespaces, but there may be many."""
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0, 10.0)


class QuotaMetrics(Observer):
    """Counts what happens to ledgers, and shows what is in use, read at each scrape."""

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

        def show(name: str, text: str, labels: Labels, read: Callable[[], Values]) -> None:
            ScrapedGauge(f"gpu_policy_quota_{name}", text, labels, read, registry=registry)

        limits = "limit: gpus, model:<name>, resource:<name>; in GPUs, or units of the resource."
        claimed = "The part of gpu_policy_quota_used that resource claims count."
        gated = "What pods with scheduling gates will use of a quota when they start; no part of used."
        by_limit: Mapping[str, tuple[str, Callable[[Usage], Mapping[Limit, Fraction]]]] = {
            "used": (f"In use of a quota, by {limits}", lambda usage: usage.used),
            "used_by_claims": (claimed, lambda usage: usage.by_claims),
            "gated": (gated, lambda usage: {one: usage.gated.get(one, Fraction(0)) for one in usage.quota.limits}),
            "hard": (f"What a quota allows, by {limits}", lambda usage: {one: one.hard for one in usage.quota.limits}),
        }
        for name, (text, of) in by_limit.items():
            show(name, text, ("quota", "limit"), partial(self._by_limit, of))
        text = "Pods entered in the ledger of a quota."
        show("entries", text, ("quota",), lambda: {key: float(one.entries) for key, one in self._shown()})
        text = "Entries of a quota whose pods are not stored, as far as this replica knows."
        show("unconfirmed", text, ("quota",), lambda: {key: float(one.unconfirmed) for key, one in self._shown()})
        text = "Seconds since this replica last compared every ledger with the pods of the cluster."
        show("reconcile_age_seconds", text, (), age)

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
            (key, "gpus" if limit.measure is Measure.GPUS else f"{limit.measure}:{limit.name}"): float(amount)
            for key, usage in self._shown()
            for limit, amount in of(usage).items()
        }


_ROUNDS = 1 / 9
"""Longest time between two reconciliations, as a share of the time that an admission may take."""
_IDLE = 2
"""An unused ledger is removed when it has not changed for this many times the time of an admission."""


@dataclass(frozen=True, slots=True)
class QuotaParts:
    """The parts of a replica's quotas: `pods` are those of the context, watched from `start` to `close`.

    Without `publisher` usage is in the metrics only.
    """

    context: LedgerContext
    pods: PodsAndClaims | StaticPods
    publisher: QuotaStatus | None = None


class QuotaService:
    """The quotas of one replica. Pods are watched from the moment that the policies have a quota."""

    def __init__(
        self,
        parts: QuotaParts,
        policies: PolicyStore,
        metrics: Metrics,
        cluster: Callable[[], ClusterFacts | None] = lambda: None,
    ) -> None:
        self._parts = parts
        self._policies = policies
        observer = QuotaMetrics(metrics.registry, lambda: self._reconciler.usage, lambda: self._reconciler.age)
        self.ledgers = Ledgers(replace(parts.context, observer=observer))
        self._reconciler = Reconciler(
            self.ledgers,
            lambda: quotas_in_force(policies),
            intervals=intervals_for(parts.context.timing),
            begin=parts.pods.start,
            listener=self._show,
        )
        parts.pods.listen(self._reconciler.wake)
        parts.pods.know(cluster)
        self.has_pods_in = parts.pods.has_any_in
        """Whether a pod was seen in a namespace."""

    def start(self) -> None:
        if self._parts.publisher is not None:
            self._parts.publisher.start()
        self._reconciler.start()

    def close(self) -> None:
        self._reconciler.close()
        self._parts.pods.close()
        if self._parts.publisher is not None:
            self._parts.publisher.close()

    def _show(self, usage: Mapping[str, Usage]) -> None:
        if self._parts.publisher is not None:
            self._parts.publisher.show(statuses(quota_usages(usage, self._policies.current)))


def intervals_for(timing: LedgerTiming) -> ReconcileIntervals:
    """How often ledgers are reconciled. No entry is removed while its pod may be in flight."""
    return ReconcileIntervals(
        round=min(LONGEST_ROUND, timing.in_flight * _ROUNDS), idle=max(LEAST_IDLE, timing.in_flight * _IDLE)
    )


def quotas_in_force(policies: PolicyStore) -> QuotasInForce:
    """The quotas of the policies in force. They are settled once every replica has loaded them."""
    current = policies.current

    def of(namespace: str) -> Quota | None:
        bound = current.quotas_for(namespace)
        return next((one.quota for one in bound if one.quota.scope is QuotaScope.NAMESPACE), None)

    return QuotasInForce(
        [bound.quota for bound in current.shared_quotas],
        of,
        current.names,
        are_settled=time.monotonic() - policies.status.loaded_at_monotonic > HELD_SECONDS,
        exist=current.has_quotas,
    )
