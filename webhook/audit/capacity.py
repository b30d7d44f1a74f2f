"""The GPUs of a cluster by model, resource and driver, as the nodes tell of them."""

from collections import Counter
from collections.abc import Iterable, Iterator

from webhook.audit.node_kinds import newest_cuda
from webhook.audit.report import Capacity
from webhook.cuda.offer import offer_of
from webhook.facts.objects import Node
from webhook.model.accelerators import BUILT_IN, Accelerators, Vendor
from webhook.quota.models import AMD_PRODUCT, INTEL_PRODUCT

_PRODUCTS = {Vendor.AMD: AMD_PRODUCT, Vendor.INTEL: INTEL_PRODUCT}
"""Labels in which nodes name GPUs that know nothing of CUDA."""

_Kind = tuple[str, str, str, str]
"""Model, resource, driver, newest CUDA."""


def capacity_of(nodes: Iterable[Node], accelerators: Accelerators = BUILT_IN) -> tuple[Capacity, ...]:
    """The GPU nodes, those of one model, resource and driver in one row, sorted by these.

    A node with several resources, such as slices of different sizes, is in the row of each.
    """
    counts: Counter[_Kind] = Counter()
    gpus: Counter[_Kind] = Counter()
    for node in nodes:
        for kind, count in _kinds(node, accelerators):
            counts[kind] += 1
            gpus[kind] += count
    return tuple(
        Capacity(model, resource, nodes, gpus[model, resource, driver, cuda], driver, cuda)
        for (model, resource, driver, cuda), nodes in sorted(counts.items())
    )


def _kinds(node: Node, accelerators: Accelerators) -> Iterator[tuple[_Kind, int]]:
    offer = offer_of(node.kind.labels)
    driver, cuda = (str(version or "") for version in (offer.driver, newest_cuda(offer)))
    for resource, count in node.capacity:
        gpu = accelerators.of(resource)
        vendor = gpu.vendor if gpu is not None else None
        if vendor is Vendor.NVIDIA:
            yield (offer.product, resource, driver, cuda), count
        else:
            label = _PRODUCTS.get(vendor) if vendor is not None else None
            yield ((node.label(label) or "") if label else "", resource, "", ""), count
