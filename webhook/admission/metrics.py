"""The metrics of a replica. Labels have no pod names and a bounded number of namespaces; all others are closed sets.

docs/metrics.md says what each metric means; alerts and dashboard are in deploy/chart/files.
"""

import collections
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from webhook.admission.admission_review import AdmissionRequest
from webhook.admission.phases import Decision
from webhook.cuda.cuda_tables import CudaTables
from webhook.cuda.offer import offer_of
from webhook.facts.snapshot import Snapshot
from webhook.outcome import FindingKind
from webhook.rules import RULES
from webhook.rules.rule_settings import Mode

OTHER = "_other"
"""The label of all names without series of their own; no namespace and no quota can have this name."""

_LOG = logging.getLogger("gpu_policy.metrics")

Labels = tuple[str, ...]
Values = float | Mapping[Labels, float] | Mapping[str, float] | None
"""One value, or values by label values or by the value of the only label; None while nothing is known."""


class FirstNames:
    """The first `most` names have series of their own, all others share OTHER's.

    Anybody who reaches the port can write any namespace into a review, so only namespaces that exist are labels.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._named: set[str] = set()
        self.is_known: Callable[[str], bool] = bool
        """Whether a name exists; fast, and never raises."""

    def label(self, name: str) -> str:
        if name not in self._named:
            if len(self._named) >= self._most or not self.is_known(name):
                return OTHER
            self._named.add(name)
        return name


class ScrapedGauge(Collector):
    """A gauge whose values are read at each scrape; unknown values have no series.

    A fault in `read` removes only these series from the page. It is logged once until reading works again.
    """

    def __init__(
        self, name: str, text: str, labels: Labels, read: Callable[[], Values], *, registry: CollectorRegistry
    ) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._read = read
        self._fails = False
        registry.register(self)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(self._name, self._text, labels=self._labels)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(self._name, self._text, labels=self._labels)
        try:
            found = self._read()
            values = found if isinstance(found, Mapping) else {} if found is None else {(): found}
            for labels, value in values.items():
                family.add_metric((labels,) if isinstance(labels, str) else labels, float(value))
            self._fails = False
        except Exception:  # noqa: BLE001  # logged; one metric less is better than no page
            family.samples.clear()
            if not self._fails:
                _LOG.exception("the metric %s cannot be read and is not shown", self._name)
            self._fails = True
        yield family


CONTENT_TYPE = CONTENT_TYPE_LATEST
LATENCY_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.5, 2.0, 10.0)
"""Upper bounds in seconds. The last is over a quarter of the longest timeout, 30 s: GpuPolicySlow compares with it."""
NAMESPACE_SERIES = 200
REASONS = ("bad_request", "bug", "forbidden", "not_ready", "overloaded", "took_too_long")
LOOKUP_RESULTS = ("found", "unchanged", "refused", "failed", "bug")

_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
_PHASES = ("mutate", "validate", "workloads", "policies", "claims", "drivers")

GAUGES: Mapping[str, tuple[str, ...]] = {
    "ready": ("1 if this replica is ready for requests, 0 if it is not: facts not loaded, watch stale, or draining.",),
    "facts_age_seconds": (
        "Seconds since the watches of nodes, RuntimeClasses and PriorityClasses were last known to be current.",
    ),
    "apiserver_reachable": ("1 if the API server answers this replica, 0 if the last known facts are used meanwhile.",),
    "policy_info": ("1 for the policy set in force, by content hash.", "hash"),
    "exception_end_timestamp_seconds": ("End of an exception, Unix time.", "exception"),
    "certificate_expiry_seconds": (
        "Seconds until a certificate ends (ca, leaf), or until the live caBundle stops trusting the certificate that "
        "is served (ca_bundle); 0 if it does not trust it now.",
        "certificate",
    ),
    "certificate_fault": ("1 while the keeper of certificates cannot do its work, 0 if all is well.",),
    "clock_skew_seconds": ("Seconds that this replica's clock is ahead of the API server's, to about a second.",),
    "webhook_configuration_ok": (
        "1 if the webhook configuration is present and as it was installed, 0 if it is missing or was changed.",
        "configuration",
    ),
    "webhook_timeout_seconds": ("Seconds after which the API server gives up a call, as installed.", "configuration"),
    "images_known": ("Image references whose configuration is known.",),
    "images_pending": ("Image references that wait for a look-up, or are being looked up.",),
    "image_results_shared": (
        "1 if results of look-ups were exchanged with the other replicas when it was last tried, 0 if that failed.",
    ),
    "warning_events_waiting": ("Pods of controllers that wait for the Events about their warnings.",),
}
"""Name, without its prefix, of what is read at each scrape -> its text and its labels."""

COUNTED: Mapping[str, str] = {
    "image_lookups": "Look-ups of images in their registries, by result ({}).",
    "warning_events": "Warnings about pods of controllers, by what became of their Event ({}).",
}
"""Name, without its prefix, of what is counted by its result -> its text, with the results in braces."""

disable_created_metrics()  # type: ignore[no-untyped-call]  # when each series began would double their number


class Metrics:
    """The metrics of one replica, in a registry of their own."""

    def __init__(self, namespace_series: int = NAMESPACE_SERIES) -> None:
        self.registry = CollectorRegistry()
        self._policy_hash = ""
        self._failures_seen = self._removed_seen = 0
        self._requests = self._counter(
            "gpu_policy_requests",
            ["phase", "operation", "result"],
            "Admission reviews answered, by phase (mutate, validate, workloads, policies, claims, drivers), operation "
            "and result (allowed, patched, refused).",
        )
        self._namespaces = self._counter(
            "gpu_policy_namespace_decisions",
            ["namespace", "result"],
            "Admission reviews answered, by namespace and result (allowed, patched, refused); _other stands for all "
            "namespaces that have no series of their own.",
        )
        self._findings = self._counter(
            "gpu_policy_findings",
            ["rule", "mode", "kind"],
            "Findings about pods and the pods of workloads, by rule, mode and kind (violation, injection, missing, "
            "advice); injection is one that only would have been made.",
        )
        self._injections = self._counter("gpu_policy_injections", ["rule"], "Pods completed, by rule.")
        text = f"Requests not answered with a decision, by reason ({', '.join(REASONS)})."
        self._errors = self._counter("gpu_policy_errors", ["reason"], text)
        self._exceptions = self._counter(
            "gpu_policy_exceptions_used",
            ["exception"],
            "Admission reviews in which an exception let something through, without dry runs.",
        )
        self._latency = Histogram(
            "gpu_policy_request_duration_seconds",
            "Time to answer an admission review, without TLS and reading the request.",
            ["phase"],
            buckets=LATENCY_BUCKETS,
            registry=self.registry,
        )
        self._named = FirstNames(namespace_series)
        self.watch("policy_info", lambda: {self._policy_hash: 1.0} if self._policy_hash else None)
        self._reload_ok = Gauge(
            "gpu_policy_policy_reload_ok",
            "1 if the policy files on disk are in force, 0 if they were refused and the last good set is kept.",
            registry=self.registry,
        )
        self._reload_failures = self._counter(
            "gpu_policy_policy_reload_failures", [], "Policy reloads that were refused."
        )
        self._removed_quotas = self._counter(
            "gpu_policy_quotas_removed", [], "Quotas of namespaces and shared quotas that policy reloads have removed."
        )
        ProcessCollector(registry=self.registry)
        self._begin_at_zero()

    def know_namespaces(self, is_known: Callable[[str], bool]) -> None:
        """Set the function that says whether a namespace exists. Only such namespaces get series."""
        self._named.is_known = is_known

    def watch(self, name: str, read: Callable[[], Values]) -> None:
        """Show one of GAUGES, read at each scrape."""
        text, *labels = GAUGES[name]
        ScrapedGauge(f"gpu_policy_{name}", text, tuple(labels), read, registry=self.registry)

    def watch_exceptions(self, ends: Callable[[], Mapping[str, float]]) -> None:
        """Show when exceptions end, in seconds since 1970 by name, and begin to count how often each is used."""

        def shown() -> Mapping[str, float]:
            found = ends()
            for name in found:
                self._exceptions.labels(name).inc(0)
            return found

        self.watch("exception_end_timestamp_seconds", shown)

    def count_results(self, name: str, results: Sequence[str]) -> Callable[[str], None]:
        """A function that counts one of these results of COUNTED; each is shown from the beginning."""
        counter = self._counter(f"gpu_policy_{name}", ["result"], COUNTED[name].format(", ".join(results)))
        for result in results:
            counter.labels(result).inc(0)
        return lambda result: counter.labels(result).inc()

    def policies(self, content_hash: str, *, is_current: bool, failures: int, removed_quotas: int = 0) -> None:
        self._policy_hash = content_hash
        self._reload_ok.set(is_current)
        self._reload_failures.inc(max(0, failures - self._failures_seen))
        self._removed_quotas.inc(max(0, removed_quotas - self._removed_seen))
        self._failures_seen, self._removed_seen = failures, removed_quotas

    def count(self, phase: str, request: AdmissionRequest, decision: Decision, seconds: float) -> None:
        result = decision.result
        operation = request.operation if request.operation in _OPERATIONS else "other"
        self._requests.labels(phase, operation, result).inc()
        self._namespaces.labels(self._named.label(request.namespace), result).inc()
        self._latency.labels(phase).observe(seconds)
        if (outcome := decision.outcome) is not None:
            for rule in outcome.injected:
                self._injections.labels(rule).inc()
            for finding in outcome.findings:
                self._findings.labels(finding.rule, finding.mode, finding.kind).inc()
            for name in () if request.is_dry_run else outcome.exceptions:
                self._exceptions.labels(name).inc()

    def error(self, reason: str) -> None:
        self._errors.labels(reason).inc()

    def page(self) -> bytes:
        return generate_latest(self.registry)

    def _begin_at_zero(self) -> None:
        """Make the series of alerts with value 0: Prometheus sees the first event only as a rise from 0."""
        for phase in _PHASES:
            for result in ("allowed", "refused", *(("patched",) if phase == "mutate" else ())):
                self._requests.labels(phase, "CREATE", result).inc(0)
        for rule in RULES:
            if rule.injects:
                self._findings.labels(rule.key, Mode.ENFORCE, FindingKind.MISSING).inc(0)
        for reason in REASONS:
            self._errors.labels(reason).inc(0)

    def _counter(self, name: str, labels: Sequence[str], text: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)


MOST_PAIRS = 100
"""Most pairs of a GPU and a driver with series of their own: those of the most nodes. Kubelets write their labels."""
UNKNOWN = "unknown"
"""The label of nodes that do not say their GPU, or their driver."""


class NodeCounts(NamedTuple):
    """Nodes with NVIDIA GPUs: by GPU and driver, and by driver branch."""

    by_pair: Mapping[Labels, int]
    by_branch: Mapping[int, int]


def show_nodes(
    registry: CollectorRegistry,
    snapshot: Callable[[], Snapshot | None],
    tables: Callable[[], CudaTables],
    now: Callable[[], float],
) -> None:
    """Show the nodes with NVIDIA GPUs in the metrics, read at each scrape.

    `now` is the API server's clock, in seconds since 1970. There are no series until the cluster has been read, and
    none of a branch that has no known end. A scrape after a change of nodes takes a time that grows with the number of
    node classes, any other one looks only at the pairs of a GPU and a driver.
    """

    def counted() -> NodeCounts:
        found = snapshot()
        return NodeCounts({}, {}) if found is None else count_nodes(found, tables())

    def ended() -> Mapping[Labels, float]:
        drivers, at = tables().drivers, now()
        return {(str(number),): count for number, count in counted().by_branch.items() if drivers.has_ended(number, at)}

    text = f"Nodes with NVIDIA GPUs, by GPU and driver; {OTHER} stands for all pairs without series of their own."
    ScrapedGauge("gpu_policy_nodes", text, ("product", "driver"), lambda: counted().by_pair, registry=registry)
    text = "Nodes with NVIDIA GPUs whose driver is of a branch that gets no more releases, by branch."
    ScrapedGauge("gpu_policy_nodes_of_ended_branch", text, ("branch",), ended, registry=registry)


@lru_cache(maxsize=1)  # anybody who may reach the port can scrape as often as they like
def count_nodes(snapshot: Snapshot, tables: CudaTables) -> NodeCounts:
    """Count the nodes with NVIDIA GPUs.

    Of more than MOST_PAIRS pairs the ones of the fewest nodes count together, under OTHER; equal ones go by their
    names, so that all replicas show the same. Branches that the tables lack are left out.
    """
    pairs: collections.Counter[Labels] = collections.Counter()
    branches: collections.Counter[int] = collections.Counter()
    for nodes in snapshot.table.classes(snapshot.table.everything):
        if nodes.by_slices is not None or snapshot.accelerators.has_nvidia(nodes.gpu_resources):
            offer = offer_of(nodes.labels, tables.gpus, nodes.by_slices)
            pairs[offer.product or UNKNOWN, str(offer.driver or UNKNOWN)] += nodes.count
            if offer.driver is not None and tables.drivers.branch(offer.driver.major) is not None:
                branches[offer.driver.major] += nodes.count
    ranked = sorted(pairs.items(), key=lambda pair: (-pair[1], pair[0]))
    shown = dict(ranked[:MOST_PAIRS])
    if rest := ranked[MOST_PAIRS:]:
        shown[OTHER, OTHER] = sum(count for _, count in rest)
    return NodeCounts(shown, branches)
