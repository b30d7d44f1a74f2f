"""No container uses a GPU that it did not request.

The rule looks at everything by which a container gets GPUs past the device plugin: the variable NVIDIA_VISIBLE_DEVICES,
device files, the container toolkit's list of devices, annotations for container runtimes, and privileges. It looks at
pods with GPUs as well, because one GPU is easily the key to all GPUs of the node.

In a pod that requests NVIDIA GPUs, a container without such gets `NVIDIA_VISIBLE_DEVICES=void`, unless it sets the
variable itself. So does one under the NVIDIA runtime with a claim that does not exist yet, or that others may replace
until the pod starts. Other pods get no `void`, nor do debug containers, to which nothing can be added. In mode `warn` a
`void` that would be added is only recorded, without a warning, because the author of the pod need not do anything.

A container that uses a claim which gives GPUs, or which nobody knows yet, asks for them as well; the CDI device of
NVIDIA's DRA driver sets the variable to `void`. Agents that see every GPU on purpose, such as exporters, belong into
`exempt`; where a finding looks like one of them, it says so.

In a pod that requests all GPUs of its node, side containers may see these GPUs (`wholeNodes`): a health check by
NVIDIA_VISIBLE_DEVICES=all, a GPUDirect daemon on GKE by its annotation. What an image is called makes no difference,
because anybody can choose its name. Privileged containers and device files are violations in such pods, too, because a
process that has them can outlive the pod, or reach more than GPUs.
"""

import re
from collections.abc import Callable, Iterator, Set
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated

from pydantic import Field

from webhook.model.accelerators import Vendor
from webhook.model.claims import CLAIM, TEMPLATE, claims_of
from webhook.model.container import EPHEMERAL, Container, Mount
from webhook.model.edits import AddEnv
from webhook.model.globs import glob_tester
from webhook.model.pod import Pod, Volume, changed
from webhook.model.workloads.controllers import INDEX, may_span_nodes
from webhook.rules.claimed_gpus import gpus_of_claim
from webhook.rules.device_access import (
    GKE_KEYS,
    VARIABLE,
    OwnGpus,
    Reaction,
    exposing_value,
    is_device_file,
    left_to_the_image,
    named_gpus,
    requesting_devices,
    requests_devices,
    requests_nvidia,
    set_elsewhere,
    sets_legacy,
    shown,
    shows_all,
)
from webhook.rules.names import NamespaceGlob, is_one_of
from webhook.rules.rule import Advice, Example, Facts, Rule, Violation, training_pod
from webhook.rules.rule_settings import InjectionSettings
from webhook.yaml_files.camel_model import CamelModel

_OTHERS = frozenset({Vendor.AMD, Vendor.INTEL})
_OF_GPUDIRECT = 8
"""GPUs of the machines with GPUDirect-TCPX and -TCPXO, which are a3-highgpu-8g and a3-megagpu-8g."""


_LONGEST_IMAGE, _VERSION = 512, re.compile(r"(:[^/:@]*)?(@.*)?$")
_AGENT = re.compile(r"dcgm|exporter|device-plugin|feature-discovery|monitor|node-agent|gpu-agent|kepler|telegraf")
"""In the last part of the name of an image: agents of nodes. It only decides what advice says."""
_IF_ON_PURPOSE = "If it sees every GPU on purpose, exempt its namespace or image (visibleDevices.exempt)"


class ExemptAgents(CamelModel):
    """Agents that see every GPU on purpose, such as device plugins and exporters."""

    namespaces: tuple[NamespaceGlob, ...] = ()
    """Globs of their namespaces."""
    images: tuple[Annotated[str, Field(min_length=1, max_length=512)], ...] = ()
    """Globs of their images as pods name them, with or without tag, such as `nvcr.io/nvidia/k8s/dcgm-exporter`. `*`
    takes no slash, and `**` does. Name a registry that tenants cannot write to: a container with such an image may use
    every GPU."""

    @cached_property
    def _testers(self) -> tuple[Callable[[str], object], ...]:
        return tuple([glob_tester(glob, in_parts=True) for glob in self.images])

    def holds(self, container: Container) -> bool:
        """Whether the image of a container is exempt."""
        image = container.image
        names = (image, _VERSION.sub("", image)) if len(image) <= _LONGEST_IMAGE else ()
        return any(test(name) for test in self._testers for name in names)


