"""What people see at `kubectl apply` whose image needs a newer driver or another GPU than the nodes have."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.gpu_nodes import NODES, add_node, change, labels, remove_node
from tests.e2e.installation import Installation

Namespaces = Callable[[str], str]

NEW, OLD = "nvidia/cuda:13.0.0-base-ubuntu24.04", "nvidia/cuda:11.4.3-base-ubuntu20.04"
TOLERATIONS = [{"key": "nvidia.com/gpu", "operator": "Exists"}]


@pytest.fixture
def site(webhook: Installation, make_namespace: Namespaces) -> Iterator[Installation]:
    """The webhook, which knows the six nodes."""
    plane = webhook.plane
    for name, what in NODES.items():
        add_node(plane, name, labels(*what))
    probe = make_namespace("judgedcuda")
    eventually(lambda: is_refused(plane, probe, NEW, "v100") and is_refused(plane, probe, OLD, "b200"))
    yield webhook
    for name in NODES:
        remove_node(plane, name)


def cuda_pod(name: str, image: str, on: str = "", **spec: Any) -> dict[str, Any]:
    """A pod with one GPU that runs this image, on one node where one is named."""
    container = {"name": "main", "image": image, "resources": {"limits": {"memory": "4Gi", "nvidia.com/gpu": "1"}}}
    selector = {"nodeSelector": {"kubernetes.io/hostname": on}} if on else {}
    spec = {"containers": [container], "tolerations": TOLERATIONS, **selector, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def tried(plane: ControlPlane, namespace: str, image: str, on: str = "", **spec: Any) -> tuple[int, str]:
    """Status and message of creating such a pod, without creating it."""
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    status, answer = plane.raw("POST", path, cuda_pod("tried", image, on, **spec))
    return status, answer.get("message", "")


def is_refused(plane: ControlPlane, namespace: str, image: str, on: str = "") -> bool:
    """Whether such a pod is refused."""
    return tried(plane, namespace, image, on)[0] == 403


def test_a_pod_that_no_node_can_run_is_refused_with_the_nearest_remedies(
    site: Installation, make_namespace: Namespaces
) -> None:
    """The message names the image's need and its evidence, what the node has, and what would work."""
    manifest = json.dumps(cuda_pod("refused", NEW, "v100"))
    done = site.plane.kubectl("apply", "-f", "-", input=manifest, namespace=make_namespace("judgedcuda"), check=False)
    assert done.returncode == 1
    for part in ("spec.containers[main].image", "needs CUDA 13.0.0", "1 node with Tesla-V100-SXM2-32GB", "470.82.01"):
        assert part in done.stderr
    assert "nvidia/cuda:1" in done.stderr.rpartition("every image of the pod")[2]


@pytest.mark.parametrize(
    ("image", "node", "is_fine"),
    [
        pytest.param(NEW, "h100", True, id="CUDA 13 on its own driver"),
        pytest.param(NEW, "t4", True, id="CUDA 13 on a data-centre GPU of a branch that cuda-compat is made for"),
        pytest.param("pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime", "t4", False, id="the same without cuda-compat"),
        pytest.param("nvidia/cuda:12.8.0-base-ubuntu24.04", "t4", True, id="CUDA 12.8 on a driver of 12.2"),
        pytest.param("nvidia/cuda:12.8.0-base-ubuntu24.04", "v100", True, id="CUDA 12.8 by cuda-compat for 470"),
        pytest.param("pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime", "v100", False, id="CUDA 12 on a driver of 11.4"),
        pytest.param(OLD, "l4", True, id="CUDA 11 on a newer GPU of its major architecture"),
        pytest.param(OLD, "b200", False, id="CUDA 11 on a GPU that it does not know"),
        pytest.param("nvcr.io/nvidia/pytorch:26.04-py3", "a100", False, id="a branch that is no base of CUDA 13"),
        pytest.param("registry.example/team/app:1", "v100", True, id="an image that says nothing"),
        pytest.param("rocm/vllm:latest", "h100", False, id="an image for another vendor's GPUs"),
    ],
)
def test_a_pod_bound_for_one_node_is_refused_where_it_cannot_run(
    site: Installation, make_namespace: Namespaces, image: str, node: str, is_fine: bool
) -> None:
    status, message = tried(site.plane, make_namespace("judgedcuda"), image, node)
    assert (status == 201) == is_fine, message


