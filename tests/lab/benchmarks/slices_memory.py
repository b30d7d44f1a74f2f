"""Memory of what a replica knows of dynamic resource allocation: 5,000 ResourceSlices and 100,000 claims.

    python -m tests.lab.benchmarks.slices_memory

Each is counted by Python's allocator once everything that was read is gone. What is kept has to be all of it, and the
largest number of GPUs of a node has to be known.
"""

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sized
from typing import Any
from uuid import UUID

from tests.lab.benchmarks.runs import demand, head, row, sized
from webhook.facts.claim_index import MOST_IN_NAMESPACE, ClaimTable
from webhook.facts.gpu_pods import stored_claim
from webhook.facts.pod_cache import PodCache
from webhook.facts.slice_index import SliceTable
from webhook.model.claims import CLAIM, CLAIM_NAME

Raw = dict[str, Any]

SLICES, CLAIMS = sized(5_000, 50), sized(100_000, 500)
DRIVER = "gpu.nvidia.com"
PRODUCTS = (("NVIDIA H100 80GB HBM3", "80Gi", "9.0.0"), ("Tesla T4", "15Gi", "7.5.0"), ("NVIDIA L40S", "45Gi", "8.9.0"))


def main() -> None:
    """Print what the slices and the claims take."""
    head("", "kept", "MiB", "bytes each")
    for name, count, table in (
        (f"{SLICES:,} slices of 8 GPUs, one for each node", SLICES, lambda: SliceTable.of(map(gpus, range(SLICES)))),
        (f"{SLICES:,} slices that differ in every device", SLICES, lambda: SliceTable.of(map(unlike, range(SLICES)))),
        (f"{CLAIMS:,} claims, alike", CLAIMS, lambda: ClaimTable.of(CLAIM, claims())),
        (f"{CLAIMS:,} claims as quotas count them, made for pods", CLAIMS, counted_claims),
    ):
        found, taken = measured(table)
        is_known = found.most(DRIVER, "gpu") == 8 if isinstance(found, SliceTable) else True
        demand(len(found) == count and is_known, f"{name}: {len(found)} are kept, the largest number is {is_known}")
        row(name, f"{len(found):,}", f"{taken / 2**20:.1f}", f"{taken / count:,.0f}")


def measured(table: Callable[[], Sized]) -> tuple[Sized, int]:
    """A table, and the bytes that it takes."""
    gc.collect()
    tracemalloc.start()
    found = table()
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return found, taken


class CountedClaims:
    """The claims that a replica with quotas follows."""

    def __init__(self) -> None:
        self._cache = PodCache(time.time, time.monotonic, stored_claim)
        self._cache.replace(made_for_pods())

    def __len__(self) -> int:
        return len(self._cache.seen())


def counted_claims() -> CountedClaims:
    """The claims of a cluster, each made for a pod of its own."""
    return CountedClaims()


def made_for_pods() -> Iterator[Raw]:
    """Claims as Kubernetes makes them from templates."""
    for number, raw in enumerate(claims()):
        owner = {"apiVersion": "v1", "kind": "Pod", "uid": str(UUID(int=CLAIMS + number)), "controller": True}
        made = {"uid": str(UUID(int=number)), "ownerReferences": [owner], "annotations": {CLAIM_NAME: "gpus"}}
        yield {**raw, "metadata": {**raw["metadata"], **made}}


def gpus(number: int) -> Raw:
    """The slice of a node with eight GPUs of one of three products."""
    product, memory, compute = PRODUCTS[number % len(PRODUCTS)]
    return _slice(number, [_device(place, product, memory, compute, "580.65.6") for place in range(8)])


def unlike(number: int) -> Raw:
    """A slice as a driver would write it that wants to fill memory: no device is like another anywhere."""
    names = (f"{number:05d}-{place}-".ljust(64, "x") for place in range(8))
    return _slice(number, [_device(place, name, f"{number}Mi", "9.0.0", name) for place, name in enumerate(names)])


def _device(place: int, product: str, memory: str, compute: str, driver: str) -> Raw:
    said = {"driverVersion": driver, "cudaDriverVersion": "13.0.0", "cudaComputeCapability": compute}
    versions = {key: {"version": value} for key, value in said.items()}
    texts = {"type": "gpu", "productName": product, "uuid": f"GPU-{place}", "brand": "Nvidia", "architecture": "Hopper"}
    attributes = {key: {"string": value} for key, value in texts.items()}
    return {"name": f"gpu-{place}", "attributes": attributes | versions, "capacity": {"memory": {"value": memory}}}


def _slice(number: int, devices: list[Raw]) -> Raw:
    node = f"gpu-node-{number:05d}.eu-central-1.compute.internal"
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return {"metadata": {"name": f"{node}-{DRIVER}-{number:05x}"}, "spec": spec}


def claims() -> Iterator[Raw]:
    """Claims of full namespaces, as Kubernetes makes them of templates for one GPU."""
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 1}}
    for number in range(CLAIMS):
        metadata = {
            "name": f"trainer-{number:06d}-gpu-{number:05x}",
            "namespace": f"team-{number // MOST_IN_NAMESPACE}",
        }
        yield {"metadata": metadata, "spec": {"devices": {"requests": [request]}}}


if __name__ == "__main__":
    main()
