"""Findings name GPU nodes with unknown drivers, with taints that no policy tolerates, and with GPUs offered twice."""

from pathlib import Path
from typing import Any

import pytest

from tests.doctor.stored import said as found_by
from tests.facts.samples import resource_slice
from tests.facts.test_made_pools import node_pool
from tests.golden import each
from webhook.doctor import node_checks
from webhook.doctor.doctor_report import DoctorFinding, Status
from webhook.facts.snapshot import MAKING_KINDS
from webhook.policy.loader import load

DRIVER = {"nvidia.com/cuda.driver-version.full": "580.95.05"}
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
SKU = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"


def node(name: str, resource: str = "nvidia.com/gpu", count: int = 1, **parts: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": parts.get("labels", DRIVER)},
        "spec": {"taints": parts.get("taints", [])},
        "status": {"capacity": {"cpu": "8", resource: str(count)}},
    }


def slice_of(name: str, driver: str = "gpu.nvidia.com", devices: int = 1) -> dict[str, Any]:
    return {"spec": {"driver": driver, "nodeName": name, "devices": [{"name": f"gpu-{at}"} for at in range(devices)]}}


def said(
    directory: Path, nodes: list[dict[str, Any]], rules: str = "{}", **lists: list[dict[str, Any]] | None
) -> list[DoctorFinding]:
    """What is found of these nodes; `slices` and `classes` are what else the cluster has."""
    head = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: _default}\n"
    (directory / "_default.yaml").write_text(f"{head}spec: {{rules: {rules}}}\n")
    version = lists.pop("version", "v1")
    answers: dict[str, Any] = {CLASSES: lists.get("classes", []), "/apis/scheduling.k8s.io/v1/priorityclasses": []}
    if "pools" in lists:
        answers[MAKING_KINDS["node_pools"][2]] = lists["pools"]
    if "slices" in lists:
        answers[f"/apis/resource.k8s.io/{version}/resourceslices"] = lists["slices"]
    return found_by(node_checks.look, {"/api/v1/nodes": nodes, **answers}, policies=load(directory))


TOLERANT = "{tolerations: {mode: enforce}}"


def test_gpu_nodes_that_are_known_reached_and_offered_once_are_well(tmp_path: Path) -> None:
    nodes = [node("a", taints=[GPU_TAINT]), node("b"), node("cpu", "example.com/fpga", labels={}, taints=[SKU])]
    (finding,) = said(tmp_path, nodes, TOLERANT, slices=[])
    assert finding.status is Status.OK
    assert finding.found == "2 GPU nodes: drivers and shares are known, taints are tolerated, no GPU is offered twice"


def test_node_pools_that_make_no_node_are_told(tmp_path: Path) -> None:
    pools = [node_pool(["kubernetes.io/arch In amd64", "kubernetes.io/arch In arm64"]), node_pool([], name="any")]
    found, _ = said(tmp_path, [], pools=pools)
    assert found.status is Status.WARNING
    assert found.found == (
        "NodePool gpu: no value of kubernetes.io/arch meets all that its template says, so it makes no node"
    )


def test_a_cluster_without_gpu_nodes_is_well(tmp_path: Path) -> None:
    (finding,) = said(tmp_path, [node("cpu", "example.com/fpga", labels={})])
    assert (finding.status, finding.found) == (Status.OK, "no node offers GPUs by a device plugin")


@each(
    "nodes, found",
    {
        "one": ([node("a", labels={}), node("b")], "1 of 2 nodes with NVIDIA GPUs has no label with the driver's"),
        "several": (
            [node("a", labels={}), node("b", labels={"nvidia.com/gpu.product": "Tesla-T4"}), node("c")],
            "2 of 3 nodes with NVIDIA GPUs have no label with the driver's",
        ),
        "not of other vendors, and not of virtual machines": (
            [node("a", labels={}), node("amd", "amd.com/gpu", labels={}), node("vm", "nvidia.com/pgpu", labels={})],
            "1 of 1 node with NVIDIA GPUs has no label with the driver's",
        ),
    },
)
def test_nodes_without_a_label_of_their_driver_are_counted(
    tmp_path: Path, nodes: list[dict[str, Any]], found: str
) -> None:
    (finding,) = said(tmp_path, nodes)
    assert finding.status is Status.WARNING
    assert finding.found.startswith(found)
    assert "cudaDriver does not know the driver there: a" in finding.found


