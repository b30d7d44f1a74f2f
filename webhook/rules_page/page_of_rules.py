"""Writes docs/rules.md: the text of page.md, and what the rules say of themselves at its marks.

The result of a rule's example comes from the engine, with this rule only, in a cluster of three nodes. Of a mutated
object, only the added parts are shown.
"""

import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from textwrap import fill
from typing import Any

import yaml

from webhook import engine
from webhook.audit.documents import DocumentError, read_text
from webhook.audit.review_formats import WithoutAliases
from webhook.audit.review_objects import ReviewContext, ReviewedObject, injected, review_object
from webhook.gpus.gpu_names import IN_WORDS, INSTANCE_TYPES
from webhook.gpus.gpu_table import GPUS
from webhook.ledger.context import LedgerContext
from webhook.ledger.inventory import Inventory, read_inventory
from webhook.ledger.ledger_store import MemoryStore
from webhook.ledger.ledgers import Ledgers
from webhook.ledger.static_pods import StaticPods
from webhook.model.edits import apply
from webhook.outcome import Outcome
from webhook.policy.directory import contents_of
from webhook.policy.error_wording import describe
from webhook.policy.loader import build
from webhook.policy.policy_quotas import shared_quota_schema
from webhook.policy.policy_set import PolicySet
from webhook.policy.schema import (
    API_VERSION,
    DEFAULT_FILE,
    Schema,
    part_at,
    policy_schema,
    rule_schema,
    settings_schema,
)
from webhook.rules import GROUPS, gpu_quota
from webhook.rules.rule import Example, Rule
from webhook.rules.rule_settings import InjectionSettings, RuleSettings

Groups = Mapping[str, Sequence[Rule]]

_MARK = re.compile(r"<!-- (.+) -->\n")
"""A line of page.md in whose place a generated part stands."""


def rules_reference(groups: Groups = GROUPS) -> str:
    """The text of docs/rules.md."""
    labels = [*sorted(IN_WORDS), *sorted(INSTANCE_TYPES, reverse=True)]
    parts = {
        "rules": _overview(groups),
        "settings of rules that mutate pods": _of_mutators(groups),
        "rules by group": "\n".join(f"## {one}\n" + "".join(map(rule_page, rules)) for one, rules in groups.items()),
        "settings of workloads": _list_of_all(_part_of_policy("workloads")),
        "settings of accelerators": _list_of_all(_part_of_policy("accelerators", "extra", 0)),
        "settings of node pools": _node_pools(),
        "names of GPU models": _listed(_names_of_models()),
        "labels that name GPU models": _listed(f"`{key}`" for key in labels),
        "settings of shared quotas": _shared_quotas(),
    }
    page = (files(__package__) / "page.md").read_text(encoding="utf-8")
    return _MARK.sub(lambda mark: parts[mark[1]], page)


def _overview(groups: Groups) -> str:
    """A list of all rules, in the order in which messages and patches name them."""
    return "".join(
        f"- **{title}**: {', '.join(f'[`{rule.key}`](#{rule.key.lower()})' for rule in rules)}\n"
        for title, rules in groups.items()
    )


def _of_mutators(groups: Groups) -> str:
    """The settings that rules which mutate pods have in common, and the rules that mutate pods without them."""
    schema, every = settings_schema(InjectionSettings), settings_schema(RuleSettings)["properties"]
    settings = _list(schema, [key for key in schema["properties"] if key not in every])
    mutators = (rule for rules in groups.values() for rule in rules if rule.injects)
    others = [f"`{rule.key}`" for rule in mutators if not issubclass(rule.settings, InjectionSettings)]
    if not others:
        return settings
    why = "do not have this setting: what they inject depends on what is known of nodes and images at that moment."
    listed = " and ".join(filter(None, (", ".join(others[:-1]), others[-1])))
    return f"{settings}\n{_wrapped(f'{listed} {why}')}\n"


def rule_page(rule: Rule) -> str:
    """What the page says of one rule."""
    parts = [f"\n### `{rule.key}`\n"]
    if rule.problem:
        parts.append("\n" + _wrapped(f"**Without it:** {rule.problem}") + "\n")
    module = sys.modules[rule.settings.__module__]
    parts.append(f"\n{inspect.getdoc(module) or rule.promise}\n")
    return "".join((*parts, *shown_example(rule), *_own_settings(rule)))


def _own_settings(rule: Rule) -> Iterator[str]:
    schema = rule_schema(rule)
    shared = settings_schema(InjectionSettings)["properties"]
    own = [key for key, part in schema["properties"].items() if part != shared.get(key)]
    yield "\n" + _list(schema, own) if own else "\nThis rule has no settings of its own.\n"
    yield from _entries(schema, own)
    for group in rule.settings.exclusive:
        yield f"\n{' and '.join(f'`{key}`' for key in sorted(group))} exclude each other.\n"


