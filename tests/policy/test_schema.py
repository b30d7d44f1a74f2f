"""The JSON Schema for editors says what the loader does."""

import pytest

from webhook.policy.policy_quotas import quotas_schema, shared_quota_schema
from webhook.policy.schema import part_at, policy_schema
from webhook.rules import RULES


def walk(part):
    yield part
    for value in part.values() if isinstance(part, dict) else part:
        if isinstance(value, dict | list):
            yield from walk(value)


BOTH = pytest.mark.parametrize("schema", [policy_schema(), quotas_schema()], ids=["policies", "quotas"])


@BOTH
def test_the_schema_is_plain_json_in_draft_07_without_references_titles_or_nulls(schema) -> None:
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    parts = [part for part in walk(schema) if isinstance(part, dict)]
    assert not any("$ref" in part or "$defs" in part for part in parts)
    assert not any(part.get("type") == "null" or part.get("default", "") is None for part in parts)


@BOTH
def test_every_map_with_known_keys_allows_no_others(schema) -> None:
    maps = [part for part in walk(schema) if isinstance(part, dict) and part.get("type") == "object"]
    assert len(maps) > 3
    assert all(part["additionalProperties"] is False for part in maps if "properties" in part)


def test_every_rule_is_optional_and_requires_nothing_because_files_inherit() -> None:
    rules = part_at(policy_schema(), ("spec", "rules"))
    assert list(rules["properties"]) == [rule.key for rule in RULES]
    assert "required" not in rules
    assert not any("required" in part for part in rules["properties"].values())


def test_modes_and_versions_are_choices() -> None:
    schema = policy_schema()
    assert schema["required"] == ["apiVersion", "kind", "metadata", "spec"]
    assert part_at(schema, ("apiVersion",))["const"] == "gpupolicy.dev/v1alpha1"
    assert part_at(schema, ("spec", "rules", "gpuLimits", "mode"))["enum"] == ["enforce", "warn", "audit", "disabled"]


def test_keys_that_exclude_each_other_cannot_both_be_set() -> None:
    memory = part_at(policy_schema(), ("spec", "rules", "sharedMemory"))
    assert memory["allOf"] == [{"not": {"required": ["memoryFraction", "size"]}}]


def test_descriptions_and_defaults_reach_the_editor() -> None:
    schema = policy_schema()
    minimum = part_at(schema, ("spec", "rules", "sharedMemory", "minGpus"))
    assert minimum["description"] == "Least number of GPUs that a container has to request to get the volume."
    assert (minimum["minimum"], minimum["default"]) == (1, 1)
    assert part_at(schema, ("spec", "rules", "tolerations", "add", 0, "key"))["type"] == "string"


def test_names_of_variables_are_checked_in_the_editor_too() -> None:
    env = part_at(policy_schema(), ("spec", "rules", "ncclEnv", "env"))
    assert list(env["patternProperties"]) == ["^[A-Za-z_][A-Za-z0-9_.-]*$"]
    assert env["additionalProperties"] is False


def test_a_shared_quota_has_the_keys_of_the_rule_and_needs_a_name_and_namespaces() -> None:
    shared_quota = part_at(quotas_schema(), ("spec", "quotas", 0))
    rule = part_at(policy_schema(), ("spec", "rules", "gpuQuota"))
    assert set(shared_quota["properties"]) == {*rule["properties"], "name", "namespaces"}
    assert sorted(shared_quota["required"]) == ["name", "namespaces"]
    shared = set(rule["properties"]) - {"mode"}
    assert {key: shared_quota["properties"][key] for key in shared} == {key: rule["properties"][key] for key in shared}


def test_a_shared_quota_is_enforced_by_default_and_says_so_to_the_editor() -> None:
    mode = shared_quota_schema()["properties"]["mode"]
    assert (mode["default"], mode["enum"]) == ("enforce", ["enforce", "warn", "audit", "disabled"])
    assert shared_quota_schema()["properties"]["namespaces"]["minItems"] == 1


def test_the_head_of_quotas_is_one_choice_each() -> None:
    schema = quotas_schema()
    assert schema["required"] == ["apiVersion", "kind", "metadata", "spec"]
    consts = [part_at(schema, path)["const"] for path in (("apiVersion",), ("kind",), ("metadata", "name"))]
    assert consts == ["gpupolicy.dev/v1alpha1", "GPUSharedQuotas", "_quotas"]
