"""The kinds that serve models: of KServe, Knative Serving, NVIDIA's operators (NIM, Dynamo), and OME.

KServe: fields and defaults are those of pkg/apis/serving in kserve/kserve (v1alpha1, v1alpha2, v1beta1). If a service
leaves its containers to a runtime, only its own parts of its pods are known.

An LLMInferenceService is completed with the presets of config/llmisvcconfig, chosen as combineBaseRefsConfig in
pkg/controller/v1alpha2/llmisvc/config_merge.go does. All presets mount a memory volume at /dev/shm of the container
`main`: of 1Gi where a pod works alone, of 8Gi in groups that share data. KServe has no preset for groups that share the
layers of a model. Groups are LeaderWorkerSets (workload_multi_node.go beside it).

Knative: fields are those of config/core/300-resources in knative/serving, annotations those of pkg/apis/autoscaling.

NVIDIA: fields and defaults are those of api/apps/v1alpha1 in NVIDIA/k8s-nim-operator and of deploy/operator/api
(v1alpha1, v1beta1) in ai-dynamo/dynamo. If the operator decides how many GPUs a pod gets, nothing is known about the
pod.

Both operators mount /dev/shm in the container that they make: GetVolumes and GetVolumeMounts in
api/apps/v1alpha1/nimservice_types.go of the NIM operator, without a size unless the storage names one, and
buildSharedMemoryVolumeAndMount in deploy/operator/internal/dynamo of Dynamo, of 8Gi unless the component says another
size, or none.

OME: fields and defaults are those of pkg/apis/ome/v1beta1 in sgl-project/ome. Pods are composed as in
pkg/controller/v1beta1/inferenceservice: the runner is the container of its name; a leader and workers replace the pods
of a component, in a LeaderWorkerSet. If a service leaves resources to a runtime or to an accelerator class, nothing is
known about its pods.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from webhook.model.accelerators import accelerator
from webhook.model.json_parts import entries, listed, mapped, named, part
from webhook.model.quantity import parse_quantity
from webhook.model.shape import FormatError
from webhook.model.workloads.controllers import COMPLETED_ELSEWHERE, IN_A_GROUP, completed
from webhook.model.workloads.template import (
    Template,
    annotated_count,
    at_least_one,
    count_of,
    from_spec,
    from_template,
    is_worth,
    merged,
    product,
    settled_template,
    with_shared_memory,
    with_the_rest,
)

FRAMEWORKS = (
    *("model", "huggingface", "lightgbm", "onnx", "paddle", "pmml", "pytorch", "sklearn", "tensorflow", "triton"),
    *("xgboost", "art", "alibi", "aix"),
)
"""Fields of a predictor or explainer that hold its container, completed by a runtime."""
_WORKERS = "workerSpec"
_CONTAINER = "kserve-container"
"""KServe's name for the container that serves the model."""
_LLM_CONTAINER = "main"
"""The name of that container in presets."""
_PRESET_VOLUME = "dshm"


def inference_service(raw: Mapping[str, Any]) -> Iterator[Template]:
    """InferenceService."""
    for component in ("predictor", "transformer", "explainer"):
        spec = mapped(raw, "spec", component)
        annotations = {**mapped(raw, "metadata", "annotations"), **mapped(spec, "annotations")}
        workers = from_spec(part(spec, _WORKERS), f"spec.{component}.{_WORKERS}", group=f"{component} workers")
        made = (*_kserve_component(spec, f"spec.{component}", component, annotations), *workers)
        yield from made if spec.keys().isdisjoint((*FRAMEWORKS, _WORKERS)) else completed(made)


def _kserve_component(
    spec: Mapping[str, Any], where: str, component: str, annotations: Mapping[str, Any]
) -> Iterator[Template]:
    """A pod spec with the container of a framework, which is known only if it has resources."""
    containers, elsewhere = listed(spec, "containers"), {"metadata": where}
    field = next((name for name in FRAMEWORKS if mapped(spec, name, "resources")), None)
    if field is not None:
        resources = with_the_rest(spec[field]["resources"])
        containers = [{**spec[field], "name": _CONTAINER, "resources": resources}, *containers]
        elsewhere[f"spec.containers[{_CONTAINER}]"] = f"{where}.{field}"
    elif containers and not any(name in spec for name in FRAMEWORKS) and mapped(containers[0], "resources"):
        # the first one serves, and KServe's webhook completes it, too (Default in predictor_custom.go)
        containers = [{**containers[0], "resources": with_the_rest(containers[0]["resources"])}, *containers[1:]]
    if containers:
        pod = {"metadata": {"annotations": annotations}, "spec": {**spec, "containers": containers}}
        yield Template(pod, where, component, _kserve_least(spec), elsewhere=elsewhere)


