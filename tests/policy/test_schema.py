"""The JSON Schema for editors says what the loader does."""

import pytest

from webhook.policy.policy_quotas import quotas_schema
from webhook.policy.schema import policy_schema


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
