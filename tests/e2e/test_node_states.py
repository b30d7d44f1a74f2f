"""The real scheduler on nodes that start, and on nodes that an autoscaler makes later: no pod is refused too early."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.gpu_nodes import TAINT, add_node, change, cuda_pod, labels, remove_node
from tests.e2e.installation import Installation

Namespaces = Callable[[str], str]
CUDA_13 = "pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime"
STARTING = {"key": "fsx.csi.aws.com/agent-not-ready", "effect": "NoExecute"}
OLD, NEW = labels("535.183.01", "Tesla-T4", "7.5"), labels("580.95.05", "NVIDIA-L4", "8.9")
KARPENTER = {"karpenter.sh/nodepool": "gpu", "karpenter.sh/initialized": "true"}
MODEL = "karpenter.k8s.aws/instance-gpu-name"


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane with a scheduler, whose nodes go after the test."""
    control_plane.start_scheduler()
    yield control_plane
    for name in ("old", "new"):
        remove_node(control_plane, name)


def _created(plane: ControlPlane, namespace: str) -> dict[str, Any]:
    """The pod as it is stored, once the webhook knows the nodes and keeps it off some."""
    path, pod = f"/api/v1/namespaces/{namespace}/pods", cuda_pod("p", CUDA_13)
    eventually(lambda: "affinity" in plane.raw("POST", f"{path}?dryRun=All", pod)[1].get("spec", {}))
    status, answer = plane.raw("POST", path, pod)
    assert status == 201, answer
    return answer


def _is_on(plane: ControlPlane, namespace: str, node: str) -> bool:
    return plane.raw("GET", f"/api/v1/namespaces/{namespace}/pods/p")[1]["spec"].get("nodeName") == node


def test_a_pod_waits_for_a_node_that_starts(
    plane: ControlPlane, webhook: Installation, make_namespace: Namespaces
) -> None:
    """The other node has a driver that is too old."""
    namespace = make_namespace("starting")
    add_node(plane, "old", OLD)
    add_node(plane, "new", NEW)
    change(plane, "new", {"spec": {"taints": [TAINT, STARTING]}})
    stored = _created(plane, namespace)
    assert "NotIn" in str(stored["spec"]["affinity"])
    assert "fsx" not in str(stored["spec"]["tolerations"])
    change(plane, "new", {"spec": {"taints": [TAINT]}})
    eventually(lambda: _is_on(plane, namespace, "new"))


def test_a_pod_waits_for_a_node_that_karpenter_makes(
    plane: ControlPlane, webhook: Installation, make_namespace: Namespaces
) -> None:
    """No node of today runs its image. It is kept off them by a label that Karpenter knows."""
    namespace = make_namespace("made")
    add_node(plane, "old", {**OLD, **KARPENTER, MODEL: "t4"})
    stored = _created(plane, namespace)
    assert MODEL in str(stored["spec"]["affinity"])
    add_node(plane, "new", {**NEW, **KARPENTER, MODEL: "l4"})
    eventually(lambda: _is_on(plane, namespace, "new"))
