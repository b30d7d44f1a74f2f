"""The policy of a namespace, after merging and with every default, and which file each part comes from."""

from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from webhook.model.accelerators import Declared
from webhook.policy.node_pools import as_declared
from webhook.policy.policy_quotas import BoundQuota
from webhook.policy.policy_set import BoundRule, PolicySet
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
    whose = f"namespace {quota.name}"
    if quota.scope is QuotaScope.SHARED:
        whose = f"shared quota {quota.name} of {', '.join(quota.patterns)}"
    return f"{whose}: {limits} ({bound.mode}, from {bound.origin})"


def _quotas(policies: PolicySet, namespace: str) -> list[str]:
    """The quotas of a namespace, one line for each."""
    found = policies.quotas_for(namespace)
    if not found:
        return ["quotas: none"]
    return ["quotas, all of which hold:", *("  " + quota_text(bound) for bound in found)]


def _exceptions(policies: PolicySet, namespace: str) -> Iterator[str]:
    """The exceptions for a namespace, one line for each, whether or not they hold now."""
    found = policies.exceptions.of(namespace)
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
