"""The kinds that run groups of pods: JobSet, LeaderWorkerSet, Volcano's jobs, Grove's sets, SageMaker HyperPod's jobs.

Beside them Argo's workflows, Ray's clusters and jobs, groups of pods by role (RBG), HyperPod's inference endpoints, and
Slinky's pods that are the nodes of a Slurm cluster.

Fields and defaults are those of the API types in kubernetes-sigs/jobset (v1alpha2), kubernetes-sigs/lws (v1),
volcano-sh/volcano (batch and flow v1alpha1), ai-dynamo/grove (core v1alpha1), and of the job configuration in
aws/sagemaker-hyperpod-cli.

Inference endpoints: fields and defaults are those of the CustomResourceDefinition in
helm_chart/HyperPodHelmChart/charts/inference-operator of aws/sagemaker-hyperpod-cli. The operator's source is not
public, so its tolerations and priorities are not known. Nothing is known about JumpStartModels, because SageMaker
decides what they request.

Slinky: fields and defaults are those of api/v1beta1 in SlinkyProject/slurm-operator, and of v1alpha1, which has a whole
pod template; pods are composed as in BuildWorkerPodTemplate (internal/builder/workerbuilder/worker_app.go).

Argo: fields are those of pkg/apis/workflow/v1alpha1 in argoproj/argo-workflows and of pkg/apis/rollouts/v1alpha1 in
argoproj/argo-rollouts; pods are composed as in workflow/controller/workflowpod.go. A workflow does not say how many
pods of a template run at a time. A patch of the pods (podSpecPatch) may request anything, so nothing is known about
patched pods.

Ray: fields and defaults are those of ray-operator/apis/ray/v1 in ray-project/kuberay. Workers are counted as in its
GetWorkerGroupDesiredReplicas, and /dev/shm as in BuildPod of ray-operator/controllers/ray/common/pod.go: the first
container of every pod gets a memory volume as large as its memory, unless Ray keeps its objects in another directory.

RBG: fields and defaults are those of api/workloads (v1alpha1, v1alpha2) in sgl-project/rbg. Templates are written once,
and roles may patch them; nothing is known about the pods of a patched template.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from webhook.model.json_parts import entries, listed, mapped, named, part
from webhook.model.workloads.controllers import IN_A_GROUP
from webhook.model.workloads.template import (
    MOST_PODS,
    Template,
    at_least_one,
    count_of,
    from_spec,
    from_template,
    is_worth,
    merged,
    mounted,
    product,
    replicas,
    settled_template,
    with_shared_memory,
)

_PRIORITY = "priorityClassName"


def disaggregated_set(raw: Mapping[str, Any]) -> Iterator[Template]:
    """DisaggregatedSet, which has a LeaderWorkerSet for each role in each of its slices."""
    slices = count_of(part(raw, "spec", "slices"), 1)
    for where, name, role in entries(raw, "spec", "roles"):
        is_scaled_elsewhere = part(role, "scaling", "mode") == "External"
        times = None if is_scaled_elsewhere else slices
        for template in leader_worker_set(mapped(role, "spec"), f"{where}.spec", times):
            is_alone = count_of(part(role, "spec", "leaderWorkerTemplate", "size"), 1) == 1
            labels = template.labels if is_alone else IN_A_GROUP
            yield replace(template, group=f"{name} {template.group}".rstrip(), labels=labels)


def leader_worker_set(spec: Mapping[str, Any], where: str, slices: int | None = 1) -> Iterator[Template]:
    """Every group has a leader, which is made from the workers' template if it has none. `size` includes the leader.

    One StatefulSet makes the leaders; each leader has a StatefulSet that makes its workers. Containers get the size
    in a variable (AddLWSVariables in pkg/utils/pod/pod_utils.go).
    """
    groups = product(slices, replicas(spec))
    templates, place = part(spec, "leaderWorkerTemplate"), f"{where}.leaderWorkerTemplate"
    size = count_of(part(templates, "size"), 1)
    leader = part(templates, "leaderTemplate")
    who = {"worker": product(groups, size)}
    if mapped(leader):
        who = {"leader": groups, "worker": product(groups, None if size is None else max(size - 1, 0))}
    for name, pods in who.items():
        group, where = name if len(who) > 1 else "", f"{place}.{name}Template"
        made = from_template(
            part(templates, f"{name}Template"), where, group=group, pods=pods, owner_kind="StatefulSet"
        )
        yield from (replace(one, pod=_with_variable(one.pod, "LWS_GROUP_SIZE", size)) for one in made)


def _with_variable(pod: Mapping[str, Any], name: str, value: int | None) -> Mapping[str, Any]:
    """A pod whose containers also have a variable, unless they set it or its value is not known."""
    containers = []
    for one in listed(pod, "spec", "containers"):
        env = part(one, "env")
        is_set = not isinstance(env, list | None) or any(part(own, "name") == name for own in env or ())
        is_left = value is None or not isinstance(one, dict) or is_set
        containers.append(one if is_left else {**one, "env": [{"name": name, "value": str(value)}, *(env or ())]})
    return {**pod, "spec": {**pod["spec"], "containers": containers}} if containers else pod


def volcano_job(spec: object, where: str) -> Iterator[Template]:
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
    """PodCliqueSet of Grove, whose defaulting webhook makes 1 of 0 replicas. Cliques in scaling groups are multiplied
    by the replicas of the group.
    """
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
        pods = product(sets, groups, at_least_one(part(clique, "spec", "replicas")))
        spec = part(clique, "spec", "podSpec")
        yield from from_spec(spec, f"{where}.spec.podSpec", group=name, pods=pods, annotated=clique)


def pod_clique(raw: Mapping[str, Any]) -> Iterator[Template]:
    """PodClique of Grove."""
    spec, pods = part(raw, "spec", "podSpec"), at_least_one(part(raw, "spec", "replicas"))
    yield from from_spec(spec, "spec.podSpec", pods=pods, annotated=mapped(raw, "metadata"))


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
    {"spec.activeDeadlineSeconds", "spec.priorityClassName", "spec.tolerations", "spec.volumes"}
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


def role_based_group_set(raw: Mapping[str, Any]) -> Iterator[Template]:
    """RoleBasedGroupSet: `template` in v1alpha1, `groupTemplate` in v1alpha2."""
    groups = replicas(mapped(raw, "spec"))
    yield from role_based_group(mapped(raw, "spec", "template"), "spec.template", groups)
    yield from role_based_group(mapped(raw, "spec", "groupTemplate", "spec"), "spec.groupTemplate.spec", groups)


def role_based_group(spec: Mapping[str, Any], where: str, groups: int | None = 1) -> Iterator[Template]:
    """RoleBasedGroup."""
    shared = {name: (one.get("template"), f"{where}.{at}.template") for at, name, one in entries(spec, "roleTemplates")}
    for inside, name, role in entries(spec, "roles"):
        yield from _role(role, f"{where}.{inside}", name, product(groups, replicas(role)), shared)


def _role(
    role: Mapping[str, Any], where: str, name: str, pods: int | None, shared: Mapping[str, tuple[object, str]]
) -> Iterator[Template]:
    for path in (("customComponentsPattern", "components"), ("components",)):
        for inside, component, one in entries(role, *path):
            size, group_name = product(pods, count_of(one.get("size"), 1)), f"{name} {component}".strip()
            yield from from_template(one.get("template"), f"{where}.{inside}.template", group=group_name, pods=size)
    alone, group = mapped(role, "standalonePattern"), mapped(role, "leaderWorkerPattern")
    own, place = role, where  # v1alpha1
    if alone or group:
        own, place = (alone, f"{where}.standalonePattern") if alone else (group, f"{where}.leaderWorkerPattern")
    else:
        group = mapped(role, "leaderWorkerSet")
    template, at = _source(own, place, shared)
    if mapped(own, "templatePatch"):
        return
    if alone or not group:
        yield from from_template(template, at, group=name, pods=pods)
        return
    size = count_of(group.get("size"), 1)  # the leader included
    workers = product(pods, None if size is None else max(size - 1, 0))
    for who, number in (("leader", pods), ("worker", workers)):
        is_patched = any(mapped(group, key) for key in (f"{who}TemplatePatch", f"patch{who.capitalize()}Template"))
        if number != 0 and not is_patched:
            yield from from_template(template, at, group=f"{name} {who}", pods=number)


def _source(raw: Mapping[str, Any], where: str, shared: Mapping[str, tuple[object, str]]) -> tuple[object, str]:
    """The template in a part, or the one to which it refers, and its place; None where it is patched or missing."""
    if mapped(raw, "template"):
        return raw["template"], f"{where}.template"
    reference = mapped(raw, "templateRef")
    return (None, "") if mapped(reference, "patch") else shared.get(named(reference), (None, ""))


_ARGO_MAIN = "main"
"""Argo's name for the container of a template, whatever the template says."""
_SINGLE = ("container", "script")
_SORTS = (*_SINGLE, "containerSet")
_PLACEMENT = {
    "nodeSelector": "nodeSelector",
    "affinity": "affinity",
    "tolerations": "tolerations",
    "priorityClassName": "podPriorityClassName",
}
"""Field of a template -> field of the workflow that holds the default for all templates."""
_PATCH = "podSpecPatch"


