"""The real scheduler puts pods on nodes that suit the isolation of their namespace."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.gpu_nodes import add_node, cuda_pod, labels, remove_node
from tests.e2e.installation import Installation
from tests.e2e.objects import JUDGED
from tests.e2e.scheduler import decided_pods, wait_until_known

Namespaces = Callable[[str], str]
NODES = {
    "slices": ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "8.0", "1", "none"),
    "shares": ("Tesla-T4-SHARED", "7.5", "4", "time-slicing"),
    "mps": ("NVIDIA-L4-SHARED", "8.9", "4", "mps"),
    "whole": ("NVIDIA-H100-80GB-HBM3", "9.0", "1", "none"),
}
"""Product, compute capability, replicas and sharing strategy of each node; all have one driver and four units."""
ALLOWED = {"exclusive": {"slices", "whole"}, "shared": {"slices", "shares", "mps"}}
IMAGE = "registry.example.com/train:1"


@pytest.fixture(scope="module")
def site(installation: Installation) -> Iterator[Installation]:
    """The webhook, registered, which knows the nodes and a policy for each isolation, and a scheduler."""
    plane = installation.plane
    plane.start_scheduler()
    for isolation in ALLOWED:
        rules = f"{JUDGED}    sharedGpus: {{mode: enforce, isolation: {isolation}}}\n"
        installation.write_policy(isolation, f'spec:\n  namespaces: ["{isolation}-*"]\n  rules:\n{rules}')
    try:
        for name, (product, compute, replicas, strategy) in NODES.items():
            found = labels("580.95.05", product, compute)
            found |= {"nvidia.com/gpu.replicas": replicas, "nvidia.com/gpu.sharing-strategy": strategy}
            add_node(plane, name, found, gpus=4)
        wait_until_known(plane, NODES)
        installation.register()
        eventually(installation.is_asked)
        yield installation
        installation.unregister()
    finally:
        for name in NODES:
            remove_node(plane, name)


def answer(plane: ControlPlane, namespace: str, pod: dict[str, Any], query: str = "") -> tuple[int, dict[str, Any]]:
    """The status and the answer of the API server to a pod that is created."""
    return plane.raw("POST", f"/api/v1/namespaces/{namespace}/pods{query}", pod)


@pytest.mark.parametrize("isolation", ALLOWED)
def test_the_scheduler_puts_pods_on_nodes_that_suit_and_leaves_the_others_alone(
    site: Installation, make_namespace: Namespaces, isolation: str
) -> None:
    """One pod more than there are units that suit."""
    plane, namespace = site.plane, make_namespace(isolation)
    unsuited = NODES.keys() - ALLOWED[isolation]
    dry = "?dryRun=All"
    eventually(lambda: all(answer(plane, namespace, cuda_pod("p", IMAGE, at), dry)[0] == 403 for at in unsuited))
    count = 4 * len(ALLOWED[isolation])
    for number in range(count + 1):
        status, stored = answer(plane, namespace, cuda_pod(f"p{number}", IMAGE))
        assert status == 201, stored
        terms = stored["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (term,) = terms["nodeSelectorTerms"]
        assert {entry["operator"] for entry in term["matchExpressions"]} == {"NotIn"}
    path = f"/api/v1/namespaces/{namespace}/pods"
    placed = Counter(pod["spec"].get("nodeName") for pod in decided_pods(plane, namespace))
    assert placed == {**dict.fromkeys(ALLOWED[isolation], 4), None: 1}
    plane.raw("DELETE", f"{path}?gracePeriodSeconds=0")
    eventually(lambda: plane.raw("GET", path)[1]["items"] == [])
