"""The kinds that run groups of pods: JobSet, LeaderWorkerSet, Volcano's jobs, Grove's sets, SageMaker HyperPod's jobs.

Beside them HyperPod's inference endpoints, and Slinky's pods that are the nodes of a Slurm cluster.

Fields and defaults are those of the API types in kubernetes-sigs/jobset (v1alpha2), kubernetes-sigs/lws (v1),
volcano-sh/volcano (batch and flow v1alpha1), ai-dynamo/grove (core v1alpha1), and of the job configuration in
aws/sagemaker-hyperpod-cli.

Inference endpoints: fields and defaults are those of the CustomResourceDefinition in
helm_chart/HyperPodHelmChart/charts/inference-operator of aws/sagemaker-hyperpod-cli. The operator's source is not
public, so its tolerations and priorities are not known. Nothing is known about JumpStartModels, because SageMaker
decides what they request.

Slinky: fields and defaults are those of api/v1beta1 in SlinkyProject/slurm-operator, and of v1alpha1, which has a whole
pod template; pods are composed as in BuildWorkerPodTemplate (internal/builder/workerbuilder/worker_app.go).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from webhook.model.json_parts import entries, listed, mapped, part
from webhook.model.workloads.template import (
    Template,
    count_of,
    from_spec,
    from_template,
    merged,
    pods_of_job,
    product,
    replicas,
)

_PRIORITY = "priorityClassName"


def pods_of_replicated_job(job: Mapping[str, Any]) -> int | None:
    """The number of pods of one of the replicatedJobs of a JobSet."""
    return product(replicas(job), pods_of_job(part(job, "template", "spec")))


def leader_worker_set(raw: Mapping[str, Any]) -> Iterator[Template]:
    """LeaderWorkerSet."""
    spec = part(raw, "spec")
    yield from _leaders_and_workers(spec, "spec", count_of(part(spec, "replicas"), 1))


def disaggregated_set(raw: Mapping[str, Any]) -> Iterator[Template]:
    """DisaggregatedSet, which has a LeaderWorkerSet for each role in each of its slices."""
    slices = count_of(part(raw, "spec", "slices"), 1)
    for where, name, role in entries(raw, "spec", "roles"):
        is_scaled_elsewhere = part(role, "scaling", "mode") == "External"
        groups = None if is_scaled_elsewhere else product(slices, count_of(part(role, "spec", "replicas"), 1))
        for template in _leaders_and_workers(role.get("spec"), f"{where}.spec", groups):
            yield replace(template, group=f"{name} {template.group}".rstrip())


def _leaders_and_workers(spec: object, where: str, groups: int | None) -> Iterator[Template]:
    """Every group has a leader, which is made from the workers' template if it has none. `size` includes the leader.

    One StatefulSet makes the leaders; each leader has a StatefulSet that makes its workers.
    """
    templates, place = part(spec, "leaderWorkerTemplate"), f"{where}.leaderWorkerTemplate"
    size = count_of(part(templates, "size"), 1)
    leader, worker = part(templates, "leaderTemplate"), part(templates, "workerTemplate")
    owner = "StatefulSet"
    if not mapped(leader):
        yield from from_template(worker, f"{place}.workerTemplate", pods=product(groups, size), owner_kind=owner)
        return
    rest = product(groups, None if size is None else max(size - 1, 0))
    yield from from_template(leader, f"{place}.leaderTemplate", group="leader", pods=groups, owner_kind=owner)
    yield from from_template(worker, f"{place}.workerTemplate", group="worker", pods=rest, owner_kind=owner)


def volcano_job(raw: Mapping[str, Any]) -> Iterator[Template]:
    """Job of Volcano."""
    yield from _tasks(part(raw, "spec"), "spec")


def volcano_cron_job(raw: Mapping[str, Any]) -> Iterator[Template]:
    """CronJob of Volcano."""
    yield from _tasks(part(raw, "spec", "jobTemplate", "spec"), "spec.jobTemplate.spec")


def _tasks(spec: object, where: str) -> Iterator[Template]:
    """The tasks of a Job. The priority class of the job counts for tasks without a priority class."""
    shared = part(spec, _PRIORITY)
    for inside, name, task in entries(spec, "tasks"):
        place, template = f"{where}.{inside}.template", mapped(task, "template")
        elsewhere = {}
        if shared and mapped(template, "spec") and not part(template, "spec", _PRIORITY):
            template = {**template, "spec": {**template["spec"], _PRIORITY: shared}}
            elsewhere = {f"spec.{_PRIORITY}": f"{where}.{_PRIORITY}"}
        for one in from_template(template, place, group=name, pods=count_of(task.get("replicas"), 0)):
            yield replace(one, elsewhere=elsewhere)


def pod_clique_set(raw: Mapping[str, Any]) -> Iterator[Template]:
    """PodCliqueSet of Grove. Cliques in scaling groups are multiplied by the replicas of the group."""
    sets = count_of(part(raw, "spec", "replicas"), 0)
    times: Counter[str] = Counter()
    scaled: dict[str, int | None] = {}
    for _, _, group in entries(raw, "spec", "template", "podCliqueScalingGroups"):
        for name in listed(group, "cliqueNames"):
            if isinstance(name, str):
                times[name] += 1
                scaled[name] = count_of(group.get("replicas"), 1)
    for where, name, clique in entries(raw, "spec", "template", "cliques"):
        groups = scaled.get(name, 1) if times[name] <= 1 else None
        pods = product(sets, groups, _clique_size(clique.get("spec")))
        spec = part(clique, "spec", "podSpec")
        yield from from_spec(spec, f"{where}.spec.podSpec", group=name, pods=pods, annotated=clique)


def pod_clique(raw: Mapping[str, Any]) -> Iterator[Template]:
    """PodClique of Grove."""
    spec = part(raw, "spec", "podSpec")
    yield from from_spec(spec, "spec.podSpec", pods=_clique_size(part(raw, "spec")), annotated=mapped(raw, "metadata"))


def _clique_size(spec: object) -> int | None:
    """The defaulting webhook of Grove makes 1 of 0."""
    pods = count_of(part(spec, "replicas"), 1)
    return pods if pods is None else max(pods, 1)


_SLURMD = "slurmd"
_IN_TEMPLATE = f"spec.template.spec.containers[{_SLURMD}]"
_WORKER = {"key": "nodeset.slinky.slurm.net/worker", "operator": "Equal", "effect": "NoExecute"}
"""The toleration that the operator adds, for the taint that keeps other pods away."""


def node_set(raw: Mapping[str, Any]) -> Iterator[Template]:
    """NodeSet: `replicas` pods, or a pod on each node that fits."""
    spec, template = mapped(raw, "spec"), mapped(raw, "spec", "template")
    own, main = mapped(template, "spec"), mapped(spec, "slurmd")
    written, elsewhere = list(listed(own, "containers")), {}
    if main:
        same = mapped(next((one for one in written if part(one, "name") == _SLURMD), None))
        whole = merged({**main, "name": _SLURMD}, same)
        written = [whole, *(one for one in written if part(one, "name") != _SLURMD)]
        elsewhere[f"spec.containers[{_SLURMD}]"] = "spec.slurmd"
        elsewhere |= {f"spec.containers[{_SLURMD}].{key}": f"{_IN_TEMPLATE}.{key}" for key in same}
    if not written:
        return
    is_per_node = spec.get("scalingMode") == "DaemonSet"
    pod = {
        "metadata": mapped(template, "metadata"),
        "spec": {**own, "containers": written, "tolerations": [*listed(own, "tolerations"), _WORKER]},
    }
    pods = None if is_per_node else count_of(spec.get("replicas"), 1)
    yield Template(pod, "spec.template.spec", "", pods, is_per_node, elsewhere=elsewhere)


_WORKER_CONTAINER = "worker"
_LEFT_TO_THE_OPERATOR = frozenset(
    {
        "spec.activeDeadlineSeconds",
        "spec.priorityClassName",
        "spec.tolerations",
        "spec.volumes",
    }
)


def inference_endpoint_config(raw: Mapping[str, Any]) -> Iterator[Template]:
    """InferenceEndpointConfig."""
    spec, worker = mapped(raw, "spec"), mapped(raw, "spec", "worker")
    if not mapped(worker, "resources"):
        return
    container = {
        "name": _WORKER_CONTAINER,
        "image": worker.get("image"),
        "env": worker.get("environmentVariables"),
        "resources": worker["resources"],
    }
    affinity = {"nodeAffinity": spec["nodeAffinity"]} if mapped(spec, "nodeAffinity") else None
    elsewhere = {
        f"spec.containers[{_WORKER_CONTAINER}]": "spec.worker",
        f"spec.containers[{_WORKER_CONTAINER}].env": "spec.worker.environmentVariables",
        "spec.affinity.nodeAffinity": "spec.nodeAffinity",
    }
    pods = count_of(spec.get("replicas"), 1)
    least = part(spec, "autoScalingSpec", "minReplicaCount")
    if mapped(spec, "autoScalingSpec"):
        pods = count_of(least, None) or None
    yield Template(
        {"spec": {"affinity": affinity, "containers": [container]}},
        "spec",
        pods=pods,
        elsewhere=elsewhere,
        unknown=_LEFT_TO_THE_OPERATOR,
    )
