"""`gpu-policy test`: what it prints, what it writes, and its exit status."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from tests.command_line import gpu_policy
from tests.golden import each
from tests.policy_tests.files import SEES_ALL, case, gpu_policy_test, pod, suite, write

ROOT = Path(__file__).parents[2]


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A test of which one case passes, one fails and one cannot be run."""
    cases = (
        case([pod()], {"allowed": True}, "a pod is admitted", description="Because it can."),
        case([pod(7)], {"allowed": True}, "too many are admitted"),
        case(["nowhere.yaml"], {"allowed": True}, "a file is missing"),
    )
    write(tmp_path / "mixed.yaml", suite(*cases))
    return tmp_path


def test_a_failure_is_shown_as_a_small_difference_and_ends_with_status_1(tmp_path: Path) -> None:
    expect = {
        "injected": {"spec": {"containers": [{"name": "main", "env": [{"name": "NCCL_DEBUG", "value": "INFO"}]}]}}
    }
    file = write(tmp_path / "a.yaml", suite(case([pod(2)], expect, "the debug level is injected")))
    done = gpu_policy_test(tmp_path)
    assert done.exit_code == 1
    line = file.read_text().splitlines().index("  - name: the debug level is injected") + 1
    assert done.stdout.splitlines()[1:] == [
        f"  failed    the debug level is injected  {file}:{line}",
        "    Pod default/train",
        "      injected spec.containers[main].env[NCCL_DEBUG].value",
        '        - expected  "INFO"',
        '        + found     "WARN"',
        "1 case: 0 passed, 1 failed",
    ]


