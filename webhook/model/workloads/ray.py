"""The kinds of Ray: clusters, and the jobs and services that make a cluster of their own.

Fields and defaults are those of ray-operator/apis/ray/v1 in ray-project/kuberay. The number of workers is computed as
in its GetWorkerGroupDesiredReplicas, and /dev/shm as in BuildPod of ray-operator/controllers/ray/common/pod.go: the
first container of every pod gets a memory volume as large as its memory, unless Ray keeps its objects in another
directory.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.model.json_parts import entries, listed, mapped, part
from webhook.model.workloads.template import MOST_PODS, Template, count_of, from_template, product, with_shared_memory

_VOLUME = "shared-mem"
_OTHER_DIRECTORY = "plasma-directory"


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
    head = mapped(spec, "headGroupSpec")
    yield from _group(head, f"{where}.headGroupSpec", "head", 1)
    for inside, name, workers in entries(spec, "workerGroupSpecs", named_by="groupName"):
        yield from _group(workers, f"{where}.{inside}", name or "workers", _workers(workers))


def _group(group: Mapping[str, Any], where: str, name: str, pods: int | None) -> Iterator[Template]:
    pod = group.get("template")
    for template in from_template(pod, f"{where}.template", group=name, pods=pods, owner_kind="RayCluster"):
        if _OTHER_DIRECTORY in mapped(group, "rayStartParams"):
            yield template
        else:
            yield with_shared_memory(template, 0, _VOLUME, _memory(template))


def _memory(template: Template) -> object:
    """The memory limit of Ray's container, else its memory request."""
    resources = part(next(iter(listed(template.pod, "spec", "containers")), None), "resources")
    limit = part(resources, "limits", "memory")
    return part(resources, "requests", "memory") if limit is None else limit


def _workers(group: Mapping[str, Any]) -> int | None:
    """The number of workers: replicas within their bounds, times the hosts of each replica."""
    if group.get("suspend") is True:
        return 0
    least, most = count_of(group.get("minReplicas"), 0), count_of(group.get("maxReplicas"), MOST_PODS)
    wanted = count_of(group.get("replicas"), least)
    if least is None or most is None or wanted is None:
        return None
    return product(least if wanted < least else min(wanted, most), count_of(group.get("numOfHosts"), 1))
