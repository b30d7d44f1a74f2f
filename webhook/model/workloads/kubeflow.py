"""The kinds of Kubeflow: training jobs of version 1, MPI jobs, notebooks, and the jobs and runtimes of its Trainer.

Fields and defaults are those of the API types in kubeflow/training-operator (release-1.9), kubeflow/mpi-operator
(v2beta1), kubeflow/kubeflow (notebooks) and kubeflow/trainer (v1alpha1).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from webhook.model.workloads.parts import counted, entries, from_template, listed, mapped, part
from webhook.model.workloads.template import Template

_NODE = "node"
"""What Trainer calls the job, and its container, that a TrainJob's `trainer` is about."""
_LEFT_TO_THE_RUNTIME = frozenset({"spec.priorityClassName"})


def replicas_at(field: str) -> Callable[[Mapping[str, Any]], Iterator[Template]]:
    """The reader of jobs that keep their replicas by role at `spec.<field>`; a role without a count has one."""

    def read(raw: Mapping[str, Any]) -> Iterator[Template]:
        for where, role, spec in entries(raw, "spec", field):
            pods = counted(spec.get("replicas"), 1)
            yield from from_template(spec.get("template"), f"{where}.template", group=role, pods=pods)

    return read


def mpi_job(raw: Mapping[str, Any]) -> Iterator[Template]:
    """MPIJob, in all versions with roles. Without a count there is one launcher, and no worker."""
    for where, role, spec in entries(raw, "spec", "mpiReplicaSpecs"):
        pods = counted(spec.get("replicas"), 0 if role.lower() == "worker" else 1)
        yield from from_template(spec.get("template"), f"{where}.template", group=role, pods=pods)


def notebook(raw: Mapping[str, Any]) -> Iterator[Template]:
    """Notebook, which is one pod of a StatefulSet. The pod has its labels, and two that the controller adds."""
    name, template = part(raw, "metadata", "name"), mapped(raw, "spec", "template")
    labels = {"statefulset": name, "notebook-name": name, **mapped(raw, "metadata", "labels")}
    labelled = {**template, "metadata": {**mapped(template, "metadata"), "labels": labels}}
    yield from from_template(labelled, "spec.template", pods=1, owner_kind="StatefulSet")


def training_runtime(raw: Mapping[str, Any]) -> Iterator[Template]:
    """TrainingRuntime and ClusterTrainingRuntime, which make no pods by themselves: a JobSet as template."""
    for where, name, job in entries(raw, "spec", "template", "spec", "replicatedJobs"):
        template = part(job, "template", "spec", "template")
        yield from from_template(template, f"{where}.template.spec.template", group=name)


def train_job(raw: Mapping[str, Any]) -> Iterator[Template]:
    """TrainJob. Only where it says itself what a node gets is anything known of the pods: its runtime has the rest."""
    trainer = mapped(raw, "spec", "trainer")
    if not mapped(trainer, "resourcesPerNode"):
        return
    container = {
        "name": _NODE,
        "image": trainer.get("image"),
        "env": trainer.get("env"),
        "resources": trainer["resourcesPerNode"],
    }
    spec: dict[str, Any] = {}
    outside = f"spec.containers[{_NODE}]"
    elsewhere = {f"{outside}.resources": "spec.trainer.resourcesPerNode", outside: "spec.trainer"}
    for where, override in _overrides(raw):
        for key in ("nodeSelector", "tolerations", "affinity", "volumes"):
            if override.get(key):
                spec[key] = override[key]
                elsewhere[f"spec.{key}"] = f"{where}.{key}"
    pod = {"spec": {**spec, "containers": [container]}}
    pods = counted(trainer.get("numNodes"), None)
    yield Template(pod, "spec.trainer", "trainer", pods, elsewhere=elsewhere, unknown=_LEFT_TO_THE_RUNTIME)


def _overrides(raw: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What a TrainJob says of the pods of its nodes beside `trainer`: a field of another name in each release."""
    for where, _, override in entries(raw, "spec", "podSpecOverrides"):  # 2.0
        if _is_about_nodes(override):
            yield where, override
    for where, _, override in entries(raw, "spec", "podTemplateOverrides"):  # 2.1
        if _is_about_nodes(override):
            yield f"{where}.spec", mapped(override, "spec")
    for where, _, patch in entries(raw, "spec", "runtimePatches", named_by="manager"):
        path = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs")
        for inside, name, job in entries(patch, *path):
            if name == _NODE:
                yield (
                    f"{where}.{inside}.template.spec.template.spec",
                    mapped(job, "template", "spec", "template", "spec"),
                )


def _is_about_nodes(override: Mapping[str, Any]) -> bool:
    return any(part(target, "name") == _NODE for target in listed(override, "targetJobs"))
