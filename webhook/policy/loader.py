"""Reads a directory into a set of policies, or reports all mistakes in it, each with file, line and key."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from webhook.cuda.cuda_tables import context_of
from webhook.model.accelerators import ANY, BUILT_IN, CONTEXT, Accelerators
from webhook.model.node import NodePool
from webhook.model.wording import closest, few
from webhook.policy.cuda_file import SHIPPED_ONLY, PlatformTables, read_cuda_tables
from webhook.policy.device_class_settings import DeclaredClasses
from webhook.policy.directory import Contents, read_directory
from webhook.policy.document import RULES_PATH, merge_rule
from webhook.policy.error_wording import MODES, details_of, locate, message_for
from webhook.policy.exception_settings import ExceptionFile, load_exceptions
from webhook.policy.namespaces import ClaimedNamespaces
from webhook.policy.node_pools import begun_changes
from webhook.policy.policy_quotas import NO_SHARED_QUOTAS, read_shared_quotas
from webhook.policy.policy_set import BoundRule, Policy, PolicySet, content_hash
from webhook.policy.policy_source import PolicySource, read_source
from webhook.policy.schema import (
    CUDA_FILE,
    CUDA_KIND,
    DEFAULT_FILE,
    EXCEPTIONS_FILE,
    MOST_DAYS,
    QUOTAS_FILE,
    WorkloadsMode,
    rule_schema,
)
from webhook.rules import RULES, gpu_limits, gpu_quota, gpu_types
from webhook.rules.rule import Rule
from webhook.rules.rule_settings import Mode, RuleSettings
from webhook.yaml_files.file_errors import Faults
from webhook.yaml_files.yaml_lines import YamlNode


def load(directory: Path | str, rules: Sequence[Rule] = RULES, now: float | None = None) -> PolicySet:
    """The policies in a directory. Raises FileErrors with all mistakes, by file and line. `now` is as in `build`."""
    return build(read_directory(Path(directory)), rules, now=now)


def build(
    contents: Contents,
    rules: Sequence[Rule] = RULES,
    previous: PolicySet | None = None,
    *,
    elsewhere: Collection[str] = (),
    now: float | None = None,
) -> PolicySet:
    """The policies in files that were read. Raises FileErrors.

    Policies that are equal to one of `previous` are shared with it, so that a reload keeps no second copy. Files named
    in `elsewhere` may exist outside `contents`, so what they may declare is not reported as missing. With `now`, an
    exception whose end is too far ahead is a mistake; without it, the exception does not hold until its end is near
    enough, so that a set which was loaded once can always be loaded.
    """
    faults = Faults()
    faults.extend(contents.faults)
    files = dict(contents.files)
    default_path = str(contents.path / DEFAULT_FILE)
    default: PolicySource | None = None
    notices = []
    is_default_unknown = DEFAULT_FILE in elsewhere or any(fault.path == default_path for fault in contents.faults)
    cuda_path = str(contents.path / CUDA_FILE)
    cuda = SHIPPED_ONLY
    if CUDA_FILE in files:
        cuda = read_cuda_tables(cuda_path, files.pop(CUDA_FILE), faults)
        cuda = cuda.sharing(previous.cuda if previous is not None else SHIPPED_ONLY)
    if DEFAULT_FILE in files:
        default = read_source(DEFAULT_FILE, default_path, files.pop(DEFAULT_FILE), rules, faults, tables=cuda.tables)
        is_default_unknown = default is None
    else:
        notices.append(f"{default_path}: no such file, so namespaces without a file of their own have no rules")
    accelerators = default.accelerators if default is not None else ANY if is_default_unknown else BUILT_IN
    has_other_rows = CUDA_FILE in elsewhere or any(fault.path == cuda_path for fault in faults.errors)
    shared = _Shared(accelerators, cuda, has_other_rows)
    exceptions_file = files.pop(EXCEPTIONS_FILE, None)
    binder = _Binder(rules, default, shared, faults, previous, keeps_written=exceptions_file is not None)
    shared_quotas = NO_SHARED_QUOTAS
    if QUOTAS_FILE in files:
        path = str(contents.path / QUOTAS_FILE)
        inherited = default.rules if default is not None else {}
        context = shared.context | binder.default_classes.context
        shared_quotas = read_shared_quotas(path, files.pop(QUOTAS_FILE), inherited, faults, context)
    claimed, policies = ClaimedNamespaces(faults), dict[str, Policy]()
    for file, content in files.items():
        source = read_source(file, str(contents.path / file), content, rules, faults, accelerators, cuda.tables)
        if source is not None:
            policies |= dict.fromkeys(claimed.add(source.claims), binder.bind(source))
    if previous is not None:
        shared_quotas = shared_quotas.sharing(previous.shared_quotas)
    max_days = default.max_days if default is not None else MOST_DAYS
    notices += [*shared_quotas.remarks, *binder.notices, *_begun_changes(contents, binder.default, policies, now)]
    notices += dict.fromkeys(_limits_without_use(contents, [binder.default, *policies.values()]))
    policy_set = PolicySet.of(binder.default, policies, notices, shared_quotas, cuda, max_days=max_days)
    if exceptions_file is not None:
        written = ExceptionFile(
            str(contents.path / EXCEPTIONS_FILE), exceptions_file, tuple(rules), None if is_default_unknown else now
        )
        exceptions, remarks = load_exceptions(written, policy_set, binder.context, binder.contexts, faults)
        notices = [*policy_set.notices, *remarks]
        policy_set = PolicySet.of(binder.default, policies, notices, shared_quotas, cuda, exceptions, max_days)
    faults.raise_if_any()
    return policy_set


@dataclass(frozen=True, slots=True)
class _Merged:
    """A rule in one policy: its settings as they are in the files, and the bound rule, unless disabled or faulty."""

    written: Any
    bound: BoundRule | None


def _limits_without_use(contents: Contents, policies: Iterable[Policy | None]) -> Iterator[str]:
    """Remarks on quotas of a file that limit models which the policy of that file never allows."""
    for policy in filter(None, policies):
        bound = {one.rule.key: one for one in policy.rules}
        quota, types = bound.get(gpu_quota.RULE.key), bound.get(gpu_types.RULE.key)
        if quota is None or types is None or types.mode is not Mode.ENFORCE or quota.origin != policy.files[-1]:
            continue
        limits, usable = cast("gpu_quota.Settings", quota.settings), cast("gpu_types.Settings", types.settings)
        if unused := list(filter(usable.never_allows, limits.by_model)):
            place = f"{contents.path / quota.origin}:{quota.line}: spec.rules.gpuQuota.byModel"
            yield f"{place}: limits {few(unused)}, which gpuTypes never allows; change one of both"


def _begun_changes(
    contents: Contents, default: Policy | None, policies: Mapping[str, Policy], now: float | None
) -> Iterator[str]:
    """A remark for each node pool whose next driver has begun; none without `now`."""
    if now is None:
        return
    declaring = {one.pools_origin: one for one in (*policies.values(), *((default,) if default else ())) if one.changes}
    for origin, policy in sorted(declaring.items()):
        yield from begun_changes(policy.node_pools, str(contents.path / origin), now)


@dataclass(frozen=True, slots=True)
class _Pools:
    """The node pools of one policy: as values, as they are in the file, and the name of the file."""

    pools: tuple[NodePool, ...] = ()
    written: tuple[Any, ...] = ()
    origin: str = ""

    @classmethod
    def of(cls, source: PolicySource | None) -> "_Pools":
        if source is None or not source.pools:
            return cls()
        written = (each.model_dump(mode="json", by_alias=True, exclude_unset=True) for each in source.pools)
        return cls(tuple(each.pool for each in source.pools), tuple(written), source.file)


@dataclass(frozen=True, slots=True)
class _Workloads:
    """The mode for workloads of one policy, and the file that sets it; None and empty if no file does."""

    mode: WorkloadsMode | None = None
    origin: str = ""

    @classmethod
    def of(cls, source: PolicySource | None) -> "_Workloads":
        return cls() if source is None or source.workloads is None else cls(source.workloads, source.file)


@dataclass(frozen=True)
class _Shared:
    """The parts that all policies of a set share: the names of GPUs, and the tables of CUDA.

    `has_other_rows` tells whether the platform may have rows that could not be read.
    """

    accelerators: Accelerators
    cuda: PlatformTables
    has_other_rows: bool

    @cached_property
    def cuda_digest(self) -> str:
        """A hash of the platform's rows, made once, because every policy's hash includes them."""
        return content_hash(self.cuda.written)

    @property
    def context(self) -> dict[str, Any]:
        """The context with which settings are validated."""
        return {CONTEXT: self.accelerators, **context_of(self.cuda.tables, has_others=self.has_other_rows)}


@dataclass(frozen=True, slots=True)
class _Besides:
    """The parts of one policy besides its rules."""

    pools: _Pools
    workloads: _Workloads
    shared: _Shared
    contact: str
    classes: DeclaredClasses
    transient_taints: tuple[str, ...]

    def under(self, source: PolicySource) -> "_Besides":
        """The parts of a namespace's policy: its own, or these if its file leaves them out."""
        pools = self.pools if source.pools is None else _Pools.of(source)
        workloads = self.workloads if source.workloads is None else _Workloads.of(source)
        classes = source.device_classes.over(self.classes)
        transient = self.transient_taints if source.transient_taints is None else source.transient_taints
        return _Besides(pools, workloads, self.shared, source.contact or self.contact, classes, transient)

    def policy(self, name: str, files: tuple[str, ...], rules: Any, bound: tuple[BoundRule, ...]) -> Policy:
        """The policy with these bound rules. `rules` are the rules as they are in the files, for the hash."""
        written: list[Any] = [rules, self.pools.written]
        if self.workloads.mode is not None:
            written.append(self.workloads.mode)
        accelerators = self.shared.accelerators
        if accelerators.declared:
            written.append([asdict(one) for one in accelerators.declared])
        if self.shared.cuda.written:
            written.append({CUDA_KIND: self.shared.cuda_digest})
        if self.classes:
            written.append({"deviceClasses": self.classes.written})
        if self.transient_taints:
            written.append({"transientTaints": self.transient_taints})
        if self.contact:
            written.append({"contact": self.contact})
            bound = tuple(replace(one, contact=self.contact) for one in bound)
        return Policy(
            name,
            files,
            content_hash(written if len(written) > 2 or self.pools.written else rules),
            bound,
            self.pools.pools,
            self.pools.origin,
            self.workloads.mode or WorkloadsMode.WARN,
            self.workloads.origin,
            accelerators,
            self.contact,
            self.classes.written,
            transient_taints=self.transient_taints,
        )


