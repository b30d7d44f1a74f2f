"""Writes docs/rules.md: the text of page.md, and what the rules say of themselves at its marks."""

import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from webhook.gpus.gpu_names import IN_WORDS, INSTANCE_TYPES
from webhook.gpus.gpu_table import GPUS
from webhook.policy.error_wording import describe
from webhook.policy.policy_quotas import shared_quota_schema
from webhook.policy.schema import Schema, part_at, policy_schema, rule_schema, settings_schema
from webhook.rules import GROUPS, RULES, gpu_quota
from webhook.rules.rule import Rule
from webhook.rules.rule_settings import InjectionSettings, RuleSettings
from webhook.rules_page.examples import examples, in_one_line, wrapped

Groups = Mapping[str, Sequence[Rule]]

_MARK = re.compile(r"<!-- (.+) -->\n")
"""A line of page.md in whose place a generated part stands."""


def rules_reference(groups: Groups = GROUPS) -> str:
    """The text of docs/rules.md."""
    labels = [*sorted(IN_WORDS), *sorted(INSTANCE_TYPES, reverse=True)]
    parts = {
        "rules": _overview(groups),
        "settings of every rule": _table_of(settings_schema(RuleSettings)),
        "settings of rules that mutate pods": _of_mutators(groups),
        "rules by group": "\n".join(_groups(groups)),
        "settings of workloads": _table_of(_part_of_policy("workloads")),
        "settings of accelerators": _table_of(_part_of_policy("accelerators", "extra", 0)),
        "settings of node pools": _node_pools(),
        "names of GPU models": _listed(_names_of_models()),
        "labels that name GPU models": _listed(f"`{key}`" for key in labels),
        "settings of shared quotas": _shared_quotas(),
    }
    return _MARK.sub(lambda mark: parts[mark[1]], _page())


@cache
def _page() -> str:
    return (files(__package__) / "page.md").read_text(encoding="utf-8")


def undocumented(rules: Sequence[Rule] = RULES) -> list[str]:
    """Rules without a promise or a module docstring; settings without a description, of shared quotas too."""
    missing = [rule.key for rule in rules if not rule.promise or not _module_docstring(rule)]
    for rule in rules:
        missing += [f"{rule.key}.{path}" for path, part in _settings(rule_schema(rule)) if "description" not in part]
    missing += [f"quotas[].{path}" for path, part in _settings(shared_quota_schema()) if "description" not in part]
    return missing


def _overview(groups: Groups) -> str:
    """A table of all rules, in the order in which messages and patches name them."""
    lines = ["| Rule | Promise | What the rule does |\n|---|---|---|\n"]
    for title, rules in groups.items():
        lines.append(f"| **{title}** | | |\n")
        lines += (f"| [`{rule.key}`](#{rule.key.lower()}) | {rule.promise} | {_ways(rule)} |\n" for rule in rules)
    return "".join(lines)


def _ways(rule: Rule) -> str:
    validating = "gives advice" if rule.only_advises else "validates pods"
    ways = {
        "mutates pods": rule.injects,
        validating: rule.validate is not None,
        "validates workloads": rule.validate_replicas is not None,
        "validates claims": rule.validate_claim is not None,
    }
    return ", ".join(way for way, is_used in ways.items() if is_used)


def _of_mutators(groups: Groups) -> str:
    """The settings that rules which mutate pods have in common, and the rules that mutate pods without them."""
    schema, every = settings_schema(InjectionSettings), settings_schema(RuleSettings)["properties"]
    settings = _table(schema, [key for key in schema["properties"] if key not in every])
    mutators = (rule for rules in groups.values() for rule in rules if rule.injects)
    others = [f"`{rule.key}`" for rule in mutators if not issubclass(rule.settings, InjectionSettings)]
    if not others:
        return settings
    why = (
        "do not have this setting: what they inject depends on what is known of nodes and images at that moment, so a "
        "pod without it is not a violation."
    )
    listed = " and ".join(filter(None, (", ".join(others[:-1]), others[-1])))
    exceptions = wrapped(f"{listed} {why}")
    return f"{settings}\n{exceptions}\n"


