"""The kinds of NVIDIA's operators: NIM services and pipelines, Dynamo's graphs and components.

Fields and defaults are those of api/apps/v1alpha1 in NVIDIA/k8s-nim-operator and of deploy/operator/api (v1alpha1,
v1beta1) in ai-dynamo/dynamo. If the operator decides how many GPUs a pod gets, nothing is known about the pod.

Both operators mount /dev/shm in the container that they make: GetVolumes and GetVolumeMounts in
api/apps/v1alpha1/nimservice_types.go of the NIM operator, without a size unless the storage names one, and
buildSharedMemoryVolumeAndMount in deploy/operator/internal/dynamo of Dynamo, of 8Gi unless the component says another
size, or none.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from webhook.model.accelerators import accelerator
from webhook.model.json_parts import entries, listed, mapped, part
from webhook.model.quantity import parse_quantity
from webhook.model.shape import FormatError
from webhook.model.workloads.controllers import IN_A_GROUP
from webhook.model.workloads.template import (
    Template,
    count_of,
    from_template,
    is_worth,
    merged,
    product,
    with_shared_memory,
)

_NIM_VOLUME, _DYNAMO_VOLUME = "dshm", "shared-memory"
_DYNAMO_SIZE = "8Gi"
_MAIN = "main"
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
    if not _says_gpus(mapped(spec, "resources")):
        return  # the operator takes their number from the profile of the model
    name = f"{service}-ctr" if isinstance(service, str) and service else "ctr"
    image = [part(spec, "image", key) for key in ("repository", "tag")]
    container = {
        "name": name,
        "image": ":".join(word for word in image if isinstance(word, str) and word),
        "env": spec.get("env"),
        "resources": spec["resources"],
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
    template = Template(pod, where, group, _nim_pods(spec), owner_kind=owner, elsewhere=elsewhere)
    if mapped(spec, "multiNode") and _stages(spec) != 1:
        template = replace(template, labels=IN_A_GROUP)
    yield with_shared_memory(template, name, _NIM_VOLUME, part(spec, "storage", "sharedMemorySizeLimit"))


def _says_gpus(resources: Mapping[str, Any]) -> bool:
    return any(accelerator(name) is not None for key in ("requests", "limits") for name in mapped(resources, key))


def _nim_pods(spec: Mapping[str, Any]) -> int | None:
    replicas = count_of(spec.get("replicas"), 1)
    if part(spec, "scale", "enabled") is True:
        replicas = count_of(part(spec, "scale", "hpa", "minReplicas"), 1)
    return product(replicas, _stages(spec))


def _stages(spec: Mapping[str, Any]) -> int | None:
    stages = count_of(part(spec, "multiNode", "parallelism", "pipeline"), 1)
    return None if stages is None else max(stages, 1)


def dynamo_graph(raw: Mapping[str, Any]) -> Iterator[Template]:
    """DynamoGraphDeployment: `services` in v1alpha1, `components` in v1beta1."""
    shared = {"envs": listed(raw, "spec", "envs")}
    services = [*entries(raw, "spec", "services"), *entries(raw, "spec", "components")]
    if is_worth(shared, len(services)):
        for where, name, service in services:
            yield from _component(merged(shared, service), where, name)


def dynamo_component(raw: Mapping[str, Any]) -> Iterator[Template]:
    """DynamoComponentDeployment."""
    yield from _component(mapped(raw, "spec"), "spec", "")


def _component(spec: Mapping[str, Any], where: str, group: str) -> Iterator[Template]:
    if _gets_gpus_by_claims(spec):
        return
    nodes = count_of(part(spec, "multinode", "nodeCount"), 2 if mapped(spec, "multinode") else 1)
    pods = product(count_of(spec.get("replicas"), 1), nodes)
    for template in from_template(spec.get("podTemplate"), f"{where}.podTemplate", group=group, pods=pods):
        yield _sharing_memory(template, spec)
    if mapped(spec, "podTemplate"):
        return
    extra, resources = mapped(spec, "extraPodSpec"), _resources(mapped(spec, "resources"))
    main = mapped(extra, "mainContainer")
    if not main and not resources:
        return
    container = {**main, "name": _MAIN, "resources": merged(resources, mapped(main, "resources"))}
    container["env"] = [*listed(spec, "envs"), *listed(main, "env")]
    pod = {
        "metadata": mapped(spec, "extraPodMetadata"),
        "spec": {**extra, "containers": [container, *listed(extra, "containers")]},
    }
    elsewhere = {
        "metadata": f"{where}.extraPodMetadata",
        f"spec.containers[{_MAIN}]": f"{where}.extraPodSpec.mainContainer",
    }
    if resources:
        elsewhere[f"spec.containers[{_MAIN}].resources"] = f"{where}.resources"
    yield _sharing_memory(Template(pod, f"{where}.extraPodSpec", group, pods, elsewhere=elsewhere), spec)


def _sharing_memory(template: Template, spec: Mapping[str, Any]) -> Template:
    """The pods of a component with their /dev/shm: `sharedMemory` in v1alpha1, `sharedMemorySize` in v1beta1."""
    size, old = spec.get("sharedMemorySize"), mapped(spec, "sharedMemory")
    if old.get("disabled") is True or _is_zero(size):
        return template
    if size is None:
        size = None if _is_zero(old.get("size")) else old.get("size")
    return with_shared_memory(template, _MAIN, _DYNAMO_VOLUME, _DYNAMO_SIZE if size is None else size)


def _is_zero(size: object) -> bool:
    try:
        return size is not None and parse_quantity(size) == 0
    except FormatError:
        return False


def _gets_gpus_by_claims(spec: Mapping[str, Any]) -> bool:
    old, new = part(spec, "gpuMemoryService", "enabled"), part(spec, "experimental", "gpuMemoryService")
    return old is True or new is not None


def _resources(resources: Mapping[str, Any]) -> dict[str, Any]:
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
