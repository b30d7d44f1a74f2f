"""The kinds of Kubeflow: training jobs of version 1, MPI jobs, notebooks, jobs and runtimes of its Trainer, and Spark.

Fields and defaults are those of the API types in kubeflow/training-operator (release-1.9), kubeflow/mpi-operator
(v2beta1), kubeflow/kubeflow (notebooks), kubeflow/trainer (v1alpha1) and kubeflow/spark-operator (v1beta2). The pods of
a Spark application are described in the operator's webhook (internal/webhook/sparkpod_defaulter.go), and for
`sparkConf` in Spark's "Running Spark on Kubernetes".
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from webhook.model.json_parts import entries, listed, mapped, part
from webhook.model.workloads.template import Template, count_of, from_template, is_placeholder, mounted, with_the_rest

_NODE = "node"
"""Trainer's name for the job, and for the container, that a TrainJob's `trainer` describes."""
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


def train_job(raw: Mapping[str, Any]) -> Iterator[Template]:
    """TrainJob. Its pods are known only if it has `resourcesPerNode`; otherwise its runtime says what they request."""
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
    pods = count_of(trainer.get("numNodes"), None)
    yield Template(pod, "spec.trainer", "trainer", pods, elsewhere=elsewhere, unknown=_LEFT_TO_THE_RUNTIME)


def _overrides(raw: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
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


_CONTAINERS = {"driver": "spark-kubernetes-driver", "executor": "spark-kubernetes-executor"}
"""Role -> Spark's name for its container, unless a template names it."""


def spark_application(spec: Mapping[str, Any], where: str) -> Iterator[Template]:
    """SparkApplication and ScheduledSparkApplication."""
    for name, pods in (("driver", 1), ("executor", _executors(spec))):
        role = _Role(spec, name, where)
        if role.own and not any(map(is_placeholder, (*role.gpus, *role.gpus.values()))):
            yield Template(role.pod, role.where, name, pods, elsewhere=role.elsewhere)


def _executors(spec: Mapping[str, Any]) -> int | None:
    """The number of executors; None where it changes, or the configuration decides."""
    if part(spec, "dynamicAllocation", "enabled") is True:
        return None
    return count_of(part(spec, "executor", "instances"), None)


@dataclass(frozen=True)
class _Role:
    """The driver or the executors of an application, whose spec stands at `above`."""

    application: Mapping[str, Any]
    name: str
    above: str

    @property
    def own(self) -> Mapping[str, Any]:
        return mapped(self.application, self.name)

    @property
    def where(self) -> str:
        return f"{self.above}.{self.name}"

    @property
    def gpus(self) -> Mapping[str, Any]:
        """The GPUs that are added to the limits: by `gpu` with a name and a quantity, or by the configuration."""
        name, quantity = part(self.own, "gpu", "name"), part(self.own, "gpu", "quantity")
        if isinstance(name, str) and name and quantity is not None and not _is_none(quantity):
            return {name: quantity}
        conf = mapped(self.application, "sparkConf")
        amount, vendor = (conf.get(f"spark.{self.name}.resource.gpu.{key}") for key in ("amount", "vendor"))
        return {f"{vendor}/gpu": amount} if isinstance(vendor, str) and vendor and amount is not None else {}

    @property
    def _template(self) -> Mapping[str, Any]:
        return mapped(self.own, "template", "spec")

    @property
    def _at(self) -> int:
        """The place of Spark's container in the template: the container with the name of the role, else the first."""
        names = (part(one, "name") for one in listed(self._template, "containers"))
        return next((at for at, name in enumerate(names) if name in (_CONTAINERS[self.name], self.name)), 0)

    @property
    def _container(self) -> Mapping[str, Any]:
        containers = listed(self._template, "containers")
        return mapped(containers[self._at]) if containers else {}

    @property
    def _container_name(self) -> str:
        name = self._container.get("name")
        return name if isinstance(name, str) and name else _CONTAINERS[self.name]

    @property
    def pod(self) -> dict[str, Any]:
        own, template, container = self.own, self._template, self._container
        resources = mapped(container, "resources")
        variables = [{"name": name, "value": value} for name, value in mapped(own, "envVars").items()]
        main = {
            **container,
            "name": self._container_name,
            "image": own.get("image") or self.application.get("image") or container.get("image"),
            "resources": with_the_rest({**resources, "limits": {**mapped(resources, "limits"), **self.gpus}}),
            "env": [*listed(container, "env"), *listed(own, "env"), *variables],
            "volumeMounts": [*listed(container, "volumeMounts"), *listed(own, "volumeMounts")],
        }
        containers = list(listed(template, "containers"))
        containers[self._at : self._at + 1] = [main]
        volumes = {name: volume for _, name, volume in entries(self.application, "volumes") if name}
        spec = {
            **template,
            "containers": [*containers, *listed(own, "sidecars")],
            "initContainers": [*listed(template, "initContainers"), *listed(own, "initContainers")],
            "tolerations": [*listed(template, "tolerations"), *listed(own, "tolerations")],
            "volumes": [*listed(template, "volumes"), *mounted(volumes, [own])],
            "nodeSelector": {
                **mapped(template, "nodeSelector"),
                **mapped(self.application, "nodeSelector"),
                **mapped(own, "nodeSelector"),
            },
            "affinity": own.get("affinity") or template.get("affinity"),
            "priorityClassName": own.get("priorityClassName") or template.get("priorityClassName"),
        }
        annotations = {**mapped(own, "template", "metadata", "annotations"), **mapped(own, "annotations")}
        return {"metadata": {"annotations": annotations}, "spec": spec}

    @property
    def elsewhere(self) -> dict[str, str]:
        inside = f"spec.containers[{self._container_name}]"
        found = {inside: self.where}
        if self._template:
            found = {
                "spec.containers": f"{self.where}.template.spec.containers",
                "spec.volumes": f"{self.where}.template.spec.volumes",
            }
        if not self.own.get("image") and self.application.get("image"):
            found[f"{inside}.image"] = f"{self.above}.image"
        if self.gpus:
            found[f"{inside}.resources"] = f"{self.where}.gpu"
            if next(iter(self.gpus)) != part(self.own, "gpu", "name"):
                found[f"{inside}.resources"] = f"{self.above}.sparkConf[spark.{self.name}.resource.gpu.amount]"
        for place, name, _ in entries(self.own, "sidecars"):
            found[f"spec.containers[{name}]"] = f"{self.where}.{place}"
        return found


def _is_none(quantity: object) -> bool:
    return isinstance(quantity, int) and quantity <= 0
