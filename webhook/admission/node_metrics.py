"""Metrics of nodes with NVIDIA GPUs: how many have which GPU and driver, and how many a driver branch that has ended.

Labels of nodes say both, and every kubelet may write those of its node. So a bounded number of pairs have series of
their own. A scrape after a change of nodes takes a time that grows with the number of node classes, any other one looks
only at the pairs.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from webhook.admission.series import OTHER, Labels, ScrapedGauge
from webhook.cuda.cuda_tables import CudaTables
from webhook.cuda.offer import offer_of
from webhook.facts.snapshot import Snapshot
from webhook.model.accelerators import Vendor
from webhook.model.node import NodeClass

MOST_PAIRS = 100
"""Most pairs of a GPU and a driver with series of their own: those of the most nodes."""
UNKNOWN = "unknown"
"""The label of nodes that do not say their GPU, or their driver."""


class NodeCounts(NamedTuple):
    """Nodes with NVIDIA GPUs: by GPU and driver, and by driver branch."""

    by_pair: Mapping[Labels, int]
    by_branch: Mapping[int, int]


def show_nodes(
    registry: CollectorRegistry,
    snapshot: Callable[[], Snapshot | None],
    tables: Callable[[], CudaTables],
    now: Callable[[], float],
) -> None:
    """Show the nodes in the metrics, read at each scrape. `now` is the API server's clock, in seconds since 1970.

    There are no series until the cluster has been read, and none of a branch that has no known end.
    """

    def counted() -> NodeCounts:
        found = snapshot()
        return NodeCounts({}, {}) if found is None else count_nodes(found, tables())

    def ended() -> Mapping[Labels, float]:
        drivers, at = tables().drivers, now()
        return {(str(number),): count for number, count in counted().by_branch.items() if drivers.has_ended(number, at)}

    text = f"Nodes with NVIDIA GPUs, by GPU and driver; {OTHER} stands for all pairs without series of their own."
    ScrapedGauge("gpu_policy_nodes", text, ("product", "driver"), lambda: counted().by_pair, registry=registry)
    text = "Nodes with NVIDIA GPUs whose driver is of a branch that gets no more releases, by branch."
    ScrapedGauge("gpu_policy_nodes_of_ended_branch", text, ("branch",), ended, registry=registry)


@lru_cache(maxsize=1)  # anybody who may reach the port can scrape as often as they like
def count_nodes(snapshot: Snapshot, tables: CudaTables) -> NodeCounts:
    """Count the nodes with NVIDIA GPUs.

    Of more than MOST_PAIRS pairs the ones of the fewest nodes count together, under OTHER; equal ones go by their
    names, so that all replicas show the same. Branches that the tables lack are left out.
    """
    pairs: Counter[Labels] = Counter()
    branches: Counter[int] = Counter()
    for nodes in snapshot.table.classes(snapshot.table.everything):
        if _has_nvidia_gpus(nodes, snapshot):
            offer = offer_of(nodes.labels, tables.gpus, nodes.by_slices)
            pairs[offer.product or UNKNOWN, str(offer.driver or UNKNOWN)] += nodes.count
            if offer.driver is not None and tables.drivers.branch(offer.driver.major) is not None:
                branches[offer.driver.major] += nodes.count
    ranked = sorted(pairs.items(), key=lambda pair: (-pair[1], pair[0]))
    shown = dict(ranked[:MOST_PAIRS])
    if rest := ranked[MOST_PAIRS:]:
        shown[OTHER, OTHER] = sum(count for _, count in rest)
    return NodeCounts(shown, branches)


def _has_nvidia_gpus(nodes: NodeClass, snapshot: Snapshot) -> bool:
    known = (snapshot.accelerators.of(resource) for resource in nodes.gpu_resources)
    return nodes.by_slices is not None or any(gpu is not None and gpu.vendor is Vendor.NVIDIA for gpu in known)