class Settings(InjectionSettings):
    """Settings of `visibleDevices`. If a reaction is `deny`, the rule's mode decides what happens to the pod."""

    runtime_classes: tuple[Annotated[str, Field(min_length=1)], ...] = ("nvidia", "nvidia-cdi", "nvidia-legacy")
    """Globs of names or handlers of the RuntimeClasses under which NVIDIA's container toolkit runs. There an
    environment variable of the pod or of its image decides which GPUs a container sees."""
    nvidia_is_default_runtime: bool = False
    """Whether the toolkit also runs for pods without runtimeClassName, as after `nvidia-ctk runtime configure
    --set-as-default`. Set webhook.nvidiaIsDefaultRuntime of the chart to the same value; otherwise such pods are not
    sent to the webhook."""
    privileged: Reaction = Reaction.DENY
    """What happens to privileged containers, debug containers included, in pods that request GPUs and in pods under the
    NVIDIA runtime, because they see every GPU of their node: `deny`, `warn` or `allow`."""
    device_files: Reaction = Reaction.DENY
    """What happens to volumes of GPU device files, or of the root directory of a driver that runs in a container:
    `deny`, `warn` or `allow`."""
    annotations: Reaction = Reaction.DENY
    """What happens to annotations that ask a container runtime or its plugins for devices, such as cdi.k8s.io/*:
    `deny`, `warn` or `allow`."""
    env_from: Reaction = Reaction.WARN
    """What happens to ConfigMaps and Secrets in envFrom that may set NVIDIA_VISIBLE_DEVICES, in containers with GPUs,
    and in containers under the NVIDIA runtime that do not set it in env: `deny`, `warn` or `allow`. The webhook cannot
    see what they hold."""
    debug_containers: Reaction = Reaction.DENY
    """What happens to debug containers under the NVIDIA runtime that leave NVIDIA_VISIBLE_DEVICES to their image:
    `deny`, `warn` or `allow`."""
    images: Reaction = Reaction.DENY
    """What happens to other containers under the NVIDIA runtime that leave NVIDIA_VISIBLE_DEVICES to their image and
    request no GPU, in pods that get no `void`: `deny`, `warn` or `allow`. With a CUDA image they see every GPU of their
    node, unless the toolkit accepts the variable from privileged containers only."""
    whole_nodes: Reaction = Reaction.ALLOW
    """What happens to NVIDIA_VISIBLE_DEVICES and devices.gke.io/* in pods that request all GPUs of every node that they
    could run on, so that no other pod uses these GPUs: `allow`, `warn`, or `deny`, which treats them as in other pods.
    Write `deny` if nodes with more GPUs may join that `nodePools` does not declare."""
    exempt: ExemptAgents = Field(default_factory=ExemptAgents)
    """What this rule leaves alone: `{namespaces: [monitoring], images: [nvcr.io/nvidia/k8s/dcgm-exporter]}`."""