def _kserve_least(spec: object) -> int | None:
    """The pods that always run; None where there are none, because the service is scaled up on demand."""
    return count_of(part(spec, "minReplicas"), 1) or None


def serving_runtime(raw: Mapping[str, Any]) -> Iterator[Template]:
    """ServingRuntime and ClusterServingRuntime, which make no pods by themselves."""
    for template in _of_runtime(mapped(raw, "spec"), _WORKERS):
        yield from settled_template(template)


def _of_runtime(spec: Mapping[str, Any], workers: str) -> Iterator[Template]:
    yield from from_spec(spec, "spec", annotated=spec)
    yield from from_spec(spec.get(workers), f"spec.{workers}", group="workers", annotated=mapped(spec, workers))


def llm_inference_service(raw: Mapping[str, Any]) -> Iterator[Template]:
    """LLMInferenceService."""
    yield from completed(_workload(part(raw, "spec"), "spec", ""))
    yield from completed(_workload(part(raw, "spec", "prefill"), "spec.prefill", "prefill"))
    scheduler = part(raw, "spec", "router", "scheduler")
    pods = count_of(part(scheduler, "replicas"), 1)
    yield from from_spec(part(scheduler, "template"), "spec.router.scheduler.template", group="scheduler", pods=pods)


def llm_configuration(raw: Mapping[str, Any]) -> Iterator[Template]:
    """LLMInferenceServiceConfig, which makes no pods by itself. Each service fills in its placeholders."""
    for template in llm_inference_service(raw):
        yield from settled_template(replace(template, pods=None))


def _workload(spec: object, where: str, name: str) -> Iterator[Template]:
    replicas = count_of(part(spec, "replicas"), 1)
    if mapped(spec, "scaling"):
        replicas = _kserve_least(part(spec, "scaling"))
    worker, parallelism = part(spec, "worker"), part(spec, "parallelism")
    leaders = f"{name} leader".lstrip() if worker else name
    size = _group_size(parallelism)
    rest = None if size is None else product(replicas, max(size - 1, 0))
    metadata = {key: part(spec, key) for key in ("labels", "annotations")}
    for template in (
        *from_spec(part(spec, "template"), f"{where}.template", group=leaders, pods=replicas, annotated=metadata),
        *from_spec(worker, f"{where}.worker", group=f"{name} worker".lstrip(), pods=rest, annotated=metadata),
    ):
        made = replace(template, elsewhere={"metadata": where})
        made = made if worker is None or size == 1 else replace(made, labels=IN_A_GROUP)
        shares_data = any(count_of(part(parallelism, key), 0) for key in ("data", "dataLocal"))
        shared = "1Gi" if worker is None else "8Gi" if shares_data else ""
        yield with_shared_memory(made, _LLM_CONTAINER, _PRESET_VOLUME, shared) if shared else made


