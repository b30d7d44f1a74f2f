"""The policy of a namespace, after merging and with every default, and which file each part comes from.

`loosened_for_nobody` finds policies that loosen rules for namespaces which do not exist. Anybody who may create
namespaces can get such a policy.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import yaml

from webhook.model.accelerators import Declared
from webhook.model.globs import is_glob, matcher
from webhook.policy.node_pools import as_declared
from webhook.policy.policy_quotas import BoundQuota
from webhook.policy.policy_set import BoundRule, Policy, PolicySet
from webhook.policy.schema import (
    API_VERSION,
    CUDA_FILE,
    DEFAULT_FILE,
    EXCEPTIONS_FILE,
    as_written,
    part_at,
    rule_schema,
)
from webhook.quota.quota_wording import number
from webhook.quota.quotas import QuotaScope
from webhook.rules import RULES
from webhook.rules.rule import Rule
from webhook.rules.rule_settings import Mode


def effective_policy(policies: PolicySet, namespace: str, rules: Sequence[Rule] = RULES) -> dict[str, Any]:
    """The policy of a namespace as one policy file without any defaults."""
    bound = {each.rule.key: each for each in policies.for_namespace(namespace).rules}
    settings = {
        rule.key: settings_as_written(bound[rule.key]) if rule.key in bound else {"mode": str(Mode.DISABLED)}
        for rule in rules
    }
    head = {"apiVersion": API_VERSION, "kind": "GPUPolicy", "metadata": {"name": namespace}}
    policy = policies.for_namespace(namespace)
    pools = [as_declared(pool) for pool in policy.node_pools]
    workloads = {"mode": str(policy.workloads)}
    contact = {"contact": policy.contact} if policy.contact else {}
    classes = {"deviceClasses": policy.device_classes} if policy.device_classes else {}
    transient = {"transientTaints": list(policy.transient_taints)} if policy.transient_taints else {}
    besides = {**contact, **transient, **({"nodePools": pools} if pools else {}), **classes}
    return {**head, "spec": {**besides, "workloads": workloads, "rules": settings}}


def explain(policies: PolicySet, namespace: str, rules: Sequence[Rule] = RULES) -> str:
    """The policy of a namespace as YAML, with comments: the file of each part, and the quotas of the namespace."""
    policy = policies.for_namespace(namespace)
    origins = {bound.rule.key: f"from {bound.origin}" for bound in policy.rules}
    files = " over ".join(reversed(policy.files)) or "no file"
    document = effective_policy(policies, namespace, rules)
    spec = document.pop("spec")
    lines = [f"# namespace {namespace}: policy {policy.name} ({policy.short_hash}), {files}"]
    declared = policies.accelerators.declared
    if declared:
        lines.append(f"# names of GPUs that only this platform knows, from {DEFAULT_FILE}:")
        lines += [f"#   {one.name}: {_meaning(one)}" for one in declared]
    if rows := policies.cuda.counts:
        lines.append(f"# rows for the tables of CUDA beside those of this release, from {CUDA_FILE}: {rows}")
    lines += _yaml(document)
    lines.append("spec:")
    if contact := spec.get("contact"):
        lines += ["  " + line for line in _yaml({"contact": contact})]
    if taints := spec.get("transientTaints"):
        lines += ["  " + line for line in _yaml({"transientTaints": taints})]
    if pools := spec.get("nodePools"):
        lines.append(f"  # from {policy.pools_origin}, with the labels that follow from what it says")
        lines += ["  " + line for line in _yaml({"nodePools": pools})]
    if classes := spec.get("deviceClasses"):
        lines += ["  " + line for line in _yaml({"deviceClasses": dict(classes)})]
    lines.append(f"  # {f'from {policy.workloads_origin}' if policy.workloads_origin else 'named in no file'}")
    lines += ["  " + line for line in _yaml({"workloads": spec["workloads"]})]
    lines.append("  rules:")
    for key, value in spec["rules"].items():
        lines.append(f"    # {origins.get(key, 'disabled, or named in no file')}")
        lines += ["    " + line for line in _yaml({key: value})]
    lines += ["# " + line for line in _quotas(policies, namespace)]
    lines += ["# " + line for line in _exceptions(policies, namespace)]
    return "\n".join(lines) + "\n"


def _meaning(declared: Declared) -> str:
    if declared.share is None:
        return "no GPU"
    return f"{declared.vendor}, {declared.share}{', by DRA' if declared.by_dra else ''}"


def quota_text(bound: BoundQuota) -> str:
    """A quota in one line: its name, its limits, its mode, and its file."""
    quota = bound.quota
    limits = ", ".join(f"{limit.name or 'GPUs'} {number(limit.hard)}" for limit in quota.limits)
    shared = f" of {', '.join(quota.patterns)}" if quota.scope is QuotaScope.POT else ""
    return f"{quota.scope} {quota.name}{shared}: {limits} ({bound.mode}, from {bound.origin})"


def _quotas(policies: PolicySet, namespace: str) -> list[str]:
    """The quotas of a namespace, one line for each."""
    found = policies.quotas_for(namespace)
    if not found:
        return ["quotas: none"]
    return ["quotas, all of which hold:", *("  " + quota_text(bound) for bound in found)]


def _exceptions(policies: PolicySet, namespace: str) -> Iterator[str]:
    """The exceptions for a namespace, one line for each, whether or not they hold now."""
    found = [one for one in policies.exceptions.all if policies.exceptions.is_in(namespace, one)]
    if found:
        yield f"exceptions, from {EXCEPTIONS_FILE}:"
    for one in found:
        yield f"  {one.name}: {', '.join(one.concerned)} until {one.period.text} ({one.reason})"


def settings_as_written(bound: BoundRule) -> dict[str, Any]:
    """The settings of a rule as a policy file would have them, with defaults, without unset and excluded ones."""
    settings = bound.settings
    fields = type(settings).model_fields
    keys = {name: field.alias or name for name, field in fields.items()}
    written = {keys[name] for name in settings.model_fields_set}
    excluded = {key for group in settings.exclusive if group & written for key in group - written}
    defaults = {name: getattr(settings, name) for name in fields if keys[name] not in written | excluded}
    full = settings.model_copy(update=defaults) if defaults else settings
    plain = full.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
    schema = rule_schema(bound.rule)
    return {key: as_written(value, part_at(schema, (key,))) for key, value in plain.items()}


def _yaml(value: Any) -> list[str]:
    text: str = yaml.safe_dump(value, sort_keys=False, default_flow_style=False, allow_unicode=True, width=100)
    return text.splitlines()


_STRICTNESS = {Mode.ENFORCE: 3, Mode.WARN: 2, Mode.AUDIT: 1, Mode.DISABLED: 0}


def loosened_for_nobody(policies: PolicySet, namespaces: Collection[str]) -> Iterator[tuple[Policy, tuple[str, ...]]]:
    """Each policy that may be looser than another, with its names and globs that match none of `namespaces`.

    It is compared with the default, and with the policies of other globs that match the name as well. A policy that
    only adds rules to these is not looser. Any other difference in the settings of a rule counts as looser.
    """
    patterns: dict[str, list[str]] = {}
    for pattern in sorted(policies.claims):
        policy = policies.claims[pattern]
        is_there = any(matcher(pattern).fullmatch(namespace) for namespace in namespaces)
        if not is_there and any(_may_be_looser(policy, other) for other in _others(pattern, policies)):
            patterns.setdefault(policy.name, []).append(pattern)
    for policy in policies.policies:
        if policy.name in patterns:
            yield policy, tuple(patterns[policy.name])


def _others(pattern: str, policies: PolicySet) -> Iterator[Policy]:
    """The other policies that a namespace with this name may have. Anybody who may create namespaces with a prefix can
    choose among them.
    """
    yield policies.default
    for other, policy in policies.claims.items():
        if other != pattern and is_glob(other) and matcher(other).fullmatch(pattern):
            yield policy


def _may_be_looser(policy: Policy, default: Policy) -> bool:
    own = {bound.rule.key: bound for bound in policy.rules}
    for bound in default.rules:
        other = own.get(bound.rule.key)
        if other is None or _STRICTNESS[other.mode] < _STRICTNESS[bound.mode] or _said(other) != _said(bound):
            return True
    return False


def _said(bound: BoundRule) -> Mapping[str, Any]:
    """The settings of a rule besides its mode."""
    return bound.settings.model_dump(exclude={"mode"})
