"""The GPUs of a cluster by model, resource and driver: in the units that pods request, and in whole GPUs.

A unit is a GPU, or the part of one that it is by its name or by the labels of its node: a MIG slice, a partition, or a
share by time-slicing or MPS. Where labels are missing or contradict each other, a unit counts as a whole GPU.
"""

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from webhook.audit.node_kinds import newest_cuda, part_of_name
from webhook.audit.report import Capacity
from webhook.cuda.cuda_tables import SHIPPED, CudaTables
from webhook.cuda.offer import offer_of
from webhook.facts.nodes import Node
from webhook.facts.slice_index import SliceTable
from webhook.facts.snapshot import Snapshot
from webhook.gpus.gpu_catalogue import catalogue_of
from webhook.gpus.gpu_names import PRODUCT_KEYS
from webhook.gpus.gpu_shares import SHAREABLE, GpuShare, Sharing, number_in, share_of
from webhook.model.accelerators import BUILT_IN, SHARED_SUFFIX, Accelerators, Vendor
from webhook.quota.quotas import Counting


class _Row(NamedTuple):
    """What nodes have in common that are counted in one row. `part` is how much of a GPU one unit is, as numerator and
    denominator: rows are hashed for every node, and a Fraction takes long to hash.
    """

    model: str
    resource: str
    driver: str
    cuda: str
    unit: str = ""
    part: tuple[int, int] = (1, 1)


def capacity_of(
    cluster: Snapshot, accelerators: Accelerators = BUILT_IN, tables: CudaTables = SHIPPED
) -> tuple[Capacity, ...]:
    """The GPU nodes, with one row for each model, resource, driver and kind of unit, sorted by these.

    A node with several resources, such as slices of different sizes, is in the row of each. What it offers for claims
    has the name of the DeviceClass as its resource.
    """
    nodes: Counter[_Row] = Counter()
    units: Counter[_Row] = Counter()
    counting = Counting(catalogue_of(tables.gpus))
    for node in cluster.nodes.values():
        offered = Counter[_Row]()
        for row, count in (
            *_by_plugin(node, accelerators, tables, counting),
            *_for_claims(node, cluster.slices, counting),
        ):
            offered[row] += count
        nodes.update(offered.keys())
        units.update(offered)
    return tuple(
        Capacity(row.model, row.resource, nodes[row], units[row], row.driver, row.cuda, row.unit, Fraction(*row.part))
        for row in sorted(nodes)
    )


def _by_plugin(
    node: Node, accelerators: Accelerators, tables: CudaTables, counting: Counting
) -> Iterator[tuple[_Row, int]]:
    """What the device plugins of a node offer."""
    offer = offer_of(node.kind.labels, tables.gpus, node.kind.by_slices)
    driver, cuda = (str(version or "") for version in (offer.driver, newest_cuda(offer, tables)))
    for resource, count in node.capacity:
        gpu = accelerators.of(resource)
        vendor = gpu.vendor if gpu is not None else None
        if vendor is Vendor.NVIDIA:
            yield _Row(offer.product, resource, driver, cuda, *_unit(resource, node, offer.product, counting)), count
        else:
            label = PRODUCT_KEYS.get(vendor) if vendor is not None else None
            model = (node.label(label) or "") if label else ""
            yield _Row(model, resource, "", "", *_unit(resource, node, model, counting)), count


def _unit(resource: str, node: Node, model: str, counting: Counting) -> tuple[str, tuple[int, int]]:
    """What one unit of a resource is on a node, for people, and how much of a GPU."""
    if resource in SHAREABLE:
        share = share_of(node.kind.labels, counting.catalogue.table)
        return share.unit(resource), share.part(resource).as_integer_ratio()
    part = part_of_name(resource, model, counting)
    if not resource.startswith(_MIG):
        return "", part.as_integer_ratio()
    share = _shared_slice(resource.removesuffix(SHARED_SUFFIX), node, is_renamed=resource.endswith(SHARED_SUFFIX))
    return str(share), (part / share.replicas).as_integer_ratio()


_MIG = "nvidia.com/mig-"


def _shared_slice(resource: str, node: Node, *, is_renamed: bool) -> GpuShare:
    """A unit of a MIG resource in the strategy mixed, by the labels that GPU Feature Discovery writes for it."""
    text, strategy = (node.label(f"{resource}.{key}") or "" for key in ("replicas", "sharing-strategy"))
    number = number_in(text) or 1
    is_shared = is_renamed or (node.label(f"{resource}.product") or "").endswith("-SHARED")
    profile = resource.removeprefix(_MIG)
    if not is_shared or number < 2:
        return GpuShare(profile)
    return GpuShare(profile, 1, number, Sharing.MPS if strategy == Sharing.MPS else Sharing.TIME_SLICING, is_renamed)


def _for_claims(node: Node, slices: SliceTable | None, counting: Counting) -> Iterator[tuple[_Row, int]]:
    """What a node offers by ResourceSlices; without partitions, whose GPUs are listed as well."""
    for kind, count in slices.devices(node.name).kinds if slices is not None else ():
        if not kind.shares_counters or kind.type == "gpu":
            device_class = _DEVICE_CLASSES.get((kind.driver, kind.type), kind.driver)
            cuda = ".".join(kind.cuda_driver_version.split(".")[:2])
            slice_name = f"{_MIG}{kind.profile.replace('+', '.')}"
            part = part_of_name(slice_name, kind.product, counting) if kind.profile else Fraction(1)
            row = _Row(kind.product, device_class, kind.driver_version, cuda, kind.profile, part.as_integer_ratio())
            yield row, count


_DEVICE_CLASSES = {("gpu.nvidia.com", "mig"): "mig.nvidia.com", ("gpu.nvidia.com", "vfio"): "vfio.gpu.nvidia.com"}
"""Driver and type of devices -> their DeviceClass, where it is not called like the driver. Source: charts of NVIDIA's
k8s-dra-driver-gpu."""