def mutate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[AddEnv]:
    """Set `void` in the containers of an NVIDIA pod that request no GPU and do not set the variable."""
    has_gpus, has_claims = pod.requests_gpus_of(Vendor.NVIDIA), bool(pod.resource_claims or pod.requests_classes)
    if pod.has_passthrough or not (has_gpus or has_claims) or is_one_of(pod.namespace, settings.exempt.namespaces):
        return
    has_claims = has_claims and bool(_runtime(pod, settings, facts))
    claims = _gpu_claims(pod, facts, CLAIM) if has_claims else frozenset()
    for container in pod.lasting_containers():
        if container.sets_env(VARIABLE) or (settings.exempt.images and settings.exempt.holds(container)):
            continue
        if not _may_get_gpus(container):
            is_due = has_gpus
        else:  # its claim may be another one when the pod starts
            is_due = has_claims and _claims_gpus(container, claims) and not requests_nvidia(container)
        if is_due:
            yield AddEnv(container, VARIABLE, "void")


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation | Advice]:
    """Refuse everything by which a container uses GPUs that it does not request."""
    exempt = settings.exempt
    if is_one_of(pod.namespace, exempt.namespaces):
        return
    if exempt.images and any(map(exempt.holds, pod.containers)):
        pod = changed(pod, containers=tuple([one for one in pod.containers if not exempt.holds(one)]))
        if not pod.containers:
            return
    for one in _findings(pod, settings, facts):
        yield replace(one, remedy=_IF_ON_PURPOSE) if _is_agent(pod) else one


def _is_agent(pod: Pod) -> bool:
    """Whether a pod without GPUs looks like an agent of its node."""
    if pod.gpus or pod.resource_claims:
        return False
    return pod.owner_kind == "DaemonSet" or any(
        _AGENT.search(one.image.rpartition("/")[2]) or ("NVIDIA_DRIVER_CAPABILITIES", "utility") in one.env
        for one in pod.containers
    )


def _findings(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation | Advice]:
    runtime, own = _runtime(pod, settings, facts), OwnGpus(pod, settings.whole_nodes, facts)
    claims = _gpu_claims(pod, facts, CLAIM, TEMPLATE) if pod.resource_claims else frozenset()
    for volume in pod.volumes:
        if volume.host_path and is_device_file(volume.host_path):
            yield from _of_volume(volume, pod, settings)
    if pod.annotations:
        yield from _of_annotations(pod, settings, own)
    if pod.node_name:
        yield from _of_the_node(pod, facts)
    for container in pod.containers:
        by_claim = container.has_claims and _claims_gpus(container, claims)
        if (found := _exposing(container, by_claim=by_claim)) is not None:
            is_clear = shows_all(container) or not requests_nvidia(container)
            yield from own.applied_to([found]) if is_clear else [found]
        yield from (_of_a_mount(mount, container) for mount in filter(requests_devices, container.mounts))
        if container.is_privileged and (pod.gpus or runtime):
            yield from settings.privileged.applied_to(_privileged(pod, container, runtime))
        if container.env_from or (runtime and not requests_nvidia(container)):
            yield from own.applied_to(_of_what_is_not_said(pod, container, settings, runtime, claims, facts))


def _exposing(container: Container, *, by_claim: bool) -> Violation | None:
    """The violation of a container that sets the variable itself."""
    found = exposing_value(container)
    if found is None or not by_claim:
        return found
    return replace(found, found=f"{found.found}, which gets GPUs by a claim", remedy="Remove the variable")


def _gpu_claims(pod: Pod, facts: Facts, *kinds: str) -> Set[str]:
    """The claims of a pod, by their names in it, that nobody knows yet, and those of these kinds that give GPUs."""
    known = [(one, facts.claim(one, pod.namespace)) for one in claims_of(pod.resource_claims)]
    return {
        named.name
        for named, one in known
        if one is None or (named.kind in kinds and gpus_of_claim(one, pod.known, facts).most)
    }


def _claims_gpus(container: Container, claims: Set[str]) -> bool:
    """Whether a container gets GPUs by one of these claims of its pod, or by a device class that nobody knows."""
    return bool(container.unknown_classes) or any(one.name in claims for one in container.claims)


