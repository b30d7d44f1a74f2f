"""The GPU nodes of a cluster, grouped by what they offer to CUDA and how they share GPUs; `render_kinds` prints them.

`capacity_of` counts them for reports: by model, resource and driver, in the units that pods request and in whole GPUs.
A unit is a GPU, or a part of one by its name or by the labels of its node: a MIG slice, a partition, or a
share by time-slicing or MPS. Where labels are missing or contradict each other, a unit counts as a whole GPU.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from math import ceil

from rich.console import Console
from rich.table import Table
from rich.text import Text

from webhook.audit.report import Capacity
from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.offer import Offer, offer_of
from webhook.facts.facts import ClusterFacts
from webhook.facts.nodes import Node
from webhook.facts.slice_index import SliceTable
from webhook.facts.snapshot import Snapshot
from webhook.gpus.gpu_catalogue import catalogue_of
from webhook.gpus.gpu_names import NVIDIA_PRODUCT, PRODUCT_KEYS
from webhook.gpus.gpu_shares import GPU, SHAREABLE, SHARED_GPU, WHOLE_GPU, GpuShare, Sharing, number_in, share_of
from webhook.model.accelerators import BUILT_IN, SHARED_SUFFIX, Accelerators, Vendor
from webhook.model.node import NodePool
from webhook.model.pod_reader import pod_from_raw
from webhook.model.selectors import as_integer
from webhook.model.versions import Version
from webhook.model.wording import counted
from webhook.outcome import printable
from webhook.quota.amounts import weight
from webhook.quota.quotas import Counting

_FITS_EVERYWHERE = pod_from_raw({"spec": {"tolerations": [{"operator": "Exists"}]}})


@dataclass(frozen=True, slots=True)
class NodeKind:
    """Nodes with an equal offer and share. `count` is 0 for a declared pool without nodes.

    `gpus` is the sum over all nodes; the MIG slices and shares of a node count as the fewest GPUs that have so many.
    `share` says what one unit of a GPU resource is.
    """

    offer: Offer
    count: int
    gpus: int
    newest_cuda: Version | None = None
    """The newest CUDA that the driver runs, by the node's label or else by the driver's branch."""
    share: GpuShare = WHOLE_GPU

    @property
    def problems(self) -> tuple[str, ...]:
        return (*self.offer.problems, self.share.fault) if self.share.fault else self.offer.problems

    def to_json(self) -> dict[str, object]:
        """The kind for programs; unknown values are null. `share` is null for a whole GPU, and if labels contradict."""
        offer, share = self.offer, self.share
        unit = {
            "resource": SHARED_GPU if share.is_renamed else GPU,
            "profile": share.profile or None,
            "replicas": share.replicas,
            "sharing": share.sharing,
        }
        return {
            "product": offer.product or None,
            "driver": _spelled(offer.driver),
            "newestCuda": _spelled(self.newest_cuda),
            "computeCapability": _spelled(offer.compute),
            "arch": offer.arch or None,
            "count": self.count,
            "gpus": self.gpus,
            "share": unit if str(share) else None,
            "problems": list(self.problems),
        }

    def __str__(self) -> str:
        nodes = counted(self.count, "node") if self.count else "a pool"
        product = ", ".join(filter(None, (self.offer.product or "GPUs of an unknown kind", str(self.share))))
        return f"{nodes} with {product}, driver {_spelled(self.offer.driver) or 'unknown'}"


def newest_cuda(offer: Offer, tables: CudaTables = SHIPPED) -> Version | None:
    """The newest CUDA that nodes with this offer run, by the node's label or else by the driver's branch."""
    return offer.cuda or (tables.drivers.reported_by(offer.driver) if offer.driver is not None else None)


def node_kinds(
    nodes: Iterable[Node],
    pools: tuple[NodePool, ...] = (),
    accelerators: Accelerators = BUILT_IN,
    tables: CudaTables = SHIPPED,
) -> list[NodeKind]:
    """The kinds of the nodes with NVIDIA GPUs and of the pools, by product, driver and share."""
    found: dict[tuple[Offer, GpuShare], list[Node]] = {}
    pooled = ClusterFacts().with_pools(pools, accelerators).matching_nodes(_FITS_EVERYWHERE)
    for kind, alike in chain(((node.kind, [node]) for node in nodes), ((pool, []) for pool in pooled)):
        if accelerators.has_nvidia(kind.gpu_resources):
            # Nodes whose labels say that a unit is a GPU, and nodes that say nothing, are of one kind.
            share = replace(share_of(kind.labels, tables.gpus), is_known=True)
            found.setdefault((offer_of(kind.labels, tables.gpus, kind.by_slices), share), []).extend(alike)
    counting = Counting(catalogue_of(tables.gpus))
    kinds = [
        NodeKind(
            offer, len(alike), sum(_gpus(node, share, counting) for node in alike), newest_cuda(offer, tables), share
        )
        for (offer, share), alike in found.items()
    ]
    return sorted(kinds, key=_order)


def _order(kind: NodeKind) -> tuple[object, ...]:
    driver = kind.offer.driver
    return kind.offer.product, driver.parts if driver else (), str(kind.share), kind.share.fault


def _part_of_name(resource: str, product: str, counting: Counting) -> Fraction:
    models = counting.catalogue.table.models_in(product)
    return weight(resource, tuple(sorted(models)) or None, counting)


def _gpus(node: Node, share: GpuShare, counting: Counting) -> int:
    """The GPUs of one node: by the label that counts GPUs, or slices of GPUs, else by its capacity."""
    labelled = as_integer(node.label("nvidia.com/gpu.count"))
    if labelled is not None and labelled >= 0:
        return ceil(Fraction(labelled, share.slices))
    product = node.label(NVIDIA_PRODUCT) or ""
    return ceil(sum(count * _unit(name, node, product, counting)[1] for name, count in node.capacity))


def _spelled(version: object) -> str | None:
    return None if version is None else str(version)


def render_kinds(kinds: Iterable[NodeKind], console: Console) -> None:
    """Print kinds of nodes as a table, or lines at a narrow terminal, and labels that are unreadable or contradict."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("PRODUCT", "DRIVER", "NEWEST CUDA", "ARCH"):
        table.add_column(title, overflow="fold")
    for title in ("NODES", "GPUS"):
        table.add_column(title, justify="right")
    problems: dict[str, None] = {}
    for kind in kinds:
        offer = kind.offer
        known = (offer.product, offer.driver, kind.newest_cuda, offer.arch)
        product, *others = [printable(str(part or "-")) for part in known]
        named = f"{product}\n{kind.share}" if str(kind.share) else product
        table.add_row(*map(Text, (named, *others)), str(kind.count), str(kind.gpus))
        problems |= dict.fromkeys(kind.problems)
    if console.measure(table, options=console.options.update(width=10_000)).maximum <= console.width:
        console.print(table)
    else:
        for cells in zip(*(column.cells for column in table.columns), strict=True):
            told = ", ".join(f"{one.header} {cell}" for one, cell in zip(table.columns, cells, strict=True))
            console.print(Text(f"  {told}"), soft_wrap=True)
    for problem in problems:
        console.print(Text(printable(problem), style="yellow"), soft_wrap=True)


