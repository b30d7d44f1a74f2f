"""What stands in the documents about an example: YAML as people write it, without what was there before."""

from dataclasses import replace

import pytest
import yaml

from tests.golden import each
from tests.rules.validity import faults
from webhook.rules import RULES
from webhook.rules.rule import Example
from webhook.rules.rule_settings import Mode
from webhook.rules_page.page_of_rules import additions, as_yaml, in_one_line, shown_example, try_out
from webhook.yaml_files.file_errors import FileErrors

GPU_POD = """
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers:
    - {name: trainer, image: "train:1", resources: {limits: {nvidia.com/gpu: 1}}}
"""

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: serve}
spec:
  replicas: 1
  selector: {matchLabels: {app: serve}}
  template:
    metadata: {labels: {app: serve}}
    spec:
      containers:
        - {name: server, image: "serve:1", resources: {limits: {nvidia.com/gpu: 1}}}
"""


def rule_of(key):
    return next(rule for rule in RULES if rule.key == key)


@each(
    "key, example, expected",
    {
        "no object": ("gpuLimits", Example("kind: Pod"), "an incomplete Kubernetes object"),
        "no such setting": ("gpuLimits", Example(GPU_POD, {"maxPods": 1}), "unknown key"),
        "no pods": ("gpuLimits", Example("{apiVersion: v1, kind: Secret}"), "makes no pods"),
        "no pod": ("gpuQuota", Example(GPU_POD, {"gpus": 1}, beside="[]"), "Kubernetes would refuse"),
    },
)
def test_an_example_with_a_mistake_is_an_error(key, example, expected) -> None:
    with pytest.raises((ValueError, FileErrors), match=expected):
        try_out(rule_of(key), example)


def shown(key, tried):
    return "".join(shown_example(replace(rule_of(key), example=tried)))


def test_a_refusal_and_a_warning_are_shown_with_their_remedy() -> None:
    assert "`gpuLimits: {mode: enforce, maxPerPod: 0}` it is refused:\n\n```text\ngpuLimits: spec: requests" in shown(
        "gpuLimits", Example(GPU_POD, {"maxPerPod": 0})
    )
    assert shown("gpuLimits", Example(GPU_POD, {"maxPerPod": 0}, Mode.WARN)).partition("Under ")[2] == (
        "`gpuLimits: {mode: warn, maxPerPod: 0}` it is admitted with a warning:\n\n```text\n"
        "Warning: gpuLimits: spec: requests 1 GPU; GPUs are not enabled in namespace default. Ask the platform team to "
        "enable\nthem.\n```\n"
    )


def test_an_example_that_nothing_becomes_of_says_so() -> None:
    assert shown("gpuLimits", Example(GPU_POD)).endswith(
        "\nUnder `gpuLimits: {mode: enforce}` it is admitted as it is.\n"
    )


def test_a_workload_hears_a_warning_and_its_pods_are_completed() -> None:
    assert shown("gpuLimits", Example(DEPLOYMENT, {"maxPerPod": 0})).endswith(
        "it is admitted with a warning:\n\n```text\n"
        "Warning: gpuLimits: pod template (1 pod, 1 GPU): spec.template.spec: requests 1 GPU; GPUs are not enabled in "
        "namespace\ndefault. Ask the platform team to enable them.\n```\n"
    )
    assert shown("runtimeClass", Example(DEPLOYMENT)).endswith(
        "each of its pods gets:\n\n```yaml\nspec: {runtimeClassName: nvidia}\n```\n"
    )


def test_a_pod_that_is_completed_with_advice_shows_both() -> None:
    pod = GPU_POD.replace("nvidia.com/gpu: 1", "nvidia.com/gpu: 2")
    text = shown("sharedMemory", Example(pod))
    assert "emptyDir: {medium: Memory, sizeLimit: 8Gi}\n```\n\nIt is admitted with a warning:\n" in text


def test_pods_that_run_already_are_shown_before_what_is_applied() -> None:
    text = shown("gpuQuota", Example(GPU_POD, {"gpus": 1}, beside=GPU_POD.replace("train", "first")))
    assert text.index("# Runs already:") < text.index("{name: first}") < text.index("# Is applied:")
    assert "largest: first 1" in text


SPEC = {"spec": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}], "env": {"A": "1", "B": "on"}}}


def test_the_innermost_maps_and_lists_stand_in_one_line_each() -> None:
    expected = """\
