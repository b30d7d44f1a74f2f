"""The status of the last audit of a cluster: counts of a bounded size in a ConfigMap, for people and for metrics.

The audit writes it. Every replica reads it from there, so that all replicas show the same metrics. Rules, levels and
kinds come from closed sets; namespaces are bounded.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from prometheus_client import CollectorRegistry

from certs.cluster import ChangedError, ClusterError
from webhook.admission.metrics import Metrics
from webhook.admission.series import OTHER, Labels, ScrapedGauge, Values
from webhook.audit.report import AuditReport, Level
from webhook.kubernetes.api_server import ApiServer
from webhook.periodic_task import Attempts, PeriodicTask
from webhook.replica.kubernetes_cluster import KubernetesCluster
from webhook.replica.published_reports import PublishedReports
from webhook.replica.settings import AuditSettings, ConfigMapPlace

KEY = "audit.json"
"""The key that the audit writes; it leaves other keys alone."""
STALE_KEY = "staleAfterSeconds"
"""The key that the chart writes: the age in seconds from which the last audit is too old."""

MOST_NAMESPACES = 200
"""Most namespaces that are listed by name, the worst ones; the others are counted together."""
_MOST_RULES = 100
_MOST_ERRORS = 20
_LONGEST_ERROR = 500
_ATTEMPTS = 3

Counts = Mapping[tuple[str, Level], int]
"""Rule and level, or namespace and level -> number of findings."""


@dataclass(frozen=True, slots=True)
class AuditStatus:
    """The last audit. `finished` is Unix time, `seconds` its duration.

    `objects`: kind (pods, workloads, others) -> number of objects. `errors` counts what could not be audited or
    published.
    """

    finished: float
    seconds: float
    objects: Mapping[str, int]
    by_rule: Counts
    by_namespace: Counts
    errors: int


def written(report: AuditReport, published: PublishedReports, finished: datetime) -> str:
    """The status as JSON; `finished` is in UTC. Findings without a namespace are counted by rule only."""
    errors = [*map(str, report.errors), *published.errors]
    counts = report.counts
    content: dict[str, Any] = {
        "version": 1,
        "finished": f"{finished:%Y-%m-%dT%H:%M:%SZ}",
        "seconds": round((finished - report.created).total_seconds(), 1),
        "policies": report.hash,
        "objects": {"pods": counts.pods, "workloads": counts.workloads, "others": counts.others},
        "findings": _listed("rule", Counter((one.rule, one.level) for one in report.findings), _MOST_RULES),
        "namespaces": _listed("namespace", _by_namespace(report), MOST_NAMESPACES),
        "reports": {
            "kind": published.kind,
            "objects": published.objects,
            "bytes": published.size,
            "written": published.written,
            "removed": published.removed,
        },
        "errors": len(errors),
        "firstErrors": [error[:_LONGEST_ERROR] for error in errors[:_MOST_ERRORS]],
    }
    return orjson.dumps(content, option=orjson.OPT_INDENT_2).decode()


def _by_namespace(report: AuditReport) -> Counter[tuple[str, Level]]:
    found = Counter((finding.object.home, finding.level) for finding in report.findings)
    return Counter({key: count for key, count in found.items() if key[0]})


def _listed(label: str, counts: Counts, most: int) -> list[dict[str, Any]]:
    """One entry for each name, the worst first; names beyond `most` are counted together in the last entry."""
    names = sorted(
        {name for name, _ in counts}, key=lambda name: (*(-counts.get((name, one), 0) for one in Level), name)
    )
    rows = [_row(label, name, [name], counts) for name in names[:most]]
    return rows + ([_row(label, OTHER, names[most:], counts)] if names[most:] else [])


def _row(label: str, shown: str, names: Sequence[str], counts: Counts) -> dict[str, Any]:
    by_level = {level.value: sum(counts.get((name, level), 0) for name in names) for level in Level}
    return {label: shown, **by_level}


def store(cluster: KubernetesCluster, place: ConfigMapPlace, content: str) -> None:
    """Write the status into the ConfigMap, which has to exist: no right to create is needed.

    Raises ClusterError.
    """
    for _ in range(_ATTEMPTS):
        found = cluster.get(place.path)
        if found is None:
            raise _missing(place)
        data = {**(found.get("data") or {}), KEY: content}
        try:
            cluster.replace(place.path, {**found, "data": data})
        except ChangedError:
            continue
        return
    raise ClusterError(f"ConfigMap {place} was changed by another writer at each of {_ATTEMPTS} attempts; try again")


def _missing(place: ConfigMapPlace) -> ClusterError:
    return ClusterError(f"there is no ConfigMap {place}; apply the release again, with audit.enabled")


def status_in(found: Mapping[str, Any]) -> AuditStatus | None:
    """The status in a ConfigMap; None where it has none yet. Raises ClusterError where it cannot be read."""
    text = (found.get("data") or {}).get(KEY)
    if text is None:
        return None
    try:
        raw = orjson.loads(text)
        finished = datetime.strptime(raw["finished"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        return AuditStatus(
            finished.timestamp(),
            float(raw["seconds"]),
            {kind: int(raw["objects"][kind]) for kind in ("pods", "workloads", "others")},
            _read(raw["findings"], "rule", _MOST_RULES),
            _read(raw["namespaces"], "namespace", MOST_NAMESPACES),
            int(raw["errors"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ClusterError(f"{KEY} is not the status of an audit ({error!r}); the next audit writes it anew") from error


def _read(rows: Any, label: str, most: int) -> Counts:
    """The counts; those of levels that an older release did not write are 0."""
    return {(str(row[label]), level): int(row.get(level, 0)) for row in rows[: most + 1] for level in Level}


def stale_after(found: Mapping[str, Any]) -> float | None:
    """The age in seconds from which an audit is too old; None where the ConfigMap does not say."""
    try:
        return float((found.get("data") or {})[STALE_KEY])
    except (KeyError, ValueError, TypeError):
        return None


def show(
    registry: CollectorRegistry,
    status: Callable[[], AuditStatus | None],
    stale_after: Callable[[], float | None],
    most_namespaces: int,
) -> None:
    """Show the status in the metrics, read at each scrape; without an audit there are no series."""

    def watch(name: str, text: str, read: Callable[[AuditStatus], Values], *labels: str) -> None:
        def values() -> Values:
            return None if (one := status()) is None else read(one)

        ScrapedGauge(f"gpu_policy_audit_{name}", text, labels, values, registry=registry)

    watch("timestamp_seconds", "When the last audit of the cluster ended, Unix time.", lambda one: one.finished)
    watch("duration_seconds", "Time that the last audit took.", lambda one: one.seconds)
    watch(
        "errors",
        "Objects that the last audit could not look at, and reports that it could not publish.",
        lambda one: one.errors,
    )
    text = "Objects that the last audit looked at, by kind (pods, workloads, others)."
    watch("objects", text, lambda one: one.objects, "kind")
    text = "Findings of the last audit, by rule and level (refuse, warn, skip, audit, complete)."
    watch("findings", text, lambda one: _series(one.by_rule), "rule", "level")
    text = (
        "Findings of the last audit, by namespace and level; _other stands for all namespaces that have no series of "
        "their own."
    )
    watch(
        "namespace_findings",
        text,
        lambda one: _series(_bounded(one.by_namespace, most_namespaces)),
        "namespace",
        "level",
    )
    ScrapedGauge(
        "gpu_policy_audit_stale_after_seconds",
        "Age of the last audit from which it is too old, as installed.",
        (),
        stale_after,
        registry=registry,
    )


def _series(counts: Counts) -> Mapping[Labels, float]:
    return {(name, level.value): float(count) for (name, level), count in counts.items()}


def _bounded(counts: Counts, most: int) -> Counts:
    """The counts of the first `most` namespaces, which are the worst; the others are counted together."""
    named = set(list(dict.fromkeys(name for name, _ in counts if name != OTHER))[:most])
    found: Counter[tuple[str, Level]] = Counter()
    for (name, level), count in counts.items():
        found[name if name in named else OTHER, level] += count
    return found


LOOK_SECONDS = 60.0
"""Pause between two reads of the ConfigMap, a fifth more or less; with many namespaces it has about 20 KiB."""

_log = logging.getLogger("gpu_policy.audit")


class AuditWatch:
    """A companion of a replica that reads the status of audits. Make it after the fork.

    While the status cannot be read, the last one is shown, with its age.
    """

    def __init__(self, settings: AuditSettings) -> None:
        self._cluster = KubernetesCluster(ApiServer(settings.kubeconfig))
        self._place = settings.status
        self._most = settings.namespace_series
        self._status: AuditStatus | None = None
        self._stale_after: float | None = None
        attempts = Attempts(_log, "the status of audits", (ClusterError,), logging.WARNING)
        self._task = PeriodicTask("audit-status", lambda: attempts.make(self.look), LOOK_SECONDS)

    def start(self, metrics: Metrics) -> None:
        show(metrics.registry, lambda: self._status, lambda: self._stale_after, self._most)
        self._task.start()

    def close(self) -> None:
        self._task.close()

    def look(self) -> None:
        """Read the status once. Raises ClusterError."""
        found = self._cluster.get(self._place.path)
        if found is None:
            self._status = self._stale_after = None
            raise _missing(self._place)
        self._stale_after = stale_after(found)
        self._status = status_in(found)