Row = tuple[str, str, str, str, str, Fraction]
"""What nodes in one row of a report have in common: model, resource, driver, CUDA, one unit, and its part of a GPU."""


def capacity_of(
    cluster: Snapshot, accelerators: Accelerators = BUILT_IN, tables: CudaTables = SHIPPED
) -> tuple[Capacity, ...]:
    """The GPU nodes, with one row for each model, resource, driver and kind of unit, sorted by these.

    A node with several resources, such as slices of different sizes, is in the row of each. What it offers for claims
    has the name of the DeviceClass as its resource.
    """
    nodes: Counter[Row] = Counter()
    units: Counter[Row] = Counter()
    counting = Counting(catalogue_of(tables.gpus))
    for node in cluster.nodes.values():
        offered = (*_by_plugin(node, accelerators, tables, counting), *_for_claims(node, cluster.slices, counting))
        nodes.update({row for row, _ in offered})
        for row, count in offered:
            units[row] += count
    return tuple(
        Capacity(model, resource, nodes[row], units[row], driver, cuda, unit, part)
        for row in sorted(nodes)
        for model, resource, driver, cuda, unit, part in [row]
    )


def _by_plugin(
    node: Node, accelerators: Accelerators, tables: CudaTables, counting: Counting
) -> Iterator[tuple[Row, int]]:
    offer = offer_of(node.kind.labels, tables.gpus, node.kind.by_slices)
    for resource, count in node.capacity:
        gpu = accelerators.of(resource)
        label = None if gpu is None else PRODUCT_KEYS.get(gpu.vendor)
        model, versions = (node.label(label) or "") if label else "", ("", "")
        if gpu is not None and gpu.vendor is Vendor.NVIDIA:
            model, versions = offer.product, (str(offer.driver or ""), str(newest_cuda(offer, tables) or ""))
        yield (model, resource, *versions, *_unit(resource, node, model, counting)), count