def test_a_key_that_stands_twice_in_a_resource_is_told_once_and_refused_when_strict(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("kind: Gone\n" + yaml.safe_dump(pod()))
    cases = (case(["pod.yaml"], {"allowed": True}, name) for name in ("a pod is admitted", "it is, again"))
    write(tmp_path / "a.yaml", suite(*cases))
    done = gpu_policy_test(tmp_path)
    assert done.exit_code == 0
    assert done.stderr.count("the key 'kind' is set twice in one map, in line 1 and in line") == 1
    strict = gpu_policy_test(tmp_path, "--strict")
    assert (strict.exit_code, strict.stderr) == (2, "")
    assert "the key 'kind' is set twice in one map, in line 1 and in line" in strict.stdout


def test_quiet_leaves_out_what_passed(mixed: Path) -> None:
    write(mixed / "good.yaml", suite(case([pod()], {"allowed": True})))
    done = gpu_policy_test(mixed, "--quiet")
    assert "passed  " not in done.stdout
    assert "good.yaml" not in done.stdout
    assert "  failed    too many are admitted  " in done.stdout
    assert done.stdout.endswith("4 cases: 2 passed, 1 failed, 1 unusable\n")
    assert done.exit_code == 2


def test_verbose_says_also_why_and_what_became_of_each_resource(tmp_path: Path) -> None:
    cases = (
        case([pod(2)], {"allowed": True}, description="Because it can."),
        case([pod(0, env=[SEES_ALL])], {"allowed": True}, "two"),
        case([pod(7)], {"allowed": False}, "three"),
    )
    write(tmp_path / "a.yaml", suite(*cases))
    lines = [line.strip() for line in gpu_policy_test(tmp_path, "-v").stdout.splitlines()]
    assert "Because it can." in lines
    assert "Pod default/train: completed by tolerations, ncclEnv" in lines
    assert "Pod default/train: allowed as it is" in lines
    assert "Pod default/train: refused" in lines
    assert any(line.startswith("warning: visibleDevices: spec.containers[main].env") for line in lines)
    assert any(line.startswith("refused: gpuLimits: spec.containers[main].resources: ") for line in lines)


def test_run_chooses_cases_by_a_regular_expression(mixed: Path) -> None:
    done = gpu_policy_test(mixed, "--run", "^a pod")
    assert done.exit_code == 0
    assert done.stdout.endswith("1 case: 1 passed, 0 failed\n")


@each(
    "pattern, fault",
    {
        "no case": ("nothing like it", "no case has a name that matches"),
        "no expression": ("(", "not a regular expression: "),
    },
)
def test_a_choice_of_no_case_is_no_success(mixed: Path, pattern: str, fault: str) -> None:
    done = gpu_policy_test(mixed, "--run", pattern)
    assert done.exit_code == 2
    assert f"--run {pattern}: {fault}" in done.stderr


def test_junit_has_a_suite_for_each_file_and_every_case_with_its_line(mixed: Path) -> None:
    write(mixed / "good.yaml", suite(case([pod()], {"allowed": True})))
    write(mixed / "broken.yaml", "kind: GPUPolicyTest\n")
    gpu_policy_test(mixed, "--junit", mixed / "junit.xml")
    root = ElementTree.parse(mixed / "junit.xml").getroot()  # noqa: S314  # written by the command
    assert [root.get(key) for key in ("tests", "failures", "errors")] == ["5", "1", "2"]
    counts = {one.get("name"): (one.get("tests"), one.get("failures"), one.get("errors")) for one in root}
    assert counts == {
        str(mixed / "broken.yaml"): ("1", "0", "1"),
        str(mixed / "good.yaml"): ("1", "0", "0"),
        str(mixed / "mixed.yaml"): ("3", "1", "1"),
    }
    (failed,) = root.findall(".//failure/..")
    lines = (mixed / "mixed.yaml").read_text().splitlines()
    assert failed.get("name") == "too many are admitted"
    assert failed.get("file") == str(mixed / "mixed.yaml")
    assert lines[int(failed.get("line", "0")) - 1] == "  - name: too many are admitted"
    (failure,) = failed.findall("failure")
    assert failure.get("type") == "allowed"
    assert "gpuLimits: spec.containers[main].resources: " in failure.get("message", "")
    assert "  - expected  refused by nothing\n  + found     gpuLimits: " in (failure.text or "")


def test_junit_that_cannot_be_written_is_an_error_after_the_results(mixed: Path) -> None:
    done = gpu_policy_test(mixed, "--run", "^a pod", "--junit", mixed / "no" / "junit.xml")
    assert done.exit_code == 2
    assert done.stdout.endswith("1 case: 1 passed, 0 failed\n")
    assert "junit.xml: cannot be written: No such file or directory" in done.stderr


def test_policies_and_inventory_of_the_command_line_are_for_tests_that_name_none(tmp_path: Path) -> None:
    head = {"apiVersion": "gpupolicy.dev/v1alpha1", "kind": "GPUPolicy", "metadata": {"name": "_default"}}
    rules = {"gpuLimits": {"mode": "enforce", "maxPerPod": 1}, "gpuQuota": {"mode": "enforce", "gpus": 1}}
    write(tmp_path / "policies" / "_default.yaml", {**head, "spec": {"rules": rules}})
    running = {**pod(1, "running"), "status": {"phase": "Running"}}
    running["spec"]["nodeName"] = "node-0"
    write(tmp_path / "cluster.yaml", running)
    without = suite(case([pod(2)], {"allowed": False}), case([pod(1)], {"allowed": False}, "two"))
    del without["spec"]["policies"]
    write(tmp_path / "tests" / "without.yaml", without)
    write(tmp_path / "tests" / "with.yaml", suite(case([pod(2)], {"allowed": True}), inventory=[]))
    options = ("--policies", tmp_path / "policies", "--inventory", tmp_path / "cluster.yaml")
    assert gpu_policy_test(tmp_path / "tests", *options).exit_code == 0
    assert gpu_policy_test(tmp_path / "tests", *options[:2]).exit_code == 1


def test_what_a_terminal_would_obey_is_not_printed(tmp_path: Path) -> None:
    evil = pod(7)
    evil["metadata"]["name"] = "\x1b[2Jtrain"
    write(tmp_path / "a.yaml", suite(case([evil], {"allowed": True}, "\x1b[31mred")))
    assert "\x1b" not in gpu_policy_test(tmp_path, "-v").stdout


def test_the_schema_for_editors_is_up_to_date() -> None:
    """`make docs` writes it."""
    done = gpu_policy("policy", "schema", "--kind", "GPUPolicyTest")
    assert done.stdout == (ROOT / "docs" / "policy-test-schema.json").read_text(encoding="utf-8")


def test_messages_about_replicas_are_not_printed() -> None:
    """Pods of cases are never stored, which a ledger would report as pods that something else refuses."""
    command = [sys.executable, "-m", "webhook", "test", "policies/examples/tests/tenants.yaml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
