"""The kinds of KServe and Knative Serving: inference services, their runtimes and configurations, and Services.

KServe: fields and defaults are those of pkg/apis/serving in kserve/kserve (v1alpha1, v1alpha2, v1beta1). If a service
leaves its containers to a runtime, only its own parts of its pods are known.

An LLMInferenceService is completed with the presets of config/llmisvcconfig, chosen as combineBaseRefsConfig in
pkg/controller/v1alpha2/llmisvc/config_merge.go does. All presets mount a memory volume at /dev/shm of the container
`main`: of 1Gi where a pod works alone, of 8Gi in groups that share data. KServe has no preset for groups that share
the layers of a model. Groups are LeaderWorkerSets (workload_multi_node.go beside it).

Knative: fields are those of config/core/300-resources in knative/serving, annotations those of pkg/apis/autoscaling.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from webhook.model.json_parts import listed, mapped, part
from webhook.model.workloads.controllers import IN_A_GROUP
from webhook.model.workloads.placeholders import settled_template
from webhook.model.workloads.template import (
    Template,
    count_of,
    from_spec,
    from_template,
    product,
    with_shared_memory,
    with_the_rest,
)

FRAMEWORKS = (
    *("model", "huggingface", "lightgbm", "onnx", "paddle", "pmml", "pytorch", "sklearn", "tensorflow", "triton"),
    *("xgboost", "art", "alibi", "aix"),
)
"""Fields of a predictor or explainer that hold its container, completed by a runtime."""
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
        yield from _component(spec, f"spec.{component}", component, annotations)
        workers = part(spec, "workerSpec")
        yield from from_spec(workers, f"spec.{component}.workerSpec", group=f"{component} workers")


def _component(
    spec: Mapping[str, Any], where: str, component: str, annotations: Mapping[str, Any]
) -> Iterator[Template]:
    """A pod spec with the container of a framework, which is known only if it has resources."""
    containers, elsewhere = listed(spec, "containers"), {"metadata": where}
    field = next((name for name in FRAMEWORKS if mapped(spec, name, "resources")), None)
    if field is not None:
        resources = with_the_rest(spec[field]["resources"])
        containers = [{**spec[field], "name": _CONTAINER, "resources": resources}, *containers]
        elsewhere[f"spec.containers[{_CONTAINER}]"] = f"{where}.{field}"
    elif _is_custom(spec) and mapped(containers[0], "resources"):
        containers = [{**containers[0], "resources": with_the_rest(containers[0]["resources"])}, *containers[1:]]
    if containers:
        pod = {"metadata": {"annotations": annotations}, "spec": {**spec, "containers": containers}}
        yield Template(pod, where, component, _least(spec, "minReplicas"), elsewhere=elsewhere)


def _is_custom(spec: Mapping[str, Any]) -> bool:
    """Whether the first container serves. KServe's webhook completes it, too (Default in predictor_custom.go)."""
    return bool(listed(spec, "containers")) and not any(name in spec for name in FRAMEWORKS)


def _least(spec: object, key: str) -> int | None:
    """The pods that always run; None where there are none, because the service is scaled up on demand."""
    return count_of(part(spec, key), 1) or None


def serving_runtime(raw: Mapping[str, Any]) -> Iterator[Template]:
    """ServingRuntime and ClusterServingRuntime, which make no pods by themselves."""
    spec = mapped(raw, "spec")
    for template in (
        *from_spec(spec, "spec", annotated=spec),
        *from_spec(spec.get("workerSpec"), "spec.workerSpec", group="workers", annotated=mapped(spec, "workerSpec")),
    ):
        yield from settled_template(template)


def llm_inference_service(raw: Mapping[str, Any]) -> Iterator[Template]:
    """LLMInferenceService."""
    yield from _workload(part(raw, "spec"), "spec", "")
    yield from _workload(part(raw, "spec", "prefill"), "spec.prefill", "prefill")
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
        replicas = _least(part(spec, "scaling"), "minReplicas")
    worker, parallelism = part(spec, "worker"), part(spec, "parallelism")
    leaders = f"{name} leader".lstrip() if worker else name
    size = _group_size(parallelism)
    rest = None if size is None else product(replicas, max(size - 1, 0))
    for template in (
        *from_spec(part(spec, "template"), f"{where}.template", group=leaders, pods=replicas),
        *from_spec(worker, f"{where}.worker", group=f"{name} worker".lstrip(), pods=rest),
    ):
        made = template if worker is None or size == 1 else replace(template, labels=IN_A_GROUP)
        shared = _preset_memory(worker, parallelism)
        yield with_shared_memory(made, _LLM_CONTAINER, _PRESET_VOLUME, shared) if shared else made


def _preset_memory(worker: object, parallelism: object) -> str:
    """The size of the /dev/shm that a preset of KServe mounts; empty where it mounts none, or is not known."""
    if worker is None:
        return "1Gi"
    return "8Gi" if any(count_of(part(parallelism, key), 0) for key in ("data", "dataLocal")) else ""


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
_MOST_DIGITS = 9
_DISALLOWED = frozenset({"spec.activeDeadlineSeconds"})
"""Fields that Knative refuses in a Service (pkg/apis/serving/fieldmask.go) and pods get later."""


def knative_service(raw: Mapping[str, Any]) -> Iterator[Template]:
    """Service of Knative."""
    template = part(raw, "spec", "template")
    pods = _min_scale(mapped(template, "metadata", "annotations"))
    for made in from_template(template, "spec.template", pods=pods):
        yield replace(made, unknown=_DISALLOWED)


def _min_scale(annotations: Mapping[str, Any]) -> int | None:
    """The pods that always run; None where there are none, because the service is scaled up on demand."""
    written = next((annotations[key] for key in _MIN_SCALE if key in annotations), None)
    if isinstance(written, str) and written.isascii() and written.isdigit() and len(written) <= _MOST_DIGITS:
        return int(written) or None
    return None
