"""GPU nodes: whether drivers and shares are known, policies tolerate taints, and each GPU is offered once."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from webhook.cuda.offer import offer_of
from webhook.doctor.doctor_report import DoctorFinding, ok, skipped, warning
from webhook.doctor.installation import Installation, UnavailableError
from webhook.facts.live import SLICES, claim_paths
from webhook.facts.made_pools import faults_of, node_pool_from_raw
from webhook.facts.nodes import Node, node_from_raw
from webhook.facts.slice_index import SliceTable
from webhook.facts.snapshot import MAKING_KINDS
from webhook.gpus.gpu_shares import GPU, LACKING_UNITS, SHARED_GPU, GpuShare, share_of
from webhook.gpus.gpu_table import GPUS, GpuTable
from webhook.model.accelerators import BUILT_IN, Accelerators, Share, Vendor
from webhook.model.node import GPU_REPLICAS, MIG_STRATEGY, Taint, Toleration
from webhook.model.resource_slices import SliceDriver
from webhook.model.selectors import as_integer
from webhook.model.wording import counted, few
from webhook.rules.rule import ClassKind, ClassName
from webhook.rules.rule_settings import Mode
from webhook.rules.tolerations import Settings, TolerationSettings

DRIVERS: Mapping[str, Vendor] = {
    "gpu.nvidia.com": Vendor.NVIDIA,
    "gpu.amd.com": Vendor.AMD,
    "gpu.intel.com": Vendor.INTEL,
}
"""DRA drivers whose GPUs a device plugin can offer, too. NVIDIA's compute domains are no GPUs.

