"""`gpu-policy cuda` with a cluster: its kinds of nodes, what becomes of an image on each, and what the policy adds."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cuda_command import CUDA_12, CUDA_13, KEYS, answer, run
from tests.facts.fake_api_server import NODES, fake_api_server
from tests.facts.samples import GPU_TAINT, node
from tests.facts.served_kinds import aggregated
from tests.golden import each
from tests.gpus import discovered_labels as labels


def gpu_node(name: str, driver: str, product: str, gpus: int, **labels: str) -> dict[str, Any]:
    of_gpu = {"nvidia.com/cuda.driver-version.full": driver, "nvidia.com/gpu.product": product}
    capacity = {"nvidia.com/gpu": str(gpus)}
    return node(name, labels={**of_gpu, "kubernetes.io/arch": "amd64", **labels}, taints=[GPU_TAINT], capacity=capacity)


V100 = {"nvidia.com/gpu.count": "4", "nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
"""Four GPUs, each shared by four."""


def written(directory: Path, *nodes: dict[str, Any]) -> Path:
    path = directory / "inventory.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": nodes}))
    return path


def kinds_of(directory: Path, *nodes: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        run("nodes", "--inventory", written(directory, *nodes), "--output", "json").stdout
    )
    return found


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """Two A100 nodes that differ in nothing that matters, a V100 node with time-slicing, and nodes without CUDA."""
    return written(
        tmp_path,
        gpu_node("a100-0", "535.183.01", "NVIDIA-A100-SXM4-80GB", 8, rack="1"),
        gpu_node("a100-1", "535.183.01", "NVIDIA-A100-SXM4-80GB", 4, rack="2"),
        gpu_node("v100-0", "580.65.06", "Tesla-V100-SXM2-32GB-SHARED", 16, **V100),
        node("amd-0", capacity={"amd.com/gpu": "8"}),
        node("cpu-0"),
    )


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """A policy that knows an image and declares a pool that may have no node."""
    pool = {"name": "h100", "driver": "580.65.06", "product": "NVIDIA-H100-80GB-HBM3", "gpus": 8}
    knows = {"mode": "warn", "images": {"registry.corp/*": "13.0"}}
    head = {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "GPUPolicy", "metadata": {"name": "_default"}}
    path = tmp_path / "policies"
    path.mkdir()
    document = {**head, "spec": {"nodePools": [pool], "rules": {"cudaDriver": knows}}}
    (path / "_default.yaml").write_text(yaml.safe_dump(document))
    return path


def test_the_kinds_of_nodes_are_counted_with_their_gpus(inventory: Path) -> None:
    found = run("nodes", "--inventory", inventory, "--output", "json")
    kinds = [
        {key: kind[key] for key in ("product", "driver", "newestCuda", "count", "gpus")}
        for kind in json.loads(found.stdout)
    ]
    assert kinds == [
        {"product": "NVIDIA-A100-SXM4-80GB", "driver": "535.183.01", "newestCuda": "12.2", "count": 2, "gpus": 12},
        {"product": "Tesla-V100-SXM2-32GB", "driver": "580.65.06", "newestCuda": "13.0", "count": 1, "gpus": 4},
    ]
    lines = [line.split() for line in run("nodes", "--inventory", inventory).stdout.splitlines()]
    assert lines == [
        ["PRODUCT", "DRIVER", "NEWEST", "CUDA", "ARCH", "NODES", "GPUS"],
        ["NVIDIA-A100-SXM4-80GB", "535.183.01", "12.2", "amd64", "2", "12"],
        ["Tesla-V100-SXM2-32GB", "580.65.06", "13.0", "amd64", "1", "4"],
        ["shared", "by", "4", "(time-slicing)"],
    ]


A100 = "NVIDIA-A100-SXM4-40GB"


SHARED, MIG = "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb"


def share(replicas: int, sharing: str, profile: str | None = None, resource: str = "nvidia.com/gpu") -> dict[str, Any]:
    return {"resource": resource, "profile": profile, "replicas": replicas, "sharing": sharing}


SHARES: dict[str, tuple[Any, str, int, Any, int]] = {
    "unlabelled": (labels.UNLABELLED, "nvidia.com/gpu", 4, None, 4),
    "whole GPUs": (labels.WHOLE, "nvidia.com/gpu", 4, None, 4),
    "MPS": (labels.MPS, "nvidia.com/gpu", 2, share(2, "mps"), 1),
    "renamed": (labels.TIME_SLICED_RENAMED, SHARED, 4, share(4, "time-slicing", resource=SHARED), 1),
    "MIG, single": (labels.SINGLE_TIME_SLICED, "nvidia.com/gpu", 14, share(2, "time-slicing", "1g.5gb"), 1),
    "MIG, single, on a second GPU": (
        labels.discovered(f"{A100}-MIG-1g.5gb", 10, mig="single"),
        "nvidia.com/gpu",
        10,
        share(1, "none", "1g.5gb"),
        2,
    ),
    "MIG, mixed": (labels.MIXED, MIG, 7, None, 2),
    "MIG, mixed, not counted": ({"nvidia.com/gpu.product": A100}, MIG, 8, None, 2),
    "GKE, where no label counts GPUs": (labels.GKE_TIME_SHARING, "nvidia.com/gpu", 8, share(8, "time-slicing"), 1),
}


@pytest.mark.parametrize(("found", "resource", "units", "share", "gpus"), SHARES.values(), ids=SHARES)
def test_the_share_of_a_kind_is_told_and_its_gpus_are_physical_ones(
    tmp_path: Path, found: Mapping[str, str], resource: str, units: int, share: object, gpus: int
) -> None:
    (kind,) = kinds_of(tmp_path, node("n", labels=found, capacity={resource: str(units)}))
    assert (kind["share"], kind["gpus"], kind["problems"]) == (share, gpus, [])


@each(
    "found, fault",
    {
        "suffix": (labels.CONTRADICTING, "ends in -SHARED, and nvidia.com/gpu.sharing-strategy is"),
        "MIG, invalid": (labels.INVALID, "ends in -MIG-INVALID"),
    },
)
def test_labels_about_shares_that_contradict_each_other_are_named(
    tmp_path: Path, found: Mapping[str, str], fault: str
) -> None:
    faulty = node("n", labels=found, capacity={"nvidia.com/gpu": "4"})
    (kind,) = kinds_of(tmp_path, faulty)
    assert kind["share"] is None
    assert [fault in problem for problem in kind["problems"]] == [True]
    assert fault in run("nodes", "--inventory", written(tmp_path, faulty)).stdout


def test_nodes_that_share_otherwise_are_another_kind_and_nodes_without_labels_are_not(tmp_path: Path) -> None:
    product = {"nvidia.com/gpu.product": "Tesla-T4"}
    four = {"nvidia.com/gpu": "4"}
    nodes = [
        node(f"n{at}", labels=found, capacity=four) for at, found in enumerate((labels.WHOLE, product, labels.MPS))
    ]
    kinds = kinds_of(tmp_path, *nodes)
    assert [(kind["product"], kind["count"], bool(kind["share"])) for kind in kinds] == [
        ("Tesla-T4", 2, False),
        ("Tesla-T4", 1, True),
    ]


def test_a_declared_pool_is_a_kind_without_nodes(inventory: Path, policies: Path) -> None:
    found = run("nodes", "--inventory", inventory, "--policies", policies).stdout
    assert ["NVIDIA-H100-80GB-HBM3", "580.65.06", "13.0", "amd64", "0", "0"] in map(str.split, found.splitlines())


def test_labels_that_cannot_be_read_are_named_below_the_nodes(tmp_path: Path) -> None:
    found = run("nodes", "--inventory", written(tmp_path, gpu_node("n", "newest", "[bold]GPU", 1)))
    assert found.stdout.splitlines()[1].split() == ["[bold]GPU", "-", "-", "amd64", "1", "1"]
    assert '"newest"' in found.stdout.splitlines()[2]


def test_an_inventory_is_answered_by_kind_of_node(inventory: Path, policies: Path) -> None:
    found = run("check", CUDA_13, "--inventory", inventory, "--policies", policies, "--output", "json")
    answers = json.loads(found.stdout)
    assert [(each["product"], each["count"], each["verdict"]) for each in answers] == [
        ("NVIDIA-A100-SXM4-80GB", 2, "forward-compat-only"),
        ("NVIDIA-H100-80GB-HBM3", 0, "compatible"),
        ("Tesla-V100-SXM2-32GB", 1, "incompatible"),
    ]
    assert all(list(each)[: len(KEYS)] == KEYS for each in answers)
    assert found.exit_code == 1


def test_people_are_told_about_each_kind_of_node(inventory: Path, policies: Path) -> None:
    found = run("check", CUDA_13, "--inventory", inventory, "--policies", policies).stdout
    heads = [line for line in found.splitlines() if not line.startswith(" ")]
    assert heads == [
        f"{CUDA_13} needs CUDA 13.0.0: tag 13.0.0-base-ubuntu24.04 of nvidia/cuda",
        "forward-compat-only  2 nodes with NVIDIA-A100-SXM4-80GB, driver 535.183.01",
        "compatible           a pool with NVIDIA-H100-80GB-HBM3, driver 580.65.06",
        "incompatible         1 node with Tesla-V100-SXM2-32GB, shared by 4 (time-slicing), driver 580.65.06",
    ]


def test_what_the_policy_knows_of_an_image_counts(policies: Path) -> None:
    told = answer("registry.corp/team/app:7", "--policies", policies)
    assert (told["cuda"], told["evidence"]) == ("13.0", "policy images: registry.corp/*")


def test_a_live_cluster_is_asked_for_its_nodes(tmp_path: Path) -> None:
    with fake_api_server() as server:
        server.instead["/api"] = server.instead["/apis"] = aggregated({"": [("v1", {"Node": "nodes"})]})
        server.objects[NODES].append(gpu_node("t4-0", "550.54.15", "Tesla-T4", 1))
        kubeconfig = server.kubeconfig(tmp_path)
        (kind,) = json.loads(run("nodes", "--kubeconfig", kubeconfig, "--output", "json").stdout)
        (told,) = json.loads(run("check", CUDA_12, "--kubeconfig", kubeconfig, "--output", "json").stdout)
    assert (kind["product"], kind["newestCuda"], kind["count"], kind["gpus"]) == ("Tesla-T4", "12.4", 1, 1)
    assert (told["product"], told["verdict"]) == ("Tesla-T4", "compatible")
