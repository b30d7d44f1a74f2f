"""What people see at `kubectl apply` whose image needs a newer driver or another GPU than the nodes have."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.applying import apply
from tests.e2e.control_plane import ControlPlane
from tests.e2e.eventually import eventually
from tests.e2e.gpu_nodes import NODES, add_node, change, cuda_pod, labels, present, remove_node
from tests.e2e.installation import Installation

Namespaces = Callable[[str], str]

NEW = "nvidia/cuda:13.0.0-base-ubuntu24.04"
NO_COMPAT = "pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime"
"""Of CUDA 13, without the cuda-compat package."""


@pytest.fixture(scope="module")
def site(installation: Installation) -> Iterator[Installation]:
    """The webhook, registered, which knows the six nodes. No test changes these: what it changes, it adds."""
    plane = installation.plane
    with present(plane):
        installation.register()
        eventually(installation.is_asked)
        probe = plane.namespace("judgedcuda-probe")
        eventually(lambda: all(is_refused(plane, probe, "rocm/vllm:latest", name) for name in NODES))
        yield installation
        installation.unregister()


def tried(plane: ControlPlane, namespace: str, image: str, on: str = "", **spec: Any) -> tuple[int, str]:
    """Status and message of creating such a pod, without creating it."""
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    status, answer = plane.raw("POST", path, cuda_pod("tried", image, on, **spec))
    return status, answer.get("message", "")


def is_refused(plane: ControlPlane, namespace: str, image: str, on: str = "", **spec: Any) -> bool:
    """Whether such a pod is refused."""
    return tried(plane, namespace, image, on, **spec)[0] == 403


def test_a_pod_that_no_node_can_run_is_refused_with_the_nearest_remedies(
    site: Installation, make_namespace: Namespaces
) -> None:
    """The message names the image's need and its evidence, what the node has, and what would work."""
    status, said = apply(site.plane, make_namespace("judgedcuda"), cuda_pod("refused", NEW, "v100"))
    assert status == 1
    for part in ("spec.containers[main].image", "needs CUDA 13.0.0", "1 node with Tesla-V100-SXM2-32GB", "470.82.01"):
        assert part in said
    assert "nvidia/cuda:1" in said.rpartition("every image of the pod")[2]


@pytest.mark.parametrize(
    ("image", "node", "is_fine"),
    [
        pytest.param(NEW, "h100", True, id="CUDA 13 on its own driver"),
        pytest.param(NEW, "t4", True, id="CUDA 13 on a data-centre GPU of a branch that cuda-compat is made for"),
        pytest.param(NO_COMPAT, "t4", False, id="the same without cuda-compat"),
        pytest.param("pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime", "b200", False, id="kernels without PTX there"),
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


@contextmanager
def another(plane: ControlPlane, name: str, like: str) -> Iterator[dict[str, Any]]:
    """One more node of a kind, and what a pod says that wants it and its like."""
    add_node(plane, name, {**labels(*NODES[like]), "pool": name})
    try:
        yield {"nodeSelector": {"pool": name}}
    finally:
        remove_node(plane, name)


def test_nodes_that_come_change_and_go_change_the_answer(site: Installation, make_namespace: Namespaces) -> None:
    """A driver upgrade is seen by its labels, a node that is added or removed at once."""
    plane, namespace = site.plane, make_namespace("knowing")

    def answers(status: int, word: str = "") -> None:
        def is_answer() -> bool:
            found, message = tried(plane, namespace, NO_COMPAT, **at_pool)
            return found == status and word in message

        eventually(is_answer)

    with another(plane, "late", "l4") as at_pool:
        answers(403, "1 node with NVIDIA-L4, driver 550.54.15")
        change(plane, "late", {"metadata": {"labels": labels("580.95.05", *NODES["l4"][1:])}})
        answers(201)
        change(plane, "late", {"metadata": {"labels": labels("535.183.01", *NODES["t4"][1:])}})
        answers(403, "1 node with Tesla-T4, driver 535.183.01")
        change(plane, "late", {"metadata": {"labels": dict.fromkeys(labels(*NODES["t4"]))}})
        answers(403, "it is not known whether it runs: 1 node with an unknown driver")
    answers(403, "no node is known that the pod could land on")


def test_another_image_for_a_pod_that_waits_is_judged_and_nothing_else_that_changes(
    site: Installation, make_namespace: Namespaces
) -> None:
    """The node that the pod is for gets too old a driver for it meanwhile."""
    plane, namespace = site.plane, make_namespace("judgedcuda")
    with another(plane, "aging", "h100") as at_pool:
        eventually(lambda: is_refused(plane, namespace, "rocm/vllm:latest", **at_pool))  # so the node is known
        path = f"/api/v1/namespaces/{namespace}/pods"
        status, stored = plane.raw("POST", path, cuda_pod("waiting", NO_COMPAT, **at_pool))
        assert status == 201, stored
        change(plane, "aging", {"metadata": {"labels": labels("550.54.15", *NODES["h100"][1:])}})
        eventually(lambda: tried(plane, namespace, NO_COMPAT, **at_pool)[0] == 403)
        assert plane.raw("PATCH", f"{path}/waiting", {"metadata": {"labels": {"team": "a"}}})[0] == 200
        for image, expected in (
            (NO_COMPAT.replace("2.9.1", "2.9.0"), 403),
            ("nvidia/cuda:12.8.0-base-ubuntu24.04", 200),
        ):
            containers = [{**stored["spec"]["containers"][0], "image": image}]
            assert plane.raw("PATCH", f"{path}/waiting", {"spec": {"containers": containers}})[0] == expected
