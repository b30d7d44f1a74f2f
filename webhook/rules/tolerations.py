"""GPU pods tolerate the taints of GPU nodes, those of the GPUs that they ask for.

Nothing is added that a toleration of the pod covers already.
"""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from webhook.model.edits import AddToleration
from webhook.model.pod import Pod
from webhook.model.tolerations import Toleration
from webhook.rules.manifests import train
from webhook.rules.names import LabelValue, TaintKey
from webhook.rules.rule import Example, Facts, InjectionSettings, Rule, Stage


class TolerationSettings(BaseModel):
    """One toleration to add, as it would stand in a pod, and for which resources."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        strict=True,
        use_attribute_docstrings=True,
    )

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
    resources: tuple[Annotated[str, Field(min_length=1)], ...] = Field(default=(), strict=False)
    """Globs of GPU resource names, such as `nvidia.com/*`; the toleration is added only to pods that ask for one of
    them. Empty: every GPU."""

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
        """Whether the pod asks for one of the resources."""
        return not self.resources or any(fnmatchcase(gpu, glob) for gpu in pod.gpus for glob in self.resources)

    @cached_property
    def toleration(self) -> Toleration:
        """The toleration itself."""
        return Toleration(self.key, self.operator, self.value, self.effect, self.toleration_seconds)


NVIDIA_GPU = TolerationSettings(
    key="nvidia.com/gpu", operator="Exists", effect="NoSchedule", resources=("nvidia.com/*",)
)


class Settings(InjectionSettings):
    """Settings of `tolerations`."""

    add: tuple[TolerationSettings, ...] = Field(default=(NVIDIA_GPU,), strict=False)
    """Tolerations to add, each unless one that the pod has covers it. Default: `nvidia.com/gpu` of any value with
    effect `NoSchedule`, for every NVIDIA resource, MIG slices and shared GPUs included."""


def mutate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[AddToleration]:  # noqa: ARG001  # the contract
    """Tolerate the configured taints that no toleration of the pod covers."""
    if not pod.gpus:
        return
    present = list(pod.tolerations)
    for entry in settings.add:
        toleration = entry.toleration
        if entry.concerns(pod) and not any(existing.covers(toleration) for existing in present):
            present.append(toleration)
            yield AddToleration(toleration)


def references(settings: Settings) -> Iterator[Toleration]:
    """The taints that are tolerated."""
    yield from (entry.toleration for entry in settings.add)


RULE = Rule(
    key="tolerations",
    promise="GPU pods tolerate the taints of GPU nodes.",
    problem="GPU nodes are tainted to keep other pods away; most people do not know it, and their pods stay Pending.",
    examples=(Example(train()),),
    settings=Settings,
    mutate=mutate,
    stage=Stage.PLACEMENT,
    references=references,
)