def _part_of_policy(*path: str | int) -> Schema:
    return part_at(policy_schema(()), ("spec", *path))


def _node_pools() -> str:
    pool = _part_of_policy("nodePools", 0)
    keys = list(pool["properties"])
    return _list_of_all(pool) + "".join(_entries(pool, keys)) + "".join(_maps(pool, keys))


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
    return _list(schema, [key for key, part in schema["properties"].items() if part != own.get(key)])


def _list(schema: Schema, keys: Sequence[str]) -> str:
    """A list in Markdown with one item for each setting: its values, its default, what it means."""
    lines, required = [], schema.get("required", ())
    for key in keys:
        part = schema["properties"][key]
        is_shown = part.get("default", "") not in ("", [], {}) and "enum" not in part
        default = f"default {_code(part['default'])}" if is_shown else ""
        values = "; ".join(filter(None, (_value(part), "required" if key in required else default)))
        lines.append(f"- `{key}`" + (f" ({values})" if values else "") + f": {part.get('description', '')}")
    return "\n".join(lines) + "\n"


def _list_of_all(schema: Schema) -> str:
    return _list(schema, list(schema["properties"]))


def _value(part: Schema) -> str:
    if "enum" in part:
        words = {choice: f"`{choice}`" if choice else "empty" for choice in part["enum"]}
        return ", ".join(f"**{word}**" if choice == part.get("default") else word for choice, word in words.items())
    said = describe(part).partition(" such as ")[0].removeprefix("a ")
    return "" if said in _PLAIN else said


_PLAIN = ("string", "true or false", "map", "list", "list of maps", "list of strings")
"""What a default, or the text of a setting, shows anyway."""


def _code(value: Any) -> str:
    if isinstance(value, str):
        return f"`{value}`"
    return f"`{in_one_line(value) if isinstance(value, list | dict) else json.dumps(value)}`"


def _entries(schema: Schema, keys: Sequence[str]) -> Iterator[str]:
    """The settings of each setting that is a list of maps."""
    known: list[str] = []
    for key in keys:
        entry = schema["properties"][key].get("items", {})
        if "properties" in entry:
            described = _list_of_all(entry).splitlines(keepends=True)
            new = [line for line in described if line not in known]
            yield f"\nEach entry of `{key}`{', besides' if len(new) < len(described) else ''}:\n\n{''.join(new)}"
            known += new


def _maps(schema: Schema, keys: Sequence[str]) -> Iterator[str]:
    """The settings of each setting that is a map with keys of its own."""
    for key in keys:
        if "properties" in (part := schema["properties"][key]):
            yield f"\nThe keys of `{key}`:\n\n{_list_of_all(part)}"


def _listed(words: Iterable[str]) -> str:
    return _wrapped(", ".join(words) + ".") + "\n"


class _Dumper(WithoutAliases):
    """Double quotes, no anchors, and lists indented below their key."""

    def choose_scalar_style(self) -> Any:
        style = super().choose_scalar_style()
        return '"' if style == "'" else style

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT  # the base class's
        super().increase_indent(flow, indentless=False)


def as_yaml(value: Any, *, is_flow: bool | None = None) -> str:
    """A value as YAML; each innermost map or list is on one line.

    >>> print(as_yaml({"spec": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}}))
    spec:
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists}
    """
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=10_000, default_flow_style=is_flow)
    return text.strip()


def in_one_line(value: Any) -> str:
    """A map or list in one line.

    >>> in_one_line({"mode": "enforce", "images": {"team/*": "12.4"}})
    '{mode: enforce, images: {team/*: "12.4"}}'
    """
    return as_yaml(value, is_flow=True)


def additions(before: Any, after: Any) -> Any:
    """The parts of `after` that `before` does not have, in their places. Items of lists keep their names.

    >>> before = {"spec": {"hostname": "a", "containers": [{"name": "trainer", "image": "train:1"}]}}
    >>> after = {"spec": {"hostname": "a", "containers": [{"name": "trainer", "image": "train:1", "tty": True}]}}
    >>> additions(before, after)
    {'spec': {'containers': [{'name': 'trainer', 'tty': True}]}}
    """
    if isinstance(before, dict) and isinstance(after, dict):
        changed = {key: value for key, value in after.items() if key not in before or before[key] != value}
        return {key: additions(before[key], value) if key in before else value for key, value in changed.items()}
    if isinstance(before, list) and isinstance(after, list):
        pairs = [(old, new) for old, new in zip(before, after, strict=False) if old != new]
        names = [{"name": new["name"]} if isinstance(new, dict) and "name" in new else None for _, new in pairs]
        grown = [additions(old, new) for old, new in pairs]
        named = [part if name is None else {**name, **part} for name, part in zip(names, grown, strict=True)]
        return [*named, *after[len(before) :]]
    return after


