"""What people read: the policy of a namespace with every default, its status, and the list of exceptions."""

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import yaml

from webhook.policy.cluster_settings import as_declared
from webhook.policy.exception_times import DAYS, Weekly, told
from webhook.policy.exceptions import PolicyException
from webhook.policy.policy_quotas import ConfiguredQuota
from webhook.policy.policy_set import ConfiguredRule, Policy, PolicySet
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
from webhook.rules import RULES, gpu_limits
from webhook.rules.rule_settings import Mode
from webhook.yaml_files.yaml_lines import YamlNode, read_yaml

MOST_SETTINGS = 4096
"""Most bytes of the settings of one rule in a status, as JSON; larger ones are left out."""
_COUNTED = {Mode.ENFORCE: "enforced", Mode.WARN: "warned", Mode.AUDIT: "audited"}


def effective_policy(policies: PolicySet, namespace: str) -> dict[str, Any]:
    """The policy of a namespace as one policy file that leaves nothing to defaults."""
    policy = policies.for_namespace(namespace)
    active = {each.rule.key: each for each in policy.rules}
    besides = {
        "contact": policy.contact,
        "transientTaints": list(policy.transient_taints),
        "nodePools": [as_declared(pool) for pool in policy.node_pools],
        "deviceClasses": dict(policy.device_classes),
    }
    spec = {
        **{key: value for key, value in besides.items() if value},
        "workloads": {"mode": str(policy.workloads)},
        "rules": {
            rule.key: settings_as_written(active[rule.key]) if rule.key in active else {"mode": str(Mode.DISABLED)}
            for rule in RULES
        },
    }
    return {"apiVersion": API_VERSION, "kind": "GPUPolicy", "metadata": {"name": namespace}, "spec": spec}


def explain(policies: PolicySet, namespace: str) -> str:
    """The policy of a namespace as YAML, with comments: the file of each part, and the quotas of the namespace."""
    policy = policies.for_namespace(namespace)
    document = effective_policy(policies, namespace)
    spec = document.pop("spec")
    lines = [_head(policy, namespace)]
    if declared := policies.accelerators.declared:
        lines.append(f"# names of GPUs that only this platform knows, from {DEFAULT_FILE}:")
        for gpu in declared:
            meaning = "no GPU" if gpu.share is None else f"{gpu.vendor}, {gpu.share}{', by DRA' if gpu.by_dra else ''}"
            lines.append(f"#   {gpu.name}: {meaning}")
    if rows := policies.cuda.counts:
        lines.append(f"# rows for the tables of CUDA beside those of this release, from {CUDA_FILE}: {rows}")
    lines += [*_yaml(document), "spec:"]
    comments = {
        "nodePools": f"from {policy.pools_origin}, with the labels that follow from what it says",
        "workloads": f"from {policy.workloads_origin}" if policy.workloads_origin else "named in no file",
    }
    settings = spec.pop("rules")
    for key, value in spec.items():
        lines += [f"  # {comments[key]}"] if key in comments else []
        lines += ["  " + line for line in _yaml({key: value})]
    lines.append("  rules:")
    origins = {active.rule.key: _origins(active) for active in policy.rules}
    for key, value in settings.items():
        lines.append(f"    # {origins.get(key, 'disabled, or named in no file')}")
        lines += ["    " + line for line in _yaml({key: value})]
    return "\n".join((*lines, *_tail(policies, namespace))) + "\n"


def _origins(active: ConfiguredRule) -> str:
    """The file of a rule, or of each of its settings if several files have some."""
    keys: dict[str, list[str]] = {}
    for name, node in active.node.entries.items():
        for key, leaf in _leaves(name, node).items():
            keys.setdefault(Path(leaf.file).name, []).append(key)
    if len(keys) < 2:
        return f"from {next(iter(keys), active.origin)}"
    return "; ".join(f"from {file}: {', '.join(own)}" for file, own in keys.items())


def _head(policy: Policy, namespace: str) -> str:
    files = " over ".join(reversed(policy.files)) or "no file"
    return f"# namespace {namespace}: policy {policy.name} ({policy.short_hash}), {files}"


def _tail(policies: PolicySet, namespace: str) -> Iterator[str]:
    """The quotas and the exceptions of a namespace, as comments."""
    quotas = [f"#   {quota_text(active)}" for active in policies.quotas_for(namespace)]
    yield from ("# quotas, all of which hold:", *quotas) if quotas else ("# quotas: none",)
    if exceptions := policies.exceptions.of(namespace):
        yield f"# exceptions, from {EXCEPTIONS_FILE}:"
        now = time.time()
        yield from (f"#   {line}" for one in listed(exceptions, now) for line in lines(one, now))