def _weighed(rules: Sequence[BoundRule]) -> tuple[BoundRule, ...]:
    """The rules, in which maxima of a pod count units as the quota of the policy does."""
    weights = [one.settings.counting.weights for one in rules if isinstance(one.settings, gpu_quota.Settings)]
    if not any(weights):
        return tuple(rules)
    return tuple(
        replace(one, settings=one.settings.weighing(weights[0]))
        if isinstance(one.settings, gpu_limits.Settings)
        else one
        for one in rules
    )


class _Binder:
    """Merges, validates and binds the rules of one policy after the other. Equal settings and policies are shared."""

    def __init__(  # noqa: PLR0913  # what policies are made of, and what for
        self,
        rules: Sequence[Rule],
        default: PolicySource | None,
        shared: _Shared,
        faults: Faults,
        previous: PolicySet | None,
        *,
        keeps_written: bool = False,
    ) -> None:
        self._rules = rules
        self._keeps_written = keeps_written
        self.contexts: dict[str, Mapping[str, Any]] = {}
        """Name of a policy -> the context with which its settings are validated, if it has one of its own."""
        self._shared = shared
        self._faults = faults
        self.notices: list[str] = []
        self._settings: dict[tuple[str, str, str], RuleSettings] = {}
        self._previous = {policy.name: policy for policy in previous.policies} if previous is not None else {}
        self._default_nodes: Mapping[str, YamlNode] = default.rules if default is not None else {}
        self.default_classes = default.device_classes if default is not None else DeclaredClasses()
        self._default_rules = {
            rule.key: self._merge(rule, self._default_nodes[rule.key], DEFAULT_FILE, self.default_classes)
            for rule in rules
            if rule.key in self._default_nodes
        }
        self._default_files = (DEFAULT_FILE,) if default is not None else ()
        contact = (default.contact if default is not None else None) or ""
        self._default_besides = _Besides(
            _Pools.of(default),
            _Workloads.of(default),
            shared,
            contact,
            self.default_classes,
            (default.transient_taints if default is not None else None) or (),
        )
        self.context = shared.context | self.default_classes.context
        self.default = (
            self._policy(default.name, self._default_files, self._default_rules, self._default_besides)
            if default is not None
            else None
        )

    def bind(self, source: PolicySource) -> Policy:
        """The policy of a namespace's file, merged over the default. Faulty rules are left out, and recorded."""
        merged = dict(self._default_rules)
        besides = self._default_besides.under(source)
        if source.device_classes and self._keeps_written:
            self.contexts[source.name] = self._shared.context | besides.classes.context
        for rule in self._rules:
            own, inherited = source.rules.get(rule.key), self._default_nodes.get(rule.key)
            if own is not None:
                merged[rule.key] = self._merge(rule, merge_rule(rule, inherited, own), source.file, besides.classes)
            elif inherited is not None and rule is gpu_quota.RULE and source.device_classes:
                merged[rule.key] = self._merge(rule, inherited, DEFAULT_FILE, besides.classes)
        return self._policy(source.name, (*self._default_files, source.file), merged, besides)

    def _policy(self, name: str, files: tuple[str, ...], merged: Mapping[str, _Merged], besides: _Besides) -> Policy:
        active = [merged[rule.key] for rule in self._rules if rule.key in merged]
        bound = _weighed([each.bound for each in active if each.bound is not None])
        content = {each.bound.rule.key: each.written for each in active if each.bound is not None}
        policy = besides.policy(name, files, content, bound)
        previous = self._previous.get(name)
        return previous if previous is not None and previous == policy else policy

    def _merge(self, rule: Rule, node: YamlNode, origin: str, classes: DeclaredClasses) -> _Merged:
        written = node.plain()
        text = json.dumps(written, sort_keys=True)
        known = (rule.key, text, classes.text if rule is gpu_quota.RULE else "")
        settings = self._settings.get(known) or self._validate(rule, node, text, classes)
        if settings is not None:
            self._settings[known] = settings
        if settings is None or settings.mode is Mode.DISABLED:
            return _Merged(written, None)
        remedy = rule.why_no_effect(settings)
        if message := (f"does nothing in mode {settings.mode}; {remedy}" if remedy else rule.out_of_reach(settings)):
            self.notices.append(f"{node.file}:{node.line}: spec.rules.{rule.key}: {message}")
        kept = written if self._keeps_written else None
        return _Merged(written, BoundRule(rule, settings.mode, settings, origin, node.line, written=kept))

    def _validate(self, rule: Rule, node: YamlNode, text: str, classes: DeclaredClasses) -> RuleSettings | None:
        try:
            context = self._shared.context | classes.context
            settings = rule.settings.model_validate_json(text, by_alias=True, by_name=False, context=context)
        except ValidationError as error:
            for detail in details_of(error):
                self._record(rule, node, detail)
            return None
        if isinstance(settings, gpu_quota.Settings) and self._shared.accelerators is not ANY:
            self._check_models(classes, settings)
        return settings

    def _check_models(self, classes: DeclaredClasses, settings: gpu_quota.Settings) -> None:
        """Add a fault for each model of a DeviceClass that nobody knows: it would count against no limit."""
        catalogue = settings.counting.catalogue
        for name, model, node in classes.models if not self._shared.has_other_rows else ():
            if node is not None and not catalogue.leaves(model):
                close = closest(model, catalogue.names)
                hint = f"did you mean {close}?" if close else "docs/rules.md names all"
                message = f'"{model}" is no known model; {hint} Others are declared under models of gpuQuota'
                self._faults.add(node.file, node.line, ("spec", "deviceClasses", name, "model"), message)

    def _record(self, rule: Rule, root: YamlNode, detail: ErrorDetails) -> None:
        is_missing = detail["type"] == "missing"
        path, node = locate(root, detail["loc"], is_missing)
        message = message_for(detail, rule_schema(rule), path, node)
        if is_missing and path == ("mode",):
            if self._shared.accelerators is ANY:
                return
            message = f"missing, here and in {DEFAULT_FILE}; write one of {MODES}"
        self._faults.add(node.file, node.line, (*RULES_PATH, rule.key, *path), message)
