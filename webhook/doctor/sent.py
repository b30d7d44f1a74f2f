"""Which pods of a DaemonSet the API server asks about, and why: what the matchConditions say, in words for people."""

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.container import Container
from webhook.model.pod import Pod, pod_from_raw
from webhook.model.shape import ShapeError
from webhook.rules.device_annotations import DEVICE_KEYS, PATH_KEYS, VENDORS_KEYS
from webhook.rules.visible_variables import LEGACY, VARIABLE

_DEVICE_PATHS = ("/nvidia", "/dri", "/kfd", "/195:", "/226:")
_DEVICE_LIST = "-container-devices"


def why_sent(
    template: Mapping[str, Any], accelerators: Accelerators = BUILT_IN, *, nvidia_is_default_runtime: bool = False
) -> str:
    """Why the pods of this template are sent to the webhook when they are created; empty where they are not.

    What they tolerate is not asked of the pods of DaemonSets. `accelerators` are the names of GPUs.
    """
    try:
        pod = pod_from_raw(template, accelerators)
    except ShapeError:
        return ""  # no API server stores it
    return next(_reasons(pod, nvidia_is_default_runtime=nvidia_is_default_runtime), "")


def _reasons(pod: Pod, *, nvidia_is_default_runtime: bool) -> Iterator[str]:
    if pod.resource_claims:
        yield "has resource claims"
    for volume in pod.volumes:
        if any(part in volume.host_path for part in _DEVICE_PATHS):
            yield f"mounts {volume.host_path}"
    if pod.runtime_class and "nvidia" in pod.runtime_class.lower():
        yield f"has runtimeClassName {pod.runtime_class}"
    for key in pod.annotations:
        if VENDORS_KEYS in key or key.startswith((*DEVICE_KEYS, *PATH_KEYS)):
            yield f"has the annotation {key}"
    for container in pod.containers:
        for reason in _reasons_in(container, pod, nvidia_is_default_runtime=nvidia_is_default_runtime):
            yield f"container {container.name} {reason}"


def _reasons_in(container: Container, pod: Pod, *, nvidia_is_default_runtime: bool) -> Iterator[str]:
    for request in container.gpu_requests:
        yield f"requests {request.resource}"
    if container.has_claims:
        yield "has resource claims"
    if container.sets_env(VARIABLE):
        yield f"sets {VARIABLE}"
    for mount in container.mounts:
        if _DEVICE_LIST in mount.path:
            yield f"mounts a volume at {mount.path}"
    has_class = pod.runtime_class is not None
    if has_class or nvidia_is_default_runtime:
        if container.is_privileged:
            yield "is privileged"
        if container.sets_env(LEGACY):
            yield f"sets {LEGACY}"
    if has_class and any(map(container.may_take_env, (VARIABLE, LEGACY))):
        yield "takes variables from a ConfigMap or Secret"
