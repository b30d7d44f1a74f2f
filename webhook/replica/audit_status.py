"""What is kept of the last audit of a cluster, in a ConfigMap: counts of a bounded size, for people and for metrics."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from certs.cluster import ChangedError, ClusterError
from webhook.admission.series import OTHER
from webhook.audit.report import AuditReport, Level
from webhook.audit.reports.policy_results import namespace_of
from webhook.replica.certificate_cluster import KubernetesCluster
from webhook.replica.published_reports import PublishedReports
from webhook.replica.settings import ConfigMapPlace

KEY = "audit.json"
"""What the audit writes; other keys are left alone."""
STALE_KEY = "staleAfterSeconds"
"""What the chart writes: the age from which the last audit is too old."""

MOST_NAMESPACES = 200
"""Namespaces that are listed by name, those with the most and gravest findings; the others are counted together."""
_MOST_RULES = 100
_MOST_ERRORS = 20
_LONGEST_ERROR = 500
_ATTEMPTS = 3

Counts = Mapping[tuple[str, Level], int]
"""Findings by rule and level, or by namespace and level."""


class StatusError(Exception):
    """The status of audits cannot be written or read; the text says why."""


@dataclass(frozen=True, slots=True)
class AuditStatus:
    """The last audit. `finished` is Unix time, `seconds` what it took, `objects` those that were looked at, by kind
    (pods, workloads, others); `errors` counts what could not be audited or published.
    """

    finished: float
    seconds: float
    objects: Mapping[str, int]
    by_rule: Counts
    by_namespace: Counts
    errors: int


def written(report: AuditReport, published: PublishedReports, finished: datetime) -> str:
    """What is kept, as JSON; `finished` is in UTC. Findings about no namespace are counted by rule only."""
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
    found = Counter((namespace_of(finding), finding.level) for finding in report.findings)
    return Counter({key: count for key, count in found.items() if key[0]})


def _listed(label: str, counts: Counts, most: int) -> list[dict[str, Any]]:
    """One entry for each name, the worst first; those beyond `most` are counted together in the last one."""
    names = sorted(
        {name for name, _ in counts}, key=lambda name: (*(-counts.get((name, one), 0) for one in Level), name)
    )
    rows = [_row(label, name, [name], counts) for name in names[:most]]
    return rows + ([_row(label, OTHER, names[most:], counts)] if names[most:] else [])


def _row(label: str, shown: str, names: Sequence[str], counts: Counts) -> dict[str, Any]:
    by_level = {level.value: sum(counts.get((name, level), 0) for name in names) for level in Level}
    return {label: shown, **by_level}


def store(cluster: KubernetesCluster, place: ConfigMapPlace, content: str) -> None:
    """Keep it in the ConfigMap, which has to exist: nobody needs the right to create any. Raises StatusError."""
    for _ in range(_ATTEMPTS):
        try:
            found = cluster.get(place.path)
            if found is None:
                raise StatusError(f"there is no ConfigMap {place}; apply the release again, with audit.enabled")
            data = {**(found.get("data") or {}), KEY: content}
            cluster.replace(place.path, {**found, "data": data})
        except ChangedError:
            continue
        except ClusterError as error:
            raise StatusError(str(error)) from error
        return
    raise StatusError(f"ConfigMap {place} is written by others all the time")


def status_in(found: Mapping[str, Any]) -> AuditStatus | None:
    """The status that a ConfigMap holds; None while it holds none. Raises StatusError for what is none."""
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
        raise StatusError(f"{KEY} is no status of an audit ({error!r}); the next audit writes it anew") from error


def _read(rows: Any, label: str, most: int) -> Counts:
    return {(str(row[label]), level): int(row[level]) for row in rows[: most + 1] for level in Level}


def stale_after(found: Mapping[str, Any]) -> float | None:
    """The age in seconds from which an audit is too old; None where the ConfigMap does not say."""
    try:
        return float((found.get("data") or {})[STALE_KEY])
    except (KeyError, ValueError, TypeError):
        return None
