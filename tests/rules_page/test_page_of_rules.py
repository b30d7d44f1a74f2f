"""docs/rules.md is complete and up to date."""

import sys
from itertools import chain
from pathlib import Path

from webhook.model.pod import Pod
from webhook.policy.policy_quotas import INHERITED, shared_quota_schema
from webhook.policy.schema import rule_schema
from webhook.rules import GROUPS, RULES
from webhook.rules.rule import Example, Rule, Violation
from webhook.rules.rule_settings import InjectionSettings, RuleSettings
from webhook.rules_page.page_of_rules import cluster, rules_reference

DOCS = Path(__file__).parents[2] / "docs"


def test_the_reference_of_rules_is_up_to_date() -> None:
    stale = "docs/rules.md is not what the rules say; run: gpu-policy policy docs > docs/rules.md"
    assert (DOCS / "rules.md").read_text() == rules_reference(), stale


def test_shared_quotas_are_explained_with_every_key_that_they_add_and_every_one_that_they_take_over() -> None:
    text = rules_reference().partition("\n## Shared quotas\n")[2]
    assert all(f"- `{key}`" in text for key in ("name", "namespaces", "mode"))
    assert all(f"`{key}`" in text for key in INHERITED)


def settings_in(schema, path=""):
    for key, part in schema.get("properties", {}).items():
        yield f"{path}{key}", part
        yield from settings_in(part, f"{path}{key}.")
        yield from settings_in(part.get("items", {}), f"{path}{key}[].")


def test_every_rule_and_every_setting_is_described() -> None:
    assert all(rule.promise and sys.modules[rule.settings.__module__].__doc__ for rule in RULES)
    schemas = {rule.key: rule_schema(rule) for rule in RULES} | {"quotas[]": shared_quota_schema()}
    found = ((f"{name}.{path}", part) for name, schema in schemas.items() for path, part in settings_in(schema))
    assert [path for path, part in found if "description" not in part] == []


def test_every_rule_stands_under_its_group_in_order_and_has_every_key() -> None:
    text = rules_reference()
    titles = [*GROUPS, *(rule.key for rule in RULES)]
    found = [line.strip("# `") for line in text.splitlines() if line.startswith("#")]
    expected = chain.from_iterable((title, *(rule.key for rule in rules)) for title, rules in GROUPS.items())
    assert [heading for heading in found if heading in titles] == list(expected)
    for rule in RULES:
        keys = [field.alias for field in rule.settings.model_fields.values()]
        assert all(f"- `{key}`" in text for key in keys)


def judge(pod: Pod, settings: RuleSettings, facts: object) -> list[Violation]:
    return [Violation("spec", "is a pod", "none is allowed", "Go home")]


PLAIN = Rule(key="plain", promise="It promises.", settings=RuleSettings, validate=judge)


def test_a_rule_without_settings_of_its_own_says_so() -> None:
    text = rules_reference({"Plain": [PLAIN]})
    assert "This rule has no settings of its own." in text
    assert "- **Plain**: [`plain`](#plain)\n" in text


class OfItsOwn(RuleSettings):
    """Settings of a rule whose file is this one."""


def test_a_rule_is_told_by_its_problem_then_its_promise_then_its_examples_then_its_settings() -> None:
    pod = """
apiVersion: v1
kind: Pod
metadata: {name: train}
spec: {containers: [{name: trainer, image: "train:1"}]}
"""
    told = Rule(
        key="told",
        promise="It promises.",
        settings=OfItsOwn,
        validate=judge,
        problem="Pods are there.",
        example=Example(pod),
    )
    assert (
        rules_reference({"Told": [told]})
        .partition("\n## Told\n")[2]
        .startswith(
            f"""
### `told`

**Without it:** Pods are there.

{__doc__}

```yaml
spec: {{containers: [{{name: trainer, image: "train:1"}}]}}
```

Under `told: {{mode: enforce}}` it is refused:

```text
told: spec: is a pod; none is allowed. Go home.
```

This rule has no settings of its own.
"""
        )
    )


def test_the_cluster_of_the_examples_is_described() -> None:
    (text,) = (part for part in rules_reference().split("\n## ") if part.startswith("The examples\n"))
    for name, node in cluster().facts.cluster.nodes.items():
        assert f"`{name}`" in text
        driver = node.label("nvidia.com/cuda.driver-version.full")
        assert driver is None or f"driver {driver}" in text


def test_rules_that_complete_pods_without_the_settings_for_it_are_named() -> None:
    without = [rule.key for rule in RULES if rule.injects and not issubclass(rule.settings, InjectionSettings)]
    assert without != []
    text = rules_reference().partition("\n## Settings of rules that mutate pods\n")[2].partition("\n## ")[0]
    *most, last = [f"`{key}`" for key in without]
    assert f"\n{', '.join(most)} and {last} do not have this setting" in text
    others = {"Others": [rule for rule in RULES if rule.key not in without]}
    assert "do not have this setting" not in rules_reference(others)
