"""Quotas count shares of GPUs as the real scheduler hands them out: before a pod is on a node, and after."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.gpu_nodes import TAINT, add_node, change, remove_node
from tests.e2e.objects import gpu_pod
from tests.e2e.quota_fixtures import PATIENCE
from tests.e2e.quota_site import QuotaSite
from tests.gpus.discovered_labels import discovered

PRODUCT = "nvidia.com/gpu.product"
RESERVED = {"key": "reserved", "value": "for-others", "effect": "NoSchedule"}


NODES = {
    "shares-quarters": discovered("Tesla-T4-SHARED", 2, "4", "time-slicing"),
    "shares-halves": discovered("NVIDIA-L4-SHARED", 4, "2", "mps"),
    "shares-slices": discovered("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 8, "1", "none", "single"),
    "shares-whole": discovered("Tesla-T4", 8, "1", "none"),
}


class Sharers:
    """A namespace with a quota of 4 GPUs, in a cluster whose nodes share theirs, or not."""

    def __init__(self, quotas: QuotaSite, name: str) -> None:
        self.plane, self.name = quotas.plane, name
        self.pods = f"/api/v1/namespaces/{name}/pods"

    def create(self, name: str, units: int, **spec: Any) -> tuple[int, str]:
        raw = gpu_pod(name, units)
        raw["spec"] |= {"tolerations": [{"operator": "Equal", **TAINT}]} | spec
        status, answer = self.plane.raw("POST", f"{self.pods}?timeout={PATIENCE}s", raw)
        return status, str(answer.get("message", ""))

    def node_of(self, name: str) -> str:
        return str(self.plane.raw("GET", f"{self.pods}/{name}")[1]["spec"].get("nodeName", ""))

    def used(self) -> str:
        """What tenants are shown."""
        found = self.plane.raw("GET", f"/apis/gpupolicy.dev/v1alpha1/namespaces/{self.name}/gpuquotas")[1]
        return " ".join(one.get("status", {}).get("gpus", {}).get("used", "") for one in found.get("items", ()))


@pytest.fixture
def sharers(quotas: QuotaSite, cluster: ControlPlane, make_namespace: Callable[[str], str]) -> Iterator[Sharers]:
    with sharing(quotas, cluster, make_namespace("few")) as team:
        yield team


@contextmanager
def sharing(quotas: QuotaSite, cluster: ControlPlane, namespace: str) -> Iterator[Sharers]:
    """A namespace beside these nodes, which all replicas know."""
    cluster.start_scheduler()
    try:
        for name, found in NODES.items():
            add_node(cluster, name, found)
        change(cluster, "shares-whole", {"spec": {"taints": [TAINT, RESERVED]}})
        team = Sharers(quotas, namespace)
        probe = {"nodeSelector": {PRODUCT: "Tesla-T4-SHARED"}}
        eventually(lambda: all("4 1/4" in _refusal(team, probe) for _ in range(9)))  # every replica knows the nodes
        yield team
    finally:
        for name in NODES:
            remove_node(cluster, name)


def _refusal(team: Sharers, spec: dict[str, Any]) -> str:
    raw = gpu_pod("probe", 17)
    raw["spec"] |= spec
    return str(team.plane.raw("POST", f"{team.pods}?dryRun=All", raw)[1].get("message", ""))


@pytest.mark.parametrize(
    ("product", "units", "used"),
    [
        pytest.param("Tesla-T4-SHARED", 3, "3/4", id="time-slicing"),
        pytest.param("NVIDIA-L4-SHARED", 1, "1/2", id="MPS"),
        pytest.param("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 3, "3/7", id="slices"),
    ],
)
def test_a_pod_counts_the_part_that_it_has_on_the_nodes_it_selects(
    sharers: Sharers, product: str, units: int, used: str
) -> None:
    assert sharers.create("some", units, nodeSelector={PRODUCT: product}) == (201, "")
    eventually(lambda: sharers.used() == used)
    eventually(lambda: sharers.node_of("some"))
    assert NODES[sharers.node_of("some")][PRODUCT] == product
    eventually(lambda: sharers.used() == used)


def selecting(*products: str) -> dict[str, Any]:
    """The spec of a pod that may be on nodes with these products."""
    terms = [{"matchExpressions": [{"key": PRODUCT, "operator": "In", "values": list(products)}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


EITHER = selecting("Tesla-T4", "Tesla-T4-SHARED")


def test_a_pod_counts_a_whole_gpu_where_it_could_be_made_to_tolerate_the_node_that_has_one(sharers: Sharers) -> None:
    """`tests/lab/soak/test_shares.py` sees what it counts once it is on a node."""
    status, said = sharers.create("five", 5, **EITHER)
    assert status == 403
    assert "requests 5 GPUs" in said
    assert sharers.create("four", 4, **EITHER) == (201, "")
    assert sharers.create("more", 1, **EITHER)[0] == 403
    eventually(lambda: sharers.node_of("four") == "shares-quarters")


def test_a_pod_whose_tolerations_grow_has_counted_what_it_gets_then(sharers: Sharers) -> None:
    assert sharers.create("two", 2, **selecting("Tesla-T4")) == (201, "")
    eventually(lambda: sharers.used() == "2")
    more = {"spec": {"tolerations": [{"operator": "Equal", **one} for one in (TAINT, RESERVED)]}}
    raw = sharers.plane.raw("GET", f"{sharers.pods}/two")[1]
    more["spec"]["tolerations"] += raw["spec"]["tolerations"]
    assert sharers.plane.raw("PATCH", f"{sharers.pods}/two", more)[0] == 200
    eventually(lambda: sharers.node_of("two") == "shares-whole")
    eventually(lambda: sharers.used() == "2")
