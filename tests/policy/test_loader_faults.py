"""Every mistake in a policy is told with file, line, key, fault and remedy."""

from typing import Annotated

import pytest
from pydantic import AfterValidator, Field, model_validator

from webhook.policy.loader import load
from webhook.rules import RULES
from webhook.rules.rule import Rule
from webhook.rules.rule_settings import RuleSettings
from webhook.yaml_files.file_errors import FileErrors


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        pytest.param(
            "sharedMemory: {mode: enforce, sise: 16Gi}",
            "sharedMemory.sise: unknown key; known keys are ifMissing, memoryFraction, minGpus, mode, size; "
            "did you mean size?",
            id="unknown key",
        ),
        pytest.param(
            "sharedmemory: {mode: enforce}",
            "sharedmemory: unknown rule; known rules are "
            + ", ".join(sorted(rule.key for rule in RULES))
            + "; did you mean sharedMemory?",
            id="unknown rule",
        ),
        pytest.param(
            "gpuLimits: {mode: off}",
            "gpuLimits.mode: off is a boolean in YAML; modes are words: enforce, warn, audit, disabled",
            id="off",
        ),
        pytest.param(
            "gpuLimits: {mode: enforced}",
            'gpuLimits.mode: "enforced" is not a mode; modes are enforce, warn, audit, disabled; did you mean enforce?',
            id="no such mode",
        ),
        pytest.param(
            "gpuLimits: {maxPerPod: 8}",
            "gpuLimits.mode: missing, here and in _default.yaml; write one of enforce, warn, audit, disabled",
            id="no mode at all",
        ),
        pytest.param(
            "ncclEnv: {mode: warn, env: {NCCL_IB_DISABLE: 1}}",
            "ncclEnv.env.NCCL_IB_DISABLE: 1 is a number; put it in quotes",
            id="a number for a text",
        ),
        pytest.param(
            'ncclEnv: {mode: warn, minGpus: "2"}',
            'ncclEnv.minGpus: "2" is a string; remove the quotes',
            id="a text for a number",
        ),
        pytest.param(
            "ncclEnv: {mode: warn, minGpus: many}",
            'ncclEnv.minGpus: "many" is a string; write a whole number of at least 1',
            id="a word for a number",
        ),
        pytest.param(
            "ncclEnv: {mode: warn, minGpus: 0}",
            "ncclEnv.minGpus: 0 is out of range; write a whole number of at least 1",
            id="too small",
        ),
        pytest.param(
            "sharedMemory: {mode: warn, memoryFraction: 1.5}",
            "sharedMemory.memoryFraction: 1.5 is out of range; write a number above 0 and at most 1",
            id="too large",
        ),
        pytest.param(
            "gpuLimits: {mode: warn, maxPerPod: 1.5}",
            "gpuLimits.maxPerPod: 1.5 is a number; write a whole number of at least 0",
            id="a fraction for a whole number",
        ),
        pytest.param(
            "tolerations: {mode: warn, add: {key: a}}",
            "tolerations.add: found a map; write a list of maps",
            id="a map for a list",
        ),
        pytest.param(
            "nodeAffinity: {mode: warn, required: [{operator: Exists}]}",
            "nodeAffinity.required[0].key: missing; write a string",
            id="missing key",
        ),
        pytest.param(
            "nodeAffinity: {mode: warn, required: [{key: a, operator: in, values: [b]}]}",
            'nodeAffinity.required[0].operator: "in" is not allowed; write one of In, NotIn, Exists, DoesNotExist, '
            "Gt, Lt; did you mean In?",
            id="not a choice",
        ),
        pytest.param(
            "gpuLimits: {mode: warn, requestsOnly: no}",
            "gpuLimits.requestsOnly: no is a boolean in YAML; write one of deny, repair",
            id="a boolean for a choice",
        ),
        pytest.param(
            'ncclEnv: {mode: warn, env: {"A B": x}}',
            "ncclEnv.env.A B: not allowed as a key here; keys match ^[A-Za-z_][A-Za-z0-9_.-]*$",
            id="not a name",
        ),
        pytest.param(
            "sharedMemory: {mode: warn, size: 1Gi, memoryFraction: 0.5}",
            "sharedMemory.memoryFraction: excludes size; keep one of them",
            id="keys that exclude each other",
        ),
        pytest.param(
            "gpuLimits:",
            "gpuLimits: is empty; write {mode: disabled} to switch the rule off, {} to inherit all of it, or remove "
            "the line to inherit it from _default.yaml",
            id="an empty rule",
        ),
        pytest.param(
            "gpuLimits: {mode: warn, maxPerPod: ~}",
            "gpuLimits.maxPerPod: is empty; write a value, or remove the line to inherit it from _default.yaml",
            id="an empty key",
        ),
        pytest.param(
            "gpuLimits: enforce",
            'gpuLimits: "enforce" is a string; write a map such as {mode: enforce}',
            id="a rule that is no map",
        ),
    ],
)
def test_a_faulty_setting_is_told_with_line_key_fault_and_remedy(policies, rules, expected) -> None:
    policies.policy("team-a", rules)
    assert [f"team-a.yaml:6: spec.rules.{expected}"] == policies.errors()


