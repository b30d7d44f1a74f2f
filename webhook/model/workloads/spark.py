"""The kinds of the Spark operator: applications and their schedules.

Fields are those of api/v1beta2 in kubeflow/spark-operator; what becomes of them in the pods is that of its webhook
(internal/webhook/sparkpod_defaulter.go), and for `sparkConf` of Spark's "Running Spark on Kubernetes".
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from webhook.model.workloads.merging import mounted
from webhook.model.workloads.parts import counted, entries, listed, mapped, part, with_the_rest
from webhook.model.workloads.placeholders import is_placeholder
from webhook.model.workloads.template import Template

_CONTAINERS = {"driver": "spark-kubernetes-driver", "executor": "spark-kubernetes-executor"}
"""What Spark calls the container of each role where no template names it."""


def spark_application(raw: Mapping[str, Any]) -> Iterator[Template]:
    """SparkApplication."""
    yield from _application(mapped(raw, "spec"), "spec")


def scheduled_spark_application(raw: Mapping[str, Any]) -> Iterator[Template]:
    """ScheduledSparkApplication."""
    yield from _application(mapped(raw, "spec", "template"), "spec.template")


def _application(spec: Mapping[str, Any], where: str) -> Iterator[Template]:
    for name, pods in (("driver", 1), ("executor", _executors(spec))):
        role = _Role(spec, name, where)
        if role.own and not any(map(is_placeholder, (*role.gpus, *role.gpus.values()))):
            yield Template(role.pod, role.where, name, pods, elsewhere=role.elsewhere)


def _executors(spec: Mapping[str, Any]) -> int | None:
    """The executors that run; not known where their number changes, or where it is left to the configuration."""
    if part(spec, "dynamicAllocation", "enabled") is True:
        return None
    return counted(part(spec, "executor", "instances"), None)


@dataclass(frozen=True)
class _Role:
    """The driver or the executors of an application, whose spec stands at `above`."""

    application: Mapping[str, Any]
    name: str
    above: str

    @property
    def own(self) -> Mapping[str, Any]:
        """What the application says of this role."""
        return mapped(self.application, self.name)

    @property
    def where(self) -> str:
        """Where that stands in the object."""
        return f"{self.above}.{self.name}"

    @property
    def gpus(self) -> Mapping[str, Any]:
        """What is added to the limits: by `gpu`, which counts for nothing without a name, or by the configuration."""
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
        """Which container of the template is Spark's: the one with the name of the role, else the first."""
        names = (part(one, "name") for one in listed(self._template, "containers"))
        return next((at for at, name in enumerate(names) if name in (_CONTAINERS[self.name], self.name)), 0)

    @property
    def _container(self) -> Mapping[str, Any]:
        """Spark's container as the template has it."""
        containers = listed(self._template, "containers")
        return mapped(containers[self._at]) if containers else {}

    @property
    def _container_name(self) -> str:
        name = self._container.get("name")
        return name if isinstance(name, str) and name else _CONTAINERS[self.name]

    @property
    def pod(self) -> dict[str, Any]:
        """One of its pods."""
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
        """Where the parts of its pods stand in the object."""
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
