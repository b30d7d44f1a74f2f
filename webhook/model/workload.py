"""Where the built-in workload kinds keep their pod templates."""

from collections.abc import Mapping
from typing import Any

TEMPLATES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("apps", "Deployment"): ("spec", "template"),
    ("apps", "StatefulSet"): ("spec", "template"),
    ("apps", "DaemonSet"): ("spec", "template"),
    ("apps", "ReplicaSet"): ("spec", "template"),
    ("batch", "Job"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("", "ReplicationController"): ("spec", "template"),
    ("", "PodTemplate"): ("template",),
}
"""API group and kind -> the keys that lead to the pod template."""


def template_path(api_version: object, kind: object) -> tuple[str, ...] | None:
    """The keys that lead to the pod template of an object, () for a pod itself, None where it holds none."""
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return None
    group = api_version.rpartition("/")[0]
    if (group, kind) == ("", "Pod"):
        return ()
    return TEMPLATES.get((group, kind))


def template_of(raw: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """What stands at the keys of `path`; None where a part is missing or no map."""
    current: Any = raw
    for key in path:
        current = current.get(key) if isinstance(current, dict) else None
    return current


def pods_at_once(raw: Mapping[str, Any], path: tuple[str, ...]) -> int | None:
    """How many pods the workload with its template at `path` runs at a time; None where it does not say that.

    A DaemonSet runs one on every node that fits, and a PodTemplate none by itself.
    """
    kind = raw.get("kind")
    if kind in ("DaemonSet", "PodTemplate"):
        return None
    spec = template_of(raw, path[:-1])
    if not isinstance(spec, dict):
        return None
    if kind in ("Job", "CronJob"):
        most = _whole(spec.get("completions"), 2**31)
        return min(_whole(spec.get("parallelism"), 1), most)
    return _whole(spec.get("replicas"), 1)


def _whole(value: object, otherwise: int) -> int:
    """A count as it stands in a manifest; what is none is left to the API server."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else otherwise
