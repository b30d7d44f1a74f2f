"""No container uses a GPU that it did not request.

The rule looks at everything by which a container gets GPUs past the device plugin: the variable NVIDIA_VISIBLE_DEVICES,
device files, the container toolkit's list of devices, annotations for container runtimes, and privileges; in pods with
GPUs as well, because one GPU is easily the key to all GPUs of the node.

In a pod that requests NVIDIA GPUs, containers without GPUs get `NVIDIA_VISIBLE_DEVICES=void`, unless they set it. So do
containers under the NVIDIA runtime with a claim that does not exist yet. Debug containers do not. A claim that gives
GPUs, or that nobody knows yet, counts as a request for them. Agents that see every GPU on purpose, such as exporters,
belong in `exempt`.

In a pod that requests all GPUs of its node, side containers may see them (`wholeNodes`). Privileged containers and
device files are violations there, too, because they can outlive the pod, or reach more than GPUs.
"""

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated

from pydantic import Field

from webhook.model.accelerators import Vendor
from webhook.model.claims import CLAIM, TEMPLATE, claims_of
from webhook.model.edits import AddEnv
from webhook.model.globs import matcher
from webhook.model.pod import EPHEMERAL, Container, Mount, Pod, Volume, changed
from webhook.model.shape import spelled
from webhook.model.workloads.controllers import INDEX, may_span_nodes
from webhook.rules.claimed_gpus import gpus_of_claim
from webhook.rules.device_access import (
    GKE_KEYS,
    VARIABLE,
    exposing_value,
    is_device_file,
    left_to_the_image,
    named_gpus,
    requesting_devices,
    requests_devices,
    requests_nvidia,
    set_elsewhere,
    sets_legacy,
)
from webhook.rules.names import NamespaceGlob, is_one_of
from webhook.rules.rule import Advice, Example, Facts, Rule, Violation
from webhook.rules.rule_settings import InjectionSettings
from webhook.yaml_files.camel_model import CamelModel

_OTHERS = frozenset({Vendor.AMD, Vendor.INTEL})
_OF_GPUDIRECT = 8
"""GPUs of the machines with GPUDirect-TCPX and -TCPXO, which are a3-highgpu-8g and a3-megagpu-8g."""
_LONGEST_SHOWN, _LONGEST_IMAGE, _VERSION = 80, 512, re.compile(r"(:[^/:@]*)?(@.*)?$")
_AGENT = re.compile(r"dcgm|exporter|device-plugin|feature-discovery|monitor|node-agent|gpu-agent|kepler|telegraf")
"""In the last part of the name of an image: agents of nodes. It only decides what advice says."""
_IF_ON_PURPOSE = "If it sees every GPU on purpose, exempt its namespace or image (visibleDevices.exempt)"


class Reaction(StrEnum):
    """What happens to a pod that does something which a platform may allow."""

    DENY = "deny"
    WARN = "warn"
    ALLOW = "allow"

    def applied_to(self, found: Violation | Advice) -> Iterator[Violation | Advice]:
        """The finding for `deny`, advice instead of it for `warn`, nothing for `allow`."""
        if self is Reaction.DENY or (self is Reaction.WARN and isinstance(found, Advice)):
            yield found
        elif self is Reaction.WARN and isinstance(found, Violation):
            yield Advice(found.where, found.message, found.remedy)


class ExemptAgents(CamelModel):
    """Agents that see every GPU on purpose, such as device plugins and exporters."""

    namespaces: tuple[NamespaceGlob, ...] = ()
    """Globs of their namespaces."""
    images: tuple[Annotated[str, Field(min_length=1, max_length=512)], ...] = ()
    """Globs of their images as pods name them, such as `nvcr.io/nvidia/k8s/dcgm-exporter`; `*` takes no slash, `**`
    does. Name a registry that tenants cannot write to."""

    def holds(self, container: Container) -> bool:
        """Whether the image of a container is exempt."""
        image = container.image
        names = (image, _VERSION.sub("", image)) if len(image) <= _LONGEST_IMAGE else ()
        return any(matcher(glob, in_parts=True).fullmatch(name) for glob in self.images for name in names)


