"""The format of `_quotas.yaml`: quotas that several namespaces share, each as strict as the rule `gpuQuota`."""

import json
import re
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from webhook.model.shape import spelled
from webhook.policy.camel_model import CamelModel
from webhook.policy.namespace_globs import MAX_NAME, fault_in
from webhook.policy.schema import QUOTAS_KIND, Schema, for_editors, settings_schema
from webhook.rules import gpu_quota
from webhook.rules.rule import Mode

INHERITED = ("claims", "models", "onLedgerFailure", "unspecifiedModel", "weights")
"""Keys of a pot that come from `gpuQuota` of `_default.yaml` where the pot leaves them out, merged as maps are."""

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
    """JSON Schema of one pot; name and namespaces first, as people write them."""
    schema = settings_schema(PotSettings)
    first = ("name", "namespaces", "mode")
    properties = schema["properties"]
    ordered = {key: properties[key] for key in (*first, *(key for key in properties if key not in first))}
    return {**schema, "properties": ordered}


@lru_cache(maxsize=1)
def quotas_schema() -> Schema:
    """JSON Schema (draft-07) of `_quotas.yaml`; not to be changed by callers, who share it."""
    schema = for_editors(QuotasFile.model_json_schema(by_alias=True))
    schema["properties"]["spec"]["properties"]["pots"]["items"] = pot_schema()
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": QUOTAS_KIND, **schema}


def quotas_schema_text() -> str:
    """The JSON Schema as it stands in docs/quotas-schema.json."""
    return json.dumps(quotas_schema(), indent=2, ensure_ascii=False) + "\n"