def _not_odd(value: int) -> int:
    if value % 2:
        raise ValueError(f"{value} is odd; write an even number")
    return value


def _word(value: str) -> str:
    if " " in value:
        raise ValueError(f'"{value}" is not a word')
    return value


class Sample(RuleSettings):
    """Settings with checks of their own."""

    even: Annotated[int, AfterValidator(_not_odd)] = 2
    """An even number."""
    word: Annotated[str, AfterValidator(_word), Field(min_length=1, pattern="^[a-z ]*$", examples=["bee"])] = "a"
    """A word."""
    words: dict[Annotated[str, AfterValidator(_word)], str] = Field(default_factory=dict)
    """Texts by word."""

    @model_validator(mode="after")
    def _is_consistent(self) -> "Sample":
        if self.word == "two" and self.even != 2:
            raise ValueError("word two needs even: 2")
        return self


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param("even: 3", ".even: 3 is odd; write an even number", id="a remedy of its own"),
        pytest.param("word: a b", '.word: "a b" is not a word; write a string such as bee', id="no remedy of its own"),
        pytest.param(
            'word: ""', '.word: "" is a string; write a string such as bee, not an empty one', id="empty text"
        ),
        pytest.param("word: A", '.word: "A" is a string; write one that matches ^[a-z ]*$', id="pattern"),
        pytest.param("words: {a b: c}", '.words.a b: not allowed as a key here; "a b" is not a word', id="key"),
        pytest.param("{even: 4, word: two}", ": word two needs even: 2", id="a combination"),
    ],
)
def test_what_a_rule_checks_itself_is_told_in_its_words(policies, settings, expected) -> None:
    body = settings if settings.startswith("{") else f"{{{settings}}}"
    policies.policy("_default", "sample: {mode: warn}")
    policies.policy("team-a", f"sample: {body}")
    with pytest.raises(FileErrors) as caught:
        load(policies.path, [Rule(key="sample", promise="A sample.", settings=Sample)])
    assert [f"{policies.path}/team-a.yaml:6: spec.rules.sample{expected}"] == str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "apiVersion: v1\nkind: GPUPolicy\nmetadata: {name: a}\nspec: {rules: {}}\n",
            ['a.yaml:1: apiVersion: "v1" is not allowed; write gpupolicy.dev/v1alpha1'],
            id="apiVersion",
        ),
        pytest.param(
            "apiVersion: gpupolicy.dev/v1alpha1\nkind: Policy\nmetadata: {name: a}\nspec: {rules: {}}\n",
            ['a.yaml:2: kind: "Policy" is not allowed; write GPUPolicy'],
            id="kind",
        ),
        pytest.param(
            "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {name: b}\nspec: {rules: {}}\n",
            ['a.yaml:3: metadata.name: "b" is not the name of the file; write a, or rename the file to b.yaml'],
            id="another name",
        ),
        pytest.param(
            "kind: GPUPolicy\nmetadata:\nspec: {rule: {}}\n",
            [
                "a.yaml:1: apiVersion: missing; write gpupolicy.dev/v1alpha1",
                "a.yaml:2: metadata: is empty; write a value, or remove the line",
                "a.yaml:3: spec.rule: unknown key; known keys are accelerators, contact, deviceClasses, exceptions, "
                "namespaces, nodePools, rules, transientTaints, workloads; did you mean rules?",
                "a.yaml:3: spec.rules: missing; write a map",
            ],
            id="parts missing",
        ),
        pytest.param(
            "- a\n", ["a.yaml:1: not a map; a GPUPolicy starts with apiVersion, kind, metadata and spec"], id="a list"
        ),
    ],
)
def test_a_faulty_head_is_told(policies, text, expected) -> None:
    policies.write("a.yaml", text)
    assert expected == policies.errors()


@pytest.mark.parametrize(
    ("namespaces", "expected"),
    [
        pytest.param(
            "[]", ": names no namespace; write one, or remove the key for the namespace of the file's name", id="none"
        ),
        pytest.param(
            '["[ab]*"]',
            '[0]: "[ab]*" cannot be a namespace; names have up to 63 lower-case letters, digits and inner dashes, and '
            "the only wildcards are * and ?",
            id="a character class",
        ),
        pytest.param("[5]", "[0]: 5 is a number; put it in quotes", id="a number"),
        pytest.param("team-a", ': "team-a" is a string; write a list of strings', id="a text"),
    ],
)
def test_faulty_namespaces_are_told(policies, namespaces, expected) -> None:
    policies.policy("a", namespaces=namespaces)
    assert [f"a.yaml:5: spec.namespaces{expected}"] == policies.errors()


def test_the_default_may_not_choose_namespaces(policies) -> None:
    policies.policy("_default", namespaces="[a]")
    assert policies.errors() == [
        "_default.yaml:5: spec.namespaces: _default.yaml applies to every namespace; remove the key"
    ]


def test_a_file_whose_name_cannot_be_a_namespace_is_refused(policies) -> None:
    policies.policy("Team_A")
    (error,) = policies.errors()
    assert error.startswith('Team_A.yaml:3: metadata.name: "Team_A" cannot be a namespace')
