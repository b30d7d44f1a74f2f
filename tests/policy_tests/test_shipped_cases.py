"""The tests of the shipped policies pass, and notice when one of these policies says something else."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import quick_yaml
from tests.policy_tests.files import results
from webhook.policy_tests.format import CaseExpectation

ROOT = Path(__file__).parent.parent.parent
POLICIES = ROOT / "policies"
FILES = sorted({*(POLICIES / "tests").glob("*.yaml")} - {POLICIES / "tests" / "cluster.yaml"})
SHIPPED = results(POLICIES / "tests")


@pytest.mark.parametrize("case", SHIPPED.cases, ids=lambda case: case.case.settings.name)
def test_the_shipped_policies_do_what_their_tests_say(case) -> None:
    assert (case.errors, [str(one) for one in case.differences]) == ((), [])


def test_every_file_of_them_can_be_run() -> None:
    assert [(file.file, file.errors) for file in SHIPPED.files if file.errors] == []
    assert {Path(file.file) for file in SHIPPED.files} == {*FILES}


DEFAULT_RULES = quick_yaml.load((POLICIES / "_default.yaml").read_text())["spec"]["rules"]
IN_VAIN_ALONE: Mapping[str, Mapping[str, Any]] = {"priorityClass": {"name": "training"}, "gpuQuota": {"gpus": 8}}
"""Rules that do nothing in any mode as they are shipped, with settings under which they do."""
HEARD = {"disabled": "enforce", "audit": "warn"}
"""A mode of which users hear nothing -> one of which they hear."""
IN_ANOTHER_MODE = [
    pytest.param(
        "_default",
        key,
        {"mode": "enforce" if key in IN_VAIN_ALONE else HEARD.get(said["mode"], "disabled")}
        | dict(IN_VAIN_ALONE.get(key, {})),
        id=f"{key} in another mode",
    )
    for key, said in DEFAULT_RULES.items()
]
OTHERWISE = [
    pytest.param("_default", "replicaSpread", {"mode": "enforce", "inject": "preferred"}, id="replicaSpread injects"),
    pytest.param("_default", "gpuNodesForGpuPods", {"taints": [{"key": "sku"}]}, id="gpuNodesForGpuPods of others"),
    pytest.param("_default", "runtimeClass", {"name": "other"}, id="runtimeClass"),
    pytest.param("_default", "sharedMemory", {"minGpus": 3}, id="sharedMemory from more GPUs on"),
    pytest.param("_default", "sharedMemory", {"minGpus": 2}, id="sharedMemory from two GPUs on"),
    pytest.param("_default", "sharedMemory", {"memoryFraction": 0.25}, id="sharedMemory of another size"),
    pytest.param("_default", "ncclEnv", {"env": {"NCCL_DEBUG": "INFO"}}, id="ncclEnv"),
    pytest.param("_default", "ncclEnv", {"minGpus": 1}, id="ncclEnv from fewer GPUs on"),
    pytest.param("_default", "gpuLimits", {"requestsOnly": "repair"}, id="gpuLimits repairs"),
    pytest.param("_default", "gpuLimits", {"maxPerPod": 9}, id="gpuLimits allows more"),
    pytest.param("_default", "gpuLimits", {"maxPerPod": 7}, id="gpuLimits allows less"),
    pytest.param("_default", "memoryAndCpu", {"mode": "enforce"}, id="memoryAndCpu refuses"),
    pytest.param("_default", "visibleDevices", {"mode": "enforce"}, id="visibleDevices refuses"),
    pytest.param("_default", "visibleDevices", {"mode": "audit"}, id="visibleDevices is silent"),
    pytest.param("_default", "visibleDevices", {"wholeNodes": "deny"}, id="visibleDevices in whole nodes"),
    pytest.param("_default", "imagePinning", {"mode": "enforce"}, id="imagePinning refuses"),
    pytest.param("_default", "processes", {"mode": "enforce"}, id="processes refuses"),
    pytest.param("_default", "schedulable", {"mode": "enforce"}, id="schedulable refuses"),
    pytest.param("_default", "schedulable", {"mode": "audit"}, id="schedulable is silent"),
    pytest.param("_default", "cudaDriver", {"steer": False}, id="cudaDriver does not steer"),
    pytest.param("_default", "cudaDriver", {"mode": "warn"}, id="cudaDriver warns"),
    pytest.param("_default", "cudaDriver", {"unknown": "deny"}, id="cudaDriver refuses what is not known"),
    pytest.param("gpu-operator", "visibleDevices", {"mode": "warn"}, id="visibleDevices watches operators"),
    pytest.param("gpu-operator", "gpuLimits", {"mode": "enforce"}, id="gpuLimits refuses operators"),
    pytest.param("gpu-operator", "cudaDriver", {"mode": "enforce"}, id="cudaDriver refuses operators"),
    pytest.param("gpu-operator", "schedulable", {"mode": "enforce"}, id="schedulable refuses operators"),
    pytest.param("gpu-operator", "memoryAndCpu", {"mode": "warn"}, id="memoryAndCpu watches operators"),
    pytest.param("gpu-operator", "gpuNodesForGpuPods", {"mode": "warn"}, id="GPU nodes are not the operators'"),
    pytest.param("gpu-operator", "priorityClass", {"mode": "enforce", "allowed": ["a"]}, id="a class for operators"),
    pytest.param("team-notebooks", "gpuLimits", {"requestsOnly": "deny"}, id="notebooks are not repaired"),
    pytest.param("team-notebooks", "gpuLimits", {"maxPerPod": 2}, id="notebooks may have two GPUs"),
    pytest.param("team-vision", "tolerations", {"add": []}, id="the team tolerates nothing"),
    pytest.param("team-vision", "nodeAffinity", {"required": []}, id="the team has no pool"),
    pytest.param("team-vision", "sharedMemory", {"size": "8Gi"}, id="the team's /dev/shm is smaller"),
    pytest.param("team-vision", "ncclEnv", {"env": {"NCCL_SOCKET_IFNAME": "ib0"}}, id="the team's network is another"),
    pytest.param("team-vision", "gpuLimits", {"maxPerContainer": 8}, id="the team's containers may have more"),
    pytest.param("team-vision", "visibleDevices", {"mode": "warn"}, id="the team may see every GPU"),
]


def changed(directory: Path, file: str, change: Callable[[Any], Any]) -> Path:
    """A copy of the policies in which what one file says of `spec` is changed."""
    policies = shutil.copytree(POLICIES, directory / "policies", symlinks=True)
    content = quick_yaml.load((policies / file).read_text())
    change(content["spec"])
    (policies / file).write_text(json.dumps(content))
    return policies


def is_noticed(policies: Path, likely: str = "") -> bool:
    """Whether the tests of the policies fail; the file of tests whose name begins as `likely` is asked first."""
    files = sorted(FILES, key=lambda file: not file.name.replace("-", "").startswith(likely.lower()))
    return any(results(policies / "tests" / file.name).exit_status == 1 for file in files)


@pytest.mark.parametrize(("name", "rule", "settings"), [*IN_ANOTHER_MODE, *OTHERWISE])
def test_they_fail_where_a_policy_says_something_else(tmp_path: Path, name: str, rule: str, settings: object) -> None:
    policies = changed(tmp_path, f"{name}.yaml", lambda spec: spec["rules"][rule].update(settings))
    assert is_noticed(policies, rule if name == "_default" else name.replace("-", ""))


@pytest.mark.parametrize("mode", ["enforce", "disabled"])
def test_they_fail_where_workloads_are_treated_otherwise(tmp_path: Path, mode: str) -> None:
    assert is_noticed(
        changed(tmp_path, "_default.yaml", lambda spec: spec.update(workloads={"mode": mode})), "workloads"
    )


def test_a_shared_quota_that_is_shipped_would_be_noticed(tmp_path: Path) -> None:
    shared_quota = {"name": "all", "namespaces": ["*"], "gpus": 8}
    assert is_noticed(changed(tmp_path, "_quotas.yaml", lambda spec: spec.update(quotas=[shared_quota])), "noquotas")


PAGE = (ROOT / "docs" / "policy-tests.md").read_text(encoding="utf-8")


def test_the_example_of_the_page_is_a_test_that_passes(tmp_path: Path) -> None:
    policies = shutil.copytree(POLICIES, tmp_path / "policies", symlinks=True)
    example = PAGE.partition("```yaml\n")[2].partition("```")[0]
    (policies / "tests" / "example.yaml").write_text(example)
    assert results(policies / "tests" / "example.yaml").exit_status == 0


@pytest.mark.parametrize("key", list(CaseExpectation.model_fields))
def test_the_page_explains_everything_that_can_be_expected(key: str) -> None:
    assert f"`{key}" in PAGE or f"  {key}:\n" in PAGE
