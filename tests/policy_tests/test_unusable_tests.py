"""Whatever is wrong with a test of policies is told with file, line and key, and everything else runs all the same."""

import re
from pathlib import Path

import pytest
import yaml

from tests.golden import each
from tests.policy_tests.files import case, gpu_policy_test, pod, suite, write

HEAD = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicyTest\nmetadata: {name: sample}\nspec:\n"
POLICIES = "  policies: {_default.yaml: {spec: {rules: {gpuLimits: {mode: enforce, maxPerPod: 8}}}}}\n"
POD = "{apiVersion: v1, kind: Pod, metadata: {name: train}, spec: {containers: [{name: main, image: a}]}}"
CASE = f"  cases:\n    - name: one\n      resources:\n        - {POD}\n      expect: {{allowed: true}}\n"
GOOD = HEAD + POLICIES + CASE


def expecting(text: str) -> str:
    """The good test with something else for what it expects; line 10."""
    return GOOD.replace("{allowed: true}", text)


def of(resource: str) -> str:
    """The good test with another resource; line 9."""
    return GOOD.replace(POD, resource)


ROWS = yaml.safe_load(Path(__file__).with_name("unusable.yaml").read_text())
UNUSABLE = [
    *(
        pytest.param(GOOD + new if old == "END" else GOOD.replace(old, new) if old else new, fault, id=title)
        for title, (old, new, fault) in ROWS.items()
    ),
    pytest.param(b"\xff\xfea", "1: not UTF-8", id="another encoding"),
    pytest.param(HEAD + "  cases: " + "[" * 5000 + "\n", "5: nested deeper", id="deep"),
    pytest.param("a: " + "[" * 5000 + "\n", "1: nested deeper", id="deep, and something else"),
    pytest.param(GOOD + "#" * 10 * 1024 * 1024, "1: larger than 1048576 bytes", id="10 MB"),
]


def pattern(fault: str) -> str:
    """The beginning of an error, whose brackets are meant."""
    return ".*".join(map(re.escape, fault.split(".*")))


@pytest.mark.parametrize(("content", "fault"), UNUSABLE)
def test_a_mistake_is_told_with_its_place_and_the_other_tests_are_run(
    tmp_path: Path, content: str | bytes, fault: str
) -> None:
    bad = write(tmp_path / "bad.yaml", content)
    write(tmp_path / "good.yaml", GOOD)
    done = gpu_policy_test(tmp_path, "--junit", tmp_path / "junit.xml")
    told = [line for line in done.stdout.splitlines() if re.search(f"{re.escape(str(bad))}:{pattern(fault)}", line)]
    assert len(told) == 1, done.stdout
    assert f"{tmp_path / 'good.yaml'}  sample\n  passed    one\n" in done.stdout
    assert done.exit_code == 2
    assert 'errors="1"' in (tmp_path / "junit.xml").read_text().splitlines()[1]


def test_the_name_of_a_file_is_printed_and_not_obeyed(tmp_path: Path) -> None:
    write(tmp_path / "\x1b[31m" / "good.yaml", GOOD)
    write(tmp_path / "\x1b[31m" / "failing.yaml", expecting("{allowed: false}"))
    write(tmp_path / "\x1b[31m" / "bad.yaml", HEAD)
    done = gpu_policy_test(tmp_path)
    assert "\x1b" not in done.stdout
    assert done.stdout.count("?[31m/") == 5


def test_a_mistake_in_a_resource_file_names_that_file_and_line(tmp_path: Path) -> None:
    write(tmp_path / "manifests" / "pod.txt", "apiVersion: v1\nkind: Pod\n? [kind]\n: Pod\n")
    write(tmp_path / "bad.yaml", of("manifests/pod.txt"))
    done = gpu_policy_test(tmp_path)
    assert f"{tmp_path / 'manifests' / 'pod.txt'}:3: not valid YAML: a key must be a string" in done.stdout
    assert done.exit_code == 2


def test_a_mistake_in_a_directory_of_policies_names_its_file_and_is_told_in_full_once(tmp_path: Path) -> None:
    write(tmp_path / "policies" / "_default.yaml", "kind: GPUPolicy\n")
    for name in ("a.yaml", "b.yaml"):
        write(tmp_path / name, HEAD + "  policies: policies\n" + CASE)
    lines = gpu_policy_test(tmp_path).stdout.splitlines()
    fault = f"{tmp_path / 'policies' / '_default.yaml'}:1: spec: missing; write a map"
    assert [line.strip() for line in lines if fault in line] == [f"unusable  {fault}", f"unusable  {fault} (as above)"]


def test_every_mistake_of_a_file_is_told_at_once_and_none_twice(tmp_path: Path) -> None:
    write(tmp_path / "bad.yaml", expecting("{alowed: true, refused: [{rule: x}]}").replace("policies", "polices"))
    told = [line for line in gpu_policy_test(tmp_path).stdout.splitlines() if "unusable  " in line]
    assert [re.search(r"yaml:(\d+): (\S+): ", line).groups() for line in told] == [
        ("5", "spec.polices"),
        ("10", "spec.cases[0].expect.alowed"),
        ("10", "spec.cases[0].expect.refused[0].rule"),
    ]


@each(
    "make, fault",
    {
        "missing": (lambda path: path, "no such file or directory"),
        "empty": (lambda path: path.mkdir(), "no GPUPolicyTest in it"),
        "other objects only": (lambda path: write(path / "pod.yaml", pod()), "no GPUPolicyTest in it"),
        "hidden": (lambda path: write(path / ".hidden" / "a.yaml", GOOD), "no GPUPolicyTest in it"),
    },
)
def test_a_directory_without_tests_is_no_success(tmp_path: Path, make, fault: str) -> None:
    make(tmp_path / "tests")
    done = gpu_policy_test(tmp_path / "tests")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{tmp_path / 'tests'}: {fault}")


def test_unusable_input_beats_a_failure(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", suite(case([pod()], {"allowed": False})))
    assert gpu_policy_test(tmp_path).exit_code == 1
    write(tmp_path / "b.yaml", HEAD)
    assert gpu_policy_test(tmp_path).exit_code == 2


def test_without_policies_above_it_a_test_is_unusable(tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", HEAD + CASE)
    done = gpu_policy_test(tmp_path)
    assert f"{file}:1: spec.policies: missing, and no directory above this file has a _default.yaml" in done.stdout
    assert done.exit_code == 2
