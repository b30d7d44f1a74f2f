"""One policy file, read and checked as far as possible without the other files."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from webhook.cuda.cuda_tables import SHIPPED, CudaTables, context_of
from webhook.model.accelerators import BUILT_IN, CONTEXT, Accelerators
from webhook.model.node import NodePool
from webhook.policy.cluster_settings import AcceleratorSettings, DeclaredClasses
from webhook.policy.document import RULES_PATH, check_name, check_names_differ, read_as, read_document
from webhook.policy.error_wording import unknown_key
from webhook.policy.namespaces import NamespacePattern, fault_in
from webhook.policy.schema import DEFAULT_FILE, KINDS, MOST_DAYS, PolicyFile, PolicySpec, WorkloadsMode, policy_schema
from webhook.rules.rule import Rule
from webhook.yaml_files.file_errors import Faults, KeyPath
from webhook.yaml_files.yaml_lines import YamlNode

NAMESPACES_PATH: KeyPath = ("spec", "namespaces")
POOLS_PATH: KeyPath = ("spec", "nodePools")

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
    source: bytes | YamlNode,
    rules: Sequence[Rule],
    faults: Faults,
    accelerators: Accelerators = BUILT_IN,
    tables: CudaTables = SHIPPED,
) -> PolicySource | None:
    """Read the file with the name `file`, which errors call `path`; None if it has no document to go on with.

    `accelerators` are the names of GPUs that the default declares. The default itself is read with its own names.
    """
    root = read_document(path, source, "GPUPolicy", _null_fault, faults)
    if root is None:
        return None
    kind = root.at("kind")
    if place := next((other for other, its_kind in KINDS.items() if its_kind == kind.value), ""):
        faults.add(path, kind.line, "kind", f"{kind.value} stand in {place} only; move them there")
        return None
    is_default, name = file == DEFAULT_FILE, file.removesuffix(".yaml")
    if is_default:
        accelerators = _accelerators(root)
    else:
        for key, what in _OF_ALL_NAMESPACES.items():
            if (node := root.at("spec", key)).value is not None:
                message = f"{what} are the same in all namespaces; move them to {DEFAULT_FILE}"
                faults.add(path, node.line, ("spec", key), message)
    context = {CONTEXT: accelerators, **context_of(tables)}
    document = read_as(root, PolicyFile, policy_schema(tuple(rules)), faults, context=context)
    check_name(root, name, "" if is_default else fault_in(name), faults)
    check_names_differ(root, POOLS_PATH, faults)
    check_names_differ(root, ("spec", "accelerators", "extra"), faults)
    known = {rule.key: rule for rule in rules}
    kept: dict[str, YamlNode] = {}
    for key, node in root.at(*RULES_PATH).entries.items():
        if key not in known:
            faults.add(path, node.line, (*RULES_PATH, key), unknown_key(key, known, "rule"))
        elif isinstance(node.value, dict):
            _check_exclusive(known[key], node, faults)
            kept[key] = node
    spec = document.spec if document is not None else PolicySpec.model_construct(rules={})
    pools, workloads = spec.node_pools, spec.workloads
    written = [each.model_dump(mode="json", by_alias=True, exclude_unset=True) for each in pools or ()]
    besides = Besides(
        pools=None if pools is None else tuple(each.pool for each in pools),
        pools_written=None if pools is None else written,
        pools_origin=None if pools is None else file if pools else "",
        workloads=None if workloads is None else workloads.mode,
        workloads_origin=None if workloads is None else file,
        contact=spec.contact,
        transient_taints=spec.transient_taints,
        classes=DeclaredClasses(spec.device_classes or {}, root.at("spec", "deviceClasses").entries),
    )
    max_days = MOST_DAYS if spec.exceptions is None else spec.exceptions.max_days
    return PolicySource(file, name, _claims(root, file, faults), kept, besides, accelerators, max_days)


def _accelerators(root: YamlNode) -> Accelerators:
    """The names of GPUs in the default's file; the built-in ones if it has mistakes, which `read_as` reports."""
    node = root.at("spec", "accelerators")
    try:
        return AcceleratorSettings.model_validate_json(json.dumps(node.plain() or {"extra": []})).accelerators
    except ValidationError:
        return BUILT_IN


def _null_fault(path: KeyPath) -> str:
    inherit = f"remove the line to inherit it from {DEFAULT_FILE}"
    match path:
        case ("spec", "rules"):
            return "is empty; write at least one rule, or {} for none"
        case ("spec", "rules", _):
            return f"is empty; write {{mode: disabled}} to switch the rule off, {{}} to inherit all of it, or {inherit}"
        case ("spec", "nodePools"):
            return f"is empty; write a list, [] for no pools, or {inherit}"
        case ("spec", "workloads"):
            return f"is empty; write {{mode: warn}}, or {inherit}"
        case ("spec", "rules", *rest) if not any(isinstance(part, int) for part in rest):
            return f"is empty; write a value, or {inherit}"
    return "is empty; write a value, or remove the line"


def _check_exclusive(rule: Rule, settings: YamlNode, faults: Faults) -> None:
    for group in rule.settings.exclusive:
        *others, last = ["", *(key for key in settings.entries if key in group)]
        if len(others) > 1:
            message = f"excludes {' and '.join(others[1:])}; keep one of them"
            faults.add(settings.file, settings.at(last).line, (*RULES_PATH, rule.key, last), message)


def _claims(root: YamlNode, file: str, faults: Faults) -> tuple[NamespacePattern, ...]:
    """The names and globs of namespaces that the file claims, each once; none for the default."""
    namespaces = root.at(*NAMESPACES_PATH)
    if file == DEFAULT_FILE:
        if namespaces.value is not None:
            message = f"{DEFAULT_FILE} applies to every namespace; remove the key"
            faults.add(root.file, namespaces.line, NAMESPACES_PATH, message)
        return ()
    if namespaces.value is None:
        line = root.at("metadata", "name").line
        return (NamespacePattern(file.removesuffix(".yaml"), root.file, line, ("metadata", "name")),)
    if namespaces.value == []:
        message = "names no namespace; write one, or remove the key for the namespace of the file's name"
        faults.add(root.file, namespaces.line, NAMESPACES_PATH, message)
    claims: dict[str, NamespacePattern] = {}
    for index, node in enumerate(namespaces.items):
        key = (*NAMESPACES_PATH, index)
        if not isinstance(node.value, str):
            continue
        if fault := fault_in(node.value):
            faults.add(root.file, node.line, key, fault)
        else:
            claims.setdefault(node.value, NamespacePattern(node.value, root.file, node.line, key))
    return tuple(claims.values())
