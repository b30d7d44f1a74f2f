"""What a replica shows of the last audit of the cluster: all replicas show the same, since all of them read it in one
place.

The last audit becomes metrics. Rules, levels and kinds come from closed sets; namespaces are bounded.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry

from certs.cluster import ClusterError
from webhook.admission.metrics import Metrics
from webhook.admission.series import OTHER, Labels, Watched
from webhook.audit.report import Level
from webhook.kubernetes.api_server import ApiServer
from webhook.periodic_task import Attempts, PeriodicTask
from webhook.replica.audit_status import AuditStatus, Counts, StatusError, stale_after, status_in
from webhook.replica.certificate_cluster import KubernetesCluster
from webhook.replica.settings import AuditSettings


def show(
    registry: CollectorRegistry,
    status: Callable[[], AuditStatus | None],
    stale_after: Callable[[], float | None],
    most_namespaces: int,
) -> None:
    """Show what `status` gives, read at each scrape; nothing where there was no audit."""

    def watch(name: str, text: str, read: Callable[[AuditStatus], Mapping[Labels, float]], *labels: str) -> None:
        def values() -> Mapping[Labels, float]:
            return {} if (one := status()) is None else read(one)

        Watched(f"gpu_policy_audit_{name}", text, labels, values, registry=registry)

    watch("timestamp_seconds", "When the last audit of the cluster ended, Unix time.", lambda one: {(): one.finished})
    watch("duration_seconds", "Time that the last audit took.", lambda one: {(): one.seconds})
    watch("errors", "What the last audit could not look at, or not publish.", lambda one: {(): one.errors})
    text = "Objects that the last audit looked at, by kind (pods, workloads, others)."
    watch("objects", text, lambda one: {(kind,): count for kind, count in one.objects.items()}, "kind")
    text = "Findings of the last audit, by rule and level (refuse, warn, audit, complete)."
    watch("findings", text, lambda one: _series(one.by_rule), "rule", "level")
    text = "The same by namespace and level; _other stands for all namespaces that have no series of their own."
    by_namespace = _bounded_to(most_namespaces)
    watch("namespace_findings", text, lambda one: _series(by_namespace(one)), "namespace", "level")
    Watched(
        "gpu_policy_audit_stale_after_seconds",
        "Age of the last audit from which it is too old, as installed.",
        (),
        lambda: {} if (seconds := stale_after()) is None else {(): seconds},
        registry=registry,
    )


def _series(counts: Counts) -> Mapping[Labels, float]:
    return {(name, level.value): float(count) for (name, level), count in counts.items()}


def _bounded_to(most: int) -> Callable[[AuditStatus], Counts]:
    """Gives the first `most` namespaces of an audit, which are the worst, and the others together."""

    def bounded(status: AuditStatus) -> Counts:
        named = set(list(dict.fromkeys(name for name, _ in status.by_namespace if name != OTHER))[:most])
        found: Counter[tuple[str, Level]] = Counter()
        for (name, level), count in status.by_namespace.items():
            found[name if name in named else OTHER, level] += count
        return found

    return bounded


LOOK_SECONDS = 60.0
"""How often the ConfigMap is read, a fifth more or less; it has some 20 KiB where there are many namespaces."""

_log = logging.getLogger("gpu_policy.audit")


class AuditWatch:
    """A companion of a replica that follows the status of audits. Make it after the fork.

    While it cannot be read, what was read last is shown: its age is among it.
    """

    def __init__(self, settings: AuditSettings) -> None:
        self._cluster = KubernetesCluster(ApiServer(settings.kubeconfig))
        self._place = settings.status
        self._most = settings.namespace_series
        self._status: AuditStatus | None = None
        self._stale_after: float | None = None
        attempts = Attempts(_log, "the status of audits", (ClusterError, StatusError), logging.WARNING)
        self._task = PeriodicTask("audit-status", lambda: attempts.make(self.look), LOOK_SECONDS)

    def start(self, metrics: Metrics) -> None:
        """Begin, and show in the metrics what was found."""
        show(metrics.registry, lambda: self._status, lambda: self._stale_after, self._most)
        self._task.start()

    def close(self) -> None:
        """End the thread; a request that hangs is left to itself."""
        self._task.close()

    def look(self) -> None:
        """Read the status once. Raises ClusterError and StatusError."""
        found = self._cluster.get(self._place.path)
        if found is None:
            self._status = self._stale_after = None
            raise StatusError(f"there is no ConfigMap {self._place}; apply the release again, with audit.enabled")
        self._stale_after = stale_after(found)
        self._status = status_in(found)