def changes(policies: PolicySet, namespace: str, directory: Path) -> dict[str, YamlNode]:
    """What the files in `directory` set for a namespace otherwise than it is built in, by its keys below `spec`."""
    policy = policies.for_namespace(namespace)
    found: dict[str, YamlNode] = {}
    for file in policy.files:
        spec = read_yaml((directory / file).read_bytes(), str(directory / file)).at("spec")
        for key in spec.entries.keys() - {"namespaces", "rules"}:
            found |= _leaves(key, spec.at(key))
    for active in policy.rules:
        settings = active.settings
        for name, field in type(settings).model_fields.items():
            key = field.alias or name
            if key in active.node.entries and getattr(settings, name) != field.get_default(call_default_factory=True):
                found |= _leaves(f"rules.{active.rule.key}.{key}", active.node.at(key))
    return found


def _leaves(key: str, node: YamlNode) -> dict[str, YamlNode]:
    below = [_leaves(f"{key}.{name}", one) for name, one in node.entries.items()]
    return {name: leaf for one in below for name, leaf in one.items()} if below else {key: node}


def explain_changes(policies: PolicySet, namespace: str, changed: Mapping[str, YamlNode]) -> str:
    """A line for each change, with its file and line; and the quotas and exceptions of the namespace."""
    said = [(f"{key}: {in_one_line(node.plain())}", f"{node.file}:{node.line}") for key, node in changed.items()]
    width = min(max((len(text) for text, _ in said), default=0), _WIDEST)
    lines = [f"{text:<{width}}  # {place}" for text, place in said]
    head = _head(policies.for_namespace(namespace), namespace)
    return "\n".join((head, *lines, *_tail(policies, namespace))) + "\n"


_WIDEST = 40
"""Most columns before the files of changes."""


def in_one_line(value: Any) -> str:
    """A value as YAML in one line."""
    text: str = yaml.safe_dump(value, sort_keys=False, default_flow_style=True, allow_unicode=True, width=10_000)
    return text.removesuffix("...\n").strip()


def quota_text(active: ConfiguredQuota) -> str:
    """A quota in one line: its name, its limits, its mode, and its file."""
    quota = active.quota
    limits = ", ".join(f"{limit.name or 'GPUs'} {number(limit.hard)}" for limit in quota.limits)
    whose = f"namespace {quota.name}"
    if quota.scope is QuotaScope.SHARED:
        whose = f"shared quota {quota.name} of {', '.join(quota.patterns)}"
    return f"{whose}: {limits} ({active.mode}, from {active.origin})"


def settings_as_written(active: ConfiguredRule) -> dict[str, Any]:
    """The settings of a rule as a policy file would have them, with defaults, without unset and excluded ones."""
    settings = active.settings
    fields = type(settings).model_fields
    keys = {name: field.alias or name for name, field in fields.items()}
    written = {keys[name] for name in settings.model_fields_set}
    excluded = {key for group in settings.exclusive if group & written for key in group - written}
    defaults = {name: getattr(settings, name) for name in fields if keys[name] not in written | excluded}
    full = settings.model_copy(update=defaults) if defaults else settings
    plain = full.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
    schema = rule_schema(active.rule)
    return {key: as_written(value, part_at(schema, (key,))) for key, value in plain.items()}


def _yaml(value: Any) -> list[str]:
    text: str = yaml.safe_dump(value, sort_keys=False, default_flow_style=False, allow_unicode=True, width=100)
    return text.splitlines()


class PolicyStatuses:
    """What people without the files may know of the policies of namespaces: modes, limits, quotas and exceptions.

    Whoever may view a namespace reads its status, so it says nothing of other namespaces.
    """

    def __init__(self, policies: PolicySet) -> None:
        self._policies = policies
        self._of_policies: dict[str, Mapping[str, Any]] = {}
        """What the namespaces of a policy have in common."""

    def of(self, namespace: str) -> Mapping[str, Any]:
        policy = self._policies.for_namespace(namespace)
        common = self._of_policies.get(policy.name)
        if common is None:
            common = self._of_policies[policy.name] = orjson.loads(orjson.dumps(_common(policy)))
        quotas = [_quota(active) for active in self._policies.quotas_for(namespace)]
        exceptions = [
            {"name": one.name, "rules": list(one.concerned), "until": one.period.text}
            for one in self._policies.exceptions.of(namespace)
        ]
        shown = {"quota": "; ".join(quota["limits"] for quota in quotas)} if quotas else {}
        return {**common, "quotas": quotas, "exceptions": exceptions, **shown}


def _common(policy: Policy) -> dict[str, Any]:
    status: dict[str, Any] = {
        "policy": policy.name,
        "file": policy.files[-1] if policy.files else "",
        "files": list(policy.files),
        "hash": policy.short_hash,
        **dict.fromkeys(_COUNTED.values(), 0),
        "workloads": str(policy.workloads),
        "rules": [_rule(active) for active in policy.rules],
    }
    for active in policy.rules:
        status[_COUNTED[active.mode]] += 1
        if isinstance(active.settings, gpu_limits.Settings):
            most = {"maxPerPod": active.settings.max_per_pod, "maxPerContainer": active.settings.max_per_container}
            status |= {key: value for key, value in most.items() if value is not None}
    if policy.contact:
        status["contact"] = policy.contact
    return status


