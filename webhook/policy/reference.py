"""Writes docs/rules.md from the rules themselves, so that the documents cannot say anything else."""

import inspect
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from textwrap import fill
from typing import Any

from webhook.policy.pots import pot_schema
from webhook.policy.schema import (
    API_VERSION,
    DEFAULT_FILE,
    QUOTAS_FILE,
    QUOTAS_KIND,
    Schema,
    part_at,
    policy_schema,
    rule_schema,
    settings_schema,
)
from webhook.policy.wording import describe
from webhook.quota.labels import IN_WORDS, INSTANCE_TYPES
from webhook.quota.models import MODELS
from webhook.rules import RULES, gpu_quota
from webhook.rules.rule import InjectionSettings, Rule, RuleSettings

_HEAD = f"""# Rules

A policy file names rules and says how firmly each is kept:

```yaml
# yaml-language-server: $schema=../docs/policy-schema.json
apiVersion: {API_VERSION}
kind: GPUPolicy
metadata:
  name: team-vision              # the file's name without .yaml
spec:
  namespaces: [team-vision, "vision-*"]   # optional; without it, the namespace of the file's name
  rules:
    sharedMemory: {{mode: enforce, size: 16Gi}}
```

## Which file applies

`{DEFAULT_FILE}` applies to every namespace. At most one other file applies on top of it: an exact name beats a longer
glob, a longer glob beats a shorter one. A glob knows `*` (any text) and `?` (one character), and its length is the
number of its characters, wildcards included. Two files that could claim one namespace at the same rank are an error.

The file of a namespace is merged over `{DEFAULT_FILE}`: maps key by key, lists and single values replaced. What it
leaves out, `mode` included, is inherited. Of settings that exclude each other, the one in the namespace's file replaces
the other one. A rule named in neither file is disabled.

Keys and types are checked strictly: an unknown key, a wrong type or an empty value is an error with file and line, and
the policies in use stay in use. YAML reads `off`, `no`, `on` and `yes` as booleans and `12.10` as the number 12.1:
modes are words, and versions stand in quotes.

## Modes

Every rule has a `mode`, which means the same everywhere:

| Mode | A pod that lacks something | A pod that breaks the rule |
|---|---|---|
| `enforce` | is completed | is refused, with the reason and the remedy |
| `warn` | stays as it is; a warning says what would be added | is admitted; a warning says why it would be refused |
| `audit` | stays as it is; log, metric and audit annotation say what would be added | is admitted, and recorded alike |
| `disabled` | stays as it is | is admitted |
"""


_POOLS = """
## Node pools

A pool that scales from zero may have no node when a pod is created. `spec.nodePools` declares what its nodes will be
like, and rules that ask where a pod could land then count it in:

```yaml
spec:
  nodePools:
    - name: h100-spot
      labels: {cloud.google.com/gke-nodepool: h100-spot}
      taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]
      driver: "550.54.15"
      product: NVIDIA-H100-80GB-HBM3
      gpus: 8
```

A pool is matched like a node: nodeSelector, required node affinity, taints and GPU resources must fit. It has the
labels that GPU Feature Discovery will publish of its driver and GPU; a pod that selects by something else, such as a
zone, fits only if `labels` say so. A pod that names its node, in `nodeName` or by its host name, fits no pool.

A namespace's list replaces that of `_default.yaml`; `[]` declares none. `gpu-policy policy show NAMESPACE` prints the
pools with all their labels.

"""

_WORKLOADS = """
## Workloads

Deployments, Jobs, PyTorchJobs, RayClusters and other objects that make pods ([workloads.md](workloads.md) lists the
kinds) are judged when they are applied, by the pods that they would make. Nothing in them is ever changed: their pods
are completed when they are created. `spec.workloads` says what becomes of an object whose pods would be refused:

```yaml
spec:
  workloads: {mode: enforce}
```

"""

_WORKLOADS_NOTES = """
Unset means `warn`. The value of a namespace's file replaces that of `_default.yaml`. In `enforce` an object is refused
for what would refuse its pods, and for nothing else: what rules in mode `warn` or `audit` find stays a warning or a
record, and quotas that all of its pods pass only together are a warning too. On an update only what is new is told. The
API server itself refuses GPUs in requests only in the templates of its own kinds, in words of its own and also under
`requestsOnly: repair`, which repairs pods only.
"""

_MODELS = """
## GPU models

`byModel` of [`gpuQuota`](#gpuquota) takes the names below, and those that its `models` declare. One with others in
brackets stands for all of them.

{names}

A pod says its model by these node labels, in its nodeSelector or its required node affinity:

{labels}

Values of the last two are looked up among the machine types of AWS, Azure, Google Cloud, CoreWeave and Oracle Cloud, in
all others the name of the GPU is read in whatever spelling: `NVIDIA-A100-SXM4-80GB-MIG-1g.10gb`, `nvidia-a100-80gb`,
`A100_NVLINK_80GB`. A pod whose labels say nothing of a model may land on any.
"""

_POTS = f"""
## Pots

What several namespaces may use together is a pot in `{QUOTAS_FILE}`:

```yaml
# yaml-language-server: $schema=../docs/quotas-schema.json
apiVersion: {API_VERSION}
kind: {QUOTAS_KIND}
metadata:
  name: _quotas
spec:
  pots:
    - name: research
      namespaces: [physics, "research-*"]
      gpus: 16
      byModel: {{H100: 4}}
```

A namespace may be in several pots. A pod needs room in each of them and in the quota of its own namespace, which is the
rule [`gpuQuota`](#gpuquota): there a file that claims several namespaces, and `{DEFAULT_FILE}`, give each of them a
quota of its own.

A pot limits at least one of `gpus`, `byModel` and `byResource`. What it leaves out of `models`, `onLedgerFailure`,
`unspecifiedModel` and `weights` comes from `gpuQuota` of `{DEFAULT_FILE}`, maps key by key; limits and mode never do.
`gpu-policy policy show NAMESPACE` names every quota that a namespace is under. A pot has the keys of
[`gpuQuota`](#gpuquota), and these:

"""