Source: the driver names in NVIDIA/k8s-dra-driver-gpu, ROCm/k8s-gpu-dra-driver and
intel/intel-resource-drivers-for-kubernetes.
"""

_OBJECTS_OF_A_PAGE = "100"


@dataclass(frozen=True, slots=True)
class _GpuNode:
    """A node whose device plugins offer GPUs, and the vendors. GPUs for virtual machines need no driver."""

    node: Node
    vendors: frozenset[Vendor]
    needs_driver: bool


def look(installation: Installation) -> Iterator[DoctorFinding]:
    """Drivers and shares of GPU nodes are known, GPU pods tolerate their taints, and no GPU is offered twice."""
    accelerators, table = BUILT_IN, GPUS
    with suppress(UnavailableError):  # without the policies the built-in names and GPUs count
        policies = installation.sound_policies
        accelerators, table = policies.accelerators, policies.cuda.tables.gpus
    with suppress(UnavailableError):
        pools = filter(None, map(node_pool_from_raw, _listed(installation, MAKING_KINDS["node_pools"][1:])))
        for fault in faults_of(dict(pools)):
            yield warning(fault, "requirements that a machine meets", "correct its template")
    nodes = [one for raw in installation.nodes if (one := _gpu_node(raw, accelerators)) is not None]
    if not nodes:
        yield ok("no node offers GPUs by a device plugin")
        return
    findings = [*_without_driver(nodes, installation), *share_findings([one.node for one in nodes], table)]
    findings += _offered_twice(nodes, installation)
    yield from findings
    repelling = list(_not_tolerated(nodes, installation))
    yield from repelling
    if not findings and not repelling:
        yield ok(f"{_counted(len(nodes))}: drivers and shares are known, taints are tolerated, no GPU is offered twice")


def _gpu_node(raw: Mapping[str, Any], accelerators: Accelerators) -> _GpuNode | None:
    node = node_from_raw(raw, accelerators)
    gpus = [gpu for name in node.kind.gpu_resources if (gpu := accelerators.of(name))] if node is not None else []
    if node is None or not gpus:
        return None
    needs_driver = any(gpu.vendor is Vendor.NVIDIA and gpu.share is not Share.PASSTHROUGH for gpu in gpus)
    return _GpuNode(node, frozenset(gpu.vendor for gpu in gpus), needs_driver)


def _without_driver(nodes: Sequence[_GpuNode], installation: Installation) -> Iterator[DoctorFinding]:
    """Nodes whose driver neither labels nor ResourceSlices say, so that cudaDriver cannot check it."""
    judged = [one.node for one in nodes if one.needs_driver]
    blind = [node.name for node in judged if offer_of(node.kind.labels).driver is None]
    if blind:
        with suppress(UnavailableError):  # `_offered_twice` says so
            slices = SliceTable.of(_listed(installation, claim_paths(SLICES)))
            blind = [name for name in blind if not (slices.driver(name) or SliceDriver()).driver]
    if blind:
        yield warning(
            f"{len(blind)} of {_counted(len(judged), 'with NVIDIA GPUs')} {'has' if len(blind) == 1 else 'have'} no "
            f"label with the driver's version, so cudaDriver does not know the driver there: {few(blind)}",
            "the label nvidia.com/cuda.driver-version.full, which GPU Feature Discovery writes",
            "install it with the GPU Operator, or by gfd.enabled=true of the device plugin's chart; where it is "
            "installed, kubectl get pods -A -l app=gpu-feature-discovery -o wide shows whether it runs on these nodes",
        )


def _not_tolerated(nodes: Sequence[_GpuNode], installation: Installation) -> Iterator[DoctorFinding]:
    repelled: dict[Taint, list[str]] = {}
    entries, of_classes = _tolerated(installation) if any(one.node.kind.taints for one in nodes) else ([], [])
    for one in nodes:
        kind = one.node.kind
        asked = [(entry, name) for entry in entries for name in kind.gpu_resources]
        added = [
            entry.toleration
            for entry, name in asked
            if not entry.resources or any(fnmatchcase(name, glob) for glob in entry.resources)
        ]
        for taint in kind.taints:
            if not any(toleration.tolerates(taint) for toleration in (*added, *of_classes)):
                repelled.setdefault(taint, []).append(one.node.name)
    for taint, names in sorted(repelled.items(), key=lambda item: (-len(item[1]), item[0])):
        value = f"operator: Equal, value: {taint.value!r}" if taint.value else "operator: Exists"
        yield warning(
            f"{len(names)} of {_counted(len(nodes))} {'has' if len(names) == 1 else 'have'} the taint "
            f"{taint.key}{taint.value and '=' + taint.value}:{taint.effect}, which no policy tolerates: {few(names)}",
            "a policy whose rule tolerations adds a toleration for it",
            f"add {{key: {taint.key}, {value}, effect: {taint.effect}}} to rules.tolerations.add of a policy; nothing "
            "to do where only pods that bring the toleration belong there",
        )


def _tolerated(installation: Installation) -> tuple[list[TolerationSettings], list[Toleration]]:
    """The tolerations that GPU pods get: from policies, and from the RuntimeClasses that policies set."""
    entries: list[TolerationSettings] = []
    classes: set[str] = set()
    for policy in installation.sound_policies.policies:
        for bound in policy.rules:
            if bound.mode is Mode.ENFORCE and isinstance(bound.settings, Settings):
                entries += bound.settings.add
            if bound.mode is Mode.ENFORCE:
                named = bound.rule.references(bound.settings)
                classes.update(
                    one.name for one in named if isinstance(one, ClassName) and one.kind is ClassKind.RUNTIME
                )
    found = [installation.facts.runtime_class(name) for name in sorted(classes)]
    return entries, [toleration for one in found if one is not None for toleration in one.tolerations]


def _offered_twice(nodes: Sequence[_GpuNode], installation: Installation) -> Iterator[DoctorFinding]:
    """Nodes on which both a DRA driver and a device plugin offer GPUs of one vendor.

    Neither knows which GPUs the other has allocated (source: NVIDIA/aicr#332; NVIDIA/gpu-operator#1541 refuses both).
    """
    offering = {one.node.name: one.vendors for one in nodes if one.node.gpus}
    try:
        slices = _listed(installation, claim_paths(SLICES))
        found = {
            str(spec.get("nodeName")): str(spec.get("driver"))
            for spec in (one.get("spec") or {} for one in slices)
            if spec.get("devices") and DRIVERS.get(spec.get("driver", "")) in offering.get(spec.get("nodeName", ""), ())
        }
    except UnavailableError as error:
        yield skipped(f"it is not known whether GPUs are offered twice: {error}", error.remedy)
        return
    if found:
        verb = "offers" if len(found) == 1 else "offer"
        yield warning(
            f"{len(found)} of {_counted(len(nodes))} {verb} GPUs by a device plugin "
            f"and by ResourceSlices of {few(sorted(set(found.values())))}, so that one GPU can be given to two pods: "
            f"{few(sorted(found))}",
            "either the device plugin or the DRA driver on each node",
            "turn off the device plugin there (devicePlugin.enabled=false of the GPU Operator), or the GPUs of the "
            "DRA driver (resources.gpus.enabled=false of NVIDIA's)",
        )


def _listed(installation: Installation, paths: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """The objects at the first path that the API server has; empty where it has none."""
    for path in paths:
        if installation.cluster.find(path, {"limit": "1"}) is not None:
            return installation.cluster.items(path, {"limit": _OBJECTS_OF_A_PAGE})
    return iter(())


def _counted(count: int, more: str = "") -> str:
    """`8 GPU nodes`, or `8 nodes with NVIDIA GPUs`."""
    return f"{counted(count, 'node')} {more}" if more else counted(count, "GPU node")


# Shares.

_COUNT = "nvidia.com/gpu.count"
_RESTART = (
    "restart GPU Feature Discovery and the device plugin on these nodes (kubectl delete pods -A -l "
    "app=gpu-feature-discovery --field-selector spec.nodeName=NODE), and have both read one configuration"
)


def share_findings(nodes: Sequence[Node], table: GpuTable) -> Iterator[DoctorFinding]:
    """Nodes whose labels about shares of GPUs contradict each other, or their capacity.

    Labels of GPU Feature Discovery say how many GPUs, or MIG slices, a node has and how many units share each; the
    device plugin offers the units. Both read the same configuration, but at different times, and in some installations
    different files. Only what can have no other reason is reported:

    - a resource that is 0 or missing says nothing, because device plugins restart;
    - in the MIG strategy mixed, GPUs with MIG count and are not offered as nvidia.com/gpu, and `gpu.replicas` is 0
      where all of them have MIG;
    - of GPUs of several models, labels count one model, so a node may offer more whole GPUs than its labels count.

    Sources: internal/lm/mig-strategy.go, internal/lm/resource.go and internal/rm/device_map.go of
    NVIDIA/k8s-device-plugin.
    """
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
