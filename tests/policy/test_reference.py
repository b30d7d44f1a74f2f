"""Generated documents are complete and up to date."""

from pathlib import Path

from webhook.model.pod import Pod
from webhook.policy.pots import INHERITED, quotas_schema_text
from webhook.policy.reference import rules_reference, undocumented
from webhook.policy.schema import policy_schema_text
from webhook.rules import RULES
from webhook.rules.rule import Rule, RuleSettings

DOCS = Path(__file__).parents[2] / "docs"


def test_the_reference_of_rules_is_up_to_date() -> None:
    stale = "docs/rules.md is not what the rules say; run: gpu-policy policy docs > docs/rules.md"
    assert (DOCS / "rules.md").read_text() == rules_reference(), stale


def test_the_json_schema_is_up_to_date() -> None:
    stale = "docs/policy-schema.json is not what the rules say; run: gpu-policy policy schema > docs/policy-schema.json"
    assert (DOCS / "policy-schema.json").read_text() == policy_schema_text(), stale


def test_the_json_schema_of_quotas_is_up_to_date() -> None:
    stale = "docs/quotas-schema.json is not what pots say; run: gpu-policy policy schema --kind GPUQuotaPots > " + (
        "docs/quotas-schema.json"
    )
    assert (DOCS / "quotas-schema.json").read_text() == quotas_schema_text(), stale


def test_pots_are_explained_with_every_key_that_they_add_and_every_one_that_they_take_over() -> None:
    text = rules_reference().partition("\n## Pots\n")[2]
    assert all(f"| `{key}` |" in text for key in ("name", "namespaces", "mode"))
    assert all(f"`{key}`" in text for key in INHERITED)


def test_every_rule_and_every_setting_is_described() -> None:
    assert undocumented() == []


class Silent(RuleSettings):
    """Settings of which one is not described."""

    size: int = 1


def test_a_setting_without_a_description_is_found() -> None:
    assert undocumented([Rule("silent", "It promises.", Silent)]) == ["silent.size"]


def test_a_rule_without_a_promise_is_found() -> None:
    assert undocumented([Rule("silent", "", RuleSettings)]) == ["silent"]


def test_every_rule_and_every_key_stands_in_the_reference_in_order() -> None:
    text = rules_reference()
    headings = [line.strip("# `") for line in text.splitlines() if line.startswith("## `")]
    assert headings == [rule.key for rule in RULES]
    for rule in RULES:
        keys = [field.alias for field in rule.settings.model_fields.values()]
        assert all(f"| `{key}` |" in text for key in keys)


def test_a_rule_without_settings_of_its_own_says_so() -> None:
    def judge(pod: Pod, settings: RuleSettings, facts: object) -> list[object]:
        return []

    text = rules_reference([Rule("plain", "It promises.", RuleSettings, validate=judge)])
    assert "It has no settings of its own." in text
    assert "| [`plain`](#plain) | It promises. | judges pods |" in text