@each(
    "rules, taints, lacking",
    {
        "no rule adds tolerations": ("{}", [GPU_TAINT], ["nvidia.com/gpu=present:NoSchedule"]),
        "it warns": ("{tolerations: {mode: warn}}", [GPU_TAINT], ["nvidia.com/gpu=present:NoSchedule"]),
        "one of two": (TOLERANT, [GPU_TAINT, SKU], ["sku=gpu:NoSchedule"]),
        "by its key alone": ("{tolerations: {mode: enforce, add: [{key: sku, operator: Exists}]}}", [SKU], []),
        "for GPUs of others": (
            "{tolerations: {mode: enforce, add: [{key: sku, operator: Exists, resources: [amd.com/*]}]}}",
            [SKU],
            ["sku=gpu:NoSchedule"],
        ),
        "a cordon": (TOLERANT, [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}], []),
        "a taint that keeps no pod away": (TOLERANT, [{"key": "slow", "effect": "PreferNoSchedule"}], []),
    },
)
def test_taints_of_gpu_nodes_that_no_policy_tolerates_are_told(
    tmp_path: Path, rules: str, taints: list[dict[str, str]], lacking: list[str]
) -> None:
    findings = said(tmp_path, [node("a", taints=taints), node("b")], rules)
    told = [one for one in findings if one.status is Status.WARNING]
    assert [one.found for one in told] == [
        f"1 of 2 GPU nodes has the taint {taint}, which no policy tolerates: a" for taint in lacking
    ]


def test_what_the_runtime_class_of_a_policy_tolerates_is_tolerated(tmp_path: Path) -> None:
    scheduling = {"tolerations": [{"key": "sku", "operator": "Exists"}]}
    classes = [{"metadata": {"name": "nvidia"}, "handler": "nvidia", "scheduling": scheduling}]
    nodes = [node("a", taints=[SKU])]
    (finding,) = said(tmp_path, nodes, "{runtimeClass: {mode: enforce, name: nvidia}}", classes=classes)
    assert finding.status is Status.OK


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_nodes_that_offer_their_gpus_by_device_plugin_and_by_resource_slices_are_told(
    tmp_path: Path, version: str
) -> None:
    nodes = [node("a"), node("b"), node("dra", "example.com/fpga")]
    slices = [slice_of("a"), slice_of("a"), slice_of("dra"), slice_of("gone")]
    (finding,) = said(tmp_path, nodes, slices=slices, version=version)
    assert finding.status is Status.WARNING
    assert finding.found == (
        "1 of 2 GPU nodes offers GPUs by a device plugin and by ResourceSlices of gpu.nvidia.com, so that one GPU can "
        "be given to two pods: a"
    )


@each(
    "found",
    {
        "compute domains": slice_of("a", "compute-domain.nvidia.com"),
        "GPUs of another vendor": slice_of("a", "gpu.amd.com"),
        "no devices": slice_of("a", devices=0),
        "a device plugin that offers none any more": slice_of("b"),
        "no node": {"spec": {"driver": "gpu.nvidia.com", "allNodes": True, "devices": [{}]}},
        "nothing": {},
    },
)
def test_other_slices_offer_nothing_twice(tmp_path: Path, found: dict[str, Any]) -> None:
    (finding,) = said(tmp_path, [node("a"), node("b", count=0)], slices=[found])
    assert finding.status is Status.OK


def test_slices_that_must_not_be_listed_are_said_to_be_unknown(tmp_path: Path) -> None:
    (finding,) = said(tmp_path, [node("a")], slices=None)
    assert finding.status is Status.SKIPPED
    assert finding.found.startswith("it is not known whether GPUs are offered twice: the API server answered 403")


def test_a_driver_that_resource_slices_say_is_known(tmp_path: Path) -> None:
    nodes = [node("a", labels={}), node("b", labels={})]
    slices = [resource_slice("a", "a", attributes={"driverVersion": "580.65.6"})]
    found = [finding.found for finding in said(tmp_path, nodes, slices=slices)]
    assert found[0].startswith("1 of 2 nodes with NVIDIA GPUs has no label with the driver's version")
    assert found[0].endswith(": b")
