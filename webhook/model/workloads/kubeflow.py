"""The kinds of Kubeflow: training jobs of version 1, MPI jobs, notebooks, jobs and runtimes of its Trainer, and Spark.

Fields and defaults are those of the API types in kubeflow/training-operator (release-1.9), kubeflow/mpi-operator
(v2beta1), kubeflow/kubeflow (notebooks), kubeflow/trainer (v1alpha1) and kubeflow/spark-operator (v1beta2). The pods of
a Spark application are described in the operator's webhook (internal/webhook/sparkpod_defaulter.go), and for
`sparkConf` in Spark's "Running Spark on Kubernetes".
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from webhook.model.accelerators import accelerator
from webhook.model.json_parts import entries, listed, mapped, part, short, text
from webhook.model.quantity import is_some
from webhook.model.workloads.controllers import completed
from webhook.model.workloads.template import (
    Template,
    count_of,
    from_template,
    is_placeholder,
    mounted,
    pods_of_replicated_job,
    with_the_rest,
)

TRAINER = "trainer.kubeflow.org"
RUNTIMES = ("TrainingRuntime", "ClusterTrainingRuntime")
"""The kinds that TrainJobs name; the second one, which has no namespace, is the default."""
_RUNTIME = "(runtime)"
"""A key beside the parts of a TrainJob, which no object of an API server has: the runtime that it names."""
_NODE = "node"
"""Trainer's name for the job, and for the container, that a TrainJob's `trainer` describes."""
_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
"""The label of jobs of a runtime; `trainer` is the job that `numNodes` and the image of a TrainJob are for."""
_LEFT_TO_THE_RUNTIME = frozenset({"spec.priorityClassName"})


def mpi_job(raw: Mapping[str, Any]) -> Iterator[Template]:
    """MPIJob, in all versions with roles. Without a count there is one launcher and no worker."""
    for where, role, spec in entries(raw, "spec", "mpiReplicaSpecs"):
        pods = count_of(spec.get("replicas"), 0 if role.lower() == "worker" else 1)
        yield from from_template(spec.get("template"), f"{where}.template", group=role, pods=pods)


def notebook(raw: Mapping[str, Any]) -> Iterator[Template]:
    """Notebook, which is one pod of a StatefulSet. The pod has the notebook's labels and two of the controller."""
    name, template = part(raw, "metadata", "name"), mapped(raw, "spec", "template")
    labels = {"statefulset": name, "notebook-name": name, **mapped(raw, "metadata", "labels")}
    labelled = {**template, "metadata": {**mapped(template, "metadata"), "labels": labels}}
    yield from from_template(labelled, "spec.template", pods=1, owner_kind="StatefulSet")


FindRuntime = Callable[[str, str], Mapping[str, Any] | None]
"""Finds a runtime by its namespace, which is empty for a ClusterTrainingRuntime, and its name."""


def with_runtime(raw: Mapping[str, Any], namespace: str, find: FindRuntime) -> Mapping[str, Any]:
    """A TrainJob with the runtime that it names, for `train_job`; every other object, and without a runtime, as it is.

    `namespace` is where objects are that name no namespace.
    """
    if raw.get("kind") != "TrainJob" or not str(raw.get("apiVersion")).startswith(f"{TRAINER}/"):
        return raw
    named = mapped(raw, "spec", "runtimeRef")
    of_cluster = named.get("kind", RUNTIMES[1]) == RUNTIMES[1]
    runtime = find("" if of_cluster else text(raw, "metadata", "namespace") or namespace, text(named, "name"))
    return raw if runtime is None else {**raw, _RUNTIME: runtime}


def train_job(raw: Mapping[str, Any]) -> Iterator[Template]:
    """TrainJob. Without its runtime its pods are known only if it has `resourcesPerNode`."""
    trainer = mapped(raw, "spec", "trainer")
    if runtime := mapped(raw, _RUNTIME):
        for _, name, job in entries(runtime, "spec", "template", "spec", "replicatedJobs"):
            yield from _job_of_runtime(raw, runtime, name, job)
        return
    if not mapped(trainer, "resourcesPerNode"):
        return
    container = {
        "name": _NODE,
        "image": trainer.get("image"),
        "env": trainer.get("env"),
        "resources": trainer["resourcesPerNode"],
    }
    outside = f"spec.containers[{_NODE}]"
    elsewhere = {f"{outside}.resources": "spec.trainer.resourcesPerNode", outside: "spec.trainer"}
    pod = {"spec": {**_overridden({}, elsewhere, raw, _NODE), "containers": [container]}}
    pods = count_of(trainer.get("numNodes"), None)
    made = Template(pod, "spec.trainer", "trainer", pods, elsewhere=elsewhere, unknown=_LEFT_TO_THE_RUNTIME)
    yield from completed([made])


