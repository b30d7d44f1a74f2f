"""A container requests at most one unit of a shared GPU, because more units do not give more compute. A policy can keep
pods off shared GPUs, or small work off whole GPUs.

Shared GPUs and MIG slices are known by their resource (`nvidia.com/gpu.shared`) or by labels of GPU Feature Discovery
and of Google Kubernetes Engine. Labels that are missing or contradict each other decide nothing.

More than one unit is refused where the device plugin of every node that the pod could run on refuses it, after the pod
is scheduled (`UnexpectedAdmissionError`): NVIDIA's does for MPS, unless it is configured otherwise, and GKE's for
time-sharing. For other time-slicing the pod gets a warning, unless the policy knows the setting.

Under `isolation` a pod is kept off the nodes whose units it may not get, and refused if no others are left, or if it
requests a `.shared` resource under `exclusive`. GPUs by resource claims are not judged.
"""
# Sources: README.md, api/config/v1/config.go and internal/rm/rm.go of NVIDIA/k8s-device-plugin;
# pkg/gpu/nvidia/gpusharing of GoogleCloudPlatform/container-engine-accelerators, whose plugin allows several units of a
# GPU that is shared by MPS on nodes with one GPU.

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal

from webhook.cuda.offer import offer_of
from webhook.gpus.gpu_names import GKE_ACCELERATOR
from webhook.gpus.gpu_shares import GPU, SHARED_GPU, GpuShare, Sharing, share_of
from webhook.gpus.gpu_table import GpuTable
from webhook.gpus.steering import Cause
from webhook.model.accelerators import SHARED_SUFFIX, Share
from webhook.model.node import GKE_SHARING, GPU_REPLICAS, GPU_SHARING, NodeClass
from webhook.model.pod import Container, GpuRequest, Pod
from webhook.model.wording import few
from webhook.rules.candidates import anywhere, candidates, selected
from webhook.rules.rule import Advice, Example, Facts, Rule, Stage, Violation, training_pod
from webhook.rules.rule_settings import TableSettings
from webhook.rules.unsuited import Judged, Unsuited, steering

Isolation = Literal["any", "exclusive", "shared"]

_PROMISE = {
    "exclusive": "the policy keeps pods on GPUs and MIG slices of their own",
    "shared": "the policy keeps pods on shared GPUs and MIG slices",
}
_WORDS = {Sharing.TIME_SLICING: "time-slicing", Sharing.MPS: "MPS"}


class Settings(TableSettings):
    """Settings of `sharedGpus`."""

    isolation: Isolation = "any"
    """Which units of `nvidia.com/gpu` pods may get, on nodes whose labels say what a unit is. `any`: all. `exclusive`:
    none that other pods use at the same time, by time-slicing or MPS. `shared`: no whole GPU."""
    fail_requests_greater_than_one: bool = False
    """Whether NVIDIA's device plugin has this setting for time-slicing, so that it refuses more than one unit of a
    shared GPU."""


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation | Advice]:
    """Refuse more than one unit of a shared GPU in a container, and units that the isolation rules out."""
    for container in pod.lasting_containers():
        for request in container.gpu_requests:
            if request.count < 2 or settings.isolation == "exclusive":
                continue
            if request.accelerator.is_shared or (request.resource == GPU and facts.divides_gpus()):
                yield from _several(pod, container, request, settings, facts)
    if settings.isolation == "exclusive":
        yield from _refused_shares(pod)
    if settings.isolation != "any":
        yield from _isolation_findings(pod, settings, facts)


def unsuited(pod: Pod, settings: Settings, facts: Facts) -> Judged | None:
    """The nodes whose units of nvidia.com/gpu are shared, or whole GPUs, where the pod must not have such a unit."""
    isolation = settings.isolation
    if isolation == "any" or not any(map(_units, pod.lasting_containers())):
        return None

    def judge(nodes: Sequence[NodeClass], are_candidates: tuple[bool, ...]) -> Judged:
        found = tuple([_unsuited_by(one, isolation, settings.gpu_table) for one in nodes])
        return Judged(nodes, found, are_candidates, settings.tables, anywhere=lambda: judge(*anywhere(pod, facts)))

    return judge(*selected(pod, facts))


def _isolation_findings(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation]:
    """Refuse a pod if a node that it could run on has the wrong units: enforced rules keep pods off such nodes."""
    judged, isolation = unsuited(pod, settings, facts), settings.isolation
    if judged is None or not any(judged.of_candidates) or (pod.is_gated and not judged.is_none_left):
        return
    reasons = few(list(dict.fromkeys(one.reason for one in judged.of_candidates if one is not None)))
    for container in filter(_units, pod.lasting_containers()):
        where, request = f"{container.path}.resources", f"requests {_units(container)} {GPU}"
        if judged.is_none_left:
            unit = "a whole GPU" if isolation == "shared" else "a share of a GPU"
            found = f"{request}, and a unit is {unit} on every node that the pod could land on: {reasons}"
            remedy = _remedy(isolation, facts)
            yield Violation(where, found, _PROMISE[isolation], remedy, follows_nodes=True)
        else:
            why = " and no label separates them" if steering(judged).left else ""
            found = f"{request}, and some nodes that the pod could land on have other units{why}: {reasons}"
            mend = "Select other nodes by nodeSelector, or tell the platform team"
            yield Violation(where, found, _PROMISE[isolation], mend, follows_nodes=True, is_kept_off=True)