def _unit(resource: str, node: Node, model: str, counting: Counting) -> tuple[str, Fraction]:
    """What one unit of a resource is on a node, for people, and how much of a GPU."""
    if resource in SHAREABLE:
        share = share_of(node.kind.labels, counting.catalogue.table)
        return share.unit(resource), share.part(resource)
    part = _part_of_name(resource, model, counting)
    if not resource.startswith(_MIG):
        return "", part
    share = _shared_slice(resource.removesuffix(SHARED_SUFFIX), node, is_renamed=resource.endswith(SHARED_SUFFIX))
    return str(share), (part / share.replicas)


_MIG = "nvidia.com/mig-"


def _shared_slice(resource: str, node: Node, *, is_renamed: bool) -> GpuShare:
    """A unit of a MIG resource in the strategy mixed, by the labels that GPU Feature Discovery writes for it."""
    number = number_in(node.label(f"{resource}.replicas") or "") or 1
    is_shared = is_renamed or (node.label(f"{resource}.product") or "").endswith("-SHARED")
    profile = resource.removeprefix(_MIG)
    if not is_shared or number < 2:
        return GpuShare(profile)
    is_mps = node.label(f"{resource}.sharing-strategy") == Sharing.MPS
    return GpuShare(profile, 1, number, Sharing.MPS if is_mps else Sharing.TIME_SLICING, is_renamed)


def _for_claims(node: Node, slices: SliceTable | None, counting: Counting) -> Iterator[tuple[Row, int]]:
    """What a node offers by ResourceSlices; without partitions, whose GPUs are listed as well."""
    for kind, count in slices.devices(node.name).kinds if slices is not None else ():
        if not kind.shares_counters or kind.type == "gpu":
            device_class = _DEVICE_CLASSES.get((kind.driver, kind.type), kind.driver)
            cuda = ".".join(kind.cuda_driver_version.split(".")[:2])
            slice_name = f"{_MIG}{kind.profile.replace('+', '.')}"
            part = _part_of_name(slice_name, kind.product, counting) if kind.profile else Fraction(1)
            yield (kind.product, device_class, kind.driver_version, cuda, kind.profile, part), count


_DEVICE_CLASSES = {("gpu.nvidia.com", "mig"): "mig.nvidia.com", ("gpu.nvidia.com", "vfio"): "vfio.gpu.nvidia.com"}
"""Driver and type of devices -> their DeviceClass, where it is not called like the driver. Source: charts of NVIDIA's
k8s-dra-driver-gpu."""