spec:
  tolerations:
    - {key: nvidia.com/gpu, operator: Exists}
  env: {A: "1", B: "on"}"""
    assert as_yaml(SPEC) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"mode": "enforce", "images": {"team/*": "12.4"}}, '{mode: enforce, images: {team/*: "12.4"}}'),
        (["nvidia", "nvidia-cdi"], "[nvidia, nvidia-cdi]"),
        ([SPEC] * 2, f"[{in_one_line(SPEC)}, {in_one_line(SPEC)}]"),
        ({"long": ["word " * 20] * 20}, None),
    ],
    ids=["quotes where they are needed", "a list", "the same value twice", "however long"],
)
def test_one_line_holds_everything(value, expected) -> None:
    line = in_one_line(value)
    assert "\n" not in line
    assert yaml.safe_load(line) == value
    assert expected is None or line == expected


TRAINER = {"name": "trainer", "image": "train:1"}


@each(
    "before, after, expected",
    {
        "nothing": ({"a": 1}, {"a": 1}, {}),
        "a new key": ({"a": 1}, {"a": 1, "b": {"c": 2}}, {"b": {"c": 2}}),
        "a key further down": ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}),
        "another value": ({"a": {"b": 1}}, {"a": {"b": 2}}, {"a": {"b": 2}}),
        "an entry of a list": ({"a": [1]}, {"a": [1, 2]}, {"a": [2]}),
        "a key of an entry, which keeps its name": (
            {"containers": [TRAINER, {"name": "log"}]},
            {"containers": [{**TRAINER, "env": []}, {"name": "log"}]},
            {"containers": [{"name": "trainer", "env": []}]},
        ),
        "an entry of an entry without a name": (
            {"terms": [{"match": [{"key": "a"}]}]},
            {"terms": [{"match": [{"key": "a"}, {"key": "b"}]}]},
            {"terms": [{"match": [{"key": "b"}]}]},
        ),
        "in the place of nothing": ({"a": None}, {"a": [1]}, {"a": [1]}),
    },
)
def test_what_is_new_stands_at_its_place(before, after, expected) -> None:
    assert additions(before, after) == expected


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.key)
def test_a_rule_says_in_one_sentence_what_goes_wrong_without_it_and_shows_itself_at_work(rule) -> None:
    assert rule.problem[:1].isupper()
    assert rule.problem.endswith(".")
    assert ". " not in rule.problem.replace("\n", ". ")
    trial = try_out(rule, rule.example)
    assert trial.outcome.refusal or trial.added or trial.outcome.warnings
    assert {finding.rule for finding in trial.outcome.findings} <= {rule.key}
    assert not any("..." in warning for warning in trial.outcome.warnings)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.key)
def test_an_example_is_one_short_object_that_kubernetes_takes_unless_the_rule_says_so(rule) -> None:
    lines = rule.example.manifest.strip("\n").splitlines()
    assert len(lines) <= 15
    assert all(len(line) <= 100 and line == line.rstrip() for line in lines)
    (raw,) = yaml.safe_load_all(rule.example.manifest)
    assert {"apiVersion", "kind", "metadata", "spec"} == set(raw)
    pod = raw if raw["kind"] == "Pod" else raw["spec"]["template"]
    is_refused_anyway = any(finding.fails_validation for finding in try_out(rule, rule.example).outcome.findings)
    assert bool(faults(pod)) == is_refused_anyway
