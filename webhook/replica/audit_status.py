"""The status of the last audit of a cluster: counts of a bounded size in a ConfigMap, for people and for metrics.

The audit writes it. Every replica reads it from there, so that all replicas show the same metrics. Rules, levels and
kinds come from closed sets; namespaces are bounded.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from prometheus_client import CollectorRegistry

from certs.cluster import ChangedError, ClusterError
from webhook.admission.metrics import OTHER, Labels, Metrics, ScrapedGauge, Values
from webhook.audit.report import AuditReport, Level
from webhook.kubernetes.api_server import ApiServer
from webhook.model.wording import cut
from webhook.periodic_task import Attempts, PeriodicTask
from webhook.replica.kubernetes_cluster import KubernetesCluster
from webhook.replica.published_reports import PublishedReports
from webhook.replica.settings import ConfigMapPlace

KEY = "audit.json"
"""The key that the audit writes; it leaves other keys alone."""
STALE_KEY = "staleAfterSeconds"
"""The key that the chart writes: the age in seconds from which the last audit is too old."""

MOST_NAMESPACES = 200
"""Most namespaces that are listed by name, the worst ones; the others are counted together. A ConfigMap has a limit."""
_MOST_ERRORS = 20
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
    by_namespace = ((one.object.home, one.level) for one in report.findings if one.object.home)
    content: dict[str, Any] = {
        "version": 1,
        "finished": f"{finished:%Y-%m-%dT%H:%M:%SZ}",
        "seconds": round((finished - report.created).total_seconds(), 1),
        "policies": report.hash,
        "objects": {"pods": counts.pods, "workloads": counts.workloads, "others": counts.others},
        "findings": _rows("rule", Counter((one.rule, one.level) for one in report.findings), len(report.findings)),
        "namespaces": _rows("namespace", Counter(by_namespace), MOST_NAMESPACES),
        "reports": {
            "kind": published.kind,
            "objects": published.objects,
            "bytes": published.size,
            "written": published.written,
            "removed": published.removed,
        },
        "errors": len(errors),
        "firstErrors": [cut(error, 500) for error in errors[:_MOST_ERRORS]],
    }
    return orjson.dumps(content, option=orjson.OPT_INDENT_2).decode()


def _rows(label: str, counts: Counts, most: int) -> list[dict[str, Any]]:
    """One entry for each name, the worst first; names beyond `most` are counted together in the last entry."""
    names = sorted(
        {name for name, _ in counts}, key=lambda name: (*(-counts.get((name, one), 0) for one in Level), name)
    )
    grouped = [(name, [name]) for name in names[:most]] + ([(OTHER, names[most:])] if names[most:] else [])
    return [
        {label: shown, **{level.value: sum(counts.get((name, level), 0) for name in meant) for level in Level}}
        for shown, meant in grouped
    ]


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
            _read(raw["findings"], "rule"),
            _read(raw["namespaces"], "namespace"),
            int(raw["errors"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ClusterError(f"{KEY} is not the status of an audit ({error!r}); the next audit writes it anew") from error


def _read(rows: Any, label: str) -> Counts:
    """The counts; those of levels that an older release did not write are 0."""
    return {(str(row[label]), level): int(row.get(level, 0)) for row in rows for level in Level}


def stale_after(found: Mapping[str, Any]) -> float | None:
    """The age in seconds from which an audit is too old; None where the ConfigMap does not say."""
    try:
        return float((found.get("data") or {})[STALE_KEY])
    except (KeyError, ValueError, TypeError):
        return None


_GAUGES: Sequence[tuple[str, str, Callable[[AuditStatus, int], Values], tuple[str, ...]]] = (
    ("timestamp_seconds", "When the last audit of the cluster ended, Unix time.", lambda one, _: one.finished, ()),
    ("duration_seconds", "Time that the last audit took.", lambda one, _: one.seconds, ()),
    (
        "errors",
        "Objects that the last audit could not look at, and reports that it could not publish.",
        lambda one, _: one.errors,
        (),
    ),
    (
        "objects",
        "Objects that the last audit looked at, by kind (pods, workloads, others).",
        lambda one, _: one.objects,
        ("kind",),
    ),
    (
        "findings",
        "Findings of the last audit, by rule and level (refuse, warn, skip, audit, complete).",
        lambda one, _: _series(one.by_rule),
        ("rule", "level"),
    ),
    (
        "namespace_findings",
        "Findings of the last audit, by namespace and level; _other stands for all namespaces that have no series of "
        "their own.",
        lambda one, most: _series(_bounded(one.by_namespace, most)),
        ("namespace", "level"),
    ),
)
"""The metrics: name after `gpu_policy_audit_`, help, values of a status with so many namespaces at most, and labels."""


def show(
    registry: CollectorRegistry,
    status: Callable[[], AuditStatus | None],
    stale_after: Callable[[], float | None],
    most_namespaces: int,
) -> None:
    """Show the status in the metrics, read at each scrape; without an audit there are no series."""

    def values(read: Callable[[AuditStatus, int], Values]) -> Values:
        return None if (one := status()) is None else read(one, most_namespaces)

    for name, text, read, labels in _GAUGES:
        ScrapedGauge(f"gpu_policy_audit_{name}", text, labels, partial(values, read), registry=registry)
    text = "Age of the last audit from which it is too old, as installed."
    ScrapedGauge("gpu_policy_audit_stale_after_seconds", text, (), stale_after, registry=registry)


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

    def __init__(self, place: ConfigMapPlace, namespace_series: int, kubeconfig: Path | None = None) -> None:
        """`kubeconfig` is None inside the cluster."""
        self._cluster = KubernetesCluster(ApiServer(kubeconfig))
        self._place = place
        self._most = namespace_series
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
        found = self._cluster.get(self._place.path)
        if found is None:
            self._status = self._stale_after = None
            raise _missing(self._place)
        self._stale_after = stale_after(found)
        self._status = status_in(found)
