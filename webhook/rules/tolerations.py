"""GPU pods tolerate the taints of the nodes that have the GPUs they request.

GPUs by a resource claim (DRA) count where every alternative of a request is for a DeviceClass that is known to give
GPUs. Such a class matches `resources` by its name, by its `extendedResourceName` and by the name of its vendor's whole
GPUs: `mig.nvidia.com` matches `nvidia.com/gpu`. Nothing follows from `adminAccess`, nor from a claim or template that
does not exist when the pod is created.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from webhook.model.accelerators import DEVICE_CLASSES
from webhook.model.edits import AddToleration
from webhook.model.node import Toleration
from webhook.model.pod import Pod
from webhook.rules.claimed_gpus import certain_claims, gets_any
from webhook.rules.names import LabelValue, ResourceGlobs, TaintKey
from webhook.rules.rule import Example, Facts, Rule, Stage, training_pod
from webhook.rules.rule_settings import InjectionSettings
from webhook.yaml_files.camel_model import CamelModel


class TolerationSettings(CamelModel):
    """One toleration to add, as it would stand in a pod, and for which resources."""

    model_config = ConfigDict(populate_by_name=True)

    key: TaintKey = ""
    """Taint key; left out only with operator `Exists`, which then tolerates every taint."""
    operator: Literal["Exists", "Equal"] = "Equal"
    """`Exists` tolerates any value, `Equal` only `value`."""
    value: LabelValue = ""
    """Taint value for operator `Equal`."""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    """Taint effect; empty tolerates all of them."""
    toleration_seconds: Annotated[int, Field(ge=0, le=10**9)] | None = None
    """Seconds that a `NoExecute` taint is tolerated; unset is forever."""
    resources: ResourceGlobs = ()
    """Globs of GPU resource names, such as `nvidia.com/*`: for pods that request one, or are certain to get one by a
    claim. Empty: for every GPU pod."""

    @model_validator(mode="after")
    def _is_valid_in_a_pod(self) -> "TolerationSettings":
        if self.operator == "Exists" and self.value:
            raise ValueError("operator Exists takes no value; remove the value or write operator: Equal")
        if self.operator == "Equal" and not self.key:
            raise ValueError("a toleration without key needs operator: Exists")
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            raise ValueError("tolerationSeconds needs effect: NoExecute")
        return self

    @cached_property
    def toleration(self) -> Toleration:
        return Toleration(self.key, self.operator, self.value, self.effect, self.toleration_seconds)


_CLASSES = f"{DEVICE_CLASSES}*."


def _of_a_vendor(key: str, *resources: str) -> TolerationSettings:
    return TolerationSettings(key=key, operator="Exists", effect="NoSchedule", resources=resources)


_OF_VENDORS = (
    _of_a_vendor("nvidia.com/gpu", "nvidia.com/*", f"{_CLASSES}nvidia.com"),
    _of_a_vendor("amd.com/gpu", "amd.com/*", f"{_CLASSES}amd.com"),
    _of_a_vendor("gpu.intel.com/i915", "gpu.intel.com/i915*"),
    _of_a_vendor("gpu.intel.com/xe", "gpu.intel.com/xe*"),
)
"""Tolerations of taints that are named after the resource of their nodes, as for ExtendedResourceToleration of
Kubernetes."""


class Settings(InjectionSettings):
    """Settings of `tolerations`."""

    add: tuple[TolerationSettings, ...] = _OF_VENDORS
    """Tolerations to add."""


def mutate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[AddToleration]:
    """Tolerate the configured taints that no toleration of the pod covers."""
    claimed = certain_claims(pod, facts)
    if not pod.gpus and not claimed:
        return
    present = list(pod.tolerations)
    for entry in settings.add:
        toleration = entry.toleration
        if gets_any(pod, claimed, entry.resources) and not any(existing.covers(toleration) for existing in present):
            present.append(toleration)
            yield AddToleration(toleration)


RULE = Rule(
    key="tolerations",
    promise="GPU pods tolerate the taints of GPU nodes.",
    problem="GPU nodes are tainted; people do not know it, and their pods stay Pending.",
    example=Example(training_pod()),
    settings=Settings,
    mutate=mutate,
    stage=Stage.PLACEMENT,
    references=lambda settings: [entry.toleration for entry in settings.add],
)
