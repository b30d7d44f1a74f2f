"""The kinds of Ray: clusters, and the jobs and services that make a cluster of their own.

Fields and defaults are those of ray-operator/apis/ray/v1 in ray-project/kuberay; the number of workers is that of its
GetWorkerGroupDesiredReplicas.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.model.workloads.parts import MOST_PODS, counted, entries, from_template, part, product
from webhook.model.workloads.template import Template


def ray_cluster(raw: Mapping[str, Any]) -> Iterator[Template]:
    """RayCluster."""
    yield from _cluster(part(raw, "spec"), "spec")


def ray_service(raw: Mapping[str, Any]) -> Iterator[Template]:
    """RayService."""
    yield from _cluster(part(raw, "spec", "rayClusterConfig"), "spec.rayClusterConfig")


def ray_job(raw: Mapping[str, Any]) -> Iterator[Template]:
    """RayJob."""
    yield from _job(part(raw, "spec"), "spec")


def ray_cron_job(raw: Mapping[str, Any]) -> Iterator[Template]:
    """RayCronJob."""
    yield from _job(part(raw, "spec", "jobTemplate"), "spec.jobTemplate")


def _job(spec: object, where: str) -> Iterator[Template]:
    submitter = part(spec, "submitterPodTemplate")
    yield from _cluster(part(spec, "rayClusterSpec"), f"{where}.rayClusterSpec")
    yield from from_template(submitter, f"{where}.submitterPodTemplate", group="submitter", pods=1)


def _cluster(spec: object, where: str) -> Iterator[Template]:
    head = part(spec, "headGroupSpec", "template")
    yield from from_template(head, f"{where}.headGroupSpec.template", group="head", pods=1)
    for inside, name, workers in entries(spec, "workerGroupSpecs", named_by="groupName"):
        place = f"{where}.{inside}.template"
        yield from from_template(workers.get("template"), place, group=name or "workers", pods=_workers(workers))


def _workers(group: Mapping[str, Any]) -> int | None:
    """The replicas between the least and the most of them, each on so many hosts."""
    if group.get("suspend") is True:
        return 0
    least, most = counted(group.get("minReplicas"), 0), counted(group.get("maxReplicas"), MOST_PODS)
    wanted = counted(group.get("replicas"), least)
    if least is None or most is None or wanted is None:
        return None
    return product(least if wanted < least else min(wanted, most), counted(group.get("numOfHosts"), 1))
