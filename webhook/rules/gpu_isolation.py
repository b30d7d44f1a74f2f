"""Whether a pod may share GPUs with other pods, and which nodes do not suit it therefore.

Units of `nvidia.com/gpu` are told apart by the labels of nodes (`webhook/gpus/gpu_shares.py`). Only what labels say for
certain counts: nodes without labels about sharing, and nodes whose labels contradict each other, suit every pod.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal

from webhook.cuda.offer import offer_of
from webhook.gpus.gpu_names import GKE_ACCELERATOR
from webhook.gpus.gpu_shares import GPU, SHARED_GPU, GpuShare, Sharing, share_of
from webhook.gpus.gpu_table import GpuTable
from webhook.gpus.steering import Cause
from webhook.model.accelerators import SHARED_SUFFIX
from webhook.model.node import GPU_REPLICAS, GPU_SHARING, NodeClass
from webhook.model.pod import Container, Pod
from webhook.model.wording import few
from webhook.rules.candidates import anywhere, selected
from webhook.rules.rule import Facts, Violation
from webhook.rules.unsuited import Judged, SteeringSettings, Unsuited, steering

Isolation = Literal["any", "exclusive", "shared"]

_PROMISE = {
    "exclusive": "the policy keeps pods on GPUs and MIG slices of their own",
    "shared": "the policy keeps pods on shared GPUs and MIG slices",
}
_MOST_NAMED = 3
"""Resources that a remedy names."""
_WORDS = {Sharing.TIME_SLICING: "time-slicing", Sharing.MPS: "MPS"}


def judge_isolation(pod: Pod, isolation: Isolation, settings: SteeringSettings, facts: Facts) -> Judged | None:
    """The nodes whose units of nvidia.com/gpu are shared, or whole GPUs, where the pod must not have such a unit."""
    if isolation == "any" or not any(_asks(container) for container in pod.lasting_containers()):
        return None

    def judge(nodes: Sequence[NodeClass], are_candidates: tuple[bool, ...]) -> Judged:
        found = tuple([_unsuited(one, isolation, settings.gpus) for one in nodes])
        return Judged(nodes, found, are_candidates, settings.tables, anywhere=lambda: judge(*anywhere(pod, facts)))

    return judge(*selected(pod, facts))


def isolation_findings(pod: Pod, isolation: Isolation, settings: SteeringSettings, facts: Facts) -> Iterator[Violation]:
    """Refuse a pod if a node that it could run on has the wrong units: enforced rules keep pods off such nodes."""
    judged = judge_isolation(pod, isolation, settings, facts)
    if judged is None or not any(judged.of_candidates) or (pod.is_gated and not judged.is_none_left):
        return
    reasons = few(list(dict.fromkeys(one.reason for one in judged.of_candidates if one is not None)))
    for container in filter(_asks, pod.lasting_containers()):
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


def refused_shares(pod: Pod) -> Iterator[Violation]:
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
    """What to request instead of a share. What a name that a policy declares is a share of, nobody says."""
    if resource.endswith(SHARED_SUFFIX):
        return f"Request {resource.removesuffix(SHARED_SUFFIX)}"
    return "Request GPUs that no other pod uses, or ask the platform team which there are"


def _asks(container: Container) -> bool:
    return _units(container) > 0


def _units(container: Container) -> int:
    return sum([request.count for request in container.gpu_requests if request.resource == GPU])


def _unsuited(nodes: NodeClass, isolation: Isolation, table: GpuTable) -> Unsuited | None:
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
        return "Select nodes whose GPUs are not shared by nodeSelector, or tell the platform team"
    smaller = [
        name for name in sorted(facts.gpu_resources()) if name == SHARED_GPU or name.startswith("nvidia.com/mig-")
    ]
    return (
        f"Request {' or '.join(smaller[:_MOST_NAMED])}"
        if smaller
        else "Select nodes whose GPUs are shared, or tell the platform team"
    )
