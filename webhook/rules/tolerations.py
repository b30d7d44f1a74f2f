"""GPU pods tolerate the taints of the nodes that have the GPUs they request.

A toleration is added only if no toleration of the pod covers it already.

GPUs that come by a resource claim (DRA) count where their DeviceClass is known to give GPUs: by its name, or by its
`extendedResourceName`. Such a class matches `resources` by these names and by the name of its vendor's whole GPUs:
`gpu.nvidia.com` and `mig.nvidia.com` match `nvidia.com/gpu`. Where a request has alternatives, a toleration is added
only if it is for all of them. None is added for administrative access (`adminAccess`), for a claim or template that
does not exist yet when the pod is created, or where the webhook may not read claims.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from webhook.model.accelerators import DEVICE_CLASSES
from webhook.model.edits import AddToleration
from webhook.model.node import Toleration
from webhook.model.pod import Pod
from webhook.rules.claimed_gpus import Alternatives, all_are_of, certain_of, claimed_gpus
from webhook.rules.names import LabelValue, ResourceGlobs, TaintKey, requests_any
from webhook.rules.rule import Example, Facts, Rule, Stage, training_pod
from webhook.rules.rule_settings import InjectionSettings
from webhook.yaml_files.camel_model import CamelModel


class TolerationSettings(CamelModel):
    """One toleration to add, as it would stand in a pod, and for which resources."""

    model_config = ConfigDict(populate_by_name=True)

    key: TaintKey = ""
    """Taint key; may be left out only with operator `Exists`, which then tolerates every taint."""
    operator: Literal["Exists", "Equal"] = "Equal"
    """`Exists` tolerates any value, `Equal` only `value`."""
    value: LabelValue = ""
    """Taint value for operator `Equal`."""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    """Taint effect; empty tolerates all of them."""
    toleration_seconds: Annotated[int, Field(ge=0, le=10**9)] | None = None
    """Seconds that a `NoExecute` taint is tolerated; unset is forever."""
    resources: ResourceGlobs = ()
    """Globs of GPU resource names, such as `nvidia.com/*`; the toleration is added only to pods that request one of
    these resources, or are certain to get one by a resource claim. Empty: to every GPU pod."""

    @model_validator(mode="after")
    def _is_valid_in_a_pod(self) -> "TolerationSettings":
        if self.operator == "Exists" and self.value:
            raise ValueError("operator Exists takes no value; remove the value or write operator: Equal")
        if self.operator == "Equal" and not self.key:
            raise ValueError("a toleration without key needs operator: Exists")
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            raise ValueError("tolerationSeconds needs effect: NoExecute")
        return self

    def concerns(self, pod: Pod) -> bool:
        """Whether a pod with GPUs requests one of the resources."""
        return requests_any(pod, self.resources)

    def concerns_any(self, claimed: Iterable[Alternatives]) -> bool:
        """Whether one of the GPUs in claims is certain to be one of the resources."""
        return any(all_are_of(alternatives, self.resources) for alternatives in claimed)

    @cached_property
    def toleration(self) -> Toleration:
        """The toleration as a value."""
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
    """Tolerations to add. Default: one for each of the taints `nvidia.com/gpu`, `amd.com/gpu`, `gpu.intel.com/i915` and
    `gpu.intel.com/xe`, of any value and with effect `NoSchedule`, added to pods that request a GPU, a slice or a share
    of that kind."""


def mutate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[AddToleration]:
    """Tolerate the configured taints that no toleration of the pod covers."""
    claimed = list(certain_of(claimed_gpus(pod, facts))) if pod.resource_claims else ()
    if not pod.gpus and not claimed:
        return
    present = list(pod.tolerations)
    for entry in settings.add:
        toleration = entry.toleration
        is_due = (entry.concerns(pod) if pod.gpus else False) or (entry.concerns_any(claimed) if claimed else False)
        if is_due and not any(existing.covers(toleration) for existing in present):
            present.append(toleration)
            yield AddToleration(toleration)


def references(settings: Settings) -> Iterator[Toleration]:
    """The taints that are tolerated."""
    yield from (entry.toleration for entry in settings.add)


RULE = Rule(
    key="tolerations",
    promise="GPU pods tolerate the taints of GPU nodes.",
    problem="GPU nodes are tainted to keep other pods away; most people do not know it, and their pods stay Pending.",
    examples=(Example(training_pod()),),
    settings=Settings,
    mutate=mutate,
    stage=Stage.PLACEMENT,
    references=references,
)
