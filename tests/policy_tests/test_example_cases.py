"""The policies worth copying load, their tests pass, and notice when one of these policies says something else."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests import quick_yaml
from tests.policy_tests.files import results
from tests.policy_tests.test_shipped_cases import POLICIES, changed
from webhook.commands.main import main
from webhook.policy.loader import load
from webhook.policy.schema import DEFAULT_FILE, QUOTAS_FILE
from webhook.rules import RULES

EXAMPLES = POLICIES / "examples"
RESULTS = results(EXAMPLES / "tests")
WRITTEN = {file.name: quick_yaml.load(file.read_text())["spec"] for file in sorted(EXAMPLES.glob("*.yaml"))}
FILES = sorted(WRITTEN.keys() - {DEFAULT_FILE, QUOTAS_FILE})
TESTS = {"tenant-acme.yaml": "tenants.yaml", QUOTAS_FILE: "tenants.yaml"}
"""The tests of what has none that is called like itself."""


@pytest.mark.parametrize("case", RESULTS.cases, ids=lambda case: case.case.settings.name)
def test_the_examples_do_what_their_tests_say(case) -> None:
    assert (case.errors, [str(one) for one in case.differences]) == ((), [])


def test_every_file_of_their_tests_can_be_run() -> None:
    assert [(file.file, file.errors) for file in RESULTS.files if file.errors] == []
    assert {Path(file.file).name for file in RESULTS.files} == {TESTS.get(name, name) for name in FILES}


def test_they_are_a_directory_of_policies() -> None:
    done = CliRunner().invoke(main, ["policy", "check", str(EXAMPLES)])
    assert (done.exit_code, done.output.split(",")[0]) == (0, f"{EXAMPLES}: {len(FILES) + 1} policies")


def test_they_stand_over_the_default_that_is_shipped() -> None:
    assert (EXAMPLES / DEFAULT_FILE).readlink() == Path("..", DEFAULT_FILE)
    assert load(EXAMPLES).default == load(POLICIES).default


@pytest.mark.parametrize("name", FILES)
def test_every_example_says_what_it_is_for(name: str) -> None:
    _, second, *_ = (EXAMPLES / name).read_text().splitlines()
    assert second.startswith("# ")


def test_the_page_of_the_policies_names_every_example() -> None:
    page = (POLICIES / "README.md").read_text()
    assert [name for name in (*FILES, QUOTAS_FILE) if f"(examples/{name})" not in page] == []


OTHERWISE: list[tuple[str, str, dict[str, Any]]] = [
    ("training", "tolerations", {"add": []}),
    ("training", "nodeAffinity", {"required": []}),
    ("training", "gpuNodesForGpuPods", {"mode": "warn"}),
    ("training", "priorityClass", {"name": "training-urgent"}),
    ("training", "priorityClass", {"allowed": []}),
    ("training", "priorityClass", {"allowed": ["inference-critical"]}),
    ("training", "sharedMemory", {"minGpus": 2}),
    ("training", "ncclEnv", {"env": {"NCCL_SOCKET_IFNAME": "ib0"}}),
    ("training", "ncclEnv", {"env": {"NCCL_IB_HCA": "mlx4"}}),
    ("training", "network", {"mode": "warn"}),
    ("training", "gpuLimits", {"maxPerPod": 16}),
    ("training", "gpuLimits", {"maxPerPod": 2}),
    ("training", "memoryAndCpu", {"mode": "warn"}),
    ("training", "memoryAndCpu", {"memoryRequestEqualsLimit": False}),
    ("training", "imagePinning", {"mode": "warn"}),
    ("training", "imagePinning", {"require": "digest"}),
    ("training", "schedulable", {"mode": "warn"}),
    ("training", "visibleDevices", {"mode": "warn"}),
    ("inference", "replicaSpread", {"inject": "none"}),
    ("inference", "replicaSpread", {"mode": "warn"}),
    ("inference", "priorityClass", {"name": "training"}),
    ("inference", "priorityClass", {"allowed": []}),
    ("inference", "processes", {"mode": "warn"}),
    ("inference", "imagePinning", {"mode": "warn"}),
    ("inference", "imagePinning", {"require": "tag"}),
    ("inference", "imagePinning", {"registries": []}),
    ("inference", "imagePinning", {"registries": ["registry.example.com"]}),
    ("inference", "memoryAndCpu", {"mode": "warn"}),
    ("inference", "memoryAndCpu", {"memoryRequestEqualsLimit": False}),
    ("inference", "driverCapabilities", {"capabilities": ["compute", "utility"]}),
    ("inference", "cudaDriver", {"unknown": "allow"}),
    ("inference", "cudaDriver", {"forwardCompat": "allow"}),
    ("inference", "cudaDriver", {"images": {}}),
    ("inference", "gpuLimits", {"maxPerPod": 8}),
    ("inference", "sharedGpus", {"isolation": "any"}),
    ("inference", "visibleDevices", {"mode": "warn"}),
    ("notebooks", "timeLimit", {"max": "12h"}),
    ("notebooks", "timeLimit", {"selectors": [{"component": "singleuser-server"}]}),
    ("notebooks", "timeLimit", {"selectors": [{"notebook-name": "*"}]}),
    ("notebooks", "timeLimit", {"missing": "refuse"}),
    ("notebooks", "timeLimit", {"longer": "refuse"}),
    ("notebooks", "priorityClass", {"name": "training"}),
    ("notebooks", "priorityClass", {"allowed": []}),
    ("notebooks", "gpuLimits", {"requestsOnly": "deny"}),
    ("notebooks", "gpuLimits", {"maxPerPod": 2}),
    ("notebooks", "sharedGpus", {"mode": "warn"}),
    ("notebooks", "gpuQuota", {"gpus": 7}),
    ("notebooks", "gpuQuota", {"weights": {"nvidia.com/gpu.shared": "1/2"}}),
    ("notebooks", "sharedMemory", {"minGpus": 2}),
    ("notebooks", "sharedMemory", {"memoryFraction": 0.5}),
    ("notebooks", "memoryAndCpu", {"mode": "warn"}),
    ("notebooks", "imagePinning", {"mode": "warn"}),
    ("notebooks", "visibleDevices", {"mode": "warn"}),
    ("experiments", "gpuTypes", {"mode": "warn"}),
    ("experiments", "gpuTypes", {"allowed": ["T4"]}),
    ("experiments", "gpuTypes", {"allowed": ["L4", "L40S"]}),
    ("experiments", "gpuTypes", {"prefer": []}),
    ("spot", "tolerations", {"add": []}),
    ("spot", "nodeAffinity", {"required": []}),
    ("spot", "schedulable", {"mode": "warn"}),
    ("spot", "cudaDriver", {"unknown": "allow"}),
    ("spot", "priorityClass", {"name": "training"}),
    ("spot", "priorityClass", {"allowed": []}),
    ("spot", "imagePinning", {"mode": "warn"}),
    ("spot", "replicaSpread", {"inject": "none"}),
    ("spot", "gpuLimits", {"maxPerPod": 4}),
    ("aks", "tolerations", {"add": []}),
    ("aks", "gpuNodesForGpuPods", {"mode": "warn"}),
    ("aks-spot", "tolerations", {"add": []}),
    ("aks-spot", "nodeAffinity", {"required": []}),
    ("tenants", "nodeAffinity", {"required": []}),
    ("tenants", "visibleDevices", {"mode": "warn"}),
    ("tenants", "gpuNodesForGpuPods", {"mode": "warn"}),
    ("tenants", "priorityClass", {"name": "tenant-low"}),
    ("tenants", "priorityClass", {"allowed": []}),
    ("tenants", "gpuQuota", {"gpus": 5}),
    ("tenants", "gpuLimits", {"maxPerPod": 8}),
    ("tenants", "resourceClaims", {"mode": "warn"}),
    ("tenants", "resourceClaims", {"deviceClasses": {}}),
    ("tenants", "memoryAndCpu", {"mode": "warn"}),
    ("tenants", "memoryAndCpu", {"memoryRequestEqualsLimit": False}),
    ("tenants", "imagePinning", {"mode": "warn"}),
    ("tenants", "schedulable", {"mode": "warn"}),
    ("tenant-acme", "tolerations", {"add": []}),
    ("tenant-acme", "nodeAffinity", {"required": []}),
    ("tenant-acme", "gpuNodesForGpuPods", {"mode": "warn"}),
    ("tenant-acme", "visibleDevices", {"mode": "warn"}),
    ("tenant-acme", "priorityClass", {"name": "tenant-low"}),
    ("tenant-acme", "priorityClass", {"allowed": []}),
    ("tenant-acme", "gpuQuota", {"gpus": 16}),
    ("tenant-acme", "gpuLimits", {"maxPerPod": 4}),
    ("tenant-acme", "memoryAndCpu", {"mode": "warn"}),
    ("tenant-acme", "imagePinning", {"mode": "warn"}),
    ("tenant-acme", "schedulable", {"mode": "warn"}),
]
"""What else a rule of an example could say, merged over what it says."""


@pytest.mark.parametrize(
    ("name", "rule", "settings"), [pytest.param(*each, id=f"{each[0]} {each[1]} {each[2]}") for each in OTHERWISE]
)
def test_they_fail_where_an_example_says_something_else(tmp_path: Path, name: str, rule: str, settings: object) -> None:
    file = f"{name}.yaml"
    policies = changed(tmp_path, f"examples/{file}", lambda spec: spec["rules"][rule].update(settings))
    assert results(policies / "examples" / "tests" / TESTS.get(file, file)).exit_status == 1


@pytest.mark.parametrize("name", FILES)
def test_every_rule_of_an_example_is_among_what_they_would_notice(name: str) -> None:
    assert {rule for file, rule, _ in OTHERWISE if f"{file}.yaml" == name} == set(WRITTEN[name]["rules"])


def test_every_rule_that_is_not_enforced_as_shipped_is_enforced_by_an_example() -> None:
    shipped = WRITTEN[DEFAULT_FILE]["rules"]
    enforced = {
        rule for name in FILES for rule, said in WRITTEN[name]["rules"].items() if said.get("mode") == "enforce"
    }
    assert {rule.key for rule in RULES if shipped[rule.key]["mode"] != "enforce"} <= enforced


@pytest.mark.parametrize("name", ["aks.yaml", "aks-spot.yaml"])
def test_what_is_for_the_pools_of_a_cloud_tolerates_what_the_default_does_of_nvidia(name: str) -> None:
    """Its list replaces that of the default, and pools are often tainted in both ways."""
    of_nvidia = WRITTEN[DEFAULT_FILE]["rules"]["tolerations"]["add"][0]
    assert of_nvidia["key"] == "nvidia.com/gpu"
    assert WRITTEN[name]["rules"]["tolerations"]["add"][0] == of_nvidia


@pytest.mark.parametrize("name", [name for name in FILES if "workloads" in WRITTEN[name]])
def test_they_fail_where_an_example_lets_workloads_pass(tmp_path: Path, name: str) -> None:
    policies = changed(tmp_path, f"examples/{name}", lambda spec: spec.pop("workloads"))
    assert results(policies / "examples" / "tests" / TESTS.get(name, name)).exit_status == 1


CLAIMS = [(name, namespace) for name in FILES for namespace in WRITTEN[name]["namespaces"]]


@pytest.mark.parametrize(("name", "namespace"), [pytest.param(*claim, id=" ".join(claim)) for claim in CLAIMS])
def test_they_fail_where_an_example_is_not_for_a_namespace(tmp_path: Path, name: str, namespace: str) -> None:
    others = [one for one in WRITTEN[name]["namespaces"] if one != namespace] or ["elsewhere"]
    policies = changed(tmp_path, f"examples/{name}", lambda spec: spec.update(namespaces=others))
    assert results(policies / "examples" / "tests" / TESTS.get(name, name)).exit_status == 1


@pytest.mark.parametrize("more", [-1, 1])
@pytest.mark.parametrize("name", ["acme", "blue"])
def test_they_fail_where_a_shared_quota_has_more_or_less(tmp_path: Path, name: str, more: int) -> None:
    quotas = [{**one, "gpus": one["gpus"] + more * (one["name"] == name)} for one in WRITTEN[QUOTAS_FILE]["quotas"]]
    policies = changed(tmp_path, f"examples/{QUOTAS_FILE}", lambda spec: spec.update(quotas=quotas))
    assert results(policies / "examples" / "tests" / TESTS[QUOTAS_FILE]).exit_status == 1


@pytest.mark.parametrize("pool", WRITTEN["spot.yaml"]["nodePools"], ids=lambda pool: pool["name"])
def test_they_fail_without_a_pool_that_is_declared(tmp_path: Path, pool: dict[str, Any]) -> None:
    others = [one for one in WRITTEN["spot.yaml"]["nodePools"] if one != pool]
    policies = changed(tmp_path, "examples/spot.yaml", lambda spec: spec.update(nodePools=others))
    assert results(policies / "examples" / "tests" / "spot.yaml").exit_status == 1
