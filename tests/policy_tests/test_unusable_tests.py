"""Whatever is wrong with a test of policies is told with file, line and key, and everything else runs all the same."""

import re
from pathlib import Path

import pytest

from tests.policy_tests.files import case, gpu_policy_test, pod, suite, write

HEAD = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicyTest\nmetadata: {name: sample}\nspec:\n"
POLICIES = "  policies: {_default.yaml: {spec: {rules: {gpuLimits: {mode: enforce, maxPerPod: 8}}}}}\n"
POD = "{apiVersion: v1, kind: Pod, metadata: {name: train}, spec: {containers: [{name: main, image: a}]}}"
CASE = f"  cases:\n    - name: one\n      resources:\n        - {POD}\n      expect: {{allowed: true}}\n"
GOOD = HEAD + POLICIES + CASE
DOUBLING = "".join(f"  {b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True))


def expecting(text: str) -> str:
    """The good test with something else for what it expects; line 10."""
    return GOOD.replace("{allowed: true}", text)


def of(resource: str) -> str:
    """The good test with another resource; line 9."""
    return GOOD.replace(POD, resource)


UNUSABLE = [
    pytest.param(HEAD + "  cases: [\n", "6: not valid YAML", id="unparsable"),
    pytest.param("a: b: c\n", "1: not valid YAML", id="unparsable, and nobody knows what it was meant to be"),
    pytest.param("{{ if .Values.a }}\na: b\n", "1: not valid YAML", id="a template"),
    pytest.param(b"\xff\xfea", "1: not UTF-8", id="another encoding"),
    pytest.param(GOOD + "      expect: {}\n", "11: spec.cases[0].expect: expect is already set", id="a duplicate key"),
    pytest.param(
        GOOD.replace("      expect:", "          expect:").replace(POD, "apiVersion: v1\n          kind: Pod"),
        "7: spec.cases[0].expect: missing; write a map",
        id="an expectation that is indented too far",
    ),
    pytest.param(GOOD + "---\n" + GOOD, "11: a second document starts here; a file holds one GPUPolicyTest", id="two"),
    pytest.param(GOOD.replace("  policies", "  polices"), "5: spec.polices: unknown key", id="an unknown key"),
    pytest.param(expecting("{alowed: true}"), "10: spec.cases[0].expect.alowed: unknown key", id="what is expected"),
    pytest.param(expecting("{allowed: }"), "10: spec.cases[0].expect.allowed: is empty", id="no value"),
    pytest.param(expecting("{allowed: 5}"), "10: spec.cases[0].expect.allowed: 5 is a number", id="a wrong type"),
    pytest.param(expecting("yes"), "10: spec.cases[0].expect: yes is a boolean in YAML", id="no map"),
    pytest.param(expecting("{}"), "10: spec.cases[0].expect: expects nothing", id="nothing is expected"),
    pytest.param(expecting("{warned: }"), "10: spec.cases[0].expect.warned: is empty", id="an empty list"),
    pytest.param(
        expecting("{refused: [{rule: gpuLimit}]}"),
        '10: spec.cases[0].expect.refused[0].rule: "gpuLimit" is not allowed',
        id="an unknown rule",
    ),
    pytest.param(expecting("{refused: [gpuLimits]}"), "10: spec.cases[0].expect.refused[0]: ", id="a rule as a text"),
    pytest.param(
        expecting("{allowed: true, refused: [{rule: gpuLimits}]}"),
        "10: spec.cases[0].expect: both allowed and refused",
        id="a contradiction",
    ),
    pytest.param(
        expecting("{allowed: false, refused: []}"),
        "10: spec.cases[0].expect: allowed is false, but",
        id="refused by nothing",
    ),
    pytest.param(
        expecting("{allowed: false, injected: {spec: {a: 1}}}"),
        "10: spec.cases[0].expect: a resource that is refused is not mutated; leave out injected",
        id="refused and injected",
    ),
    pytest.param(
        expecting("{unchanged: true, injected: {spec: {a: 1}}}"),
        "10: spec.cases[0].expect: both injected and unchanged",
        id="unchanged and injected",
    ),
    pytest.param(expecting("{injected: {}}"), "10: spec.cases[0].expect.injected: found an empty map", id="no values"),
    pytest.param(
        expecting("{resources: {Pod/trian: {allowed: true}}}"),
        "10: spec.cases[0].expect.resources.Pod/trian: no such resource in this case; there are Pod/train",
        id="a resource that is not there",
    ),
    pytest.param(
        expecting("{resources: {Pod/train: {}}}"),
        "10: spec.cases[0].expect: nothing is expected of Pod/train",
        id="nothing is expected of a resource",
    ),
    pytest.param(
        expecting("{allowed: true, resources: {Pod/train: {allowed: true}}}"),
        "10: spec.cases[0].expect: applies to no resource",
        id="an expectation that nothing can miss",
    ),
    pytest.param(
        expecting("{groups: {Worker: {allowed: true}}}"),
        "10: spec.cases[0].expect.groups.Worker: Pod default/train has pods of one group only",
        id="groups of a pod",
    ),
    pytest.param(
        expecting("{groups: {Worker: {}}}"), "10: spec.cases[0].expect: nothing is expected of group Worker", id="group"
    ),
    pytest.param(HEAD + POLICIES + "  cases: []\n", "6: spec.cases: found an empty list", id="no case"),
    pytest.param(GOOD + CASE.partition("\n")[2], '11: spec.cases[1].name: "one" is the name of', id="the same name"),
    pytest.param(GOOD.replace("name: one", "name: ''"), "7: spec.cases[0].name: ", id="no name"),
    pytest.param(GOOD.replace("metadata: {name: sample}\n", ""), "1: metadata: missing", id="no metadata"),
    pytest.param(GOOD.replace("v1alpha1", "v2"), "1: apiVersion: ", id="an unknown version"),
    pytest.param(GOOD.replace("GPUPolicyTest", "GpuPolicyTest"), "2: kind: ", id="a misspelled kind"),
    pytest.param(GOOD.replace("GPUPolicyTest", "PolicyTest"), "1: kind: ", id="another kind"),
    pytest.param(GOOD.replace("kind: GPUPolicyTest\n", ""), "1: an incomplete Kubernetes object", id="no kind"),
    pytest.param("- kind: GPUPolicyTest\n", "1: not a map", id="a list"),
    pytest.param(
        GOOD.replace("      resources", "      namespace: 'a*'\n      resources"),
        '8: spec.cases[0].namespace: "a*" is a glob',
        id="a glob of namespaces",
    ),
    pytest.param(of("nowhere.yaml"), "9: spec.cases[0].resources[0]: .*nowhere.yaml: no such file", id="no such file"),
    pytest.param(of("7"), "9: spec.cases[0].resources[0]: 7 is a number", id="a resource that is none"),
    pytest.param(
        of(POD.replace("Pod", "pod")), "9: spec.cases[0].resources[0]: kind: found 'pod'", id="a misspelled pod"
    ),
    pytest.param(of("{spec: {}}"), "9: spec.cases[0].resources[0]: .*Kubernetes object", id="no object"),
    pytest.param(of(POD.replace("[{", "[7, {")), "9: spec.containers[0]: found a number", id="a malformed pod"),
    pytest.param(
        of("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"),
        "8: spec.cases[0].resources: none of them makes pods",
        id="nothing that makes pods",
    ),
    pytest.param(
        GOOD.replace("maxPerPod", "maxPerPot"),
        "5: spec.policies._default.yaml: spec.rules.gpuLimits.maxPerPot: unknown key",
        id="policies that do not load",
    ),
    pytest.param(
        HEAD
        + "  policies:\n    _default.yaml: |\n      apiVersion: gpupolicy.dev/v1alpha1\n      kind: GPUPolicy\n"
        + "      metadata: {name: _default}\n      spec:\n        rules:\n          gpuLimit: {mode: warn}\n"
        + CASE,
        "12: spec.policies._default.yaml: spec.rules.gpuLimit: unknown rule",
        id="policies that stand there as a text",
    ),
    pytest.param(
        HEAD
        + "  policies:\n    _default.yaml:\n      spec:\n        rules:\n          gpuLimits:\n"
        + "            mode: enforce\n            maxPerPod: many\n"
        + CASE,
        "11: spec.policies._default.yaml: spec.rules.gpuLimits.maxPerPod: ",
        id="policies that stand there as keys",
    ),
    pytest.param(
        GOOD.replace("_default.yaml", "default.yml"), "5: spec.policies.default.yml: not allowed", id="no policy file"
    ),
    pytest.param(
        GOOD.replace("{spec: {rules: {gpuLimits: {mode: enforce, maxPerPod: 8}}}}", "''"),
        "5: spec.policies._default.yaml: the file is empty",
        id="an empty policy file",
    ),
    pytest.param(HEAD + "  policies: nowhere\n" + CASE, "5: spec.policies: .*nowhere: no such dir", id="no policies"),
    pytest.param(
        GOOD.replace("  cases", "  inventory: nowhere.yaml\n  cases"),
        "6: spec.inventory: .*nowhere.yaml: the file cannot be read",
        id="no such inventory",
    ),
    pytest.param(
        GOOD.replace("  cases", "  inventory: [{kind: Nod, metadata: {name: a}}]\n  cases"),
        '6: spec.inventory[0]: kind "Nod" is not used',
        id="an inventory of something else",
    ),
    pytest.param(
        GOOD.replace("  cases", "  inventory: [{kind: Node, metadata: {}}]\n  cases"),
        "6: spec.inventory[0]: a Node without a name",
        id="a node without a name",
    ),
    pytest.param(
        GOOD.replace("  cases", "  inventory: [{kind: Pod, metadata: {name: a}, spec: {containers: 7}}]\n  cases"),
        "6: spec.inventory[0]: spec.containers: found a number",
        id="a broken pod in the inventory",
    ),
    pytest.param(
        HEAD + "  a: &a [x, x, x, x, x, x, x, x, x, x]\n" + DOUBLING,
        "10: more than 200000 keys and values",
        id="aliases of aliases",
    ),
    pytest.param(
        HEAD + "  cases: &x [*x]\n",
        "5: not valid YAML: the alias *x refers to an anchor that is not defined, or",
        id="a circle",
    ),
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
    assert [line.strip() for line in lines if fault in line] == [
        f"unusable  {fault}",
        f"unusable  {fault} (as above)",
    ]


def test_every_mistake_of_a_file_is_told_at_once_and_none_twice(tmp_path: Path) -> None:
    write(tmp_path / "bad.yaml", expecting("{alowed: true, refused: [{rule: x}]}").replace("policies", "polices"))
    told = [line for line in gpu_policy_test(tmp_path).stdout.splitlines() if "unusable  " in line]
    assert [re.search(r"yaml:(\d+): (\S+): ", line).groups() for line in told] == [
        ("5", "spec.polices"),
        ("10", "spec.cases[0].expect.alowed"),
        ("10", "spec.cases[0].expect.refused[0].rule"),
    ]


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        pytest.param(lambda path: path, "no such file or directory", id="missing"),
        pytest.param(lambda path: path.mkdir(), "no GPUPolicyTest in it", id="empty"),
        pytest.param(lambda path: write(path / "pod.yaml", pod()), "no GPUPolicyTest in it", id="other objects only"),
        pytest.param(lambda path: write(path / ".hidden" / "a.yaml", GOOD), "no GPUPolicyTest in it", id="hidden"),
    ],
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
