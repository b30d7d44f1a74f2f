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
