"""The real scheduler: where it puts pods that the webhook steered, and whether it agrees on where pods could land."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.gpu_nodes import NODES, cuda_pod, present
from tests.e2e.installation import Installation
from tests.e2e.scheduler import decided_pods, wait_until_known

Namespaces = Callable[[str], str]


@pytest.fixture(scope="module")
def nodes(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane with a scheduler and the six nodes."""
    control_plane.start_scheduler()
    with present(control_plane):
        wait_until_known(control_plane, NODES)
        yield control_plane


def nodes_of_pods(plane: ControlPlane, namespace: str) -> dict[str, str | None]:
    """The node of each pod by the pod's name, after the scheduler has decided; the pods are deleted."""
    chosen = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in decided_pods(plane, namespace)}
    plane.raw("DELETE", f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
    return chosen


def create(plane: ControlPlane, namespace: str, manifest: dict[str, Any]) -> dict[str, Any]:
    """The pod as it was stored."""
    status, stored = plane.raw("POST", f"/api/v1/namespaces/{namespace}/pods", manifest)
    assert status == 201, stored
    return dict(stored)


def test_the_scheduler_fills_the_nodes_that_fit_and_leaves_the_others_alone(
    nodes: ControlPlane, webhook: Installation, make_namespace: Namespaces
) -> None:
    """Seventeen pods for sixteen GPUs on which the image runs, beside thirty-two on which it would fail."""
    probe, namespace = make_namespace("steered"), make_namespace("steered")
    image = "pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime"
    dry = f"/api/v1/namespaces/{probe}/pods?dryRun=All"
    unfit = ("v100", "t4", "a100", "l4")
    eventually(lambda: all(nodes.raw("POST", dry, cuda_pod("probe", image, at))[0] == 403 for at in unfit))
    for number in range(17):
        stored = create(nodes, namespace, cuda_pod(f"p{number}", image))
        terms = stored["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (term,) = terms["nodeSelectorTerms"]
        assert {entry["operator"] for entry in term["matchExpressions"]} == {"NotIn"}
    assert Counter(nodes_of_pods(nodes, namespace).values()) == {"h100": 8, "b200": 8, None: 1}
