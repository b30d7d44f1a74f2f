"""NVIDIA pods run under the RuntimeClass of the container toolkit, but only where that cannot break them."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from webhook.model.accelerators import Vendor
from webhook.model.edits import SetRuntimeClass
from webhook.model.pod import Pod
from webhook.rules.rule import Advice, Facts, InjectionSettings, Rule


class WhenMissing(StrEnum):
    """What is said when the RuntimeClass cannot be used."""

    SILENT = "silent"
    WARN = "warn"


class Settings(InjectionSettings):
    """Settings of `runtimeClass`."""

    name: Annotated[str, Field(min_length=1)] = "nvidia"
    """Name of the RuntimeClass object. It is set only if the pod names none and the object exists, because Kubernetes
    refuses a pod with a RuntimeClass that does not."""
    when_missing: Annotated[
        WhenMissing, BeforeValidator(lambda value: WhenMissing(value) if isinstance(value, str) else value)
    ] = WhenMissing.SILENT
    """`warn` tells the user when the object, or its handler on a node the pod could land on, is missing; `silent` does
    not: clusters whose default runtime is already nvidia have none."""


def mutate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[SetRuntimeClass | Advice]:
    """Set the RuntimeClass if the cluster has it and every node the pod could land on has its handler."""
    if pod.runtime_class is not None or pod.has_passthrough or not pod.asks_for(Vendor.NVIDIA):
        return
    where = f"{pod.spec_path}.runtimeClassName"
    runtime_class = facts.runtime_class(settings.name)
    lacking = 0
    if runtime_class is not None:
        lacking = sum(
            nodes.count
            for nodes in facts.candidates(pod)
            if nodes.runtime_handlers is not None and runtime_class.handler not in nodes.runtime_handlers
        )
        if not lacking:
            yield SetRuntimeClass(settings.name)
            return
    if settings.when_missing is WhenMissing.WARN:
        found = (
            f"not set, because {lacking} of the nodes the pod could land on {'lacks' if lacking == 1 else 'lack'} "
            f"the runtime handler {runtime_class.handler}"
            if runtime_class is not None
            else f"not set, because the cluster has no RuntimeClass {settings.name}"
        )
        yield Advice(where, found, "Install the NVIDIA container toolkit, or tell the platform team")


RULE = Rule(
    key="runtimeClass",
    promise="NVIDIA pods run under the RuntimeClass of the container toolkit.",
    settings=Settings,
    mutate=mutate,
)
