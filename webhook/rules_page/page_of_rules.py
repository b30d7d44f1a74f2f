"""Writes docs/rules.md, with settings as tables of Markdown."""

import inspect
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any

from webhook.gpus.gpu_names import IN_WORDS, INSTANCE_TYPES
from webhook.gpus.gpu_table import GPUS
from webhook.policy.error_wording import describe
from webhook.policy.pots import pot_schema
from webhook.policy.schema import Schema, part_at, policy_schema, rule_schema, settings_schema
from webhook.rules import GROUPS, RULES, gpu_quota
from webhook.rules.rule import Rule
from webhook.rules.rule_settings import InjectionSettings, RuleSettings
from webhook.rules_page import prose
from webhook.rules_page.examples import examples, in_one_line


def table(schema: Schema, keys: Sequence[str]) -> str:
    """The rows of a table, one for each setting."""
    lines = ["| Key | Value | Default | Meaning |", "|---|---|---|---|"]
    required = schema.get("required", ())
    for key in keys:
        part = schema["properties"][key]
        default = "required" if key in required else _code(part["default"]) if "default" in part else "unset"
        cells = (f"`{key}`", _value(part), default, part.get("description", ""))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


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


def entries(schema: Schema, keys: Sequence[str]) -> Iterator[str]:
    """A table for each setting that is a list of maps."""
    for key in keys:
        entries = schema["properties"][key].get("items", {})
        if "properties" in entries:
            yield f"\nEach entry of `{key}`:\n\n" + table(entries, list(entries["properties"]))


Groups = Mapping[str, Sequence[Rule]]


def rules_reference(groups: Groups = GROUPS) -> str:
    """The text of docs/rules.md."""
    parts = (prose.HEAD, _overview(groups), prose.HOW, _shared(groups), prose.EXAMPLES, *_all(groups))
    return "".join((*parts, _workloads(), _accelerators(), _pools(), _models(), _pots()))


def undocumented(rules: Sequence[Rule] = RULES) -> list[str]:
    """Rules without a promise or a module docstring, and settings without a description, with nested ones and pots'."""
    missing = [rule.key for rule in rules if not rule.promise or not _module_docstring(rule)]
    for rule in rules:
        missing += [f"{rule.key}.{path}" for path, part in _settings(rule_schema(rule)) if "description" not in part]
    missing += [f"pots[].{path}" for path, part in _settings(pot_schema()) if "description" not in part]
    return missing


def _overview(groups: Groups) -> str:
    """A table of all rules, in the order in which messages and patches name them."""
    lines = ["\n| Rule | Promise | What the rule does |\n|---|---|---|\n"]
    for title, rules in groups.items():
        lines.append(f"| **{title}** | | |\n")
        lines += (f"| [`{rule.key}`](#{rule.key.lower()}) | {rule.promise} | {_ways(rule)} |\n" for rule in rules)
    return "".join(lines)


def _ways(rule: Rule) -> str:
    validating = "gives advice" if rule.only_advises else "validates pods"
    ways = {"mutates pods": rule.mutate, validating: rule.validate, "validates workloads": rule.validate_replicas}
    return ", ".join(way for way, function in ways.items() if function is not None)


def _shared(groups: Groups) -> str:
    """The settings that all rules have."""
    every, injecting = settings_schema(RuleSettings), settings_schema(InjectionSettings)
    added = [key for key in injecting["properties"] if key not in every["properties"]]
    return (
        "\n## Settings of every rule\n\n"
        + table(every, list(every["properties"]))
        + "\n## Settings of rules that mutate pods\n\n"
        + table(injecting, added)
        + _exceptions(groups)
    )


def _exceptions(groups: Groups) -> str:
    """The rules that mutate pods and have no such setting."""
    completing = (rule for rules in groups.values() for rule in rules if rule.mutate is not None)
    keys = [f"`{rule.key}`" for rule in completing if not issubclass(rule.settings, InjectionSettings)]
    if not keys:
        return ""
    return "\n" + _filled(f"{' and '.join(keys)} {prose.MOMENTARY}") + "\n"


def _all(groups: Groups) -> Iterator[str]:
    for title, rules in groups.items():
        yield f"\n## {title}\n"
        yield from map(_rule, rules)


def _rule(rule: Rule) -> str:
    parts = [f"\n### `{rule.key}`\n"]
    if rule.problem:
        parts.append("\n" + _filled(f"**Without it:** {rule.problem}") + "\n")
    parts.append(f"\n{_module_docstring(rule) or rule.promise}\n")
    return "".join((*parts, *examples(rule), *_own_settings(rule)))


def _own_settings(rule: Rule) -> Iterator[str]:
    schema = rule_schema(rule)
    shared = settings_schema(InjectionSettings)["properties"]
    own = [key for key, part in schema["properties"].items() if part != shared.get(key)]
    yield "\n" + table(schema, own) if own else "\nThis rule has no settings of its own.\n"
    yield from entries(schema, own)
    for group in rule.settings.exclusive:
        yield f"\n{' and '.join(f'`{key}`' for key in sorted(group))} exclude each other.\n"


def _workloads() -> str:
    """What users see who apply a workload."""
    workloads = part_at(policy_schema(()), ("spec", "workloads"))
    return prose.WORKLOADS + table(workloads, list(workloads["properties"])) + prose.WORKLOADS_NOTES


def _accelerators() -> str:
    """How names of GPUs are declared."""
    entry = part_at(policy_schema(()), ("spec", "accelerators", "extra", 0))
    return "".join((prose.ACCELERATORS, table(entry, list(entry["properties"]))))


def _pools() -> str:
    """How node pools are declared."""
    pool = part_at(policy_schema(()), ("spec", "nodePools", 0))
    keys = list(pool["properties"])
    return "".join((prose.POOLS, table(pool, keys), *entries(pool, keys)))


def _models() -> str:
    """What limits by model know."""
    families: dict[str, list[str]] = {}
    for model in GPUS.in_quotas:
        families.setdefault(model.family, []).append(model.name)
    names = (
        f"`{family}`" + ("" if models == [family] else " (" + ", ".join(f"`{name}`" for name in models) + ")")
        for family, models in sorted(families.items())
    )
    labels = [*sorted(IN_WORDS), *sorted(INSTANCE_TYPES, reverse=True)]
    return prose.MODELS.format(names=_listed(names), labels=_listed(f"`{key}`" for key in labels))


def _pots() -> str:
    """How quotas are shared."""
    schema = pot_schema()
    own = settings_schema(gpu_quota.Settings)["properties"]
    return prose.POTS + table(schema, [key for key, part in schema["properties"].items() if part != own.get(key)])


def _listed(words: Iterable[str]) -> str:
    """A list of words with commas."""
    return _filled(", ".join(words) + ".")


def _filled(text: str) -> str:
    """A paragraph in lines of at most 120 characters."""
    return fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _settings(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    for key, part in schema.get("properties", {}).items():
        yield f"{path}{key}", part
        yield from _settings(part, f"{path}{key}.")
        yield from _settings(part.get("items", {}), f"{path}{key}[].")


def _module_docstring(rule: Rule) -> str:
    """The docstring of the rule's module."""
    module = sys.modules.get(rule.settings.__module__)
    return inspect.getdoc(module) or "" if module is not None else ""