def test_what_is_not_known_is_refused_only_where_the_policy_wants_to_know(
    site: Installation, make_namespace: Namespaces
) -> None:
    status, message = tried(site.plane, make_namespace("knowing"), "registry.example/team/app:1")
    assert status == 403
    assert "cuda.gpupolicy.dev/main" in message
    assert tried(site.plane, make_namespace("judgedcuda"), "registry.example/team/app:1")[0] == 201


def test_nodes_that_come_change_and_go_change_the_answer(site: Installation, make_namespace: Namespaces) -> None:
    """A driver upgrade is seen by its labels, a node that is added or removed at once."""
    plane, namespace = site.plane, make_namespace("judgedcuda")
    image = "pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime"
    assert is_refused(plane, namespace, image, "l4")
    change(plane, "l4", {"metadata": {"labels": labels("580.95.05", *NODES["l4"][1:])}})
    eventually(lambda: not is_refused(plane, namespace, image, "l4"))
    change(plane, "l4", {"metadata": {"labels": labels(*NODES["l4"])}})
    eventually(lambda: is_refused(plane, namespace, image, "l4"))
    add_node(plane, "late", {**labels(*NODES["h100"]), "pool": "late"})
    try:
        at_pool = {"nodeSelector": {"pool": "late"}}
        eventually(lambda: tried(plane, namespace, image, **at_pool)[0] == 201)
        change(plane, "late", {"metadata": {"labels": labels(*NODES["l4"])}})
        eventually(lambda: tried(plane, namespace, image, **at_pool)[0] == 403)
    finally:
        remove_node(plane, "late")


def test_draining_the_nodes_that_fit_turns_nobody_away(site: Installation, make_namespace: Namespaces) -> None:
    """Cordons and transient taints say nothing about fitness, nor does a device plugin that restarts."""
    plane, namespace = site.plane, make_namespace("judgedcuda")
    plane.kubectl("cordon", "h100", "b200")
    change(plane, "h100", {"status": {"capacity": {"nvidia.com/gpu": None}}}, subresource="/status")
    change(plane, "b200", {"metadata": {"labels": {"seen": "yes"}}})
    plane.kubectl("label", "node", "v100", "marker=1")
    eventually(lambda: tried(plane, namespace, NEW, nodeSelector={"marker": "1"})[0] == 403)
    image = "pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime"
    assert tried(plane, namespace, image)[0] == 201
    assert tried(plane, namespace, image, "h100")[0] == 201


def test_a_pool_that_scales_from_zero_is_a_candidate(site: Installation, make_namespace: Namespaces) -> None:
    """Without a node in it, and only where the policy declares it."""
    at_pool = {"nodeSelector": {"pool": "spot"}}
    assert tried(site.plane, make_namespace("growing"), NEW, **at_pool)[0] == 201
    status, message = tried(site.plane, make_namespace("growing"), "nvidia/cuda:10.2-base-ubuntu18.04", **at_pool)
    assert status == 403
    assert "a pool with NVIDIA-H100-80GB-HBM3" in message


def test_a_pod_is_steered_to_the_nodes_that_can_run_it(
    completing: Installation, site: Installation, make_namespace: Namespaces
) -> None:
    """The scheduler leaves eight free GPUs alone on which the image would fail, and fills those on which it runs."""
    plane, namespace = site.plane, make_namespace("steered")
    plane.start_scheduler()
    image = "pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime"
    for number in range(17):
        status, stored = plane.raw("POST", f"/api/v1/namespaces/{namespace}/pods", cuda_pod(f"p{number}", image))
        assert status == 201, stored
        terms = stored["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert {entry["operator"] for entry in terms["nodeSelectorTerms"][0]["matchExpressions"]} == {"NotIn"}

    def placed() -> list[str]:
        items = plane.raw("GET", f"/api/v1/namespaces/{namespace}/pods")[1]["items"]
        return [item["spec"]["nodeName"] for item in items if item["spec"].get("nodeName")]

    eventually(lambda: len(placed()) == 16)
    assert {name: placed().count(name) for name in set(placed())} == {"h100": 8, "b200": 8}
