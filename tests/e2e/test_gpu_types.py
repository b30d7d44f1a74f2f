"""The real scheduler puts pods on GPUs that their namespace may use, and that have the memory they ask for."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.gpu_nodes import change, cuda_pod, present
from tests.e2e.installation import Installation
from tests.e2e.scheduler import decided_pods, wait_until_known

Namespaces = Callable[[str], str]

MEMORY = {"v100": "32768", "t4": "15360", "a100": "9728", "l4": "23034", "h100": "81559", "b200": "183359"}
POLICY = """\
apiVersion: gpupolicy.dev/v1alpha1
kind: GPUPolicy
metadata: {name: small}
spec:
  namespaces: ["small-*"]
  rules: {gpuTypes: {allowed: [T4, L4], prefer: [L4]}}
"""


@pytest.fixture(scope="module")
def nodes(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane with a scheduler and the six nodes, which say their memory, and how many pods share a T4."""
    control_plane.start_scheduler()
    with present(control_plane):
        for name, memory in MEMORY.items():
            change(control_plane, name, {"metadata": {"labels": {"nvidia.com/gpu.memory": memory}}})
        shared = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
        change(control_plane, "t4", {"metadata": {"labels": shared}})
        wait_until_known(control_plane, MEMORY)
        yield control_plane


def asking(name: str, memory: str = "", **spec: Any) -> dict[str, Any]:
    """A pod with one GPU, of so much memory."""
    pod = cuda_pod(name, "busybox:1.36", **spec)
    return pod | {"metadata": {"name": name, "annotations": {"gpupolicy.dev/gpu-memory": memory} if memory else {}}}


def placed(plane: ControlPlane, namespace: str, pods: list[dict[str, Any]]) -> Mapping[str | None, int]:
    """How many of these pods the scheduler put on which node."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    for pod in pods:
        status, answer = plane.raw("POST", path, pod)
        assert status == 201, answer
    where = Counter(pod["spec"].get("nodeName") for pod in decided_pods(plane, namespace))
    plane.raw("DELETE", f"{path}?gracePeriodSeconds=0")
    eventually(lambda: plane.raw("GET", path)[1]["items"] == [])
    return where


def refusal(plane: ControlPlane, namespace: str, pod: dict[str, Any]) -> str:
    """Why such a pod is refused; empty if it is not."""
    status, answer = plane.raw("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
    return str(answer["message"]) if status == 403 else ""


def test_pods_land_on_gpus_that_their_namespace_may_use(
    nodes: ControlPlane, webhook: Installation, make_namespace: Namespaces
) -> None:
    """Seventeen pods for the sixteen GPUs of two models, while all others are free; the first goes where it prefers."""
    (webhook.policies / "small.yaml").write_text(POLICY)
    namespace = make_namespace("small")
    selecting = asking("h100", nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})
    eventually(lambda: "selects H100-80GB" in refusal(nodes, namespace, selecting))
    try:
        assert placed(nodes, namespace, [asking("first")]) == {"l4": 1}
        assert placed(nodes, namespace, [asking(f"p{at}") for at in range(17)]) == {"t4": 8, "l4": 8, None: 1}
        on = asking("b200", nodeSelector={"kubernetes.io/hostname": "b200"})
        assert "B200 is not allowed here" in refusal(nodes, namespace, on)
    finally:
        (webhook.policies / "small.yaml").unlink()


def test_pods_land_on_gpus_with_the_memory_that_they_ask_for(
    nodes: ControlPlane, webhook: Installation, make_namespace: Namespaces
) -> None:
    namespace = make_namespace("memory")
    eventually(lambda: "is 179Gi" in refusal(nodes, namespace, asking("huge", "300Gi")))
    pods = [asking(f"p{at}", "80Gi") for at in range(17)]
    assert placed(nodes, namespace, pods) == {"h100": 8, "b200": 8, None: 1}
