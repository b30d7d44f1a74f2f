"""Quotas as policies declare them: a namespace's own, by the rule `gpuQuota`, and pots, which namespaces share.

Pots are declared in `_quotas.yaml`. A pot is read as strictly as the settings of `gpuQuota`, and inherits from them how
GPUs are counted.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from webhook.model.globs import is_glob, matcher
from webhook.model.shape import spelled
from webhook.policy.document import RULES_PATH, check_names_differ, mapping_at, merge, read_document, read_head
from webhook.policy.error_wording import details_of, locate, message_for
from webhook.policy.exceptions import AppliedException
from webhook.policy.namespaces import MAX_NAME, fault_in
from webhook.policy.schema import DEFAULT_FILE, QUOTAS_FILE, QUOTAS_KIND, Schema, for_editors, part_at, settings_schema
from webhook.quota.quotas import OnLedgerFailure, Quota, QuotaScope
from webhook.rules import gpu_quota
from webhook.rules.rule_settings import Mode
from webhook.yaml_files.camel_model import CamelModel
from webhook.yaml_files.file_errors import Faults, KeyPath
from webhook.yaml_files.yaml_lines import YamlNode


@dataclass(frozen=True, slots=True)
class BoundQuota:
    """A quota and what happens to a pod that would exceed it. `origin` is the file that declares it last, with a line
    from 1.
    """

    quota: Quota
    mode: Mode
    on_ledger_failure: OnLedgerFailure
    origin: str
    line: int = field(default=0, compare=False)
    exception: AppliedException | None = None
    """The exception by which it differs from `usual`."""
    usual: "BoundQuota | None" = None
    """The quota without the exception; None if there is no exception."""

    @classmethod
    def of(  # noqa: PLR0913, PLR0917  # all that a quota is bound with
        cls,
        scope: QuotaScope,
        name: str,
        patterns: tuple[str, ...],
        settings: gpu_quota.Settings,
        origin: str,
        line: int,
    ) -> "BoundQuota":
        """The quota that settings of `gpuQuota` declare for the namespaces which `patterns` name."""
        quota = Quota(scope, name, patterns, settings.limits, settings.counting)
        return cls(quota, settings.mode, settings.on_ledger_failure, origin, line)


@dataclass(frozen=True, slots=True)
class Pots:
    """The pots of a file, sorted by name, and the settings of each as they are written in the file, for hashing."""

    quotas: tuple[BoundQuota, ...] = ()
    written: tuple[Any, ...] = ()

    def sharing(self, previous: Iterable[BoundQuota]) -> "Pots":
        """The pots, each replaced by an equal object of `previous` if there is one."""
        known = {bound.quota.name: bound for bound in previous}
        quotas = (known[new.quota.name] if known.get(new.quota.name) == new else new for new in self.quotas)
        return Pots(tuple(quotas), self.written)


NO_POTS = Pots()
"""The pots of an empty file, or of no file."""


def excepted_pots(pots: Iterable[BoundQuota], exception: AppliedException) -> list[BoundQuota]:
    """The pots for pods that are excepted from `gpuQuota`: they count in them, and are not refused."""
    mode = exception.exception.mode
    return [
        replace(pot, mode=mode, exception=exception, usual=pot) if pot.mode is Mode.ENFORCE else pot for pot in pots
    ]


def pot_finder(pots: Sequence[BoundQuota]) -> Callable[[str], tuple[BoundQuota, ...]]:
    """A function that finds the pots of a namespace, in their order. Globs are compiled once."""
    named: dict[str, set[int]] = {}
    globs = []
    for index, pot in enumerate(pots):
        for pattern in pot.quota.patterns:
            if is_glob(pattern):
                globs.append((matcher(pattern), index))
            else:
                named.setdefault(pattern, set()).add(index)

    def find(namespace: str) -> tuple[BoundQuota, ...]:
        found = named.get(namespace, set()) | {index for glob, index in globs if glob.fullmatch(namespace)}
        return tuple(pots[index] for index in sorted(found))

    return find


INHERITED = ("claims", "models", "onLedgerFailure", "unspecifiedModel", "weights")
"""Keys that a pot inherits from `gpuQuota` of `_default.yaml`. Maps are merged."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


def _pot_name(value: str) -> str:
    if len(value) > MAX_NAME or not _NAME.fullmatch(value):
        raise ValueError(
            f"{spelled(value)} cannot be the name of a pot; write up to {MAX_NAME} lower-case letters, digits and "
            "inner dashes, such as research"
        )
    return value


def _namespace(value: str) -> str:
    fault = fault_in(value)
    if fault:
        raise ValueError(fault)
    return value


