"""Checks that all kinds of policy files share: head, empty values, name of the file, names in lists.

`merge` and `merge_rule` merge the file of a namespace over the default: maps key by key, lists and single values are
replaced. Every value keeps the line in which it was written.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from webhook.policy.error_wording import details_of, locate, message_for
from webhook.policy.schema import Schema
from webhook.rules.rule import Rule
from webhook.yaml_files.file_errors import Faults, FileErrors, KeyPath, key_text
from webhook.yaml_files.yaml_lines import YamlNode, read_yaml

Head = TypeVar("Head", bound=BaseModel)

RULES_PATH: KeyPath = ("spec", "rules")
"""Where the rules stand in a policy file."""


def read_document(
    path: str, source: bytes, kind: str, null_fault: Callable[[KeyPath], str], faults: Faults
) -> YamlNode | None:
    """The document in a file that errors call `path`, without its empty values. Each empty value is a fault.

    None if the file has no such document. `null_fault` returns the message for an empty value at a key.
    """
    try:
        root = read_yaml(source, path, kind)
    except FileErrors as errors:
        faults.extend(errors.errors)
        return None
    if isinstance(root.value, dict):
        return _without_nulls(root, (), null_fault, faults)
    faults.add(path, root.line, "", "not a map; a policy file starts with apiVersion, kind, metadata and spec")
    return None


def read_head(
    root: YamlNode, model: type[Head], schema: Schema, faults: Faults, context: Mapping[str, Any] | None = None
) -> Head | None:
    """The document as `model`, validated with `context`; None if it has mistakes."""
    try:
        return model.model_validate_json(json.dumps(root.plain()), by_alias=True, by_name=False, context=context)
    except ValidationError as error:
        for detail in details_of(error):
            path, node = locate(root, detail["loc"], detail["type"] == "missing")
            faults.add(root.file, node.line, path, message_for(detail, schema, path, node))
    return None


def check_name(root: YamlNode, stem: str, fault: str, faults: Faults) -> None:
    """Add a fault unless the document is named as its file, `stem`. `fault` is a mistake in that name, or empty."""
    name = mapping_at(root, ("metadata",)).get("name")
    if name is None or not isinstance(name.value, str):
        return
    if name.value != stem:
        fault = f'"{name.value}" is not the name of the file; write {stem}, or rename the file to {name.value}.yaml'
    if fault:
        faults.add(root.file, name.line, "metadata.name", fault)


def check_names_differ(root: YamlNode, path: KeyPath, faults: Faults) -> None:
    """Add a fault for each map in the list at `path` whose name another map of the list has."""
    entries = mapping_at(root, path[:-1]).get(str(path[-1]))
    seen: dict[str, int] = {}
    for index, entry in enumerate(entries.value if entries is not None and isinstance(entries.value, list) else ()):
        name = entry.value.get("name") if isinstance(entry.value, dict) else None
        if name is None or not isinstance(name.value, str):
            continue
        first = seen.setdefault(name.value, index)
        if first != index:
            message = f'"{name.value}" is the name of {key_text((*path, first))} too; rename one of them'
            faults.add(root.file, name.line, (*path, index, "name"), message)


def mapping_at(root: YamlNode, path: KeyPath) -> dict[str, YamlNode]:
    """The map at `path`; empty if there is none."""
    node = root
    for key in path:
        child = node.value.get(str(key)) if isinstance(node.value, dict) else None
        if child is None:
            return {}
        node = child
    return node.value if isinstance(node.value, dict) else {}


def _without_nulls(node: YamlNode, path: KeyPath, null_fault: Callable[[KeyPath], str], faults: Faults) -> YamlNode:
    if isinstance(node.value, dict):
        kept = {}
        for key, child in node.value.items():
            if child.value is None:
                faults.add(node.file, child.line, (*path, key), null_fault((*path, key)))
            else:
                kept[key] = _without_nulls(child, (*path, key), null_fault, faults)
        return YamlNode(kept, node.file, node.line, node.text)
    if isinstance(node.value, list):
        items = []
        for index, child in enumerate(node.value):
            if child.value is None:
                faults.add(node.file, child.line, (*path, index), "is empty; write a value, or remove the entry")
            items.append(_without_nulls(child, (*path, index), null_fault, faults))
        return YamlNode(items, node.file, node.line, node.text)
    return node


def merge(base: YamlNode, over: YamlNode) -> YamlNode:
    """`over` merged over `base`. A merged map has the line of `over`."""
    if not isinstance(base.value, dict) or not isinstance(over.value, dict):
        return over
    merged = dict(base.value)
    for key, node in over.value.items():
        merged[key] = merge(merged[key], node) if key in merged else node
    return YamlNode(merged, over.file, over.line, over.text)


def merge_rule(rule: Rule, base: YamlNode | None, over: YamlNode) -> YamlNode:
    """The settings of one rule in a namespace's file, merged over the default's; `base` is None if it has none.

    If the file sets a key of a group whose keys exclude each other, the default's other keys of the group are dropped.
    """
    if base is None:
        return over
    if isinstance(base.value, dict) and isinstance(over.value, dict):
        written = set(over.value)
        dropped = {key for group in rule.settings.exclusive if group & written for key in group - written}
        kept = {key: node for key, node in base.value.items() if key not in dropped}
        base = YamlNode(kept, base.file, base.line, base.text)
    return merge(base, over)
