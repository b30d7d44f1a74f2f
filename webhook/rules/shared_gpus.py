"""A container requests at most one unit of a shared GPU, because more units do not give more compute. A policy can keep
pods off shared GPUs, or small work off whole GPUs.

Where NVIDIA's device plugin shares GPUs by time-slicing or MPS with `renameByDefault`, their resource is called
`nvidia.com/gpu.shared`, and that of shared MIG slices `nvidia.com/mig-1g.10gb.shared`. Without it, the labels of
nodes tell shared GPUs apart: those of GPU Feature Discovery, and of Google Kubernetes Engine. One unit is access to a
GPU that other containers use, too; two units do not promise twice the share. With `failRequestsGreaterThanOne` the
plugin refuses more than one unit after the pod is scheduled: it fails with `UnexpectedAdmissionError` and stays until
somebody deletes it.

More than one unit is refused where the labels of every node that the pod could run on say that the device plugin
refuses it: NVIDIA's does for MPS, unless its configuration sets `failRequestsGreaterThanOne: false`, and GKE's does for
time-sharing. For other time-slicing the setting cannot be seen from outside the node, so the pod gets a warning, unless
the policy knows (`failRequestsGreaterThanOne`). For a pod that waits in a queue or for a scheduling gate, all nodes are
taken into account, whatever their taints. Labels that are missing or contradict each other are no reason for either.

`isolation` says which units of `nvidia.com/gpu` the pods of a namespace may get: GPUs of their own (`exclusive`), or
shares and slices (`shared`). The labels of GPU Feature Discovery and of Google Kubernetes Engine tell units apart, also
without `renameByDefault`. A pod is kept off nodes with other units as long as nodes are left, and refused if none is. A
pod that requests a resource ending in `.shared` is refused by `exclusive`. A MIG slice is a GPU of one's own unless it
is shared, and it is also a place for small work: both settings allow it. Nodes without such labels, and nodes whose
labels contradict each other, stay eligible. GPUs by resource claims, GPUs of other vendors, and resources whose name
says a MIG profile but not that the slice is shared, are not judged.

Sources: README.md, api/config/v1/config.go and internal/rm/rm.go of NVIDIA/k8s-device-plugin;
pkg/gpu/nvidia/gpusharing of GoogleCloudPlatform/container-engine-accelerators, whose plugin allows several units of a
GPU that is shared by MPS on nodes with one GPU.
"""

from collections.abc import Iterator

from webhook.gpus.gpu_shares import GPU, Sharing, share_of
from webhook.model.accelerators import Share
from webhook.model.node import GKE_SHARING, NodeClass
from webhook.model.pod import Container, GpuRequest, Pod
from webhook.model.wording import few
from webhook.rules.candidates import candidates
from webhook.rules.gpu_isolation import Isolation, isolation_findings, judge_isolation, refused_shares
from webhook.rules.rule import Advice, Example, Facts, Rule, Stage, Violation, training_pod
from webhook.rules.unsuited import Judged, SteeringSettings


class Settings(SteeringSettings):
    """Settings of `sharedGpus`."""

    isolation: Isolation = "any"
    """Which units of `nvidia.com/gpu` pods may get, on nodes whose labels say what a unit is. `any`: all of them.
    `exclusive`: no GPU or MIG slice that other pods use at the same time, by time-slicing or MPS. `shared`: no whole
    GPU, but shares of GPUs and MIG slices."""
    fail_requests_greater_than_one: bool = False
    """Whether the configuration of NVIDIA's device plugin says the same for time-slicing, so that it refuses more than
    one unit of a shared GPU."""


def validate(pod: Pod, settings: Settings, facts: Facts) -> Iterator[Violation | Advice]:
    """Refuse more than one unit of a shared GPU in a container, and units that the isolation rules out."""
    for container in pod.lasting_containers():
        for request in container.gpu_requests:
            if request.count < 2 or settings.isolation == "exclusive":
                continue
            if request.accelerator.is_shared or (request.resource == GPU and facts.divides_gpus()):
                yield from _several(pod, container, request, settings, facts)
    if settings.isolation == "exclusive":
        yield from refused_shares(pod)
    if settings.isolation != "any":
        yield from isolation_findings(pod, settings.isolation, settings, facts)


def unsuited(pod: Pod, settings: Settings, facts: Facts) -> Judged | None:
    """The nodes whose units the pod must not get."""
    return judge_isolation(pod, settings.isolation, settings, facts)


def _several(
    pod: Pod, container: Container, request: GpuRequest, settings: Settings, facts: Facts
) -> Iterator[Violation | Advice]:
    """What is said of several units that are shares by their name, or on every node that the pod could run on."""
    nodes, where = candidates(pod, facts), f"{container.path}.resources"
    is_named = request.accelerator.is_shared
    found = f"requests {request.count} {request.resource}"
    other = "select nodes whose GPUs are not shared"
    if is_named:
        other = "a larger slice" if request.accelerator.share is Share.SLICE else "whole GPUs (nvidia.com/gpu)"
    elif not nodes or not all(share_of(one.labels).is_shared(GPU) for one in nodes):
        return
    else:
        shares = few(sorted({str(share_of(one.labels)) for one in nodes}))
        found += f", which are shares of a GPU on every node that it could run on ({shares})"
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
    """Whether the device plugin of nodes refuses more than one unit of a shared GPU, unless it is told otherwise."""
    expected = Sharing.TIME_SLICING if GKE_SHARING in nodes.labels else Sharing.MPS
    return share_of(nodes.labels).sharing is expected


RULE = Rule(
    key="sharedGpus",
    promise="A container requests at most one unit of a shared GPU, and shares GPUs only where the policy allows it.",
    problem="People request several shares of a GPU to get more of it, do not get more, or find that their pod failed "
    "on its node with UnexpectedAdmissionError.",
    examples=(
        Example(training_pod(resources="{limits: {nvidia.com/gpu.shared: 4}}"), {"failRequestsGreaterThanOne": True}),
        Example(training_pod("tolerations: [{key: nvidia.com/gpu, operator: Exists}]"), {"isolation": "shared"}),
    ),
    settings=Settings,
    validate=validate,
    unsuited=unsuited,
    stage=Stage.STEERING,
    depends_on_cluster_state=True,
    can_mutate=lambda settings: settings.isolation != "any",
    can_be_unsuited=lambda settings: settings.isolation != "any",
)
