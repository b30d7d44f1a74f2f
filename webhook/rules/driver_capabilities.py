"""Containers that request NVIDIA GPUs get the driver libraries that they need, and no others.

NVIDIA's container toolkit mounts the libraries that the variable `NVIDIA_DRIVER_CAPABILITIES` names: without it the
libraries for compute and utility, or all of them for images that set `CUDA_VERSION` but not `NVIDIA_REQUIRE_CUDA`. The
rule never changes a variable that the container sets, and adds none if the image is known to set it. Where images are
not looked up in their registry, the rule's value overrides the image's.
"""
# Sources: CHANGELOG.md, internal/config/image/capabilities.go and
# cmd/nvidia-container-runtime-hook/container_config.go of NVIDIA/nvidia-container-toolkit.

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator

from webhook.model.accelerators import Vendor
from webhook.model.edits import AddEnv
from webhook.model.pod import Container, Pod
from webhook.rules.rule import Advice, Example, Facts, Rule, training_pod
from webhook.rules.rule_settings import RuleSettings
from webhook.yaml_files.camel_model import not_empty

VARIABLE = "NVIDIA_DRIVER_CAPABILITIES"

Capability = Literal["compute", "utility", "video", "graphics", "display", "ngx", "compat32", "all"]
"""A part of the driver. The toolkit starts no container that asks for any other."""


def _differ(capabilities: tuple[Capability, ...]) -> tuple[Capability, ...]:
    for number, one in enumerate(capabilities):
        if one in capabilities[:number]:
            raise ValueError(f"{one} stands in it twice; remove one")
    if "all" in capabilities and len(capabilities) > 1:
        raise ValueError("all includes the others; write [all], or the others without it")
    return capabilities


class Settings(RuleSettings):
    """Settings of `driverCapabilities`."""

    capabilities: Annotated[
        tuple[Capability, ...],
        *not_empty("names no capability; write at least one, or disable the rule"),
        AfterValidator(_differ),
    ] = ("compute", "utility")
    """Libraries that containers get: `compute` (CUDA, OpenCL), `utility` (nvidia-smi, NVML), `video` (Video Codec SDK),
    `graphics` (OpenGL, Vulkan), `display` (X11), `ngx`, `compat32`, or `all`."""
    also_with_env_from: bool = False
    """Whether a container also gets the variable if its `envFrom` may set it. By default there is a warning instead."""


def mutate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[AddEnv | Advice]:
    """Set the variable in containers that request NVIDIA GPUs, unless the container or its image sets it."""
    if not pod.requests_gpus_of(Vendor.NVIDIA) or pod.has_passthrough:
        return
    for container in pod.lasting_containers():
        is_for_gpus = container.requests_gpus_of(Vendor.NVIDIA)
        if not is_for_gpus or container.sets_env(VARIABLE) or _is_set_by_image(container, facts):
            continue
        if container.may_take_env(VARIABLE) and not settings.also_with_env_from:
            yield Advice(
                f"{container.path}.envFrom",
                f"{VARIABLE} is not injected, because envFrom may set it",
                "Set it in env, or ask the platform team for alsoWithEnvFrom",
            )
        else:
            yield AddEnv(container, VARIABLE, ",".join(settings.capabilities))


def _is_set_by_image(container: Container, facts: Facts) -> bool:
    config = facts.image(container.image).config if container.image else None
    return config is not None and VARIABLE in config.env


RULE = Rule(
    key="driverCapabilities",
    promise="GPU containers get the driver libraries that they need.",
    problem="Which driver libraries a container finds depends on its image and its node: nvidia-smi works and "
    "CUDA does not.",
    example=Example(training_pod()),
    settings=Settings,
    mutate=mutate,
    depends_on_cluster_state=True,
)