def _group_size(parallelism: object) -> int | None:
    """Pods of one group, the leader included: GetSize of KServe's ParallelismSpec."""
    data, local = (count_of(part(parallelism, key), 0) for key in ("data", "dataLocal"))
    pipeline = count_of(part(parallelism, "pipeline"), 0)
    if data is None or local is None or pipeline is None:
        return None
    if data or local:
        return max(max(data, 1) // max(local, 1), 1)
    return pipeline or None


_MIN_SCALE = ("autoscaling.knative.dev/min-scale", "autoscaling.knative.dev/minScale")
_DISALLOWED = frozenset({"spec.activeDeadlineSeconds"})
"""Fields that Knative refuses in a Service (pkg/apis/serving/fieldmask.go) and pods get later."""


def knative_service(raw: Mapping[str, Any]) -> Iterator[Template]:
    """Service of Knative."""
    template = part(raw, "spec", "template")
    pods = annotated_count(mapped(template, "metadata", "annotations"), _MIN_SCALE)  # else it is scaled up on demand
    for made in from_template(template, "spec.template", pods=pods):
        yield replace(made, unknown=_DISALLOWED)


_NIM_VOLUME, _DYNAMO_VOLUME = "dshm", "shared-memory"
_DYNAMO_SIZE = "8Gi"
_DYNAMO_MAIN = "main"
"""Dynamo's name for the container that a component describes."""
_DEFAULT_GPU = "nvidia.com/gpu"


def nim_service(raw: Mapping[str, Any]) -> Iterator[Template]:
    """NIMService."""
    yield from _nim(mapped(raw, "spec"), "spec", part(raw, "metadata", "name"), "")


def nim_pipeline(raw: Mapping[str, Any]) -> Iterator[Template]:
    """NIMPipeline, which makes NIMServices."""
    for where, name, service in entries(raw, "spec", "services"):
        if service.get("enabled") is not False:
            yield from _nim(mapped(service, "spec"), f"{where}.spec", name, name)


def _nim(spec: Mapping[str, Any], where: str, service: object, group: str) -> Iterator[Template]:
    resources = mapped(spec, "resources")
    if not any(accelerator(name) is not None for key in ("requests", "limits") for name in mapped(resources, key)):
        return  # the operator takes their number from the profile of the model
    name = f"{service}-ctr" if isinstance(service, str) and service else "ctr"
    image = [part(spec, "image", key) for key in ("repository", "tag")]
    container = {
        "name": name,
        "image": ":".join(word for word in image if isinstance(word, str) and word),
        "env": spec.get("env"),
        "resources": resources,
    }
    placement = {key: spec.get(key) for key in ("nodeSelector", "tolerations", "affinity", "priorityClassName")}
    pod = {
        "metadata": {"annotations": spec.get("annotations")},
        "spec": {**placement, "runtimeClassName": spec.get("runtimeClassName") or None, "containers": [container]},
    }
    elsewhere = {
        "metadata": where,
        f"spec.containers[{name}]": where,
        "spec.topologySpreadConstraints": f"{where}.affinity",  # the only one of both that a NIMService has
    }
    is_deployment = not spec.get("multiNode") and spec.get("inferencePlatform") in (None, "standalone")
    owner = "ReplicaSet" if is_deployment else ""
    is_scaled = part(spec, "scale", "enabled") is True
    replicas = part(spec, "scale", "hpa", "minReplicas") if is_scaled else spec.get("replicas")
    stages = at_least_one(part(spec, "multiNode", "parallelism", "pipeline"))
    pods = product(count_of(replicas, 1), stages)
    template = Template(pod, where, group, pods, owner_kind=owner, elsewhere=elsewhere)
    if mapped(spec, "multiNode") and stages != 1:
        template = replace(template, labels=IN_A_GROUP)
    yield with_shared_memory(template, name, _NIM_VOLUME, part(spec, "storage", "sharedMemorySizeLimit"))


def dynamo_graph(raw: Mapping[str, Any]) -> Iterator[Template]:
    """DynamoGraphDeployment: `services` in v1alpha1, `components` in v1beta1."""
    shared = {"envs": listed(raw, "spec", "envs")}
    services = [*entries(raw, "spec", "services"), *entries(raw, "spec", "components")]
    if is_worth(shared, len(services)):
        for where, name, service in services:
            yield from dynamo_component(merged(shared, service), where, name)


def dynamo_component(spec: Mapping[str, Any], where: str, group: str = "") -> Iterator[Template]:
    """DynamoComponentDeployment."""
    if part(spec, "gpuMemoryService", "enabled") is True or part(spec, "experimental", "gpuMemoryService") is not None:
        return  # its GPUs come by claims
    nodes = count_of(part(spec, "multinode", "nodeCount"), 2 if mapped(spec, "multinode") else 1)
    pods = product(count_of(spec.get("replicas"), 1), nodes)
    labels = {} if nodes == 1 else COMPLETED_ELSEWHERE  # UpdateContainer adds flags that join several nodes
    for template in from_template(spec.get("podTemplate"), f"{where}.podTemplate", group=group, pods=pods):
        yield _sharing_memory(replace(template, labels=labels), spec)
    if mapped(spec, "podTemplate"):
        return
    extra, resources = mapped(spec, "extraPodSpec"), _dynamo_resources(mapped(spec, "resources"))
    main = mapped(extra, "mainContainer")
    if not main and not resources:
        return
    container = {**main, "name": _DYNAMO_MAIN, "resources": merged(resources, mapped(main, "resources"))}
    container["env"] = [*listed(spec, "envs"), *listed(main, "env")]
    pod = {
        "metadata": mapped(spec, "extraPodMetadata"),
        "spec": {**extra, "containers": [container, *listed(extra, "containers")]},
    }
    elsewhere = {
        "metadata": f"{where}.extraPodMetadata",
        f"spec.containers[{_DYNAMO_MAIN}]": f"{where}.extraPodSpec.mainContainer",
    }
    if resources:
        elsewhere[f"spec.containers[{_DYNAMO_MAIN}].resources"] = f"{where}.resources"
    template = Template(pod, f"{where}.extraPodSpec", group, pods, elsewhere=elsewhere, labels=labels)
    yield _sharing_memory(template, spec)


def _sharing_memory(template: Template, spec: Mapping[str, Any]) -> Template:
    """The pods of a component with their /dev/shm: `sharedMemory` in v1alpha1, `sharedMemorySize` in v1beta1."""
    size, old = spec.get("sharedMemorySize"), mapped(spec, "sharedMemory")
    if old.get("disabled") is True or _is_zero(size):
        return template
    if size is None:
        size = None if _is_zero(old.get("size")) else old.get("size")
    return with_shared_memory(template, _DYNAMO_MAIN, _DYNAMO_VOLUME, _DYNAMO_SIZE if size is None else size)


def _is_zero(size: object) -> bool:
    try:
        return size is not None and parse_quantity(size) == 0
    except FormatError:
        return False


def _dynamo_resources(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Requests and limits of v1alpha1 in the form of a container. GPUs count in limits only (GetResourcesConfig)."""
    found: dict[str, Any] = {}
    for key in ("requests", "limits"):
        item = mapped(resources, key)
        amounts = {name: item[name] for name in ("cpu", "memory") if item.get(name)}
        if key == "limits" and item.get("gpu"):
            kind = item.get("gpuType")
            amounts[kind if isinstance(kind, str) and kind else _DEFAULT_GPU] = item["gpu"]
        amounts |= mapped(item, "custom")
        if amounts:
            found[key] = amounts
    return found


_OME_MAIN = "ome-container"
_RDMA, _RDMA_CONTAINER, _RDMA_VOLUME = "rdma.ome.io/auto-inject", "rdma.ome.io/container-name", "dshm"
"""The annotations by which OME mounts /dev/shm in one container (pkg/webhook/admission/pod/rdma_injector.go)."""
_LEFT_TO_OME = frozenset({"spec.tolerations", "spec.priorityClassName", "spec.activeDeadlineSeconds"})


def ome_service(raw: Mapping[str, Any]) -> Iterator[Template]:
    """InferenceService."""
    predictor = mapped(raw, "spec", "predictor")
    least = at_least_one(predictor.get("minReplicas"))
    predictors = from_spec(predictor, "spec.predictor", group="predictor", pods=least, annotated=predictor)
    yield from completed(predictors)
    for name in ("engine", "decoder", "router"):
        for template in _ome_component(mapped(raw, "spec", name), f"spec.{name}", name, is_completed=True):
            yield from completed([replace(template, unknown=template.unknown | _LEFT_TO_OME)])


def ome_runtime(raw: Mapping[str, Any]) -> Iterator[Template]:
    """ServingRuntime and ClusterServingRuntime, which make no pods by themselves."""
    spec = mapped(raw, "spec")
    templates = [*_of_runtime(spec, "workers")]
    for name in ("engine", "decoder", "router"):
        templates += _ome_component(mapped(spec, f"{name}Config"), f"spec.{name}Config", name, is_completed=False)
    for template in templates:
        yield from settled_template(replace(template, pods=None))


def _ome_component(spec: Mapping[str, Any], where: str, name: str, *, is_completed: bool) -> Iterator[Template]:
    pods, leader, worker = at_least_one(spec.get("minReplicas")), mapped(spec, "leader"), mapped(spec, "worker")
    if not leader and not worker:
        yield from _ome_pods(spec, spec, where, name, pods, is_completed=is_completed)
        return
    at = f"{where}.leader" if leader else where
    size = count_of(worker.get("size"), 0)
    for template in (
        *_ome_pods(leader or spec, spec, at, f"{name} leader", pods, is_completed=is_completed),
        *_ome_pods(worker, spec, f"{where}.worker", f"{name} worker", product(pods, size), is_completed=is_completed),
    ):
        yield template if size == 0 else replace(template, labels=IN_A_GROUP)


def _ome_pods(  # noqa: PLR0913  # all that differs
    spec: Mapping[str, Any],
    component: Mapping[str, Any],
    where: str,
    group: str,
    pods: int | None,
    *,
    is_completed: bool,
) -> Iterator[Template]:
    containers, runner = list(listed(spec, "containers")), mapped(spec, "runner")
    elsewhere = {"metadata": where}
    if runner:
        if not mapped(runner, "resources"):
            return
        name = named(runner)
        same = [at for at, one in enumerate(containers) if name and part(one, "name") == name]
        at = same[0] if same else len(containers)
        whole = merged(mapped(containers[at]), runner) if same else dict(runner)
        if is_completed:
            whole["resources"] = with_the_rest(mapped(whole, "resources"))
        containers[at : at + 1] = [whole]
        elsewhere[f"spec.containers[{name or at}]"] = f"{where}.runner"
    if containers:
        pod = {
            "metadata": {"annotations": component.get("annotations"), "labels": component.get("labels")},
            "spec": {**spec, "containers": containers},
        }
        template = Template(pod, where, group, pods, elsewhere=elsewhere)
        said = mapped(component, "annotations")
        if said.get(_RDMA) == "true":
            template = with_shared_memory(template, said.get(_RDMA_CONTAINER) or _OME_MAIN, _RDMA_VOLUME)
        yield template