def _at_least_one(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value:
        raise ValueError("names no namespace; write at least one name or glob")
    return value


class PotSettings(gpu_quota.Settings):
    """A quota that namespaces share: together they may use no more than its limits."""

    name: Annotated[str, AfterValidator(_pot_name), Field(examples=["research"])]
    """Name of the pot; unique, and a DNS label. The name of its ledger is `pot.` followed by this name."""
    namespaces: Annotated[
        tuple[Annotated[str, AfterValidator(_namespace)], ...],
        AfterValidator(_at_least_one),
        Field(json_schema_extra={"minItems": 1}),
    ]
    """Namespaces whose pods count together: exact names and globs with `*` and `?`. A namespace may be in several pots;
    then all of them apply."""
    mode: Mode = Mode.ENFORCE
    """`enforce` refuses a pod that would exceed a limit, `warn` admits it with a warning, `audit` only records it,
    `disabled` does nothing."""

    @model_validator(mode="after")
    def _limits_something(self) -> "PotSettings":
        if not self.limits:
            raise ValueError("limits nothing; write at least one of gpus, byModel and byResource")
        return self


class QuotasMetadata(CamelModel):
    """What the file is called."""

    name: Literal["_quotas"]
    """The file's name without `.yaml`."""


class QuotasSpec(CamelModel):
    """The quotas that namespaces share."""

    pots: tuple[dict[str, Any], ...]
    """Quotas that several namespaces share; `[]` for none."""


class QuotasFile(CamelModel):
    """Quotas of gpu-policy-webhook that several namespaces share."""

    api_version: Literal["gpupolicy.dev/v1alpha1"]
    """Version of this format."""
    kind: Literal["GPUQuotaPots"]
    """What the file holds."""
    metadata: QuotasMetadata
    """What the file is called."""
    spec: QuotasSpec
    """The quotas that namespaces share."""


def pot_schema() -> Schema:
    """JSON Schema of one pot, with name and namespaces first."""
    schema = settings_schema(PotSettings)
    first = ("name", "namespaces", "mode")
    properties = schema["properties"]
    ordered = {key: properties[key] for key in (*first, *(key for key in properties if key not in first))}
    return {**schema, "properties": ordered}


@lru_cache(maxsize=1)
def quotas_schema() -> Schema:
    """JSON Schema (draft-07) of `_quotas.yaml`. Callers share it and must not change it."""
    schema = for_editors(QuotasFile.model_json_schema(by_alias=True))
    schema["properties"]["spec"]["properties"]["pots"]["items"] = pot_schema()
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": QUOTAS_KIND, **schema}


def quotas_schema_text() -> str:
    """The content of docs/quotas-schema.json."""
    return json.dumps(quotas_schema(), indent=2, ensure_ascii=False) + "\n"


POTS_PATH: KeyPath = ("spec", "pots")
NO_CONTEXT: Mapping[str, Any] = {}
"""A context with the GPUs of this release only."""


def read_pots(
    path: str, source: bytes, default: Mapping[str, YamlNode], faults: Faults, context: Mapping[str, Any] = NO_CONTEXT
) -> Pots:
    """The pots in a file that errors call `path`, without disabled and faulty ones.

    `default` has the settings in `_default.yaml` by rule. `context` is what settings are validated with.
    """
    root = read_document(path, source, QUOTAS_KIND, _null_fault, faults)
    if root is None:
        return NO_POTS
    read_head(root, QuotasFile, quotas_schema(), faults)
    check_names_differ(root, POTS_PATH, faults)
    listed = mapping_at(root, POTS_PATH[:-1]).get("pots")
    inherited = _inherited(default.get(gpu_quota.RULE.key))
    pots = {}
    for index, node in enumerate(listed.value if listed is not None and isinstance(listed.value, list) else ()):
        pot = merge(YamlNode(inherited, node.file, node.line), node)
        settings = _settings(pot, (path, index), faults, context) if isinstance(node.value, dict) else None
        if settings is not None and settings.mode is not Mode.DISABLED:
            pots[settings.name] = (_bound(settings, node.line), pot.plain())
    ordered = [pots[name] for name in sorted(pots)]
    return Pots(tuple(quota for quota, _ in ordered), tuple(written for _, written in ordered))


def _bound(pot: PotSettings, line: int) -> BoundQuota:
    return BoundQuota.of(QuotaScope.POT, pot.name, tuple(dict.fromkeys(pot.namespaces)), pot, QUOTAS_FILE, line)


def _inherited(rule: YamlNode | None) -> dict[str, YamlNode]:
    """The settings of the rule in `_default.yaml` that a pot inherits."""
    written = rule.value if rule is not None and isinstance(rule.value, dict) else {}
    return {key: written[key] for key in INHERITED if key in written}


def _settings(pot: YamlNode, place: tuple[str, int], faults: Faults, context: Mapping[str, Any]) -> PotSettings | None:
    """The pot at `place`: the path of its file, and its index in the list of pots."""
    path, index = place
    text = json.dumps(pot.plain())
    try:
        return PotSettings.model_validate_json(text, by_alias=True, by_name=False, context=dict(context))
    except ValidationError as error:
        for detail in details_of(error):
            _record(pot, index, path, detail, faults)
    return None


def _record(pot: YamlNode, index: int, path: str, detail: ErrorDetails, faults: Faults) -> None:
    """Record a fault in the file that wrote the value: for an inherited value, in `_default.yaml` below its rule."""
    key, node = locate(pot, detail["loc"], detail["type"] == "missing")
    message = message_for(detail, part_at(quotas_schema(), (*POTS_PATH, index)), key, node)
    place = (*POTS_PATH, index) if node.file == path else (*RULES_PATH, gpu_quota.RULE.key)
    faults.add(node.file, node.line, (*place, *key), message)


def _null_fault(path: KeyPath) -> str:
    if path == POTS_PATH:
        return "is empty; write a list, or [] for no pots"
    if path[:2] == POTS_PATH and any(key in INHERITED for key in path[3:4]):
        return f"is empty; write a value, or remove the line to inherit it from gpuQuota of {DEFAULT_FILE}"
    return "is empty; write a value, or remove the line"