def _refused_shares(pod: Pod) -> Iterator[Violation]:
    """The violations of containers that request a share of a GPU although the pod must not share."""
    for container in pod.lasting_containers():
        for request in container.gpu_requests:
            if request.accelerator.is_shared and request.count:
                yield Violation(
                    f"{container.path}.resources",
                    f"requests {request.count} {request.resource}, which other pods use at the same time",
                    _PROMISE["exclusive"],
                    _whole(request.resource),
                )


def _whole(resource: str) -> str:
    """What to request instead of a share. Nobody says whose share a name is that a policy declares."""
    if resource.endswith(SHARED_SUFFIX):
        return f"Request {resource.removesuffix(SHARED_SUFFIX)}"
    return "Request GPUs that no other pod uses, or ask the platform team which there are"


def _units(container: Container) -> int:
    return sum([request.count for request in container.gpu_requests if request.resource == GPU])


def _unsuited_by(nodes: NodeClass, isolation: Isolation, table: GpuTable) -> Unsuited | None:
    share = share_of(nodes.labels, table)
    is_unsuited = share.is_shared(GPU) if isolation == "exclusive" else _is_whole(share, nodes)
    return _reason(offer_of(nodes.labels, table, nodes.by_slices).product, share, table) if is_unsuited else None


def _is_whole(share: GpuShare, nodes: NodeClass) -> bool:
    """Whether labels say for certain that a unit is a whole GPU.

    GPU Feature Discovery says how GPUs are shared on every node, and Google Kubernetes Engine on every node whose GPUs
    are shared or divided. A product alone, as people write it in a policy, leaves it open.
    """
    is_known = any(key in nodes.labels for key in (GPU_REPLICAS, GPU_SHARING, GKE_ACCELERATOR))
    return is_known and not (share.fault or share.profile) and share.sharing is Sharing.NONE


@lru_cache(maxsize=1024)
def _reason(product: str, share: GpuShare, table: GpuTable) -> Unsuited:
    name = table.short_name(product) if product else "a GPU of unknown model"
    if share.sharing is Sharing.NONE:
        return Unsuited(Cause.WHOLE, f"{name} is a whole GPU")
    of = f"{share.profile} of {name}" if share.profile else name
    return Unsuited(Cause.SHARED, f"{of} is shared by {_WORDS[share.sharing]}")


def _remedy(isolation: Isolation, facts: Facts) -> str:
    if isolation == "exclusive":
        return "Select by nodeSelector nodes whose GPUs are not shared, or tell the platform team"
    smaller = [
        name for name in sorted(facts.gpu_resources()) if name == SHARED_GPU or name.startswith("nvidia.com/mig-")
    ]
    return (
        f"Request {' or '.join(smaller[:3])}"
        if smaller
        else "Select nodes whose GPUs are shared, or tell the platform team"
    )


def _several(
    pod: Pod, container: Container, request: GpuRequest, settings: Settings, facts: Facts
) -> Iterator[Violation | Advice]:
    """What is said of several units that are shares by their name, or on every node that the pod could run on."""
    nodes, where = candidates(pod, facts), f"{container.path}.resources"
    shares = [share_of(one.labels, settings.gpu_table) for one in nodes]
    is_named = request.accelerator.is_shared
    found = f"requests {request.count} {request.resource}"
    other = "select nodes whose GPUs are not shared"
    if is_named:
        other = "a larger slice" if request.accelerator.share is Share.SLICE else "whole GPUs (nvidia.com/gpu)"
    elif not nodes or not all(share.is_shared(GPU) for share in shares):
        return
    else:
        names = few(sorted(set(map(str, shares))))
        found += f", which are shares of a GPU on every node that it could run on ({names})"
    remedy = "Request 1" if settings.isolation == "shared" else f"Request 1, or {other}"
    if settings.fail_requests_greater_than_one:
        allowed = "the device plugin refuses more than 1"
        yield Violation(where, found, allowed, remedy, follows_nodes=not is_named, softens_on_update=not is_named)
    elif nodes and all(map(_refuses_several, nodes)):
        is_of_gke = any(GKE_SHARING in one.labels for one in nodes)
        allowed = "the device plugin refuses more than 1"
        allowed += "" if is_of_gke else ", unless its failRequestsGreaterThanOne is false"
        yield Violation(where, found, allowed, remedy, follows_nodes=True, softens_on_update=True)
    else:
        doubt = ", and some device plugins refuse it" if is_named else ""
        found = f"{found}; more than 1 does not give more compute{doubt}"
        yield Advice(where, found, remedy, follows_nodes=not is_named)


def _refuses_several(nodes: NodeClass) -> bool:
    """Whether the nodes' device plugin refuses more than one unit of a shared GPU, unless configured otherwise."""
    expected = Sharing.TIME_SLICING if GKE_SHARING in nodes.labels else Sharing.MPS
    return share_of(nodes.labels).sharing is expected


RULE = Rule(
    key="sharedGpus",
    promise="A container requests at most one unit of a shared GPU, and shares GPUs only where the policy allows it.",
    problem="People request several shares of a GPU, and get no more of it, or a pod that failed with "
    "UnexpectedAdmissionError.",
    example=Example(
        training_pod(resources="{limits: {nvidia.com/gpu.shared: 4}}"), {"failRequestsGreaterThanOne": True}
    ),
    settings=Settings,
    validate=validate,
    unsuited=unsuited,
    stage=Stage.STEERING,
    depends_on_cluster_state=True,
    can_mutate=lambda settings: settings.isolation != "any",
    can_be_unsuited=lambda settings: settings.isolation != "any",
)
