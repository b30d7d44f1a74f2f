"""What operators can count. No pod names, no namespaces: the number of series is bounded by rules and modes."""

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from webhook.outcome import Outcome

CONTENT_TYPE = CONTENT_TYPE_LATEST
LATENCY_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0)
"""Upper bounds in seconds; with +Inf ten buckets."""


class _Series(dict[tuple[str, ...], Any]):
    """The series of a metric by its label values; finding one again costs a look-up instead of a lock."""

    def __init__(self, metric: Any) -> None:
        super().__init__()
        self._metric = metric

    def __missing__(self, labels: tuple[str, ...]) -> Any:
        series = self[labels] = self._metric.labels(*labels)
        return series


class Metrics:
    """The metrics of one replica, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "gpu_policy_requests",
            "Admission reviews answered, by phase (mutate, validate), operation and result (allowed, patched, "
            "refused).",
            ["phase", "operation", "result"],
            registry=self.registry,
        )
        self._findings = Counter(
            "gpu_policy_findings",
            "Findings by rule, mode and kind (violation, injection, missing, advice); injection is one that only "
            "would have been made.",
            ["rule", "mode", "kind"],
            registry=self.registry,
        )
        self._injections = Counter(
            "gpu_policy_injections", "Pods completed, by rule.", ["rule"], registry=self.registry
        )
        self._errors = Counter(
            "gpu_policy_errors",
            "Requests not answered with a decision, by reason (bad_request, not_ready, bug).",
            ["reason"],
            registry=self.registry,
        )
        self._latency = Histogram(
            "gpu_policy_request_duration_seconds",
            "Time to answer an admission review, without TLS and reading the request.",
            ["phase"],
            buckets=LATENCY_BUCKETS,
            registry=self.registry,
        )
        self._policy_info = Gauge(
            "gpu_policy_policy_info",
            "1 for the policy set in force, by content hash.",
            ["hash"],
            registry=self.registry,
        )
        self._reload_ok = Gauge(
            "gpu_policy_policy_reload_ok",
            "1 if the policy files on disk are in force, 0 if they were refused and the last good set is kept.",
            registry=self.registry,
        )
        self._reload_failures = Counter(
            "gpu_policy_policy_reload_failures", "Policy reloads that were refused.", registry=self.registry
        )
        self._failures_seen = 0
        self._count_of = _Series(self._requests)
        self._finding_of = _Series(self._findings)
        self._injection_of = _Series(self._injections)
        self._latency_of = _Series(self._latency)

    def watch_facts(self, age: Callable[[], float], reachable: Callable[[], bool]) -> None:
        """Show how old the facts about the cluster are and whether the API server answers, read at each scrape."""
        Gauge(
            "gpu_policy_facts_age_seconds",
            "Seconds since the watches of nodes and runtime classes were last known to be current.",
            registry=self.registry,
        ).set_function(age)
        Gauge(
            "gpu_policy_apiserver_reachable",
            "1 if the API server answers this replica, 0 if the last known facts are used meanwhile.",
            registry=self.registry,
        ).set_function(lambda: float(reachable()))

    def policies(self, content_hash: str, *, is_current: bool, failures: int) -> None:
        """Show the policy set in force and how its last reload went."""
        self._policy_info.clear()
        self._policy_info.labels(content_hash).set(1)
        self._reload_ok.set(is_current)
        self._reload_failures.inc(max(0, failures - self._failures_seen))
        self._failures_seen = failures

    def count(self, phase: str, operation: str, result: str, outcome: Outcome | None, seconds: float) -> None:
        """Count one answer; `seconds` is what it took."""
        self._count_of[phase, operation, result].inc()
        self._latency_of[(phase,)].observe(seconds)
        if outcome is not None:
            for rule in outcome.injected:
                self._injection_of[(rule,)].inc()
            for finding in outcome.findings:
                self._finding_of[finding.rule, finding.mode, finding.kind].inc()

    def error(self, reason: str) -> None:
        """Count a request that got no decision."""
        self._errors.labels(reason).inc()

    def page(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(self.registry)