def _job_of_runtime(
    raw: Mapping[str, Any], runtime: Mapping[str, Any], name: str, job: Mapping[str, Any]
) -> Iterator[Template]:
    """One job of a runtime, with what the TrainJob says instead.

    Sources: pkg/runtime/core/trainingruntime.go and the plugins jobset and mpi of kubeflow/trainer. Releases before 2.3
    put `resourcesPerNode` in the place of the container's resources, later ones merge both.
    """
    trainer, policy = mapped(raw, "spec", "trainer"), mapped(runtime, "spec", "mlPolicy")
    template = mapped(job, "template", "spec", "template")
    is_trainer, is_mpi = part(job, "template", "metadata", "labels", _STEP) == "trainer", "mpi" in policy
    launcher_is_node = part(policy, "mpi", "runLauncherAsNode") is True
    pods = count_of(policy.get("numNodes"), 1) if is_trainer else pods_of_replicated_job(job)
    nodes = count_of(trainer.get("numNodes"), None)
    if trainer.get("numNodes") is not None and (name == _NODE if is_mpi else is_trainer):
        pods = nodes if nodes is None or not (is_mpi and launcher_is_node) else max(nodes - 1, 1)
    spec, elsewhere, told = dict(mapped(template, "spec")), {}, None
    if not spec:
        return
    at = next((at for at, one in enumerate(listed(spec, "containers")) if part(one, "name") == _NODE), None)
    if at is not None and (is_trainer or (launcher_is_node and name == _NODE)):
        container, inside = spec["containers"][at], f"spec.containers[{_NODE}]"
        own = {key: trainer[key] for key in ("image", "command", "args") if is_trainer and trainer.get(key)}
        own |= {"env": [*listed(container, "env"), *listed(trainer, "env")]} if trainer.get("env") else {}
        if mapped(trainer, "resourcesPerNode"):
            own["resources"], lost = _resources(mapped(container, "resources"), trainer["resourcesPerNode"])
            told = _told(f"{inside}.resources", lost, text(runtime, "metadata", "name")) if lost else None
            elsewhere[f"{inside}.resources"] = "spec.trainer.resourcesPerNode"
        elsewhere |= {f"{inside}.{key}": f"spec.trainer.{key}" for key in own if key != "resources"}
        spec["containers"] = [{**one, **own} if one is container else one for one in spec["containers"]]
    spec = _overridden(spec, elsewhere, raw, name)
    place = f"spec.runtimeRef[{short(text(runtime, 'metadata', 'name'))}]"
    pod = {"metadata": mapped(template, "metadata"), "spec": spec}
    made = Template(pod, place, "trainer" if is_trainer else name, pods, elsewhere=elsewhere, told=told)
    is_patched = any(_overrides(raw, name))  # with more, maybe, than _overridden reads
    yield from completed([made]) if is_patched else [made]


