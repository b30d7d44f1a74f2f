"""Checks that all kinds of policy files share: empty values, the form of their parts, name of the file, names in lists.

`merge` and `merge_rule` merge the file of a namespace over the default: maps key by key, lists and single values are
replaced. Every value keeps the line in which it was written.
"""

import json
from collections.abc import Callable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from webhook.policy.error_wording import Mistake, mistakes_in
from webhook.policy.schema import Schema
from webhook.rules.rule import Rule
from webhook.yaml_files.file_errors import Faults, FileErrors, KeyPath, key_text
from webhook.yaml_files.yaml_lines import YamlNode, read_yaml

Part = TypeVar("Part", bound=BaseModel)

RULES_PATH: KeyPath = ("spec", "rules")
"""Where the rules stand in a policy file."""


def read_document(
    path: str, source: bytes | YamlNode, kind: str, null_fault: Callable[[KeyPath], str], faults: Faults
) -> YamlNode | None:
    """The document in a file that errors call `path`, without its empty values. Each empty value is a fault.

    None if the file has no such document. `null_fault` returns the message for an empty value at a key; it is empty for
    a value that may be empty.
    """
    try:
        root = read_yaml(source, path, kind) if isinstance(source, bytes) else source
    except FileErrors as errors:
        faults.extend(errors.errors)
        return None
    if isinstance(root.value, dict):
        return _without_nulls(root, (), null_fault, faults)
    faults.add(path, root.line, "", f"not a map; a {kind} starts with apiVersion, kind, metadata and spec")
    return None


def read_as(  # noqa: PLR0913  # all but four by name
    root: YamlNode,
    model: type[Part],
    schema: Schema,
    faults: Faults,
    *,
    context: Mapping[str, Any] | None = None,
    place: KeyPath = (),
    places: Mapping[str, KeyPath] = MappingProxyType({}),
    written: YamlNode | None = None,
    message_of: Callable[[Mistake], str] = attrgetter("message"),
) -> Part | None:
    """The value of a node as `model`, validated with `context`; None if it has mistakes.

    `schema` is the schema of the model, and `place` says where the node stands in its file. `places` says the same, by
    file, of what other files merge into the node. Mistakes are sought in `written`, if it is given, and not in the
    merged node. `message_of` gives the message about a mistake; empty for one that is left out.
    """
    text = json.dumps(root.plain())
    try:
        return model.model_validate_json(text, by_alias=True, by_name=False, context=dict(context or {}))
    except ValidationError as error:
        for mistake in mistakes_in(written or root, error, schema):
            key = (*places.get(mistake.node.file, place), *mistake.path)
            if message := message_of(mistake):
                faults.add(mistake.node.file, mistake.node.line, key, message)
    return None


def check_name(root: YamlNode, stem: str, fault: str, faults: Faults) -> None:
    """Add a fault unless the document is named as its file, `stem`. `fault` is a mistake in that name, or empty."""
    name = root.at("metadata", "name")
    if not isinstance(name.value, str):
        return
    if name.value != stem:
        fault = f'"{name.value}" is not the name of the file; write {stem}, or rename the file to {name.value}.yaml'
    if fault:
        faults.add(root.file, name.line, "metadata.name", fault)


def check_names_differ(root: YamlNode, path: KeyPath, faults: Faults) -> None:
    """Add a fault for each map in the list at `path` whose name another map of the list has."""
    seen: dict[str, int] = {}
    for index, entry in enumerate(root.at(*path).items):
        name = entry.at("name")
        if isinstance(name.value, str) and (first := seen.setdefault(name.value, index)) != index:
            message = f'"{name.value}" is the name of {key_text((*path, first))} too; rename one of them'
            faults.add(root.file, name.line, (*path, index, "name"), message)


def _without_nulls(node: YamlNode, path: KeyPath, null_fault: Callable[[KeyPath], str], faults: Faults) -> YamlNode:
    children: list[tuple[str | int, YamlNode]] = [*node.entries.items(), *enumerate(node.items)]
    kept: dict[str | int, YamlNode] = {}
    for key, child in children:
        place = (*path, key)
        if child.value is None and (fault := null_fault(place)):
            in_list = "is empty; write a value, or remove the entry"
            faults.add(node.file, child.line, place, in_list if isinstance(key, int) else fault)
        else:
            kept[key] = _without_nulls(child, place, null_fault, faults)
    if isinstance(node.value, list):
        return YamlNode([kept.get(index, child) for index, child in enumerate(node.value)], node.file, node.line)
    if isinstance(node.value, dict):
        return YamlNode({str(key): child for key, child in kept.items()}, node.file, node.line)
    return node


def merge(base: YamlNode, over: YamlNode) -> YamlNode:
    """`over` merged over `base`. A merged map has the line of `over`."""
    if not isinstance(base.value, dict) or not isinstance(over.value, dict):
        return over
    merged = dict(base.value)
    for key, node in over.value.items():
        merged[key] = merge(merged[key], node) if key in merged else node
    return YamlNode(merged, over.file, over.line, over.text)


def merge_rule(rule: Rule, base: YamlNode, over: YamlNode) -> YamlNode:
    """The settings of one rule in a namespace's file, merged over the default's.

    If the file sets a key of a group whose keys exclude each other, the default's other keys of the group are dropped.
    """
    written = over.entries.keys()
    dropped = {key for group in rule.settings.exclusive if group & written for key in group - written}
    if dropped:
        kept = {key: node for key, node in base.entries.items() if key not in dropped}
        base = YamlNode(kept, base.file, base.line, base.text)
    return merge(base, over)
