"""One policy file, read and checked as far as possible without the other files."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from webhook.cuda.cuda_tables import SHIPPED, CudaTables, context_of
from webhook.model.accelerators import BUILT_IN, CONTEXT, Accelerators
from webhook.model.node import NodePool
from webhook.policy.accelerator_settings import AcceleratorSettings
from webhook.policy.device_class_settings import DeclaredClasses
from webhook.policy.document import RULES_PATH, check_name, check_names_differ, mapping_at, read_document, read_head
from webhook.policy.error_wording import unknown_key
from webhook.policy.namespaces import NamespacePattern, fault_in
from webhook.policy.node_pools import PoolSettings
from webhook.policy.schema import (
    CUDA_FILE,
    CUDA_KIND,
    DEFAULT_FILE,
    EXCEPTIONS_FILE,
    EXCEPTIONS_KIND,
    MOST_DAYS,
    QUOTAS_FILE,
    QUOTAS_KIND,
    PolicyFile,
    PolicySpec,
    Schema,
    WorkloadsMode,
    policy_schema,
)
from webhook.rules.rule import Rule
from webhook.yaml_files.file_errors import Faults, KeyPath
from webhook.yaml_files.yaml_lines import YamlNode

NAMESPACES_PATH: KeyPath = ("spec", "namespaces")
POOLS_PATH: KeyPath = ("spec", "nodePools")
WORKLOADS_PATH: KeyPath = ("spec", "workloads")

_OF_ALL_NAMESPACES = {"accelerators": "names of GPUs", "exceptions": "limits of exceptions"}
"""Keys of `spec` that stand in the default only, and what they are."""


@dataclass(frozen=True)
class Besides:
    """What a file says besides its rules. None for a part that it leaves out, or has a mistake in."""

    pools: tuple[NodePool, ...] | None = None
    pools_written: list[Any] | None = None
    """The pools as the file has them."""
    pools_origin: str | None = None
    """The file with the pools; empty if its list is empty."""
    workloads: WorkloadsMode | None = None
    workloads_origin: str | None = None
    contact: str | None = None
    transient_taints: tuple[str, ...] | None = None
    classes: DeclaredClasses = field(default_factory=DeclaredClasses)

    def over(self, default: "Besides") -> "Besides":
        """What a namespace's policy says: its own file, or the default where the file leaves a part out."""
        own = {name: part for name, part in vars(self).items() if part is not None}
        return replace(default, **own | {"classes": self.classes.over(default.classes)})


@dataclass(frozen=True, slots=True)
class PolicySource:
    """The content of one file, not merged yet: the namespaces that it claims, its settings by rule, and the rest.

    `accelerators` are the names of GPUs, with the declared ones. `max_days` is how many days ahead exceptions may end.
    """

    file: str
    name: str
    claims: tuple[NamespacePattern, ...]
    rules: dict[str, YamlNode]
    besides: Besides
    accelerators: Accelerators
    max_days: int


def read_source(  # noqa: PLR0913, PLR0917  # what a file is, and what it is read with
    file: str,
    path: str,
    source: bytes,
    rules: Sequence[Rule],
    faults: Faults,
    accelerators: Accelerators = BUILT_IN,
    tables: CudaTables = SHIPPED,
) -> PolicySource | None:
    """Read the file with the name `file`, which errors call `path`; None if it has no document to go on with.

    `accelerators` are the names of GPUs that the default declares. The default itself is read with its own names.
    """
    root = read_document(path, source, "GPUPolicy", _null_fault, faults)
    if root is None or _is_of_another_kind(root, faults):
        return None
    if file == DEFAULT_FILE:
        accelerators = _accelerators(root)
    context = {CONTEXT: accelerators, **context_of(tables)}
    document = read_head(root, PolicyFile, _document_schema(tuple(rules)), faults, context)
    for key, what in () if file == DEFAULT_FILE else _OF_ALL_NAMESPACES.items():
        node = mapping_at(root, ("spec",)).get(key)
        if node is not None:
            message = f"{what} are the same in all namespaces; move them to {DEFAULT_FILE}"
            faults.add(root.file, node.line, ("spec", key), message)
    name = file.removesuffix(".yaml")
    check_name(root, name, "" if file == DEFAULT_FILE else fault_in(name), faults)
    check_names_differ(root, POOLS_PATH, faults)
    check_names_differ(root, ("spec", "accelerators", "extra"), faults)
    known = {rule.key: rule for rule in rules}
    kept: dict[str, YamlNode] = {}
    for key, node in mapping_at(root, RULES_PATH).items():
        if key not in known:
            faults.add(path, node.line, (*RULES_PATH, key), unknown_key(key, known, "rule"))
        elif isinstance(node.value, dict):
            _check_exclusive(known[key], node.value, faults)
            kept[key] = node
    spec = document.spec if document is not None else PolicySpec.model_construct(rules={})
    pools = spec.node_pools
    besides = Besides(
        pools=None if pools is None else tuple(each.pool for each in pools),
        pools_written=None if pools is None else [_as_written(each) for each in pools],
        pools_origin=None if pools is None else file if pools else "",
        workloads=None if spec.workloads is None else spec.workloads.mode,
        workloads_origin=None if spec.workloads is None else file,
        contact=spec.contact,
        transient_taints=spec.transient_taints,
        classes=DeclaredClasses(spec.device_classes, mapping_at(root, ("spec", "deviceClasses"))),
    )
    max_days = MOST_DAYS if spec.exceptions is None else spec.exceptions.max_days
    return PolicySource(file, name, _claims(root, file, faults), kept, besides, accelerators, max_days)