def _rule(active: ConfiguredRule) -> dict[str, Any]:
    settings = {key: value for key, value in settings_as_written(active).items() if key != "mode"}
    rule: dict[str, Any] = {"name": active.rule.key, "mode": str(active.mode), "file": active.origin}
    if (size := len(orjson.dumps(settings, default=str))) > MOST_SETTINGS:
        return {**rule, "note": f"the settings have {size} bytes; gpu-policy policy show prints them"}
    return {**rule, "settings": settings} if settings else rule


def _quota(active: ConfiguredQuota) -> dict[str, str]:
    quota = active.quota
    limits = ", ".join(
        f"{limit.name} {number(limit.hard)}" if limit.name else number(limit.hard) for limit in quota.limits
    )
    return {"quota": quota.name, "scope": str(quota.scope), "mode": str(active.mode), "limits": limits}


def listed(exceptions: Iterable[PolicyException], now: float, within: float | None = None) -> list[PolicyException]:
    """The exceptions by end and name; with `within` only the ones that end within so many seconds."""
    found = [one for one in exceptions if within is None or now < one.period.ends <= now + within]
    return sorted(found, key=lambda one: (one.period.ends, one.name))


def state(one: PolicyException, now: float) -> str:
    """Whether an exception holds: `active`, `ended`, `waiting` for its beginning or a window, `too far ahead`."""
    period = one.period
    if now >= period.ends:
        return "ended"
    if period.ends - now > period.most_ahead:
        return "too far ahead"
    return "active" if period.until(now) else "waiting"


def as_json(one: PolicyException, now: float) -> dict[str, Any]:
    """An exception for programs. Times are in UTC; `ends` is the first moment after it."""
    match = one.match
    keys = {"kinds": match.kinds, "names": match.names, "containers": match.containers, "images": match.images}
    written: dict[str, Any] = {key: list(value) for key, value in keys.items() if value}
    if match.labels:
        written["labels"] = dict(match.labels)
    return {
        "name": one.name,
        "state": state(one, now),
        "namespaces": list(one.namespaces),
        "match": written or {"all": True},
        "rules": list(one.rules),
        "mode": str(one.mode),
        "settings": one.settings,
        "begins": None if one.period.begins == float("-inf") else told(one.period.begins),
        "ends": told(one.period.ends),
        "until": one.period.text,
        "daysLeft": max(0, int((one.period.ends - now) // 86_400)),
        "weekly": None if one.period.weekly is None else weekly_text(one.period.weekly),
        "reason": one.reason,
        "ticket": one.ticket,
        "owner": one.owner,
        "line": one.node.line,
    }


def weekly_text(weekly: Weekly) -> str:
    """The windows of a week in words.

    >>> weekly_text(Weekly(frozenset({5, 6}), 1200, 360, "UTC"))
    'Sat, Sun 20:00 to 06:00 UTC'
    """
    days = ", ".join(DAYS[day] for day in sorted(weekly.days)) if len(weekly.days) < len(DAYS) else "daily"
    begin, to = (f"{minute // 60:02}:{minute % 60:02}" for minute in (weekly.begin, weekly.to))
    return f"{days} {begin} to {to} {weekly.zone}"


def lines(one: PolicyException, now: float) -> Iterator[str]:
    """An exception in words: one line that begins with its name, and indented lines."""
    windows = "" if one.period.weekly is None else f", {weekly_text(one.period.weekly)}"
    begins = f", from {told(one.period.begins)}" if one.period.begins > float("-inf") else ""
    yield f"{one.name}: {state(one, now)}{begins}, until {one.period.text}{windows}"
    yield f"    for {_match_text(as_json(one, now)['match'])} in {', '.join(one.namespaces)}"
    said = [*one.rules]
    for rule, settings in one.settings.items():
        said.append(f"{rule} ({', '.join(f'{key}: {value}' for key, value in settings.items())})")
    yield f"    from {', '.join(said)}" + (f" (mode {one.mode})" if one.rules else "")
    by = ", ".join(text for text in (one.ticket, one.owner) if text)
    yield f"    because of {one.reason}" + (f" ({by})" if by else "")


def _match_text(match: Mapping[str, Any]) -> str:
    if match.get("all"):
        return "all pods"
    found = []
    for key, value in match.items():
        texts = [f"{name}={text}" for name, text in value.items()] if isinstance(value, dict) else value
        found.append(f"{key} {', '.join(texts)}")
    return "; ".join(found)