def rules_reference(rules: Sequence[Rule] = RULES) -> str:
    """The text of docs/rules.md."""
    return "".join((_HEAD, _overview(rules), _shared(), *map(_rule, rules), _workloads(), _pools(), _models(), _pots()))


def undocumented(rules: Sequence[Rule] = RULES) -> list[str]:
    """Rules without a promise or module docstring, and settings (nested ones too, and pots') without a description."""
    missing = [rule.key for rule in rules if not rule.promise or not _module_docstring(rule)]
    for rule in rules:
        missing += [f"{rule.key}.{path}" for path, part in _settings(rule_schema(rule)) if "description" not in part]
    missing += [f"pots[].{path}" for path, part in _settings(pot_schema()) if "description" not in part]
    return missing


def _overview(rules: Sequence[Rule]) -> str:
    """All rules on one page, in the order in which messages and patches name them."""
    lines = ["\n## The rules\n\n", "| Rule | Promise | How it is kept |\n|---|---|---|\n"]
    for rule in rules:
        ways = [way for way, exists in (("completes pods", rule.mutate), ("judges pods", rule.validate)) if exists]
        lines.append(f"| [`{rule.key}`](#{rule.key.lower()}) | {rule.promise} | {', '.join(ways)} |\n")
    return "".join(lines)


def _shared() -> str:
    """The settings that come with the contract, told once."""
    every, injecting = settings_schema(RuleSettings), settings_schema(InjectionSettings)
    added = [key for key in injecting["properties"] if key not in every["properties"]]
    return (
        "\n## Settings of every rule\n\n"
        + _table(every, list(every["properties"]))
        + "\n## Settings of every rule that completes pods\n\n"
        + _table(injecting, added)
    )


def _rule(rule: Rule) -> str:
    schema = rule_schema(rule)
    shared = settings_schema(InjectionSettings)["properties"]
    own = [key for key, part in schema["properties"].items() if part != shared.get(key)]
    parts = [f"\n## `{rule.key}`\n\n{_module_docstring(rule) or rule.promise}\n"]
    parts.append("\n" + _table(schema, own) if own else "\nIt has no settings of its own.\n")
    parts += _entries(schema, own)
    groups = (" and ".join(f"`{key}`" for key in sorted(group)) for group in rule.settings.exclusive)
    parts.extend(f"\n{group} exclude each other.\n" for group in groups)
    return "".join(parts)


def _workloads() -> str:
    """What whoever applies an object that makes pods hears."""
    workloads = part_at(policy_schema(()), ("spec", "workloads"))
    return _WORKLOADS + _table(workloads, list(workloads["properties"])) + _WORKLOADS_NOTES


def _pools() -> str:
    """How node pools are declared."""
    pool = part_at(policy_schema(()), ("spec", "nodePools", 0))
    keys = list(pool["properties"])
    return "".join((_POOLS, _table(pool, keys), *_entries(pool, keys)))


def _models() -> str:
    """What limits by model know."""
    families: dict[str, list[str]] = {}
    for model in MODELS:
        families.setdefault(model.family, []).append(model.name)
    names = (
        f"`{family}`" + ("" if models == [family] else " (" + ", ".join(f"`{name}`" for name in models) + ")")
        for family, models in sorted(families.items())
    )
    labels = [*sorted(IN_WORDS), *sorted(INSTANCE_TYPES, reverse=True)]
    return _MODELS.format(names=_filled(names), labels=_filled(f"`{key}`" for key in labels))


def _filled(words: Iterable[str]) -> str:
    """Words with commas between them, in lines of at most 120 characters."""
    return fill(", ".join(words) + ".", 120, break_long_words=False, break_on_hyphens=False)


def _pots() -> str:
    """How quotas are shared."""
    schema = pot_schema()
    own = settings_schema(gpu_quota.Settings)["properties"]
    return _POTS + _table(schema, [key for key, part in schema["properties"].items() if part != own.get(key)])


def _entries(schema: Schema, keys: Sequence[str]) -> Iterator[str]:
    """A table for each key that holds a list of maps."""
    for key in keys:
        entries = schema["properties"][key].get("items", {})
        if "properties" in entries:
            yield f"\nEach entry of `{key}`:\n\n" + _table(entries, list(entries["properties"]))


def _table(schema: Schema, keys: Sequence[str]) -> str:
    lines = ["| Key | Value | Default | Meaning |", "|---|---|---|---|"]
    required = schema.get("required", ())
    for key in keys:
        part = schema["properties"][key]
        default = "required" if key in required else _code(part["default"]) if "default" in part else "unset"
        cells = (f"`{key}`", _value(part), default, part.get("description", ""))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _value(part: Schema) -> str:
    if "enum" in part:
        return ", ".join(f"`{choice}`" if choice else "empty" for choice in part["enum"])
    return describe(part)


def _code(value: Any) -> str:
    if value in ("", [], {}):
        return "empty"
    return f"`{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}`"


def _settings(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    for key, part in schema.get("properties", {}).items():
        yield f"{path}{key}", part
        yield from _settings(part, f"{path}{key}.")
        yield from _settings(part.get("items", {}), f"{path}{key}[].")


def _module_docstring(rule: Rule) -> str:
    """What the file of the rule says about it."""
    module = sys.modules.get(rule.settings.__module__)
    return inspect.getdoc(module) or "" if module is not None else ""
