"""A plan for a real cluster, the upgrade, and an audit: the same workloads are refused that the plan has foretold."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import gpu_policy
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gpu_nodes import add_node, change, remove_node
from tests.upgrades.generated import Cluster, cluster, driver_labels

POLICY = """\
apiVersion: gpupolicy.dev/v1alpha1
kind: GPUPolicy
metadata: {name: _default}
spec:
  rules:
    tolerations: {mode: enforce}
    cudaDriver: {mode: enforce, unknown: deny, images: {"registry.corp/known:*": "12.4"}}
"""
DRIVERS = {"a": "590.44.01", "b": "470.82.01", "c": "580.95.05"}
PATHS = {"Deployment": "/apis/apps/v1", "Job": "/apis/batch/v1", "Pod": "/api/v1"}
RUNS = ("runs", "compatOnly")


def of_a_plain_cluster(seed: int) -> Cluster:
    """Forty nodes and 400 workloads without resource claims, which old API servers lack; controllers make no pods."""
    found = cluster(seed, nodes=48, workloads=480)
    nodes = [raw for raw in found.nodes if "nvidia.com/gpu" in raw["status"]["capacity"]][:40]
    objects = [raw for raw in found.objects if "resourceClaims" not in str(raw)][:400]
    for raw in objects:
        if raw["kind"] == "Deployment":
            raw["spec"]["replicas"] = 0
        elif raw["kind"] == "Job":
            raw["spec"]["parallelism"] = 0
        raw["spec"].pop("nodeName", None)
    return Cluster(nodes, [], objects)


@pytest.fixture
def filled(control_plane: ControlPlane, make_namespace: Callable[[str], str]) -> Iterator[tuple[str, Cluster]]:
    """The nodes and workloads in a namespace of their own; the nodes are gone afterwards."""
    namespace, found = make_namespace("plans"), of_a_plain_cluster(11)
    assert (len(found.nodes), len(found.objects)) == (40, 400)
    for raw in found.nodes:
        add_node(control_plane, raw["metadata"]["name"], raw["metadata"]["labels"])
    for raw in found.objects:
        body = {**raw, "metadata": {"name": raw["metadata"]["name"], "namespace": namespace}}
        body.pop("status", None)
        path = f"{PATHS[raw['kind']]}/namespaces/{namespace}/{raw['kind'].lower()}s"
        status, answer = control_plane.raw("POST", path, body)
        assert status == 201, answer
    yield namespace, found
    for raw in found.nodes:
        remove_node(control_plane, raw["metadata"]["name"])


def test_an_audit_after_the_upgrade_refuses_what_the_plan_has_foretold(
    control_plane: ControlPlane, filled: tuple[str, Cluster], tmp_path: Path
) -> None:
    """The labels of the nodes are changed through the API, as GPU Feature Discovery changes them."""
    namespace, found = filled
    (tmp_path / "_default.yaml").write_text(POLICY)
    options = ("--cluster", "--kubeconfig", control_plane.kubeconfig, "-n", namespace, "--policies", tmp_path)

    def plan(*changes: str) -> dict[str, Any]:
        result = gpu_policy("cuda", "plan", *options, "--format", "json", *changes)
        assert result.exit_code in (0, 1), result.stderr
        return {one["name"]: one for one in json.loads(result.stdout)["workloads"]}

    sets = [text for pool, driver in DRIVERS.items() for text in ("--set", f"pool={pool}={driver}")]
    foretold = plan(*sets)
    assert len(foretold) == 400
    assert {"breaks", "unknown", "losesNodes", "unblocked", "gains", "same"} <= {
        one["change"] for one in foretold.values()
    }
    for raw in found.nodes:
        labels = raw["metadata"]["labels"]
        if driver := DRIVERS.get(labels["pool"]):
            families = {key.split(".")[2] for key in labels if key.startswith("nvidia.com/cuda.")}
            told = driver_labels(driver, of=sorted(families) or ("driver-version", "runtime-version"))
            change(control_plane, raw["metadata"]["name"], {"metadata": {"labels": told}})
    now = plan("--matrix")
    assert {name: one["before"] for name, one in now.items()} == {name: one["after"] for name, one in foretold.items()}
    report = json.loads(gpu_policy("audit", *options, "--format", "json", "--fail-on", "never").stdout)
    refused = {one["owner"]["name"] for one in report["findings"] if one["level"] == "refuse"}
    silent = {
        name
        for name, one in foretold.items()
        if one["after"]["verdict"] == "noNodes" and "busybox" in str(named(found, name))
    }
    expected = {name for name, one in foretold.items() if one["after"]["verdict"] not in RUNS}
    assert refused == expected - silent
    messages = {one["owner"]["name"]: one["message"] for one in report["findings"] if one["level"] == "refuse"}
    broken = [one for one in foretold.values() if one["change"] == "breaks" and one["after"]["verdict"] == "cannotRun"]
    assert broken
    assert all(messages[one["name"]].startswith(one["reason"]) for one in broken)


def named(found: Cluster, name: str) -> dict[str, Any]:
    return next(raw for raw in found.objects if raw["metadata"]["name"] == name)