def workflow(spec: Mapping[str, Any], where: str) -> Iterator[Template]:
    """Workflow, WorkflowTemplate, ClusterWorkflowTemplate, and CronWorkflow."""
    if spec.get(_PATCH):
        return
    shared = {key: spec[name] for key, name in _PLACEMENT.items() if spec.get(name)}
    defaults, annotations = mapped(spec, "templateDefaults"), mapped(spec, "podMetadata", "annotations")
    templates = list(_all_templates(spec, where))
    if not is_worth((shared, defaults, annotations), len(templates)):
        return
    volumes = {name: volume for _, name, volume in entries(spec, "volumes") if name}
    for place, name, own in templates:
        fitting = {key: value for key, value in defaults.items() if key not in _SORTS or mapped(own, key)}
        template = merged(fitting, own)
        if template.get(_PATCH):
            continue
        pod, elsewhere = _argo_pod(template, place, shared, volumes)
        if pod["containers"]:
            elsewhere |= {f"spec.{key}": f"{where}.{_PLACEMENT[key]}" for key in shared if not template.get(key)}
            elsewhere |= _defaulted(defaults, own, f"{where}.templateDefaults")
            all_annotations = {**annotations, **mapped(template, "metadata", "annotations")}
            found = {"metadata": {"annotations": all_annotations}, "spec": pod}
            yield from settled_template(Template(found, place, name, elsewhere=elsewhere))


