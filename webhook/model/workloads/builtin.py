"""The kinds that Kubernetes itself knows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from webhook.model.workloads.parts import counted, part, pods_of_job
from webhook.model.workloads.template import Template

_MAKES = {"Deployment": "ReplicaSet", "CronJob": "Job", "PodTemplate": ""}
"""Kind of an object -> kind of what makes its pods, where that is another one."""


def replicated(raw: Mapping[str, Any]) -> Iterator[Template]:
    """Deployment, StatefulSet, ReplicaSet, ReplicationController."""
    yield from _at(raw, ("spec", "template"), pods=counted(part(raw, "spec", "replicas"), 1))


def per_node(raw: Mapping[str, Any]) -> Iterator[Template]:
    """DaemonSet: a pod on every node that fits."""
    yield from _at(raw, ("spec", "template"), is_per_node=True)


def pod_template(raw: Mapping[str, Any]) -> Iterator[Template]:
    """PodTemplate, which makes no pods by itself."""
    yield from _at(raw, ("template",))


def job(raw: Mapping[str, Any]) -> Iterator[Template]:
    """Job."""
    yield from _at(raw, ("spec", "template"), pods=pods_of_job(part(raw, "spec")))


def cron_job(raw: Mapping[str, Any]) -> Iterator[Template]:
    """CronJob."""
    path = ("spec", "jobTemplate", "spec")
    yield from _at(raw, (*path, "template"), pods=pods_of_job(part(raw, *path)))


def _at(
    raw: Mapping[str, Any], path: Sequence[str], *, pods: int | None = None, is_per_node: bool = False
) -> Iterator[Template]:
    template = part(raw, *path)
    if template is not None:
        where = ".".join((*path, "spec"))
        kind = str(raw.get("kind") or "")
        owner = _MAKES.get(kind, kind)
        yield Template(template, where, pods=pods, is_per_node=is_per_node, owner_kind=owner, is_validated=True)