_SOURCE, _NAMESPACE = "example.yaml", "default"


@dataclass(frozen=True, slots=True)
class ExampleTrial:
    """The result of an example under a line of a policy.

    `added` are the parts that the rule added to the pod, or to the pods of each template in a workload.
    """

    line: str
    outcome: Outcome
    added: tuple[Mapping[str, Any], ...]
    is_workload: bool


def try_out(rule: Rule, example: Example) -> ExampleTrial:
    """Judge an example. Raises FileErrors for mistakes in its settings, ValueError for mistakes in its object."""
    line = f"{rule.key}: {in_one_line({'mode': str(example.mode), **example.settings})}"
    context = ReviewContext(_policies(rule, line), cluster().facts, _ledgers(example))
    (document,) = read_text(example.manifest, _SOURCE)
    if isinstance(document, DocumentError):
        raise ValueError(str(document))  # noqa: TRY004  # a mistake in a text
    item = review_object(document, _NAMESPACE, context)
    outcome = item.outcome or _of_workload(item, context)
    return ExampleTrial(line, outcome, () if outcome.refusals else _added(item), item.outcome is None)


def _policies(rule: Rule, line: str) -> PolicySet:
    """The policies of one line, read like the files of a directory. Raises FileErrors."""
    head = f"apiVersion: {API_VERSION}\nkind: GPUPolicy\nmetadata: {{name: {Path(DEFAULT_FILE).stem}}}\n"
    text = f"{head}spec:\n  rules:\n    {line}\n"
    return build(contents_of(Path(_SOURCE), {DEFAULT_FILE: text.encode()}), [rule])


@cache
def cluster() -> Inventory:
    """The cluster in which examples are judged."""
    with as_file(files(__package__) / "cluster.yaml") as path:
        return read_inventory(path)


def _ledgers(example: Example) -> Ledgers:
    pods = StaticPods(yaml.safe_load_all(example.beside))
    if pods.unreadable:
        raise ValueError("beside: holds pods that Kubernetes would refuse")
    return Ledgers(LedgerContext(MemoryStore(), pods))


def _of_workload(item: ReviewedObject, context: ReviewContext) -> Outcome:
    if item.policy is None:
        raise ValueError(f"{item.title}: makes no pods")
    quotas = context.policies.quotas_for(item.namespace)
    return engine.validate_workload(item.document.object, item.namespace, item.policy, context.facts, quotas)


def _added(item: ReviewedObject) -> tuple[Mapping[str, Any], ...]:
    """The added parts of the specs of pods, without annotations."""
    if item.outcome is not None:
        pairs = [(item.document.object, item.outcome.object)]
    else:
        edits = [(one.template.pod, [edit for each in injected(one) for edit in each.edits]) for one in item.pods]
        pairs = [(pod, apply(pod, found).object) for pod, found in edits]
    added = (additions({"spec": before["spec"]}, {"spec": after["spec"]}) for before, after in pairs)
    return tuple(one for one in added if one)


_HEAD = "apiVersion: v1\nkind: Pod\nmetadata: {name: train}\n"
"""Of most examples, which show the rest."""


def shown_example(rule: Rule) -> Iterator[str]:
    """The example of a rule in Markdown: the object that is applied, and what becomes of it."""
    example = rule.example
    if example is None:
        return
    applied = example.manifest.strip("\n").removeprefix(_HEAD)
    if example.beside:
        beside = example.beside.strip("\n")
        applied = f"# Runs already:\n{beside}\n---\n# Is applied:\n{applied}"
    yield f"\n{_fenced('yaml', applied)}"
    yield from (f"\n{part}" for part in _became(try_out(rule, example)))


def _became(trial: ExampleTrial) -> Iterator[str]:
    """The result: a refusal, or the added parts and the warnings."""
    under, outcome = f"Under `{trial.line}`", trial.outcome
    warnings = [_wrapped(f"Warning: {warning}") for warning in outcome.warnings]
    if outcome.refusal:
        yield f"{under} it is refused:\n"
        yield _fenced("text", "\n".join((*warnings, *map(_wrapped, outcome.refusal.splitlines()))))
        return
    for added in trial.added:
        yield f"{under} {'each of its pods' if trial.is_workload else 'it'} gets:\n"
        yield _fenced("yaml", as_yaml(added))
    if warnings:
        subject = "It" if trial.added else f"{under} it"
        yield f"{subject} is admitted with {'a warning' if len(warnings) == 1 else 'warnings'}:\n"
        yield _fenced("text", "\n".join(warnings))
    elif not trial.added:
        yield f"{under} it is admitted as it is.\n"


def _wrapped(text: str) -> str:
    """A paragraph in lines of up to 120 characters."""
    return fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```\n"
