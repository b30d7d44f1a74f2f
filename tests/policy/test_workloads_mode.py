"""What a policy says about workloads: strict like the rest, inherited as a whole, warn where no file says anything."""

import json

import pytest
import yaml

from webhook.policy.policy_set import Policy
from webhook.policy.schema import WorkloadsMode, policy_schema
from webhook.policy.show import effective_policy, explain

HEAD = "apiVersion: gpupolicy.dev/v1alpha1\nkind: GPUPolicy\nmetadata: {{name: {name}}}\nspec:\n"


def write(policies, name: str, workloads: str = "", rules: str = "{}") -> None:
    """Write NAME.yaml, in which `workloads` stand on line 5."""
    said = f"  workloads: {workloads}\n" if workloads else ""
    policies.write(f"{name}.yaml", HEAD.format(name=name) + said + f"  rules: {rules}\n")


def modes(policies) -> dict[str, WorkloadsMode]:
    loaded = policies.load()
    return {name: loaded.for_namespace(name).workloads for name in ("own", "silent", "other")}


def test_a_mode_that_is_set_nowhere_is_warn(policies) -> None:
    write(policies, "silent")
    assert set(modes(policies).values()) == {WorkloadsMode.WARN}


def test_the_value_of_a_namespace_replaces_that_of_the_default(policies) -> None:
    write(policies, "_default", "{mode: enforce}")
    write(policies, "own", "{mode: disabled}")
    write(policies, "silent")
    assert modes(policies) == {
        "own": WorkloadsMode.DISABLED,
        "silent": WorkloadsMode.ENFORCE,
        "other": WorkloadsMode.ENFORCE,
    }


def test_each_mode_has_a_hash_of_its_own(policies) -> None:
    found: list[Policy] = []
    for said in ("", *(f"{{mode: {mode}}}" for mode in WorkloadsMode)):
        write(policies, "_default", said)
        found.append(policies.load().default)
    assert len({policy.hash for policy in found}) == 1 + len(WorkloadsMode)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param(
            "", ": is empty; write {mode: warn}, or remove the line to inherit it from _default.yaml", id="nothing"
        ),
        pytest.param("{}", ".mode: missing; write one of warn, enforce, disabled", id="no mode"),
        pytest.param("warn", ': "warn" is a string; write a map such as {mode: enforce}', id="a mode alone"),
        pytest.param(
            "{mode: audit}", '.mode: "audit" is not allowed; write one of warn, enforce, disabled', id="a mode of rules"
        ),
        pytest.param(
            "{mode: off}",
            ".mode: off is a boolean in YAML; write one of warn, enforce, disabled",
            id="what YAML takes for a boolean",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(policies, said: str, expected: str) -> None:
    policies.write("a.yaml", HEAD.format(name="a") + f"  workloads: {said}\n  rules: {{}}\n")
    assert [f"a.yaml:5: spec.workloads{expected}"] == policies.errors()


def test_what_is_shown_says_where_it_comes_from_and_is_a_policy_file_that_says_the_same(policies) -> None:
    write(policies, "_default", "{mode: enforce}")
    write(policies, "own", "{mode: disabled}")
    loaded = policies.load()
    for namespace, file in (("own", "own.yaml"), ("other", "_default.yaml")):
        text = explain(loaded, namespace)
        assert f"  # from {file}\n  workloads:\n    mode: {modes(policies)[namespace]}\n" in text
        assert yaml.safe_load(text) == effective_policy(loaded, namespace)
    policies.write("own.yaml", explain(loaded, "own"))
    assert modes(policies)["own"] is WorkloadsMode.DISABLED


def test_editors_know_the_modes() -> None:
    schema = policy_schema()["properties"]["spec"]["properties"]["workloads"]
    assert (schema["properties"]["mode"]["enum"], schema["required"]) == (["warn", "enforce", "disabled"], ["mode"])
    assert schema["additionalProperties"] is False
    json.dumps(schema)
