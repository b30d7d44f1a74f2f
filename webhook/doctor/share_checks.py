"""Nodes whose labels about shares of GPUs contradict each other, or their capacity.

Labels of GPU Feature Discovery say how many GPUs, or MIG slices, a node has and how many units share each; the device
plugin offers the units. Both read the same configuration, but at different times, and in some installations different
files. Only what can have no other reason is told:

- a resource that is 0 or missing says nothing, because device plugins restart;
- in the MIG strategy mixed, GPUs with MIG count and are not offered as nvidia.com/gpu, and `gpu.replicas` is 0 where
  all of them have MIG;
- of GPUs of several models, labels count one model, so a node may offer more whole GPUs than its labels count.

Sources: internal/lm/mig-strategy.go, internal/lm/resource.go and internal/rm/device_map.go of NVIDIA/k8s-device-plugin.
"""

from collections.abc import Iterator, Sequence

from webhook.doctor.doctor_report import DoctorFinding, warning
from webhook.facts.nodes import Node
from webhook.gpus.gpu_shares import GPU, LACKING_UNITS, SHARED_GPU, GpuShare, share_of
from webhook.gpus.gpu_table import GpuTable
from webhook.model.node import GPU_REPLICAS, MIG_STRATEGY
from webhook.model.selectors import as_integer
from webhook.model.wording import counted, few

_COUNT = "nvidia.com/gpu.count"
_RESTART = (
    "restart GPU Feature Discovery and the device plugin on these nodes (kubectl delete pods -A -l "
    "app=gpu-feature-discovery --field-selector spec.nodeName=NODE), and have both read one configuration"
)


def share_findings(nodes: Sequence[Node], table: GpuTable) -> Iterator[DoctorFinding]:
    """What labels of GPU nodes say about shares that cannot be true."""
    shares = [(node, share_of({**node.kind.labels, LACKING_UNITS: ""}, table)) for node in nodes]
    at_odds = [(node.name, share.fault) for node, share in shares if share.fault]
    if at_odds:
        yield warning(
            f"{_of(at_odds, nodes)} labels about shares that contradict each other, so that units count as whole GPUs: "
            f"{_named(at_odds)}",
            "labels as GPU Feature Discovery writes them for one configuration",
            f"remove labels that people wrote; where a product ends in MIG-INVALID, give all GPUs of the node the same "
            f"MIG slices; else {_RESTART}",
        )
    wrong = [(node.name, why) for node, share in shares if (why := _disagreement(node, share))]
    if wrong:
        yield warning(
            f"{_of(wrong, nodes)} another capacity than labels about GPUs and shares say: {_named(wrong)}",
            f"{_COUNT} times {GPU_REPLICAS} units, of the resource that the labels mean",
            _RESTART,
        )


def _of(found: Sequence[tuple[str, str]], nodes: Sequence[Node]) -> str:
    return f"{len(found)} of {counted(len(nodes), 'GPU node')} {'has' if len(found) == 1 else 'have'}"


def _named(found: Sequence[tuple[str, str]]) -> str:
    """A few of the nodes, and what is wrong with the first one."""
    return f"{few([name for name, _ in found])}; on {found[0][0]}, {found[0][1]}"


def _disagreement(node: Node, share: GpuShare) -> str:
    """How the capacity of a node contradicts its labels; empty where it does not for certain."""
    replicas = node.label(GPU_REPLICAS)
    if share.fault or replicas is None or replicas == "0":
        return ""
    offered = dict(node.capacity)
    other = GPU if share.is_renamed else SHARED_GPU
    own = SHARED_GPU if share.is_renamed else GPU
    if offered.get(other):
        units = f"units of {own} ({share})" if str(share) else f"whole units of {own}"
        return f"{other} is {offered[other]} in capacity, and labels mean {units}"
    count, found = as_integer(node.label(_COUNT)), offered.get(own)
    if not found or count is None or count < 1 or node.label(MIG_STRATEGY) == "mixed":
        return ""
    expected = count * share.replicas
    may_be_more = not share.profile and found % share.replicas == 0
    if found == expected or (found > expected and may_be_more):
        return ""
    meant = f"{_COUNT} is {count}"
    if share.replicas > 1:
        meant += f" and {GPU_REPLICAS} {share.replicas}, together {expected}"
    return f"{own} is {found} in capacity, and {meant}"
