"""One policy file, read and checked as far as it can be without the other files."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pydantic import ValidationError

from webhook.policy.errors import Faults, KeyPath, PolicyErrors, key_text
from webhook.policy.globs import fault_in
from webhook.policy.pools import PoolSettings
from webhook.policy.schema import DEFAULT_FILE, PolicyFile, Schema, policy_schema
from webhook.policy.wording import locate, message_for, unknown_key
from webhook.policy.yaml_lines import Node, read_yaml
from webhook.rules.rule import Rule

RULES_PATH: KeyPath = ("spec", "rules")
NAMESPACES_PATH: KeyPath = ("spec", "namespaces")
POOLS_PATH: KeyPath = ("spec", "nodePools")


@dataclass(frozen=True, slots=True)
class Claim:
    """A name or glob of namespaces that a file is for, and where it says so."""

    pattern: str
    line: int
    key: KeyPath


@dataclass(frozen=True, slots=True)
class PolicySource:
    """What one file says: the namespaces it claims, and its settings by rule, not yet merged.

    `pools` are the node pools it declares, None where it says nothing about them or something faulty.
    """

    file: str
    path: str
    name: str
    claims: tuple[Claim, ...]
    rules: dict[str, Node]
    pools: tuple[PoolSettings, ...] | None


def read_source(file: str, path: str, source: bytes, rules: Sequence[Rule], faults: Faults) -> PolicySource | None:
    """Read the file called `file`, shown in errors as `path`; None where it is too broken to go on with."""
    try:
        root = _without_nulls(read_yaml(source, path), (), faults)
    except PolicyErrors as errors:
        faults.extend(errors.errors)
        return None
    document = _document(root, _document_schema(tuple(rules)), faults)
    name = file.removesuffix(".yaml")
    _check_name(root, name, faults)
    _check_pool_names(root, faults)
    settings = _mapping_at(root, RULES_PATH)
    known = {rule.key: rule for rule in rules}
    for key, node in settings.items():
        if key not in known:
            faults.add(path, node.line, (*RULES_PATH, key), unknown_key(key, known, "rule"))
        elif isinstance(node.value, dict):
            _check_exclusive(known[key], node.value, faults)
    kept = {key: node for key, node in settings.items() if key in known and isinstance(node.value, dict)}
    pools = document.spec.node_pools if document is not None else None
    return PolicySource(file, path, name, _claims(root, file, faults), kept, pools)


@lru_cache(maxsize=16)
def _document_schema(rules: tuple[Rule, ...]) -> Schema:
    return policy_schema(rules)


def _without_nulls(node: Node, path: KeyPath, faults: Faults) -> Node:
    """The node without the entries that are null, each of which is a fault."""
    if isinstance(node.value, dict):
        kept = {}
        for key, child in node.value.items():
            if child.value is None:
                faults.add(node.file, child.line, (*path, key), _null_fault((*path, key)))
            else:
                kept[key] = _without_nulls(child, (*path, key), faults)
        return Node(kept, node.file, node.line, node.text)
    if isinstance(node.value, list):
        items = []
        for index, child in enumerate(node.value):
            if child.value is None:
                faults.add(node.file, child.line, (*path, index), "is empty; write a value, or remove the entry")
            else:
                items.append(_without_nulls(child, (*path, index), faults))
        return Node(items, node.file, node.line, node.text)
    return node


def _null_fault(path: KeyPath) -> str:
    if path[:-1] == RULES_PATH:
        return (
            "is empty; write {mode: disabled} to switch the rule off, {} to inherit all of it, or remove the line "
            f"to inherit it from {DEFAULT_FILE}"
        )
    if path == RULES_PATH:
        return "is empty; write at least one rule, or {} for none"
    if path == POOLS_PATH:
        return f"is empty; write a list, [] for no pools, or remove the line to inherit it from {DEFAULT_FILE}"
    if path[:2] == RULES_PATH and not any(isinstance(part, int) for part in path):
        return f"is empty; write a value, or remove the line to inherit it from {DEFAULT_FILE}"
    return "is empty; write a value, or remove the line"


def _document(root: Node, schema: Schema, faults: Faults) -> PolicyFile | None:
    """The file but for the settings of its rules, which are not looked at here; None where it is faulty."""
    if not isinstance(root.value, dict):
        faults.add(root.file, root.line, "", "not a map; a policy file starts with apiVersion, kind, metadata and spec")
        return None
    try:
        return PolicyFile.model_validate_json(json.dumps(root.plain()), by_alias=True, by_name=False)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            path, node = locate(root, detail["loc"], detail["type"] == "missing")
            faults.add(root.file, node.line, path, message_for(detail, schema, path, node))
    return None


def _check_name(root: Node, stem: str, faults: Faults) -> None:
    name = _mapping_at(root, ("metadata",)).get("name")
    if name is None or not isinstance(name.value, str):
        return
    if name.value != stem:
        message = f'"{name.value}" is not the name of the file; write {stem}, or rename the file to {name.value}.yaml'
        faults.add(root.file, name.line, "metadata.name", message)
    elif stem + ".yaml" != DEFAULT_FILE and fault_in(stem):
        faults.add(root.file, name.line, "metadata.name", fault_in(stem))


def _check_pool_names(root: Node, faults: Faults) -> None:
    pools = _mapping_at(root, ("spec",)).get("nodePools")
    seen: dict[object, int] = {}
    for index, pool in enumerate(pools.value if pools is not None and isinstance(pools.value, list) else ()):
        name = pool.value.get("name") if isinstance(pool.value, dict) else None
        if name is None or not isinstance(name.value, str):
            continue
        first = seen.setdefault(name.value, index)
        if first != index:
            message = f'"{name.value}" is the name of {key_text((*POOLS_PATH, first))} too; rename one of them'
            faults.add(root.file, name.line, (*POOLS_PATH, index, "name"), message)


def _check_exclusive(rule: Rule, settings: dict[str, Node], faults: Faults) -> None:
    for group in rule.settings.exclusive:
        present = [key for key in settings if key in group]
        if len(present) > 1:
            last = present[-1]
            message = f"excludes {' and '.join(present[:-1])}; keep one of them"
            faults.add(settings[last].file, settings[last].line, (*RULES_PATH, rule.key, last), message)


def _claims(root: Node, file: str, faults: Faults) -> tuple[Claim, ...]:
    """The patterns of namespaces that the file claims, each once; none for the default, which applies to all."""
    namespaces = _mapping_at(root, ("spec",)).get("namespaces")
    if file == DEFAULT_FILE:
        if namespaces is not None:
            message = f"{DEFAULT_FILE} applies to every namespace; remove the key"
            faults.add(root.file, namespaces.line, NAMESPACES_PATH, message)
        return ()
    if namespaces is None:
        name = _mapping_at(root, ("metadata",)).get("name", root)
        return (Claim(file.removesuffix(".yaml"), name.line, ("metadata", "name")),)
    if not isinstance(namespaces.value, list):
        return ()
    if not namespaces.value:
        message = "names no namespace; write one, or remove the key for the namespace of the file's name"
        faults.add(root.file, namespaces.line, NAMESPACES_PATH, message)
    claims: dict[str, Claim] = {}
    for index, node in enumerate(namespaces.value):
        if not isinstance(node.value, str):
            continue
        key = (*NAMESPACES_PATH, index)
        fault = fault_in(node.value)
        if fault:
            faults.add(root.file, node.line, key, fault)
        else:
            claims.setdefault(node.value, Claim(node.value, node.line, key))
    return tuple(claims.values())


def _mapping_at(root: Node, path: KeyPath) -> dict[str, Node]:
    """The map at `path`; empty where there is none."""
    node = root
    for key in path:
        child = node.value.get(str(key)) if isinstance(node.value, dict) else None
        if child is None:
            return {}
        node = child
    return node.value if isinstance(node.value, dict) else {}
