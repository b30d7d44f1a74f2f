"""The GPU nodes of a cluster, grouped by what they offer to CUDA and how they share GPUs; `render_kinds` prints them.

Labels that cannot be read, or contradict each other, are problems of their kind.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from rich.console import Console
from rich.table import Table
from rich.text import Text

from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.offer import Offer, offer_of
from webhook.facts.facts import ClusterFacts
from webhook.facts.nodes import Node
from webhook.gpus.gpu_catalogue import catalogue_of
from webhook.gpus.gpu_names import NVIDIA_PRODUCT
from webhook.gpus.gpu_shares import GPU, SHAREABLE, SHARED_GPU, WHOLE_GPU, GpuShare, share_of
from webhook.model.accelerators import BUILT_IN, Accelerators, Vendor
from webhook.model.node import NodeClass, NodePool
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

    `gpus` is the sum of all nodes, where MIG slices and shares count by the GPUs that they are at least. `share` says
    what one unit of a GPU resource is.
    """

    offer: Offer
    count: int
    gpus: int
    newest_cuda: Version | None = None
    """The newest CUDA that the driver runs, by the node's label or else by the driver's branch."""
    share: GpuShare = WHOLE_GPU

    @property
    def problems(self) -> tuple[str, ...]:
        """The labels that could not be read, or contradict each other."""
        return (*self.offer.problems, self.share.fault) if self.share.fault else self.offer.problems

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
            "share": self._share_to_json(),
            "problems": list(self.problems),
        }

    def _share_to_json(self) -> dict[str, object] | None:
        """What one unit is; null for a whole GPU, and where labels contradict each other."""
        share = self.share
        if not str(share):
            return None
        return {
            "resource": SHARED_GPU if share.is_renamed else GPU,
            "profile": share.profile or None,
            "replicas": share.replicas,
            "sharing": share.sharing,
        }

    def __str__(self) -> str:
        """The nodes in words: how many, their GPU, its share and their driver."""
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
    for node in nodes:
        if _has_nvidia_gpus(node.kind, accelerators):
            offer = offer_of(node.kind.labels, tables.gpus, node.kind.by_slices)
            found.setdefault((offer, _share(node.kind, tables)), []).append(node)
    for pool in ClusterFacts().with_pools(pools, accelerators).matching_nodes(_FITS_EVERYWHERE):
        if _has_nvidia_gpus(pool, accelerators):
            found.setdefault((offer_of(pool.labels, tables.gpus), _share(pool, tables)), [])
    counting = Counting(catalogue_of(tables.gpus))
    kinds = [
        NodeKind(
            offer, len(alike), sum(_gpus(node, share, counting) for node in alike), newest_cuda(offer, tables), share
        )
        for (offer, share), alike in found.items()
    ]
    return sorted(kinds, key=_order)


def _share(nodes: NodeClass, tables: CudaTables) -> GpuShare:
    """What one unit is. Nodes whose labels say that it is a GPU, and nodes that say nothing, are of one kind."""
    return replace(share_of(nodes.labels, tables.gpus), is_known=True)


def _order(kind: NodeKind) -> tuple[object, ...]:
    driver = kind.offer.driver
    return kind.offer.product, driver.parts if driver else (), str(kind.share), kind.share.fault


def _has_nvidia_gpus(nodes: NodeClass, accelerators: Accelerators) -> bool:
    known = (accelerators.of(resource) for resource in nodes.gpu_resources)
    return any(gpu is not None and gpu.vendor is Vendor.NVIDIA for gpu in known)


def part_of_name(resource: str, product: str, counting: Counting) -> Fraction:
    """How much of a GPU of this product one unit is, by the name of its resource."""
    models = counting.catalogue.table.models_in(product)
    return weight(resource, tuple(sorted(models)) or None, counting)


def _gpus(node: Node, share: GpuShare, counting: Counting) -> int:
    """The GPUs of one node: by the label that counts GPUs, or slices of GPUs, else by its capacity."""
    labelled = as_integer(node.label("nvidia.com/gpu.count"))
    if labelled is not None and labelled >= 0:
        return ceil(Fraction(labelled, share.slices))
    product = node.label(NVIDIA_PRODUCT) or ""
    parts = {
        name: share.part(name) if name in SHAREABLE else part_of_name(name, product, counting)
        for name, _ in node.capacity
    }
    return ceil(sum(count * parts[name] for name, count in node.capacity))


def _spelled(version: object) -> str | None:
    return None if version is None else str(version)


def render_kinds(kinds: Iterable[NodeKind], console: Console) -> None:
    """Print the kinds of nodes as a table, and then the labels that could not be read or contradict each other."""
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
    console.print(table)
    for problem in problems:
        console.print(Text(printable(problem), style="yellow"), soft_wrap=True)