def _runtime(pod: Pod, settings: Settings, facts: Facts) -> str:
    """The NVIDIA runtime of the containers, in words; empty if they run under another one."""
    name = pod.runtime_class
    if not name:
        return "under the NVIDIA runtime, the default one here," if settings.nvidia_is_default_runtime else ""
    if name not in settings.runtime_classes:
        known = facts.runtime_class(name)
        names = (name,) if known is None else (name, known.handler)
        if not any(fnmatchcase(one, glob) for glob in settings.runtime_classes for one in names):
            return ""
    return f"under runtimeClassName {name}"


def _of_volume(volume: Volume, pod: Pod, settings: Settings) -> Iterator[Violation | Advice]:
    """The violation of a volume of device files."""
    whose, remedy = "no GPU", "Remove the volume, and request a GPU where the pod needs one"
    allowed = "GPU device files come with a GPU in resources.limits"
    if pod.gpus or pod.resource_claims:
        whose, remedy = "GPUs", "Remove the volume"
        allowed = "a container gets the device files of its own GPUs, and no others, without any volume"
    found = f"mounts {shown(volume.host_path)} in a pod that requests {whose}"
    yield from settings.device_files.applied_to(
        Violation(f"spec.volumes[{volume.name}].hostPath", found, allowed, remedy)
    )


def _of_annotations(pod: Pod, settings: Settings, own: OwnGpus) -> Iterator[Violation | Advice]:
    for key in requesting_devices(pod.annotations):
        is_of_gke = key.startswith(GKE_KEYS)
        if is_of_gke and own.are_all is None and _is_for_gpudirect(pod, named_gpus(pod.annotations[key])):
            continue
        violation = Violation(
            f"metadata.annotations[{key}]",
            f"is {shown(str(pod.annotations[key]))}, which asks the container runtime for devices",
            "GPUs come with a GPU in resources.limits",
            "Request all GPUs of the node, or remove the annotation"
            if is_of_gke and pod.gpus
            else "Remove the annotation, and request a GPU where the pod needs one",
        )
        found = settings.annotations.applied_to(violation)
        yield from own.applied_to(found) if is_of_gke else found


def _is_for_gpudirect(pod: Pod, named: int | None) -> bool:
    """Whether a pod, whose nodes are not known, requests a whole machine with GPUDirect and names no more GPUs."""
    return named is not None and named <= pod.gpu_count and pod.gpu_count >= _OF_GPUDIRECT


def _of_the_node(pod: Pod, facts: Facts) -> Iterator[Violation]:
    """The violation of a pod that names a node without its GPUs. Yields nothing if the node is not known.

    The kubelet of that node would start the containers without GPUs, and they would count as containers with GPUs. GPUs
    from DRA count as missing: no node lists them, and the scheduler, which makes a claim for them, is not asked.
    """
    if not pod.gpus or pod.has_started:
        return
    there = facts.matching_nodes(
        changed(pod, gpus={}, accelerators=(), node_selector={}, required=None, runtime_class=None)
    )
    listed = [gpu.resource for gpu in pod.accelerators if gpu.is_listed or gpu.by_dra]
    missing = next((name for name in listed if not any(name in node.gpu_resources for node in there)), None)
    if there and missing is not None:
        yield Violation(
            "spec.nodeName",
            f"names {shown(pod.node_name)}, which has no {shown(missing)}, and the pod requests it",
            "its kubelet would start the pod without them",
            "Remove nodeName, so that the scheduler finds a node that has them, or correct the resource name",
        )


def _of_a_mount(mount: Mount, container: Container) -> Violation:
    return Violation(
        f"{container.path}.volumeMounts[{mount.volume}]",
        f"mounts a volume at {shown(mount.path)}",
        "the container toolkit takes files there for a list of GPUs, which only the device plugin may write",
        "Request GPUs in resources.limits, and remove the mount",
    )


def _privileged(pod: Pod, container: Container, runtime: str) -> Violation:
    where = f"{container.path}.securityContext.privileged"
    has_gpus = pod.gpus or pod.resource_claims
    remedy = "Drop privileged" if has_gpus or not pod.runtime_class else "Drop privileged or runtimeClassName"
    if container.list_name == EPHEMERAL:
        remedy = "Use another --profile of kubectl debug, such as general"
    found = "in a pod that requests GPUs" if has_gpus else f"{runtime} and requests no GPU"
    return Violation(where, f"is privileged {found}", "such a container sees every GPU of its node", remedy)


