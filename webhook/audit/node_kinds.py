"""The GPU nodes of a cluster, grouped by what they offer to CUDA.

`render_kinds` prints the groups. `capacity_of` counts the GPUs of a cluster by model, resource and driver.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

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
from webhook.gpus.gpu_names import PRODUCT_KEYS
from webhook.model.accelerators import BUILT_IN, Accelerators, Vendor
from webhook.model.node import NodeClass, NodePool
from webhook.model.pod_reader import pod_from_raw
from webhook.model.selectors import as_integer
from webhook.model.versions import Version
from webhook.model.wording import counted
from webhook.outcome import printable

_FITS_EVERYWHERE = pod_from_raw({"spec": {"tolerations": [{"operator": "Exists"}]}})


@dataclass(frozen=True, slots=True)
class NodeKind:
    """Nodes with an equal offer. `count` is 0 for a declared pool without nodes; `gpus` is the sum of all nodes."""

    offer: Offer
    count: int
    gpus: int
    newest_cuda: Version | None = None
    """The newest CUDA that the driver runs, by the node's label or else by the driver's branch."""

    def to_json(self) -> dict[str, object]:
        """The kind for programs; unknown values are null."""
        offer = self.offer
        return {
            "product": offer.product or None,
            "driver": _spelled(offer.driver),
            "newestCuda": _spelled(self.newest_cuda),
            "computeCapability": _spelled(offer.compute),
            "arch": offer.arch or None,
            "count": self.count,
            "gpus": self.gpus,
            "problems": list(offer.problems),
        }

    def __str__(self) -> str:
        """The nodes in words: how many, their GPU and their driver."""
        nodes = counted(self.count, "node") if self.count else "a pool"
        product = self.offer.product or "GPUs of an unknown kind"
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
    """The kinds of the nodes with NVIDIA GPUs and of the pools, by product and driver."""
    found: dict[Offer, list[Node]] = {}
    for node in nodes:
        if _has_nvidia_gpus(node.kind, accelerators):
            found.setdefault(offer_of(node.kind.labels, tables.gpus, node.kind.by_slices), []).append(node)
    for pool in ClusterFacts().with_pools(pools, accelerators).matching_nodes(_FITS_EVERYWHERE):
        if _has_nvidia_gpus(pool, accelerators):
            found.setdefault(offer_of(pool.labels, tables.gpus), [])
    kinds = [
        NodeKind(offer, len(alike), sum(map(_gpus, alike)), newest_cuda(offer, tables))
        for offer, alike in found.items()
    ]
    return sorted(kinds, key=lambda kind: (kind.offer.product, kind.offer.driver.parts if kind.offer.driver else ()))


def _has_nvidia_gpus(nodes: NodeClass, accelerators: Accelerators) -> bool:
    known = (accelerators.of(resource) for resource in nodes.gpu_resources)
    return any(gpu is not None and gpu.vendor is Vendor.NVIDIA for gpu in known)


def _gpus(node: Node) -> int:
    """The GPUs of one node: the physical ones where a label says how many, else its capacity."""
    labelled = as_integer(node.label("nvidia.com/gpu.count"))
    return node.gpus if labelled is None or labelled < 0 else labelled


def _spelled(version: object) -> str | None:
    return None if version is None else str(version)


def render_kinds(kinds: Iterable[NodeKind], console: Console) -> None:
    """Print the kinds of nodes as a table, and then the labels that could not be read."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("PRODUCT", "DRIVER", "NEWEST CUDA", "ARCH"):
        table.add_column(title, overflow="fold")
    for title in ("NODES", "GPUS"):
        table.add_column(title, justify="right")
    problems: dict[str, None] = {}
    for kind in kinds:
        offer = kind.offer
        known = (offer.product, offer.driver, kind.newest_cuda, offer.arch)
        table.add_row(*(Text(printable(str(part or "-"))) for part in known), str(kind.count), str(kind.gpus))
        problems |= dict.fromkeys(offer.problems)
    console.print(table)
    for problem in problems:
        console.print(Text(printable(problem), style="yellow"), soft_wrap=True)


_Kind = tuple[str, str, str, str]
"""Model, resource, driver, newest CUDA."""


def capacity_of(
    cluster: Snapshot, accelerators: Accelerators = BUILT_IN, tables: CudaTables = SHIPPED
) -> tuple[Capacity, ...]:
    """The GPU nodes, with one row for each model, resource and driver, sorted by these.

    A node with several resources, such as slices of different sizes, is in the row of each. What it offers for claims
    has the name of the DeviceClass as its resource.
    """
    counts: Counter[_Kind] = Counter()
    gpus: Counter[_Kind] = Counter()
    for node in cluster.nodes.values():
        offered = Counter[_Kind]()
        for kind, count in (*_kinds(node, accelerators, tables), *_for_claims(node, cluster.slices)):
            offered[kind] += count
        counts.update(offered.keys())
        gpus.update(offered)
    return tuple(
        Capacity(model, resource, nodes, gpus[model, resource, driver, cuda], driver, cuda)
        for (model, resource, driver, cuda), nodes in sorted(counts.items())
    )


def _for_claims(node: Node, slices: SliceTable | None) -> Iterator[tuple[_Kind, int]]:
    """What a node offers by ResourceSlices; without partitions, whose GPUs are listed as well."""
    for kind, count in slices.devices(node.name).kinds if slices is not None else ():
        if not kind.shares_counters or kind.type == "gpu":
            device_class = _DEVICE_CLASSES.get((kind.driver, kind.type), kind.driver)
            cuda = ".".join(kind.cuda_driver_version.split(".")[:2])
            yield (kind.product, device_class, kind.driver_version, cuda), count


_DEVICE_CLASSES = {("gpu.nvidia.com", "mig"): "mig.nvidia.com", ("gpu.nvidia.com", "vfio"): "vfio.gpu.nvidia.com"}
"""Driver and type of devices -> their DeviceClass, where it is not called like the driver. Source: charts of NVIDIA's
k8s-dra-driver-gpu."""


def _kinds(node: Node, accelerators: Accelerators, tables: CudaTables) -> Iterator[tuple[_Kind, int]]:
    offer = offer_of(node.kind.labels, tables.gpus, node.kind.by_slices)
    driver, cuda = (str(version or "") for version in (offer.driver, newest_cuda(offer, tables)))
    for resource, count in node.capacity:
        gpu = accelerators.of(resource)
        vendor = gpu.vendor if gpu is not None else None
        if vendor is Vendor.NVIDIA:
            yield (offer.product, resource, driver, cuda), count
        else:
            label = PRODUCT_KEYS.get(vendor) if vendor is not None else None
            yield ((node.label(label) or "") if label else "", resource, "", ""), count
