"""Quotas as policies declare them: a namespace's own, by the rule `gpuQuota`, and quotas that namespaces share.

Shared quotas are declared in `_quotas.yaml`. They are read as strictly as the settings of `gpuQuota`, and inherit from
them how GPUs are counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from webhook.policy.document import RULES_PATH, check_names_differ, merge, read_as, read_document
from webhook.policy.exceptions import AppliedException
from webhook.policy.namespaces import DNS_LABEL, NamespaceGlob
from webhook.policy.schema import (
    DEFAULT_FILE,
    QUOTAS_FILE,
    QUOTAS_KIND,
    ReservedMetadata,
    Schema,
    WrittenFile,
    part_at,
    schema_of,
    settings_schema,
)
from webhook.quota.quotas import OnLedgerFailure, Quota, QuotaScope
from webhook.rules import gpu_quota
from webhook.rules.rule_settings import Mode
from webhook.yaml_files.camel_model import CamelModel, matching, not_empty
from webhook.yaml_files.file_errors import Faults, KeyPath
from webhook.yaml_files.yaml_lines import YamlNode


@dataclass(frozen=True, slots=True)
class ConfiguredQuota:
    """A quota and what happens to a pod that would exceed it. `origin` is the file that declares it last, with a line
    from 1.
    """

    quota: Quota
    mode: Mode
    on_ledger_failure: OnLedgerFailure
    origin: str
    line: int = field(default=0, compare=False)
    exception: AppliedException | None = None
    """The exception because of which it refuses nothing; None if no exception changes that."""


@dataclass(frozen=True, slots=True)
class SharedQuotas:
    """The shared quotas of a file, sorted by name, and what is written of each, for hashing."""

    quotas: tuple[ConfiguredQuota, ...] = ()
    written: tuple[Any, ...] = ()
    remarks: tuple[str, ...] = ()
    """About what the next release no longer reads."""


NO_SHARED_QUOTAS = SharedQuotas()
"""The shared quotas of an empty file, or of no file."""


INHERITED = frozenset({"claims", "gated", "groups", "models", "onLedgerFailure", "unspecifiedModel", "weights"})
"""Keys that a shared quota inherits from `gpuQuota` of `_default.yaml`. Maps are merged."""

_NAME = matching(
    DNS_LABEL,
    "cannot be the name of a shared quota; write up to 63 lower-case letters, digits and inner dashes, such as "
    "research",
)


class SharedQuotaSettings(gpu_quota.Settings):
    """A quota that namespaces share: together they may use no more than its limits."""

    name: Annotated[str, AfterValidator(_NAME), Field(examples=["research"])]
    """Name of the shared quota; unique, and a DNS label. The name of its ledger is `shared.` followed by this name."""
    namespaces: Annotated[tuple[NamespaceGlob, ...], *not_empty("names no namespace; write at least one name or glob")]
    """Namespaces whose pods count together: exact names and globs with `*` and `?`. A namespace may share several
    quotas; then all of them apply."""
    mode: Mode = Mode.ENFORCE
    """As of rules: what happens to a pod that would exceed a limit. It is not inherited."""

    @model_validator(mode="after")
    def _limits_something(self) -> "SharedQuotaSettings":
        if not self.limits:
            raise ValueError("limits nothing; write at least one of gpus, byModel and byResource")
        return self


class QuotasSpec(CamelModel):
    """The quotas that namespaces share."""

    quotas: tuple[dict[str, Any], ...]
    """Quotas that several namespaces share; `[]` for none."""


class QuotasFile(WrittenFile[Literal["GPUSharedQuotas"], ReservedMetadata[Literal["_quotas"]], QuotasSpec]):
    """Quotas of gpu-policy-webhook that several namespaces share."""


def shared_quota_schema() -> Schema:
    """JSON Schema of one shared quota, with name and namespaces first."""
    schema = settings_schema(SharedQuotaSettings)
    first = ("name", "namespaces", "mode")
    properties = schema["properties"]
    ordered = {key: properties[key] for key in (*first, *(key for key in properties if key not in first))}
    return {**schema, "properties": ordered}


@lru_cache(maxsize=1)
def quotas_schema() -> Schema:
    """JSON Schema (draft-07) of `_quotas.yaml`. Callers share it and must not change it."""
    schema = schema_of(QuotasFile, QUOTAS_KIND)
    schema["properties"]["spec"]["properties"]["quotas"]["items"] = shared_quota_schema()
    return schema


QUOTAS_PATH: KeyPath = ("spec", "quotas")
NO_CONTEXT: Mapping[str, Any] = {}
"""A context with the GPUs of this release only."""


def read_shared_quotas(
    path: str, source: bytes | YamlNode, default: YamlNode, faults: Faults, context: Mapping[str, Any] = NO_CONTEXT
) -> SharedQuotas:
    """The shared quotas in a file that errors call `path`, without disabled and faulty ones.

    `default` has the settings of `gpuQuota` in `_default.yaml`. `context` is what settings are validated with.
    """
    root = read_document(path, source, QUOTAS_KIND, _null_fault, faults)
    if root is None:
        return NO_SHARED_QUOTAS
    root, remarks = _renamed(root)
    read_as(root, QuotasFile, quotas_schema(), faults)
    check_names_differ(root, QUOTAS_PATH, faults)
    inherited = {key: node for key, node in default.entries.items() if key in INHERITED}
    schema = part_at(quotas_schema(), (*QUOTAS_PATH, 0))
    found: dict[str, tuple[ConfiguredQuota, Any]] = {}
    for index, node in enumerate(root.at(*QUOTAS_PATH).items):
        if not isinstance(node.value, dict):
            continue
        merged = merge(YamlNode(inherited, node.file, node.line), node)
        place: KeyPath = (*QUOTAS_PATH, index)
        inherited_place = {default.file: (*RULES_PATH, gpu_quota.RULE.key)}
        settings = read_as(
            merged, SharedQuotaSettings, schema, faults, context=context, place=place, places=inherited_place
        )
        if settings is not None and settings.mode is not Mode.DISABLED:
            patterns = tuple(dict.fromkeys(settings.namespaces))
            quota = Quota(QuotaScope.SHARED, settings.name, patterns, settings.limits, settings.counting)
            active = ConfiguredQuota(quota, settings.mode, settings.on_ledger_failure, QUOTAS_FILE, node.line)
            found[settings.name] = active, merged.plain()
    ordered = [found[name] for name in sorted(found)]
    return SharedQuotas(tuple(active for active, _ in ordered), tuple(written for _, written in ordered), remarks)


_EARLIER_KIND, _EARLIER_KEY = "GPUQuotaPots", "pots"


def _renamed(root: YamlNode) -> tuple[YamlNode, tuple[str, ...]]:
    """A document with today's names in place of the last release's, and a remark if it had these."""
    kind, spec = root.at("kind"), root.at("spec")
    is_earlier = kind.value == _EARLIER_KIND
    if kind.value is None or not (is_earlier or _EARLIER_KEY in spec.entries):
        return root, ()
    keys = dict(root.entries)
    if is_earlier:
        keys["kind"] = YamlNode(QUOTAS_KIND, kind.file, kind.line)
    if _EARLIER_KEY in spec.entries:
        renamed = {"quotas" if key == _EARLIER_KEY else key: node for key, node in spec.entries.items()}
        keys["spec"] = spec if "quotas" in spec.entries else YamlNode(renamed, spec.file, spec.line)
    remark = (
        f"{root.file}:{kind.line}: kind: write {QUOTAS_KIND} with spec.quotas; the next release no longer reads "
        f"{_EARLIER_KIND} and spec.{_EARLIER_KEY}"
    )
    return YamlNode(keys, root.file, root.line), (remark,)


def _null_fault(path: KeyPath) -> str:
    if path in (QUOTAS_PATH, ("spec", _EARLIER_KEY)):
        return "is empty; write a list, or [] for no shared quotas"
    inherit = f" to inherit it from gpuQuota of {DEFAULT_FILE}"
    is_inherited = path[:2] == QUOTAS_PATH and not INHERITED.isdisjoint(map(str, path[3:4]))
    return f"is empty; write a value, or remove the line{inherit if is_inherited else ''}"