def _all_templates(spec: Mapping[str, Any], where: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for place, name, template in entries(spec, "templates"):
        yield f"{where}.{place}", name, template
        for inside, task, step in entries(template, "dag", "tasks"):
            if mapped(step, "inline"):
                yield f"{where}.{place}.{inside}.inline", f"{name}/{task}", step["inline"]
        for index, steps in enumerate(listed(template, "steps")):
            for inside, task, step in entries({"": steps}, ""):
                if mapped(step, "inline"):
                    yield f"{where}.{place}.steps[{index}]{inside}.inline", f"{name}/{task}", step["inline"]


def _defaulted(defaults: Mapping[str, Any], own: Mapping[str, Any], where: str) -> dict[str, str]:
    """Place in the pod -> place of its value in the defaults, which are at `where`."""
    found = {f"spec.{key}": f"{where}.{key}" for key in _PLACEMENT if defaults.get(key) and not own.get(key)}
    for field in _SINGLE:
        for key in ("image", "resources"):
            if mapped(own, field) and part(defaults, field, key) and not part(own, field, key):
                found[f"spec.containers[{_ARGO_MAIN}].{key}"] = f"{where}.{field}.{key}"
    return found


def _argo_pod(
    template: Mapping[str, Any], place: str, shared: Mapping[str, Any], volumes: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The spec of a template's pods, and for renamed parts their places in the object."""
    containers = list(listed(template, "containerSet", "containers"))
    elsewhere = {"spec.containers": f"{place}.containerSet.containers"}
    for field in _SINGLE:
        if mapped(template, field):
            containers = [{**template[field], "name": _ARGO_MAIN}]
            elsewhere = {f"spec.containers[{_ARGO_MAIN}]": f"{place}.{field}"}
    if containers:
        for inside, name, sidecar in entries(template, "sidecars"):
            elsewhere[f"spec.containers[{name or len(containers)}]"] = f"{place}.{inside}"
            containers.append(sidecar)
    spec = {**shared, **{key: template[key] for key in _PLACEMENT if template.get(key)}}
    spec["containers"], spec["initContainers"] = containers, listed(template, "initContainers")
    spec["volumes"] = [*listed(template, "volumes"), *mounted(volumes, containers, spec["initContainers"])]
    return spec, elsewhere


_RAY_VOLUME = "shared-mem"
_OTHER_DIRECTORY = "plasma-directory"


def ray_job(spec: object, where: str) -> Iterator[Template]:
    """RayJob and RayCronJob."""
    submitter = part(spec, "submitterPodTemplate")
    yield from ray_cluster(part(spec, "rayClusterSpec"), f"{where}.rayClusterSpec")
    yield from from_template(submitter, f"{where}.submitterPodTemplate", group="submitter", pods=1)


def ray_cluster(spec: object, where: str) -> Iterator[Template]:
    """RayCluster and RayService."""
    head = mapped(spec, "headGroupSpec")
    yield from _ray_group(head, f"{where}.headGroupSpec", "head", 1)
    for inside, name, workers in entries(spec, "workerGroupSpecs", named_by="groupName"):
        yield from _ray_group(workers, f"{where}.{inside}", name or "workers", _ray_workers(workers))


def _ray_group(group: Mapping[str, Any], where: str, name: str, pods: int | None) -> Iterator[Template]:
    pod = group.get("template")
    for template in from_template(pod, f"{where}.template", group=name, pods=pods, owner_kind="RayCluster"):
        if _OTHER_DIRECTORY in mapped(group, "rayStartParams"):
            yield template
        else:
            yield with_shared_memory(template, 0, _RAY_VOLUME, _ray_memory(template))


def _ray_memory(template: Template) -> object:
    """The memory limit of Ray's container, else its memory request."""
    resources = part(next(iter(listed(template.pod, "spec", "containers")), None), "resources")
    limit = part(resources, "limits", "memory")
    return part(resources, "requests", "memory") if limit is None else limit


def _ray_workers(group: Mapping[str, Any]) -> int | None:
    """The number of workers: replicas within their bounds, times the hosts of each replica."""
    if group.get("suspend") is True:
        return 0
    least, most = count_of(group.get("minReplicas"), 0), count_of(group.get("maxReplicas"), MOST_PODS)
    wanted = count_of(group.get("replicas"), least)
    if least is None or most is None or wanted is None:
        return None
    return product(least if wanted < least else min(wanted, most), count_of(group.get("numOfHosts"), 1))
