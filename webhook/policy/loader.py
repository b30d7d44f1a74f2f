"""Reads a directory into a set of policies, or reports all mistakes in it, each with file, line and key."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from webhook.cuda.cuda_tables import context_of
from webhook.model.accelerators import ANY, BUILT_IN, CONTEXT, Accelerators
from webhook.model.wording import closest, few
from webhook.policy.cuda_file import SHIPPED_ONLY, PlatformTables, read_cuda_tables
from webhook.policy.device_class_settings import DeclaredClasses
from webhook.policy.directory import Contents, read_directory
from webhook.policy.document import RULES_PATH, merge_rule
from webhook.policy.error_wording import MODES, details_of, locate, message_for
from webhook.policy.exception_settings import ExceptionFile, load_exceptions
from webhook.policy.namespaces import ClaimedNamespaces
from webhook.policy.policy_quotas import NO_SHARED_QUOTAS, read_shared_quotas
from webhook.policy.policy_set import BoundRule, Policy, PolicySet, content_hash
from webhook.policy.policy_source import Besides, PolicySource, read_source
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
    paths = {file: str(contents.path / file) for file in (*files, DEFAULT_FILE, CUDA_FILE)}
    cuda = SHIPPED_ONLY
    if CUDA_FILE in files:
        cuda = read_cuda_tables(paths[CUDA_FILE], files.pop(CUDA_FILE), faults)
        if previous is not None and previous.cuda.written == cuda.written:
            cuda = previous.cuda  # with all that its tables remember
    faulty = {fault.path for fault in faults.errors}
    has_other_rows = CUDA_FILE in elsewhere or paths[CUDA_FILE] in faulty
    is_default_unknown = DEFAULT_FILE in elsewhere or paths[DEFAULT_FILE] in faulty
    default: PolicySource | None = None
    notices = []
    if DEFAULT_FILE in files:
        source = files.pop(DEFAULT_FILE)
        default = read_source(DEFAULT_FILE, paths[DEFAULT_FILE], source, rules, faults, tables=cuda.tables)
        is_default_unknown = default is None
    else:
        notices.append(f"{paths[DEFAULT_FILE]}: no such file, so namespaces without a file of their own have no rules")
    accelerators = default.accelerators if default is not None else ANY if is_default_unknown else BUILT_IN
    binder = _Binder(rules, default, accelerators, cuda, faults, previous, has_other_rows=has_other_rows)
    exceptions_file, quotas_file = files.pop(EXCEPTIONS_FILE, None), files.pop(QUOTAS_FILE, None)
    shared_quotas = NO_SHARED_QUOTAS
    if quotas_file is not None:
        inherited = default.rules if default is not None else {}
        shared_quotas = read_shared_quotas(paths[QUOTAS_FILE], quotas_file, inherited, faults, binder.context)
    claimed, policies = ClaimedNamespaces(faults), dict[str, Policy]()
    for file, content in files.items():
        team = read_source(file, paths[file], content, rules, faults, accelerators, cuda.tables)
        if team is not None:
            policies |= dict.fromkeys(claimed.add(team.claims), binder.bind(team))
    if previous is not None:
        shared_quotas = shared_quotas.sharing(previous.shared_quotas)
    max_days = default.max_days if default is not None else MOST_DAYS
    loaded = [binder.default, *policies.values()]
    notices += [*shared_quotas.remarks, *binder.notices, *_begun_changes(contents, loaded, now)]
    notices += dict.fromkeys(_limits_without_use(contents, loaded))
    policy_set = PolicySet.of(binder.default, policies, notices, shared_quotas, cuda, max_days=max_days)
    if exceptions_file is not None:
        known_now = None if is_default_unknown else now
        written = ExceptionFile(paths[EXCEPTIONS_FILE], exceptions_file, tuple(rules), known_now)
        exceptions, remarks = load_exceptions(written, policy_set, binder.context, binder.contexts, faults)
        notices = [*policy_set.notices, *remarks]
        policy_set = PolicySet.of(binder.default, policies, notices, shared_quotas, cuda, exceptions, max_days)
    faults.raise_if_any()
    return policy_set


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


def _begun_changes(contents: Contents, policies: Iterable[Policy | None], now: float | None) -> Iterator[str]:
    """A remark for each node pool whose next driver has begun; none without `now`."""
    declaring = {policy.pools_origin: policy for policy in policies if policy is not None}
    for origin, policy in sorted(declaring.items()) if now is not None else ():
        for pool in policy.node_pools:
            if pool.next is not None and pool.next.begins <= cast("float", now):
                yield (
                    f"{contents.path / origin}: spec.nodePools: {pool.name} has driver {pool.next.driver} since "
                    f"{pool.next.day}; write it as driver, and remove next"
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

    def __init__(  # noqa: PLR0913, PLR0917  # what policies are made of
        self,
        rules: Sequence[Rule],
        default: PolicySource | None,
        accelerators: Accelerators,
        cuda: PlatformTables,
        faults: Faults,
        previous: PolicySet | None,
        *,
        has_other_rows: bool,
    ) -> None:
        """`has_other_rows`: the platform may have rows of CUDA's tables that could not be read."""
        self._rules = rules
        self._accelerators = accelerators
        self._has_other_rows = has_other_rows
        self._cuda_digest = content_hash(cuda.written) if cuda.written else ""
        self._faults = faults
        self._previous = {policy.name: policy for policy in previous.policies} if previous is not None else {}
        self._settings: dict[tuple[str, str, str], RuleSettings] = {}
        self.notices: list[str] = []
        self._besides = default.besides if default is not None else Besides()
        self._shared = {CONTEXT: accelerators, **context_of(cuda.tables, has_others=has_other_rows)}
        self.context: Mapping[str, Any] = self._shared | self._besides.classes.context
        """The context with which settings of the default are validated."""
        self.contexts: dict[str, Mapping[str, Any]] = {}
        """Name of a policy -> the context with which its settings are validated, if it has one of its own."""
        self._nodes: Mapping[str, YamlNode] = default.rules if default is not None else {}
        self._bound = {
            rule.key: self._rule(rule, self._nodes[rule.key], DEFAULT_FILE, self._besides.classes)
            for rule in rules
            if rule.key in self._nodes
        }
        self._files = (DEFAULT_FILE,) if default is not None else ()
        self.default = None
        if default is not None:
            self.default = self._policy(default.name, self._files, self._bound, self._besides)

    def bind(self, source: PolicySource) -> Policy:
        """The policy of a namespace's file, merged over the default. Faulty rules are left out, and recorded."""
        bound = dict(self._bound)
        besides = source.besides.over(self._besides)
        own_classes = bool(source.besides.classes)
        if own_classes:
            self.contexts[source.name] = self._shared | besides.classes.context
        for rule in self._rules:
            own, inherited = source.rules.get(rule.key), self._nodes.get(rule.key)
            if own is not None:
                bound[rule.key] = self._rule(rule, merge_rule(rule, inherited, own), source.file, besides.classes)
            elif inherited is not None and rule is gpu_quota.RULE and own_classes:
                bound[rule.key] = self._rule(rule, inherited, DEFAULT_FILE, besides.classes)
        return self._policy(source.name, (*self._files, source.file), bound, besides)

    def _policy(
        self, name: str, files: tuple[str, ...], bound: Mapping[str, BoundRule | None], besides: Besides
    ) -> Policy:
        active = _weighed([one for rule in self._rules if (one := bound.get(rule.key)) is not None])
        content = {one.rule.key: one.written for one in active}
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
        contact = besides.contact or ""
        policy = Policy(
            name,
            files,
            content_hash([content, parts] if parts else content),
            tuple(replace(one, contact=contact) for one in active) if contact else active,
            besides.pools or (),
            besides.pools_origin or "",
            besides.workloads or WorkloadsMode.WARN,
            besides.workloads_origin or "",
            self._accelerators,
            contact,
            besides.classes.written,
            transient_taints=besides.transient_taints or (),
        )
        previous = self._previous.get(name)
        return previous if previous is not None and previous == policy else policy

    def _rule(self, rule: Rule, node: YamlNode, origin: str, classes: DeclaredClasses) -> BoundRule | None:
        """A rule with its settings, as they are merged; None if it is disabled or faulty."""
        written = node.plain()
        text = json.dumps(written, sort_keys=True)
        known = (rule.key, text, classes.text if rule is gpu_quota.RULE else "")
        settings = self._settings.get(known) or self._validated(rule, node, text, classes)
        if settings is not None:
            self._settings[known] = settings
        if settings is None or settings.mode is Mode.DISABLED:
            return None
        remedy = rule.why_no_effect(settings)
        if message := (f"does nothing in mode {settings.mode}; {remedy}" if remedy else rule.out_of_reach(settings)):
            self.notices.append(f"{node.file}:{node.line}: spec.rules.{rule.key}: {message}")
        return BoundRule(rule, settings.mode, settings, origin, node.line, written=written)

    def _validated(self, rule: Rule, node: YamlNode, text: str, classes: DeclaredClasses) -> RuleSettings | None:
        try:
            context = self._shared | classes.context
            settings = rule.settings.model_validate_json(text, by_alias=True, by_name=False, context=context)
        except ValidationError as error:
            for detail in details_of(error):
                self._record(rule, node, detail)
            return None
        if isinstance(settings, gpu_quota.Settings) and self._accelerators is not ANY:
            self._check_models(classes, settings)
        return settings

    def _check_models(self, classes: DeclaredClasses, settings: gpu_quota.Settings) -> None:
        """Add a fault for each model of a DeviceClass that nobody knows: it would count against no limit."""
        catalogue = settings.counting.catalogue
        for name, model, node in classes.models if not self._has_other_rows else ():
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
            if self._accelerators is ANY:
                return
            message = f"missing, here and in {DEFAULT_FILE}; write one of {MODES}"
        self._faults.add(node.file, node.line, (*RULES_PATH, rule.key, *path), message)
