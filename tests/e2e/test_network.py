"""What people hear of the network of their job from a real API server, whose nodes offer one, and where its pods go."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.applying import apply
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.gpu_nodes import add_node, change, cuda_pod, labels, remove_node
from tests.e2e.installation import Installation

FABRICS = {"efa-0": "vpc.amazonaws.com/efa", "efa-1": "vpc.amazonaws.com/efa", "ib-0": "rdma/ib", "ib-1": "rdma/ib"}
H100 = labels("580.95.05", "NVIDIA-H100-80GB-HBM3", "9.0")
JOB, INDEX = "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index"


@pytest.fixture
def plane(control_plane: ControlPlane, webhook: Installation) -> Iterator[ControlPlane]:
    """A control plane with a scheduler, and two nodes with eight GPUs for each network."""
    control_plane.start_scheduler()
    for name, fabric in FABRICS.items():
        add_node(control_plane, name, {**H100, "pool": name.partition("-")[0]})
        state = {"capacity": {fabric: "8"}, "allocatable": {fabric: "8"}}
        change(control_plane, name, {"status": state}, subresource="/status")
    yield control_plane
    for name in FABRICS:
        remove_node(control_plane, name)


def job(
    name: str, resources: dict[str, Any], *env: tuple[str, str], pool: str = "efa", pods: int = 2
) -> dict[str, Any]:
    """An indexed Job whose pods take eight GPUs each."""
    spec = cuda_pod(name, "registry.example.com/train:1")["spec"]
    (main,) = spec["containers"]
    main["resources"]["limits"] |= {"nvidia.com/gpu": "8", **resources}
    main["env"] = [{"name": key, "value": value} for key, value in env]
    spec |= {"nodeSelector": {"pool": pool}, "restartPolicy": "Never"}
    counts = {"completionMode": "Indexed", "completions": pods, "parallelism": pods}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {**counts, "template": {"spec": spec}},
    }


def test_a_job_hears_of_the_network_that_it_leaves_unused(
    plane: ControlPlane, make_namespace: Callable[[str], str]
) -> None:
    namespace = make_namespace("network")

    def told(*args: Any, **kwargs: Any) -> list[str]:
        lines = apply(plane, namespace, job(*args, **kwargs), dry_run=True)[1].splitlines()
        return [line.partition(": network: ")[2] for line in lines if ": network: " in line]

    eventually(
        lambda: (
            "vpc.amazonaws.com/efa, which every node that the pod could run on offers (2 nodes)" in str(told("a", {}))
        )
    )
    assert "requests no rdma/ib" in str(told("a", {}, pool="ib"))
    assert told("a", {}, pods=1) == []
    assert told("a", {"vpc.amazonaws.com/efa": "8"}) == []
    assert told("a", {"nvidia.com/gpu": "4"}) == []
    (off,) = told("a", {"rdma/ib": "8"}, ("NCCL_IB_DISABLE", "1"), pool="ib")
    assert "NCCL_IB_DISABLE" in off


def test_its_pods_are_on_different_nodes_and_hear_the_same(
    plane: ControlPlane, make_namespace: Callable[[str], str]
) -> None:
    namespace = make_namespace("network-pods")
    path = f"/api/v1/namespaces/{namespace}/pods"
    for index in range(2):
        spec = job("train", {}, ("PET_NNODES", "2"))["spec"]["template"]["spec"]
        metadata = {"name": f"train-{index}", "labels": {JOB: "train", INDEX: str(index)}}
        status, headers, answer = plane.exchange(
            "POST", path, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        )
        assert status == 201, answer
        assert "requests no vpc.amazonaws.com/efa" in str(headers.get_all("Warning"))

    def on() -> set[str]:
        return {one["spec"].get("nodeName") for one in plane.raw("GET", path)[1]["items"]}

    eventually(lambda: on() == {"efa-0", "efa-1"})