class Settings(InjectionSettings):
    """Settings of `visibleDevices`. If a reaction is `deny`, the rule's mode decides what happens to the pod."""

    runtime_classes: tuple[Annotated[str, Field(min_length=1)], ...] = ("nvidia", "nvidia-cdi", "nvidia-legacy")
    """Globs of names or handlers of the RuntimeClasses of NVIDIA's container toolkit."""
    nvidia_is_default_runtime: bool = False
    """Whether the toolkit also runs for pods without runtimeClassName, as after `nvidia-ctk runtime configure
    --set-as-default`. Set webhook.nvidiaIsDefaultRuntime of the chart alike; otherwise such pods are not sent."""
    privileged: Reaction = Reaction.DENY
    """Privileged containers, debug containers included, in pods that request GPUs or are under the NVIDIA runtime."""
    device_files: Reaction = Reaction.DENY
    """Volumes of GPU device files, or of the root directory of a driver that runs in a container."""
    annotations: Reaction = Reaction.DENY
    """Annotations that ask a container runtime or its plugins for devices, such as cdi.k8s.io/*."""
    env_from: Reaction = Reaction.WARN
    """ConfigMaps and Secrets in envFrom that may set NVIDIA_VISIBLE_DEVICES, in containers with GPUs, and in others
    under the NVIDIA runtime that do not set it in env."""
    debug_containers: Reaction = Reaction.DENY
    """Debug containers under the NVIDIA runtime that leave NVIDIA_VISIBLE_DEVICES to their image."""
    images: Reaction = Reaction.DENY
    """Other containers under the NVIDIA runtime that leave NVIDIA_VISIBLE_DEVICES to their image and request no GPU.
    With a CUDA image they see every GPU, unless the toolkit takes the variable from privileged containers only."""
    whole_nodes: Reaction = Reaction.ALLOW
    """NVIDIA_VISIBLE_DEVICES and devices.gke.io/* in pods that request all GPUs of every node that they could run on.
    Write `deny` if nodes may join with more GPUs than `nodePools` declares."""
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
    judge = _Judge(pod, settings, facts)
    for one in judge.findings():
        yield replace(one, remedy=_IF_ON_PURPOSE) if judge.is_agent else one


class _Judge:
    """What the rule says of one pod. Facts are asked once, and only if they matter."""

    def __init__(self, pod: Pod, settings: Settings, facts: Facts) -> None:
        self.pod, self.settings, self.facts = pod, settings, facts
        self.runtime = _runtime(pod, settings, facts)
        self.claims = _gpu_claims(pod, facts, CLAIM, TEMPLATE) if pod.resource_claims else frozenset()

    @cached_property
    def is_agent(self) -> bool:
        """Whether a pod without GPUs looks like an agent of its node."""
        pod = self.pod
        if pod.gpus or pod.resource_claims:
            return False
        return pod.owner_kind == "DaemonSet" or any(
            _AGENT.search(one.image.rpartition("/")[2]) or ("NVIDIA_DRIVER_CAPABILITIES", "utility") in one.env
            for one in pod.containers
        )

    def findings(self) -> Iterator[Violation | Advice]:
        pod, settings = self.pod, self.settings
        for volume in pod.volumes:
            if volume.host_path and is_device_file(volume.host_path):
                yield from settings.device_files.applied_to(_of_volume(volume, pod))
        if pod.annotations:
            yield from self._of_annotations()
        if pod.node_name:
            yield from _of_the_node(pod, self.facts)
        for container in pod.containers:
            by_claim = container.has_claims and _claims_gpus(container, self.claims)
            if (found := exposing_value(container, by_claim=by_claim)) is not None:
                is_clear = dict(container.env).get(VARIABLE) == "all" or not requests_nvidia(container)
                yield from self._unless_own([found]) if is_clear else [found]
            yield from (_of_a_mount(mount, container) for mount in filter(requests_devices, container.mounts))
            if container.is_privileged and (pod.gpus or self.runtime):
                yield from settings.privileged.applied_to(_privileged(pod, container, self.runtime))
            if container.env_from or (self.runtime and not requests_nvidia(container)):
                yield from self._unless_own(self._of_what_is_not_said(container))

    @cached_property
    def owns_node(self) -> bool | None:
        """Whether the pod requests all GPUs of every node that it could run on; None if no such node is known.

        Every GPU resource of these nodes counts. False if a node has more of one than the pod requests, or an unknown
        amount, as in a node pool that does not declare it. False, too, for GPUs from a DRA driver.
        """
        pod, facts = self.pod, self.facts
        if self.settings.whole_nodes is Reaction.DENY or not pod.gpus or any(gpu.by_dra for gpu in pod.accelerators):
            return False
        nodes = facts.feasible_nodes(pod)
        if not nodes:
            return None
        if any(node.by_claim for node in nodes):
            return False
        names = frozenset().union(*(node.gpu_resources for node in nodes))
        amounts = {name: facts.largest(name, pod) for name in names}
        return all(most is not None and most <= pod.gpus.get(name, 0) for name, most in amounts.items())

    def _unless_own(self, found: Iterable[Violation | Advice]) -> Iterator[Violation | Advice]:
        """The findings about GPUs that a container sees, under `wholeNodes` if all of them are the pod's own."""
        for one in found:
            yield from self.settings.whole_nodes.applied_to(one) if self.owns_node else (one,)

    def _of_annotations(self) -> Iterator[Violation | Advice]:
        pod = self.pod
        for key in requesting_devices(pod.annotations):
            is_of_gke = key.startswith(GKE_KEYS)
            if is_of_gke and self.owns_node is None:  # a whole machine with GPUDirect, and the annotation names no more
                named = named_gpus(pod.annotations[key])
                if named is not None and named <= pod.gpu_count >= _OF_GPUDIRECT:
                    continue
            remedy = "Remove the annotation, and request a GPU where the pod needs one"
            if is_of_gke and pod.gpus:
                remedy = "Request all GPUs of the node, or remove the annotation"
            value = f"is {_shown(str(pod.annotations[key]))}, which asks the container runtime for devices"
            allowed = "GPUs come with a GPU in resources.limits"
            found = self.settings.annotations.applied_to(
                Violation(f"metadata.annotations[{key}]", value, allowed, remedy)
            )
            yield from self._unless_own(found) if is_of_gke else found

    def _of_what_is_not_said(self, container: Container) -> Iterator[Violation | Advice]:
        """The violations of a container that leaves the variable to a ConfigMap, a Secret or its image.

        In pods without runtimeClassName, claims and GPUs of NVIDIA only CUDA_VERSION counts: the API server does not
        send other such pods, or they run on other nodes. The pods of a group, such as heads and launchers, are judged
        with their workload, if they may get onto GPU nodes.
        """
        pod, settings = self.pod, self.settings
        is_sent = bool(pod.runtime_class or pod.resource_claims)
        is_sent = is_sent or any(gpu.vendor not in _OTHERS for gpu in pod.accelerators)
        is_of_a_group = bool(self.runtime) and INDEX not in pod.labels and may_span_nodes(pod)
        is_sent = is_sent or (is_of_a_group and any(node.gpu_resources for node in self.facts.matching_nodes(pod)))
        by_claim = container.has_claims and not sets_legacy(container) and _claims_gpus(container, self.claims)
        asks, is_debugger = by_claim or requests_nvidia(container), container.list_name == EPHEMERAL
        gets_void = not is_debugger and pod.requests_gpus_of(Vendor.NVIDIA) and not pod.has_passthrough
        if not asks and (not self.runtime or (gets_void and not _may_get_gpus(container))):
            return
        if is_sent and (elsewhere := set_elsewhere(container)) is not None:
            yield from settings.env_from.applied_to(elsewhere)
        if asks or (unsaid := left_to_the_image(container, self.runtime)) is None:
            return
        if sets_legacy(container):
            yield unsaid
        elif is_sent:
            yield from (settings.debug_containers if is_debugger else settings.images).applied_to(unsaid)


