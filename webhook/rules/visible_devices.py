"""Nobody gets a GPU without asking for one: NVIDIA_VISIBLE_DEVICES, device files and privileges are watched.

In a pod that asks for NVIDIA GPUs, a container that asks for none gets the value `void`, unless it sets one itself.
"""

import posixpath
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import Field

from webhook.model.accelerators import Vendor
from webhook.model.container import Container
from webhook.model.edits import AddEnv
from webhook.model.pod import Pod
from webhook.model.shape import spelled
from webhook.rules.rule import Example, Facts, InjectionSettings, Rule, Violation

VARIABLE = "NVIDIA_VISIBLE_DEVICES"
HARMLESS = frozenset({"", "void", "none"})
"""Values with which the container toolkit gives no device (its cmd/nvidia-container-runtime and docs)."""
NVIDIA_PATHS = ("*/dev/nvidia*",)
ANY_VENDORS_PATHS = ("*/dev/dri", "*/dev/dri/*", "*/dev/kfd")
"""Host paths of GPU device files, also behind another name of the root such as /proc/1/root."""


class Settings(InjectionSettings):
    """Settings of `visibleDevices`."""

    runtime_classes: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=("nvidia", "nvidia-cdi", "nvidia-legacy"), strict=False
    )
    """Globs of the RuntimeClass names under which the container toolkit runs; with one of them a privileged container
    sees every GPU of its node."""


def mutate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[AddEnv]:  # noqa: ARG001  # the contract
    """Set `void` in the containers of an NVIDIA pod that ask for no GPU and do not set the variable themselves."""
    if not pod.asks_for(Vendor.NVIDIA) or pod.has_passthrough:
        return
    for container in pod.lasting_containers():
        if not _may_get_gpus(container) and not container.sets_env(VARIABLE):
            yield AddEnv(container, VARIABLE, "void")


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation]:  # noqa: ARG001  # the contract
    """Refuse containers that set the variable to get at GPUs, and pods without GPUs that reach for device files."""
    for container in pod.containers:
        yield from _variable(container)
    asks_nvidia = any(gpu.vendor is Vendor.NVIDIA for gpu in pod.accelerators)
    none = "no NVIDIA GPU" if pod.gpus else "no GPU"
    closed = (*(() if asks_nvidia else NVIDIA_PATHS), *(() if pod.gpus else ANY_VENDORS_PATHS))
    for volume in pod.volumes:
        if volume.host_path and _is_any_of(volume.host_path, closed):
            yield Violation(
                f"spec.volumes[{volume.name}].hostPath",
                f"mounts {volume.host_path} in a pod that asks for {none}",
                "GPU device files come with a GPU in resources.limits",
                "Ask for a GPU, or remove the volume",
            )
    if asks_nvidia or not pod.runtime_class:
        return
    if any(fnmatchcase(pod.runtime_class, glob) for glob in settings.runtime_classes):
        for container in pod.containers:
            if container.is_privileged:
                yield Violation(
                    f"{container.path}.securityContext.privileged",
                    f"is privileged under runtimeClassName {pod.runtime_class} and asks for {none}",
                    "such a container sees every GPU of its node",
                    "Ask for a GPU, or drop privileged or runtimeClassName",
                )


def _variable(container: Container) -> Iterator[Violation]:
    entries = [value for name, value in container.env if name == VARIABLE]
    if not entries:
        return
    where = f"{container.path}.env[{VARIABLE}]"
    if any(request.count and request.accelerator.vendor is Vendor.NVIDIA for request in container.gpu_requests):
        yield Violation(
            where,
            f"is {_spell(entries[-1])} in a container that asks for GPUs",
            "the device plugin sets it, and a value in the pod beats the plugin's",
            "Remove the variable",
        )
        return
    exposing = [value for value in entries if value not in HARMLESS]
    if exposing:
        yield Violation(
            where,
            f"is {_spell(exposing[-1])} in a container without NVIDIA GPUs in its limits",
            "it may only be void, none or empty there",
            "Ask for a GPU in resources.limits, or set it to void",
        )


def _spell(value: str | None) -> str:
    return "set by valueFrom" if value is None else spelled(value)


def _may_get_gpus(container: Container) -> bool:
    """Whether the container asks for a GPU, or for something that another component may still turn into one."""
    return bool(container.gpu_count) or container.has_claims or container.asks_gpu_attributes


def _is_any_of(path: str, patterns: Iterable[str]) -> bool:
    plain = posixpath.normpath("/" + path.lstrip("/"))
    return any(fnmatchcase(plain, pattern) for pattern in patterns)


_WITHOUT_ASKING = """
apiVersion: v1
kind: Pod
metadata: {name: notebook}
spec:
  containers:
    - name: notebook
      image: registry.example.com/notebook:1
      env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]
"""
_WITH_A_SIDECAR = """
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers:
    - name: trainer
      image: registry.example.com/train:1
      resources: {limits: {nvidia.com/gpu: 1}}
    - name: upload
      image: registry.example.com/upload:1
"""

RULE = Rule(
    key="visibleDevices",
    promise="Nobody gets a GPU without asking for one.",
    problem="A container that sets NVIDIA_VISIBLE_DEVICES to all, or whose image does, uses every GPU of its node, "
    "beside those who asked for them, and no quota counts it.",
    examples=(Example(_WITHOUT_ASKING), Example(_WITH_A_SIDECAR)),
    settings=Settings,
    mutate=mutate,
    validate=validate,
)