def _groups(groups: Groups) -> Iterator[str]:
    for title, rules in groups.items():
        yield f"## {title}\n" + "".join(map(_rule, rules))


def _rule(rule: Rule) -> str:
    parts = [f"\n### `{rule.key}`\n"]
    if rule.problem:
        parts.append("\n" + wrapped(f"**Without it:** {rule.problem}") + "\n")
    parts.append(f"\n{_module_docstring(rule) or rule.promise}\n")
    return "".join((*parts, *examples(rule), *_own_settings(rule)))


def _own_settings(rule: Rule) -> Iterator[str]:
    schema = rule_schema(rule)
    shared = settings_schema(InjectionSettings)["properties"]
    own = [key for key, part in schema["properties"].items() if part != shared.get(key)]
    yield "\n" + _table(schema, own) if own else "\nThis rule has no settings of its own.\n"
    yield from _entries(schema, own)
    for group in rule.settings.exclusive:
        yield f"\n{' and '.join(f'`{key}`' for key in sorted(group))} exclude each other.\n"


def _part_of_policy(*path: str | int) -> Schema:
    """The schema of a part of `spec` in a policy file."""
    return part_at(policy_schema(()), ("spec", *path))


def _node_pools() -> str:
    pool = _part_of_policy("nodePools", 0)
    keys = list(pool["properties"])
    return _table_of(pool) + "".join(_entries(pool, keys)) + "".join(_maps(pool, keys))


def _names_of_models() -> Iterator[str]:
    """The GPU models that limits know, one entry for each family, with the models of the family in brackets."""
    families: dict[str, list[str]] = {}
    for model in GPUS.in_quotas:
        families.setdefault(model.family, []).append(model.name)
    for family, models in sorted(families.items()):
        yield f"`{family}`" + ("" if models == [family] else " (" + ", ".join(f"`{name}`" for name in models) + ")")


def _shared_quotas() -> str:
    schema = shared_quota_schema()
    own = settings_schema(gpu_quota.Settings)["properties"]
    return _table(schema, [key for key, part in schema["properties"].items() if part != own.get(key)])


def _table(schema: Schema, keys: Sequence[str]) -> str:
    """A table of Markdown with one row for each setting."""
    lines = ["| Key | Value | Default | Meaning |", "|---|---|---|---|"]
    required = schema.get("required", ())
    for key in keys:
        part = schema["properties"][key]
        default = "required" if key in required else _code(part["default"]) if "default" in part else "unset"
        cells = (f"`{key}`", _value(part), default, part.get("description", ""))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _table_of(schema: Schema) -> str:
    """A table of all settings of a schema."""
    return _table(schema, list(schema["properties"]))


def _value(part: Schema) -> str:
    if "enum" in part:
        return ", ".join(f"`{choice}`" if choice else "empty" for choice in part["enum"])
    return describe(part)


def _code(value: Any) -> str:
    if value in ("", [], {}):
        return "empty"
    if isinstance(value, str):
        return f"`{value}`"
    return f"`{in_one_line(value) if isinstance(value, list | dict) else json.dumps(value)}`"


def _entries(schema: Schema, keys: Sequence[str]) -> Iterator[str]:
    """A table for each setting that is a list of maps."""
    for key in keys:
        entry = schema["properties"][key].get("items", {})
        if "properties" in entry:
            yield f"\nEach entry of `{key}`:\n\n{_table_of(entry)}"


def _maps(schema: Schema, keys: Sequence[str]) -> Iterator[str]:
    """A table for each setting that is a map with keys of its own."""
    for key in keys:
        if "properties" in (part := schema["properties"][key]):
            yield f"\nThe keys of `{key}`:\n\n{_table_of(part)}"


def _listed(words: Iterable[str]) -> str:
    return wrapped(", ".join(words) + ".") + "\n"


def _settings(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    for key, part in schema.get("properties", {}).items():
        yield f"{path}{key}", part
        yield from _settings(part, f"{path}{key}.")
        yield from _settings(part.get("items", {}), f"{path}{key}[].")


def _module_docstring(rule: Rule) -> str:
    module = sys.modules.get(rule.settings.__module__)
    return inspect.getdoc(module) or "" if module is not None else ""