def _gpu_claims(pod: Pod, facts: Facts, *kinds: str) -> Set[str]:
    """The names of a pod's claims that nobody knows yet, and of its claims of these kinds that give GPUs."""
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


def _shown(path: str) -> str:
    """A path for messages: as it is, or cut and in quotes if it is long."""
    return path if len(path) <= _LONGEST_SHOWN and path.isprintable() else spelled(path)


def _of_volume(volume: Volume, pod: Pod) -> Violation:
    whose, remedy = "no GPU", "Remove the volume, and request a GPU where the pod needs one"
    allowed = "GPU device files come with a GPU in resources.limits"
    if pod.gpus or pod.resource_claims:
        whose, remedy = "GPUs", "Remove the volume"
        allowed = "a container gets the device files of its own GPUs, and no others, without any volume"
    found = f"mounts {_shown(volume.host_path)} in a pod that requests {whose}"
    return Violation(f"spec.volumes[{volume.name}].hostPath", found, allowed, remedy)


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
            f"names {_shown(pod.node_name)}, which has no {_shown(missing)}, and the pod requests it",
            "its kubelet would start the pod without it",
            "Remove nodeName, so that the scheduler finds a node that has it, or correct the resource name",
        )


def _of_a_mount(mount: Mount, container: Container) -> Violation:
    return Violation(
        f"{container.path}.volumeMounts[{mount.volume}]",
        f"mounts a volume at {_shown(mount.path)}",
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


def _may_get_gpus(container: Container) -> bool:
    """Whether the container requests a GPU that may be NVIDIA's, or what another component may turn into one."""
    may_be_nvidias = any(one.count and one.accelerator.vendor not in _OTHERS for one in container.gpu_requests)
    return may_be_nvidias or container.has_claims or container.asks_gpu_attributes


def out_of_reach(settings: Settings) -> str:
    """Pods under NVIDIA's runtime that the API server does not send."""
    are_sent = not settings.nvidia_is_default_runtime and all("nvidia" in name for name in settings.runtime_classes)
    if are_sent or settings.images is settings.env_from is Reaction.ALLOW:
        return ""
    return (
        "images and envFrom cannot reach pods without GPUs and without a RuntimeClass that has nvidia in its name, "
        "because the API server does not send them. Set accept-nvidia-visible-devices-envvar-when-unprivileged = false "
        "in the toolkit's config.toml on all nodes; the device plugin then has to pass GPUs by CDI, or by "
        "volume-mounts with accept-nvidia-visible-devices-as-volume-mounts = true"
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

RULE = Rule(
    key="visibleDevices",
    promise="No container uses a GPU that it did not request.",
    problem="A container that sets NVIDIA_VISIBLE_DEVICES to all, or whose image does, uses every GPU of its "
    "node, and no quota counts it.",
    example=Example(_WITHOUT_ASKING),
    settings=Settings,
    mutate=mutate,
    validate=validate,
    warns_of_injections=False,
    out_of_reach=out_of_reach,
)