def _of_what_is_not_said(  # noqa: PLR0913, PLR0917  # all that decides
    pod: Pod, container: Container, settings: Settings, runtime: str, claims: Set[str], facts: Facts
) -> Iterator[Violation | Advice]:
    """The violations of a container that leaves the variable to a ConfigMap, a Secret or its image.

    Without runtimeClassName and GPUs of NVIDIA only CUDA_VERSION counts: other pods are not sent, or on other nodes.
    The pods of a group, such as heads and launchers, are judged with their workload, if they may get onto GPU nodes.
    """
    is_sent = bool(pod.runtime_class or pod.resource_claims)
    is_sent = is_sent or any(gpu.vendor not in _OTHERS for gpu in pod.accelerators)
    is_of_a_group = bool(runtime) and INDEX not in pod.labels and may_span_nodes(pod)
    is_sent = is_sent or (is_of_a_group and any(node.gpu_resources for node in facts.matching_nodes(pod)))
    by_claim = container.has_claims and not sets_legacy(container) and _claims_gpus(container, claims)
    asks = by_claim or requests_nvidia(container)
    if not asks and (not runtime or _gets_void(pod, container)):
        return
    if is_sent and (elsewhere := set_elsewhere(container)) is not None:
        yield from settings.env_from.applied_to(elsewhere)
    if asks or (unsaid := left_to_the_image(container, runtime)) is None:
        return
    if sets_legacy(container):
        yield unsaid
    elif is_sent:
        is_debugger = container.list_name == EPHEMERAL
        yield from (settings.debug_containers if is_debugger else settings.images).applied_to(unsaid)


def _gets_void(pod: Pod, container: Container) -> bool:
    """Whether `mutate` sets the variable in the container."""
    if container.list_name == EPHEMERAL or not pod.requests_gpus_of(Vendor.NVIDIA) or pod.has_passthrough:
        return False
    return not _may_get_gpus(container)


def _may_get_gpus(container: Container) -> bool:
    """Whether the container requests a GPU that may be NVIDIA's, or what another component may turn into one."""
    for one in container.gpu_requests:  # faster than any()
        if one.count and one.accelerator.vendor not in _OTHERS:
            return True
    return container.has_claims or container.asks_gpu_attributes


def out_of_reach(settings: Settings) -> str:
    """Pods under NVIDIA's runtime that the API server does not send."""
    are_sent = not settings.nvidia_is_default_runtime and all("nvidia" in name for name in settings.runtime_classes)
    if are_sent or settings.images is settings.env_from is Reaction.ALLOW:
        return ""
    return (
        "images and envFrom cannot reach pods without GPUs and without a RuntimeClass that has nvidia in its name, as "
        "these are not sent. Set accept-nvidia-visible-devices-envvar-when-unprivileged = false in the toolkit's "
        "config.toml on all nodes; the device plugin then has to pass GPUs by CDI, or by volume-mounts with "
        "accept-nvidia-visible-devices-as-volume-mounts = true"
    )


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
_SIDECAR = """\
    - name: upload
      image: registry.example.com/upload:1
"""

RULE = Rule(
    key="visibleDevices",
    promise="No container uses a GPU that it did not request.",
    problem="A container that sets NVIDIA_VISIBLE_DEVICES to all, or whose image does, uses every GPU of its node, "
    "beside the containers that requested them, and no quota counts it.",
    examples=(Example(_WITHOUT_ASKING), Example(training_pod() + _SIDECAR)),
    settings=Settings,
    mutate=mutate,
    validate=validate,
    warns_of_injections=False,
    out_of_reach=out_of_reach,
)