def _as_written(pool: PoolSettings) -> Any:
    return pool.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _accelerators(root: YamlNode) -> Accelerators:
    """The names of GPUs in the default's file; the built-in ones if it has mistakes, which `read_head` reports."""
    node = mapping_at(root, ("spec",)).get("accelerators")
    try:
        return (
            BUILT_IN if node is None else AcceleratorSettings.model_validate_json(json.dumps(node.plain())).accelerators
        )
    except ValidationError:
        return BUILT_IN


@lru_cache(maxsize=16)
def _document_schema(rules: tuple[Rule, ...]) -> Schema:
    return policy_schema(rules)


def _is_of_another_kind(root: YamlNode, faults: Faults) -> bool:
    """Whether the file has a kind of document that belongs into another file."""
    kind = mapping_at(root, ()).get("kind")
    places = {QUOTAS_KIND: QUOTAS_FILE, CUDA_KIND: CUDA_FILE, EXCEPTIONS_KIND: EXCEPTIONS_FILE}
    place = places.get(str(kind.value)) if kind is not None else None
    if kind is None or place is None:
        return False
    faults.add(root.file, kind.line, "kind", f"{kind.value} stand in {place} only; move them there")
    return True


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
    if path == WORKLOADS_PATH:
        return f"is empty; write {{mode: warn}}, or remove the line to inherit it from {DEFAULT_FILE}"
    if path[:2] == RULES_PATH and not any(isinstance(part, int) for part in path):
        return f"is empty; write a value, or remove the line to inherit it from {DEFAULT_FILE}"
    return "is empty; write a value, or remove the line"


def _check_exclusive(rule: Rule, settings: dict[str, YamlNode], faults: Faults) -> None:
    for group in rule.settings.exclusive:
        present = [key for key in settings if key in group]
        if len(present) > 1:
            last = present[-1]
            message = f"excludes {' and '.join(present[:-1])}; keep one of them"
            faults.add(settings[last].file, settings[last].line, (*RULES_PATH, rule.key, last), message)


def _claims(root: YamlNode, file: str, faults: Faults) -> tuple[NamespacePattern, ...]:
    """The names and globs of namespaces that the file claims, each once; none for the default."""
    namespaces = mapping_at(root, ("spec",)).get("namespaces")
    if file == DEFAULT_FILE:
        if namespaces is not None:
            message = f"{DEFAULT_FILE} applies to every namespace; remove the key"
            faults.add(root.file, namespaces.line, NAMESPACES_PATH, message)
        return ()
    if namespaces is None:
        name = mapping_at(root, ("metadata",)).get("name", root)
        return (NamespacePattern(file.removesuffix(".yaml"), root.file, name.line, ("metadata", "name")),)
    if not isinstance(namespaces.value, list):
        return ()
    if not namespaces.value:
        message = "names no namespace; write one, or remove the key for the namespace of the file's name"
        faults.add(root.file, namespaces.line, NAMESPACES_PATH, message)
    claims: dict[str, NamespacePattern] = {}
    for index, node in enumerate(namespaces.value):
        if not isinstance(node.value, str):
            continue
        key = (*NAMESPACES_PATH, index)
        fault = fault_in(node.value)
        if fault:
            faults.add(root.file, node.line, key, fault)
        else:
            claims.setdefault(node.value, NamespacePattern(node.value, root.file, node.line, key))
    return tuple(claims.values())
