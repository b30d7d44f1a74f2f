"""The environment variables by which the container toolkit decides what a container sees.

Sources: NVIDIA/nvidia-container-toolkit, internal/config/image/cuda_image.go (a value that is set, and be it empty, is
what counts; without one an image with CUDA_VERSION and no NVIDIA_REQUIRE_CUDA gets all GPUs); kubernetes,
pkg/kubelet/kubelet_pods.go (a pod's env beats its envFrom, and both beat what a device plugin sets).
"""

from webhook.model.accelerators import Vendor
from webhook.model.container import EPHEMERAL, Container
from webhook.model.shape import spelled
from webhook.rules.rule import Violation

VARIABLE = "NVIDIA_VISIBLE_DEVICES"
HARMLESS = frozenset({"", "void", "none"})
"""Values with which the container toolkit gives no device (its cmd/nvidia-container-runtime and docs)."""
LEGACY = "CUDA_VERSION"
"""What images had before there was `VARIABLE`; it is taken for `all` where neither that nor `MODERN` is set."""
MODERN = "NVIDIA_REQUIRE_CUDA"
_DEBUG = f"kubectl debug --env={VARIABLE}=void"


def asks_for_nvidia(container: Container) -> bool:
    """Whether the container asks for a GPU of NVIDIA, so that a device plugin sets the variable."""
    return bool(container.gpu_count) and any(
        one.count and one.accelerator.vendor is Vendor.NVIDIA for one in container.gpu_requests
    )


def exposing_value(container: Container) -> Violation | None:
    """What is wrong with the variable where the container sets it itself."""
    if not container.sets_env(VARIABLE):
        return None
    entries = [value for name, value in container.env if name == VARIABLE]
    where = f"{container.path}.env[{VARIABLE}]"
    if asks_for_nvidia(container) and not all(one.accelerator.by_dra for one in container.gpu_requests):
        return Violation(
            where,
            f"is {_spell(entries[-1])} in a container that requests GPUs",
            "the device plugin sets it, and a value in the pod beats the plugin's",
            "Remove the variable",
        )
    exposing = [value for value in entries if value not in HARMLESS]
    if not exposing:
        return None
    return Violation(
        where,
        f"is {_spell(exposing[-1])} in a container without NVIDIA GPUs in its limits",
        "it may only be void, none or empty there",
        "Request a GPU in resources.limits, or set it to void",
    )


def shows_all(container: Container) -> bool:
    """Whether the variable is set to `all`, in these words."""
    return dict(container.env).get(VARIABLE) == "all"


def set_elsewhere(container: Container) -> Violation | None:
    """What is wrong where a ConfigMap or Secret may set the variable, and nothing in the pod beats it."""
    names = (VARIABLE,) if asks_for_nvidia(container) else (VARIABLE, LEGACY)
    if not container.env_from or container.sets_env(VARIABLE) or not any(map(container.may_take_env, names)):
        return None
    remedy = f"Take single keys with env.valueFrom, or set a prefix that {VARIABLE} does not begin with"
    if not asks_for_nvidia(container):
        remedy = f"Set {VARIABLE} to void in env, which beats envFrom"
    return Violation(
        f"{container.path}.envFrom",
        f"may set {VARIABLE}, which the ConfigMap or Secret decides",
        "nobody can see here which GPUs the container gets",
        remedy,
    )


def left_to_the_image(container: Container, runtime: str) -> Violation | None:
    """What is wrong where a container without GPUs runs under the NVIDIA runtime and leaves the variable to its image.

    With CUDA_VERSION in the pod it is certain that it sees all GPUs, unless the image says otherwise.
    """
    if asks_for_nvidia(container) or container.sets_env(VARIABLE):
        return None
    if sets_legacy(container):
        return Violation(
            f"{container.path}.env[{LEGACY}]",
            f"is set {runtime} without {VARIABLE}, in a container that requests no NVIDIA GPU",
            "the container toolkit takes that for an old image of CUDA, which sees every GPU of its node",
            f"Request a GPU in resources.limits, or set {VARIABLE} to void",
            brief=f"is set {runtime} without {VARIABLE}; such a container sees every GPU of its node",
        )
    is_debugger = container.list_name == EPHEMERAL
    return Violation(
        f"{container.path}.env",
        f"has no {VARIABLE} {runtime}, and the container requests no NVIDIA GPU",
        "its image may set the variable, as those of CUDA do, and then it sees every GPU of its node",
        f"Use {_DEBUG}" if is_debugger else f"Request a GPU in resources.limits, or set {VARIABLE} to void",
        brief=f"has no {VARIABLE} {runtime}; its image may set it, and then it sees every GPU of its node",
    )


def sets_legacy(container: Container) -> bool:
    """Whether the container makes its image one that gets all GPUs by default."""
    last = dict(container.env)
    return last.get(LEGACY, "") != "" and _may_be_empty(last.get(MODERN, ""))


def _may_be_empty(value: str | None) -> bool:
    """Whether a variable may have no value: one that comes from elsewhere, or is made of other variables, may."""
    return not value or "$(" in value


def _spell(value: str | None) -> str:
    return "set by valueFrom" if value is None else spelled(value)
