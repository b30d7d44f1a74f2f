"""DaemonSets whose pods are sent to the webhook. On a new node such pods cannot start while no replica answers.

The first half says which pods the API server sends, and why: the matchConditions in words for people.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from webhook.doctor.cluster import Object, UnavailableError, selects
from webhook.doctor.doctor_report import DoctorFinding, ok, warning
from webhook.doctor.installation import Installation
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.container import Container
from webhook.model.pod import Pod
from webhook.model.pod_reader import pod_from_raw
from webhook.model.shape import ShapeError
from webhook.rules.device_access import DEVICE_KEYS, LEGACY, PATH_KEYS, VARIABLE, VENDORS_KEYS

_DEVICE_PATHS = ("/nvidia", "/dri", "/kfd", "/195:", "/226:")
_DEVICE_LIST = "-container-devices"


def why_sent(
    template: Mapping[str, Any], accelerators: Accelerators = BUILT_IN, *, nvidia_is_default_runtime: bool = False
) -> str:
    """Why the pods of this template are sent to the webhook when they are created; empty where they are not.

    Tolerations of pods of DaemonSets do not count. `accelerators` are the names of GPUs.
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


DAEMON_SETS = "/apis/apps/v1/daemonsets"
_NAMESPACES = "/api/v1/namespaces"
_NEEDS_A_RUNTIME_CLASS = "has(spec.runtimeClassName) && ("
"""What the condition about privileged containers begins with where NVIDIA's is not the default runtime."""


def look(installation: Installation) -> Iterator[DoctorFinding]:
    """Agents of nodes, such as device plugins, start without anybody's answer."""
    entries = [entry for entry in installation.entries if _is_depended_on(entry)]
    if not entries:
        yield ok("no pod depends on an answer of the webhook")
        return
    labels = {
        namespace["metadata"]["name"]: namespace["metadata"].get("labels") or {}
        for namespace in installation.cluster.items(_NAMESPACES)
    }
    accelerators = BUILT_IN
    with suppress(UnavailableError):  # what everybody knows is told without the policies, too
        accelerators = installation.sound_policies.accelerators
    count = 0
    for daemon_set in installation.cluster.items(DAEMON_SETS):
        namespace, name = daemon_set["metadata"]["namespace"], daemon_set["metadata"]["name"]
        why = _why(daemon_set, entries, labels.get(namespace, {}), accelerators)
        if why:
            count += 1
            yield warning(
                f"the pods of DaemonSet {namespace}/{name} are sent, since the pod {why}: on a new node they cannot "
                "start while no replica answers",
                "device plugins, exporters and other node agents in namespaces that are left out",
                f"where only the platform creates pods in {namespace}, add it to webhook.namespaceSelector.exclude of "
                "the chart; otherwise move the DaemonSet to a namespace of its own, and add that",
            )
    if not count:
        yield ok("no DaemonSet depends on an answer of the webhook")


def _is_depended_on(entry: Mapping[str, Any]) -> bool:
    """Whether pods cannot be created while no replica answers for this entry."""
    return entry.get("failurePolicy", "Fail") == "Fail" and any(
        not {"pods", "*", "*/*"}.isdisjoint(rule.get("resources") or ())
        and not {"CREATE", "*"}.isdisjoint(rule.get("operations") or ())
        for rule in entry.get("rules") or ()
    )


def _why(daemon_set: Object, entries: list[Object], labels: Mapping[str, str], accelerators: Accelerators) -> str:
    """Why pods of the DaemonSet are sent by one of the entries; empty where they are not."""
    template = (daemon_set.get("spec") or {}).get("template") or {}
    for entry in entries:
        if not selects(entry.get("namespaceSelector") or {}, labels):
            continue
        conditions = " ".join(one.get("expression", "") for one in entry.get("matchConditions") or ())
        if not conditions:
            return "is sent as all pods are, without matchConditions"
        is_default = _NEEDS_A_RUNTIME_CLASS not in " ".join(conditions.split())
        if why := why_sent(template, accelerators, nvidia_is_default_runtime=is_default):
            return why
    return ""
