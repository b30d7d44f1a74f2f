"""Findings name namespaces that are left out or have a looser policy, and do not exist."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import gpu_policy
from tests.facts.fake_api_server import always, fake_api_server
from webhook.doctor.cluster import DoctorCluster
from webhook.doctor.cluster_checks import absent_namespaces
from webhook.doctor.doctor_report import DoctorFinding, Status
from webhook.doctor.installation import Installation, Place
from webhook.policy.loader import load
from webhook.policy.show import loosened_for_nobody

POLICY = """apiVersion: gpupolicy.dev/v1alpha1
kind: GPUPolicy
metadata: {{name: {0}}}
spec: {1}
"""
DEFAULT = "{rules: {gpuLimits: {mode: enforce, maxPerPod: 4}, visibleDevices: {mode: warn}}}"


def write(directory: Path, **specs: str) -> Path:
    """A directory with the default policy and others."""
    directory.mkdir(exist_ok=True)
    for name, spec in {"_default": DEFAULT, **specs}.items():
        (directory / f"{name}.yaml").write_text(POLICY.format(name, spec))
    return directory


class Holding(DoctorCluster):
    """A cluster with these namespaces, whose webhook configurations leave others out."""

    def __init__(self, namespaces: list[str], excluded: tuple[str, ...]) -> None:
        self._namespaces = namespaces
        expression = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(excluded)}
        self._configuration = {"webhooks": [{"namespaceSelector": {"matchExpressions": [expression]}}, {}]}

    def find(self, path: str, *_: Any) -> Any:
        return self._configuration if "webhookconfigurations" in path else None

    def items(self, path: str, *_: Any) -> Iterator[Any]:
        assert path == "/api/v1/namespaces"
        yield from ({"metadata": {"name": name}} for name in self._namespaces)


def looked(directory: Path, namespaces: list[str], *excluded: str) -> list[DoctorFinding]:
    return list(absent_namespaces(Installation(Holding(namespaces, excluded), Place(policies=directory))))


def test_A47_a_namespace_that_is_left_out_and_not_there_is_told(tmp_path: Path) -> None:
    there = ["kube-system", "gpu-policy"]
    (found,) = looked(write(tmp_path), there, "kube-system", "gpu-operator", "gpu-policy", "amd-gpu")
    assert (found.status, found.found) == (
        Status.WARNING,
        "the webhook configurations leave out namespaces that do not exist: amd-gpu, gpu-operator; pods in such a "
        "namespace are not validated",
    )
    assert "webhook.namespaceSelector.exclude" in found.remedy
    (found,) = looked(write(tmp_path), [*there, "gpu-operator"], "kube-system", "gpu-operator", "gpu-policy")
    assert found.status is Status.OK


@pytest.mark.parametrize(
    ("spec", "patterns"),
    [
        pytest.param("{rules: {gpuLimits: {mode: disabled}}}", ("team",), id="a rule switched off"),
        pytest.param("{rules: {gpuLimits: {mode: warn}}}", ("team",), id="a rule that warns"),
        pytest.param("{rules: {gpuLimits: {maxPerPod: 64}}}", ("team",), id="other settings"),
        pytest.param("{namespaces: [a, b, here], rules: {gpuLimits: {mode: audit}}}", ("a", "b"), id="some of several"),
        pytest.param("{namespaces: ['x-*', 'he*'], rules: {gpuLimits: {mode: audit}}}", ("x-*",), id="a glob"),
        pytest.param("{rules: {visibleDevices: {mode: enforce}}}", (), id="a stricter rule"),
        pytest.param("{rules: {imagePinning: {mode: enforce}}}", (), id="one more rule"),
        pytest.param("{namespaces: [here], rules: {gpuLimits: {mode: disabled}}}", (), id="a namespace that is there"),
    ],
)
def test_A47_a_looser_policy_for_a_namespace_that_is_not_there_is_told(
    tmp_path: Path, spec: str, patterns: tuple[str, ...]
) -> None:
    directory = write(tmp_path, team=spec)
    told = [(policy.name, names) for policy, names in loosened_for_nobody(load(directory), {"here", "kube-system"})]
    assert told == ([("team", patterns)] if patterns else [])
    (found,) = looked(directory, ["here", "kube-system"], "kube-system")
    assert found.status is (Status.WARNING if patterns else Status.OK)
    assert not patterns or f"do not exist: {', '.join(patterns)} (team.yaml); whoever creates" in found.found


@pytest.mark.parametrize("mode", ["warn", "enforce"])
def test_A47_a_policy_that_is_looser_than_that_of_a_glob_is_told(tmp_path: Path, mode: str) -> None:
    """Tenants that may create namespaces of their prefix only have the strict policy of the prefix, or this one."""
    directory = write(
        tmp_path / "policies",
        tenants='{namespaces: ["tenant-*"], rules: {visibleDevices: {mode: enforce}}}',
        trusted=f"{{namespaces: [tenant-trusted], rules: {{visibleDevices: {{mode: {mode}}}}}}}",
    )
    told = [(policy.name, names) for policy, names in loosened_for_nobody(load(directory), {"tenant-a"})]
    assert told == ([("trusted", ("tenant-trusted",))] if mode == "warn" else [])
    assert list(loosened_for_nobody(load(directory), {"tenant-trusted"})) == []


def test_A47_policy_check_says_it_of_the_cluster_of_a_kubeconfig(tmp_path: Path) -> None:
    spec = "{namespaces: [team, here], rules: {gpuLimits: {mode: disabled}}}"
    directory = str(write(tmp_path / "policies", team=spec))
    there = [{"metadata": {"name": "here"}}]
    with fake_api_server() as server:
        server.instead["/api/v1/namespaces"] = always(200, {"metadata": {"resourceVersion": "1"}, "items": there})
        kubeconfig = f"--kubeconfig={server.kubeconfig(tmp_path)}"
        result = gpu_policy("policy", "check", directory, kubeconfig)
        note = "note: team.yaml: team: no such namespace in the cluster; whoever creates one gets this policy"
        assert (result.exit_code, note in result.stderr) == (0, True)
        assert "whoever" not in gpu_policy("policy", "check", directory).stderr
        server.instead["/api/v1/namespaces"] = always(403, {"message": "no"})
        result = gpu_policy("policy", "check", directory, kubeconfig)
        assert (result.exit_code, "namespaces of the cluster" in result.stderr) == (2, True)
