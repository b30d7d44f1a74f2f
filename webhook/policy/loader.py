"""Reads a directory into a set of policies, or reports all mistakes in it, each with file, line and key."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from pydantic import ValidationError

from webhook.cuda.cuda_tables import SHIPPED, CudaTables, context_of
from webhook.model.accelerators import ANY, BUILT_IN, CONTEXT, Accelerators
from webhook.model.node import NodePool
from webhook.model.wording import closest, few
from webhook.policy.cluster_settings import AcceleratorSettings, DeclaredClasses
from webhook.policy.cuda_file import SHIPPED_ONLY, PlatformTables, read_cuda_tables
from webhook.policy.directory import Contents, read_directory
from webhook.policy.document import RULES_PATH, check_name, check_names_differ, merge_rule, read_as, read_document
from webhook.policy.error_wording import MODES, Mistake, unknown_key
from webhook.policy.exception_file import ExceptionFile, load_exceptions
from webhook.policy.namespaces import ClaimedNamespaces, NamespacePattern, fault_in
from webhook.policy.policy_quotas import NO_SHARED_QUOTAS, read_shared_quotas
from webhook.policy.policy_set import ConfiguredRule, Policy, PolicySet, content_hash
from webhook.policy.schema import (
    CUDA_FILE,
    CUDA_KIND,
    DEFAULT_FILE,
    EXCEPTIONS_FILE,
    KINDS,
    MOST_DAYS,
    QUOTAS_FILE,
    PolicyFile,
    PolicySpec,
    WorkloadsMode,
    policy_schema,
    rule_schema,
)
from webhook.rules import RULES, gpu_limits, gpu_quota, gpu_types
from webhook.rules.rule import Rule
from webhook.rules.rule_settings import Mode, RuleSettings
from webhook.yaml_files.file_errors import Faults, KeyPath
from webhook.yaml_files.yaml_lines import YamlNode

_NAMESPACES: KeyPath = ("spec", "namespaces")
_POOLS: KeyPath = ("spec", "nodePools")

_OF_ALL_NAMESPACES = {"accelerators": "names of GPUs", "drivers": "drivers", "exceptions": "limits of exceptions"}
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
    drivers: WorkloadsMode


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
    check_names_differ(root, _POOLS, faults)
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
    drivers = WorkloadsMode.WARN if spec.drivers is None else spec.drivers.mode
    return PolicySource(file, name, _claims(root, file, faults), kept, besides, accelerators, max_days, drivers)


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
        case ("spec", "workloads" | "drivers" as key):
            return f"is empty; write {{mode: warn}}, or {inherit if key == 'workloads' else 'remove the line'}"
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
    namespaces = root.at(*_NAMESPACES)
    if file == DEFAULT_FILE:
        if namespaces.value is not None:
            message = f"{DEFAULT_FILE} applies to every namespace; remove the key"
            faults.add(root.file, namespaces.line, _NAMESPACES, message)
        return ()
    if namespaces.value is None:
        line = root.at("metadata", "name").line
        return (NamespacePattern(file.removesuffix(".yaml"), root.file, line, ("metadata", "name")),)
    if namespaces.value == []:
        message = "names no namespace; write one, or remove the key for the namespace of the file's name"
        faults.add(root.file, namespaces.line, _NAMESPACES, message)
    claims: dict[str, NamespacePattern] = {}
    for index, node in enumerate(namespaces.items):
        key = (*_NAMESPACES, index)
        if not isinstance(node.value, str):
            continue
        if fault := fault_in(node.value):
            faults.add(root.file, node.line, key, fault)
        else:
            claims.setdefault(node.value, NamespacePattern(node.value, root.file, node.line, key))
    return tuple(claims.values())


def load(directory: Path | str, rules: Sequence[Rule] = RULES, now: float | None = None) -> PolicySet:
    """The policies in a directory. Raises FileErrors with all mistakes, by file and line. `now` is as in `build`."""
    return build(read_directory(Path(directory)), rules, now=now)


def build(
    contents: Contents,
    rules: Sequence[Rule] = RULES,
    *,
    documents: Mapping[str, YamlNode] = MappingProxyType({}),
    elsewhere: Collection[str] = (),
    now: float | None = None,
) -> PolicySet:
    """The policies in files that were read. Raises FileErrors.

    `documents` take the place of the bytes of files that are parts of another YAML file, by name. Files named in
    `elsewhere` may exist outside `contents`, so what they may declare is not reported as missing. With `now`, an
    exception whose end is too far ahead is a mistake; without it, the exception does not hold until its end is near
    enough, so that a set which was loaded once can always be loaded.
    """
    faults = Faults()
    faults.extend(contents.faults)
    files: dict[str, bytes | YamlNode] = {**dict(contents.files), **documents}
    paths = {file: str(contents.path / file) for file in (*files, DEFAULT_FILE, CUDA_FILE)}
    cuda = SHIPPED_ONLY
    if (rows := files.pop(CUDA_FILE, None)) is not None:
        cuda = read_cuda_tables(paths[CUDA_FILE], rows, faults)
    faulty = {fault.path for fault in faults.errors}
    has_other_rows = CUDA_FILE in elsewhere or paths[CUDA_FILE] in faulty
    is_default_unknown = DEFAULT_FILE in elsewhere or paths[DEFAULT_FILE] in faulty
    default: PolicySource | None = None
    notices = []
    if (source := files.pop(DEFAULT_FILE, None)) is not None:
        default = read_source(DEFAULT_FILE, paths[DEFAULT_FILE], source, rules, faults, tables=cuda.tables)
        is_default_unknown = default is None
    else:
        notices.append(f"{paths[DEFAULT_FILE]}: no such file, so namespaces without a file of their own have no rules")
    accelerators = default.accelerators if default is not None else ANY if is_default_unknown else BUILT_IN
    binder = _Binder(rules, default, accelerators, cuda, faults, has_other_rows=has_other_rows)
    written_exceptions, written_quotas = files.pop(EXCEPTIONS_FILE, None), files.pop(QUOTAS_FILE, None)
    shared_quotas = NO_SHARED_QUOTAS
    if written_quotas is not None:
        inherited = binder.nodes.get(gpu_quota.RULE.key, YamlNode(None, "", 0))
        shared_quotas = read_shared_quotas(paths[QUOTAS_FILE], written_quotas, inherited, faults, binder.context)
    claimed, policies = ClaimedNamespaces(faults), dict[str, Policy]()
    for file, content in files.items():
        team = read_source(file, paths[file], content, rules, faults, accelerators, cuda.tables)
        if team is not None:
            policies |= dict.fromkeys(claimed.add(team.claims), binder.bind(team))
    max_days, drivers = (MOST_DAYS, WorkloadsMode.WARN) if default is None else (default.max_days, default.drivers)
    loaded = list(filter(None, [binder.default, *policies.values()]))
    notices += [*shared_quotas.remarks, *binder.notices]
    notices += [] if now is None else _begun_changes(contents, loaded, now)
    notices += dict.fromkeys(_limits_without_use(contents, loaded))
    parts = {"notices": tuple(notices), "shared": shared_quotas, "cuda": cuda}
    policy_set = PolicySet.of(binder.default, policies, **parts, max_days=max_days, drivers=drivers)
    if written_exceptions is not None:
        known_now = None if is_default_unknown else now
        file_ = ExceptionFile(paths[EXCEPTIONS_FILE], written_exceptions, tuple(rules), known_now)
        exceptions, remarks = load_exceptions(file_, policy_set, binder.context_of, faults)
        policy_set = replace(policy_set, notices=(*notices, *remarks), exceptions=exceptions)
    faults.raise_if_any()
    return policy_set


def _limits_without_use(contents: Contents, policies: Iterable[Policy]) -> Iterator[str]:
    """Remarks on quotas of a file that limit models which the policy of that file never allows."""
    for policy in policies:
        active = {one.rule.key: one for one in policy.rules}
        quota, types = active.get(gpu_quota.RULE.key), active.get(gpu_types.RULE.key)
        if quota is None or types is None or types.mode is not Mode.ENFORCE or quota.origin != policy.files[-1]:
            continue
        limits, usable = cast("gpu_quota.Settings", quota.settings), cast("gpu_types.Settings", types.settings)
        if unused := list(filter(usable.never_allows, limits.by_model)):
            place = f"{contents.path / quota.origin}:{quota.line}: spec.rules.gpuQuota.byModel"
            yield f"{place}: limits {few(unused)}, which gpuTypes never allows; change one of the two"


def _begun_changes(contents: Contents, policies: Iterable[Policy], now: float) -> Iterator[str]:
    """A remark for each node pool whose next driver has begun."""
    declaring = {policy.pools_origin: policy for policy in policies}
    for origin, policy in sorted(declaring.items()):
        for pool in policy.node_pools:
            if pool.next is not None and pool.next.begins <= now:
                yield (
                    f"{contents.path / origin}: spec.nodePools: {pool.name} has driver {pool.next.driver} since "
                    f"{pool.next.day}; write it as driver, and remove next"
                )


class _Binder:
    """Merges, validates and binds the rules of one policy after the other. Equal settings are shared."""

    def __init__(  # noqa: PLR0913  # what policies are made of
        self,
        rules: Sequence[Rule],
        default: PolicySource | None,
        accelerators: Accelerators,
        cuda: PlatformTables,
        faults: Faults,
        *,
        has_other_rows: bool,
    ) -> None:
        """`has_other_rows`: the platform may have rows of CUDA's tables that could not be read."""
        self._rules = rules
        self._accelerators = accelerators
        self._has_other_rows = has_other_rows
        self._cuda_digest = content_hash(cuda.written) if cuda.written else ""
        self._faults = faults
        self._settings: dict[tuple[str, str, str], RuleSettings] = {}
        self.notices: list[str] = []
        self._besides = default.besides if default is not None else Besides()
        self._shared = {CONTEXT: accelerators, **context_of(cuda.tables, has_others=has_other_rows)}
        self.context: Mapping[str, Any] = self._shared | self._besides.classes.context
        """The context with which settings of the default are validated."""
        self._contexts: dict[str, Mapping[str, Any]] = {}
        """Name of a policy -> the context with which its settings are validated, if it has one of its own."""
        self.nodes: Mapping[str, YamlNode] = default.rules if default is not None else {}
        """The settings of the default, by rule."""
        self._bound = {
            rule.key: self._rule(rule, self.nodes[rule.key], DEFAULT_FILE, self._besides.classes)
            for rule in rules
            if rule.key in self.nodes
        }
        self._files = (DEFAULT_FILE,) if default is not None else ()
        self.default = None if default is None else self._policy(default.name, self._files, self._bound, self._besides)

    def context_of(self, policy: str) -> Mapping[str, Any]:
        return self._contexts.get(policy, self.context)

    def bind(self, source: PolicySource) -> Policy:
        """The policy of a namespace's file, merged over the default. Faulty rules are left out, and recorded."""
        active = dict(self._bound)
        besides = source.besides.over(self._besides)
        own_classes = bool(source.besides.classes)
        if own_classes:
            self._contexts[source.name] = self._shared | besides.classes.context
        for rule in self._rules:
            own, inherited = source.rules.get(rule.key), self.nodes.get(rule.key)
            if own is not None:
                node = own if inherited is None else merge_rule(rule, inherited, own)
                active[rule.key] = self._rule(rule, node, source.file, besides.classes)
            elif inherited is not None and rule is gpu_quota.RULE and own_classes:
                active[rule.key] = self._rule(rule, inherited, DEFAULT_FILE, besides.classes)
        return self._policy(source.name, (*self._files, source.file), active, besides)

    def _policy(
        self, name: str, files: tuple[str, ...], active: Mapping[str, ConfiguredRule | None], besides: Besides
    ) -> Policy:
        rules = [one for rule in self._rules if (one := active.get(rule.key)) is not None]
        parts = {
            "nodePools": besides.pools_written,
            "workloads": besides.workloads,
            "accelerators": [asdict(one) for one in self._accelerators.declared],
            CUDA_KIND: self._cuda_digest,
            "deviceClasses": besides.classes.written,
            "transientTaints": besides.transient_taints,
            "contact": besides.contact,
        }
        parts = {key: part for key, part in parts.items() if part}
        content = {one.rule.key: one.node.plain() for one in rules}
        contact = besides.contact or ""
        weights = [one.settings.counting.weights for one in rules if isinstance(one.settings, gpu_quota.Settings)]
        for index, one in enumerate(rules):
            if any(weights) and isinstance(one.settings, gpu_limits.Settings):  # maxima count units as the quota does
                one = replace(one, settings=one.settings.weighing(weights[0]))  # noqa: PLW2901
            rules[index] = replace(one, contact=contact) if contact else one
        return Policy(
            name,
            files,
            content_hash([content, parts] if parts else content),
            tuple(rules),
            besides.pools or (),
            besides.pools_origin or "",
            besides.workloads or WorkloadsMode.WARN,
            besides.workloads_origin or "",
            self._accelerators,
            contact,
            besides.classes.written,
            transient_taints=besides.transient_taints or (),
        )

    def _rule(self, rule: Rule, node: YamlNode, origin: str, classes: DeclaredClasses) -> ConfiguredRule | None:
        """A rule with its settings, as they are merged; None if it is disabled or faulty."""
        key = (
            rule.key,
            json.dumps(node.plain(), sort_keys=True),
            json.dumps(classes.written) if rule is gpu_quota.RULE else "",
        )
        settings = self._settings.get(key) or self._validated(rule, node, classes)
        if settings is None:
            return None
        self._settings[key] = settings
        if settings.mode is Mode.DISABLED:
            return None
        remedy = rule.why_no_effect(settings)
        if message := (f"does nothing in mode {settings.mode}; {remedy}" if remedy else rule.out_of_reach(settings)):
            self.notices.append(f"{node.file}:{node.line}: spec.rules.{rule.key}: {message}")
        return ConfiguredRule(rule, settings.mode, settings, origin, node)

    def _validated(self, rule: Rule, node: YamlNode, classes: DeclaredClasses) -> RuleSettings | None:
        context, place = self._shared | classes.context, (*RULES_PATH, rule.key)

        def message_of(mistake: Mistake) -> str:
            if mistake.kind != "missing" or mistake.path != ("mode",):
                return mistake.message
            if self._accelerators is ANY:  # the default that may say the mode is not known
                return ""
            return f"missing, here and in {DEFAULT_FILE}; write one of {MODES}"

        settings = read_as(
            node, rule.settings, rule_schema(rule), self._faults, context=context, place=place, message_of=message_of
        )
        if isinstance(settings, gpu_quota.Settings) and self._accelerators is not ANY and not self._has_other_rows:
            self._check_models(classes, settings)
        return settings

    def _check_models(self, classes: DeclaredClasses, settings: gpu_quota.Settings) -> None:
        """Add a fault for each model of a DeviceClass that nobody knows: it would count against no limit."""
        catalogue = settings.counting.catalogue
        for name, declared in classes.settings.items():
            node, model = classes.nodes[name], declared.model
            if model is not None and not catalogue.leaves(model):
                close = closest(model, catalogue.names)
                hint = f"did you mean {close}?" if close else "docs/rules.md names all"
                message = f'"{model}" is no known model; {hint} Others are declared under models of gpuQuota'
                self._faults.add(node.file, node.line, ("spec", "deviceClasses", name, "model"), message)