def _resources(base: Mapping[str, Any], own: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The resources of the trainer's container, and the GPUs of its runtime that they lack."""
    parts = ("limits", "requests")
    gpus, gpus_of_own = ({key: one for part in parts for key, one in _gpus(of, part)} for of in (base, own))
    merged = {
        part: {key: one for key, one in mapped(base, part).items() if key not in gpus} | mapped(own, part)
        for part in parts
    }
    return merged, {} if gpus_of_own else {key: one for key, one in gpus.items() if is_some(one)}


def _gpus(resources: Mapping[str, Any], part: str) -> Iterator[tuple[str, Any]]:
    for name, amount in mapped(resources, part).items():
        if isinstance(name, str) and accelerator(name):
            yield name, amount


def _told(place: str, lost: Mapping[str, Any], runtime: str) -> tuple[str, str, str]:
    name, amount = next(iter(lost.items()))
    found = (
        f"requests no GPU, and runtime {short(runtime)} requests {short(str(amount))} {short(name)}; before Trainer "
        "2.3 resourcesPerNode replaces them, so that the pods get none"
    )
    return place, found, f"Add {short(name)}: {short(str(amount))} to limits"


def _overridden(
    spec: Mapping[str, Any], elsewhere: dict[str, str], raw: Mapping[str, Any], job_name: str
) -> dict[str, Any]:
    """The spec of a job's pods with what the TrainJob says instead; `elsewhere` gets the places of that."""
    changed = dict(spec)
    for where, override in _overrides(raw, job_name):
        for key in ("nodeSelector", "tolerations", "affinity", "volumes"):
            if override.get(key):
                is_map = key == "nodeSelector"
                changed[key] = {**mapped(changed, key), **mapped(override, key)} if is_map else override[key]
                elsewhere[f"spec.{key}"] = f"{where}.{key}"
    return changed


def _overrides(raw: Mapping[str, Any], job_name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for where, _, override in entries(raw, "spec", "podSpecOverrides"):  # 2.0
        if _is_about(override, job_name):
            yield where, override
    for where, _, override in entries(raw, "spec", "podTemplateOverrides"):  # 2.1
        if _is_about(override, job_name):
            yield f"{where}.spec", mapped(override, "spec")
    for where, _, patch in entries(raw, "spec", "runtimePatches", named_by="manager"):
        path = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs")
        for inside, name, job in entries(patch, *path):
            if name == job_name:
                yield (
                    f"{where}.{inside}.template.spec.template.spec",
                    mapped(job, "template", "spec", "template", "spec"),
                )


def _is_about(override: Mapping[str, Any], job_name: str) -> bool:
    return any(part(target, "name") == job_name for target in listed(override, "targetJobs"))


_CONTAINERS = {"driver": "spark-kubernetes-driver", "executor": "spark-kubernetes-executor"}
"""Role -> Spark's name for its container, unless a template names it."""


def spark_application(application: Mapping[str, Any], above: str) -> Iterator[Template]:
    """SparkApplication and ScheduledSparkApplication, whose spec stands at `above`."""
    executors = count_of(part(application, "executor", "instances"), None)
    if part(application, "dynamicAllocation", "enabled") is True:
        executors = None
    for name, pods in (("driver", 1), ("executor", executors)):
        own, gpus = mapped(application, name), _gpus_of_role(application, name)
        if own and not any(map(is_placeholder, (*gpus, *gpus.values()))):
            yield _role(application, above, name, pods, gpus)


def _gpus_of_role(application: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The GPUs that are added to the limits: by `gpu` with a name and a quantity, or by the configuration."""
    resource, quantity = (part(application, name, "gpu", key) for key in ("name", "quantity"))
    is_none = quantity is None or (isinstance(quantity, int) and quantity <= 0)
    if isinstance(resource, str) and resource and not is_none:
        return {resource: quantity}
    conf = mapped(application, "sparkConf")
    amount, vendor = (conf.get(f"spark.{name}.resource.gpu.{key}") for key in ("amount", "vendor"))
    return {f"{vendor}/gpu": amount} if isinstance(vendor, str) and vendor and amount is not None else {}


def _role(application: Mapping[str, Any], above: str, name: str, pods: int | None, gpus: Mapping[str, Any]) -> Template:
    """The driver or the executors of an application. Spark's container is the one with the name of the role, else the
    first.
    """
    own, where = mapped(application, name), f"{above}.{name}"
    template = mapped(own, "template", "spec")
    containers = list(listed(template, "containers"))
    names = (part(one, "name") for one in containers)
    at = next((at for at, one in enumerate(names) if one in (_CONTAINERS[name], name)), 0)
    container = mapped(containers[at]) if containers else {}
    resources = mapped(container, "resources")
    variables = [{"name": key, "value": value} for key, value in mapped(own, "envVars").items()]
    main_name = text(container, "name") or _CONTAINERS[name]
    main = {
        **container,
        "name": main_name,
        "image": own.get("image") or application.get("image") or container.get("image"),
        "resources": with_the_rest({**resources, "limits": {**mapped(resources, "limits"), **gpus}}),
        "env": [*listed(container, "env"), *listed(own, "env"), *variables],
        "volumeMounts": [*listed(container, "volumeMounts"), *listed(own, "volumeMounts")],
    }
    containers[at : at + 1] = [main]
    volumes = {key: volume for _, key, volume in entries(application, "volumes") if key}
    selectors = (mapped(one, "nodeSelector") for one in (template, application, own))
    spec = {
        **template,
        "containers": [*containers, *listed(own, "sidecars")],
        "initContainers": [*listed(template, "initContainers"), *listed(own, "initContainers")],
        "tolerations": [*listed(template, "tolerations"), *listed(own, "tolerations")],
        "volumes": [*listed(template, "volumes"), *mounted(volumes, [own])],
        "nodeSelector": {key: value for one in selectors for key, value in one.items()},
        "affinity": own.get("affinity") or template.get("affinity"),
        "priorityClassName": own.get("priorityClassName") or template.get("priorityClassName"),
    }
    annotations = {**mapped(own, "template", "metadata", "annotations"), **mapped(own, "annotations")}
    inside = f"spec.containers[{main_name}]"
    elsewhere = {inside: where}
    if template:
        elsewhere = {f"spec.{key}": f"{where}.template.spec.{key}" for key in ("containers", "volumes")}
    if not own.get("image") and application.get("image"):
        elsewhere[f"{inside}.image"] = f"{above}.image"
    if gpus:
        elsewhere[f"{inside}.resources"] = f"{where}.gpu"
        if next(iter(gpus)) != part(own, "gpu", "name"):
            elsewhere[f"{inside}.resources"] = f"{above}.sparkConf[spark.{name}.resource.gpu.amount]"
    for place, sidecar, _ in entries(own, "sidecars"):
        elsewhere[f"spec.containers[{sidecar}]"] = f"{where}.{place}"
    return Template({"metadata": {"annotations": annotations}, "spec": spec}, where, name, pods, elsewhere=elsewhere)
