"""The format of policy files: the head as models, and the JSON Schema for editors, made from the settings of rules.

The schema is of draft-07, which the yaml-language-server reads best. References are resolved. Nothing is required below
`spec.rules`, because a namespace's file inherits what it leaves out.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import combinations
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import to_jsonable_python

from webhook.cuda.cuda_tables import PLATFORM_FILE
from webhook.model.quantity import format_bytes
from webhook.model.shape import spelled
from webhook.policy.cluster_settings import AcceleratorSettings, DeclaredClassSettings, PoolSettings
from webhook.rules import RULES
from webhook.rules.names import ObjectName
from webhook.rules.rule import Rule
from webhook.rules.rule_settings import RuleSettings
from webhook.yaml_files.camel_model import CamelModel


class WorkloadsMode(StrEnum):
    """What becomes of a workload whose pods would be refused, or of a driver object that breaks workloads."""

    WARN = "warn"
    ENFORCE = "enforce"
    DISABLED = "disabled"


API_VERSION = "gpupolicy.dev/v1alpha1"
DEFAULT_FILE = "_default.yaml"
QUOTAS_FILE = "_quotas.yaml"
QUOTAS_KIND = "GPUSharedQuotas"
CUDA_FILE = PLATFORM_FILE
CUDA_KIND = "GPUCudaTables"
EXCEPTIONS_FILE = "_exceptions.yaml"
EXCEPTIONS_KIND = "GPUPolicyExceptions"
KINDS = {QUOTAS_FILE: QUOTAS_KIND, CUDA_FILE: CUDA_KIND, EXCEPTIONS_FILE: EXCEPTIONS_KIND}
"""The kind of what a file holds, if it is no policy."""
RESERVED_FILES = (DEFAULT_FILE, *KINDS)
"""The only files whose names may start with an underscore."""

Schema = dict[str, Any]


Kind = TypeVar("Kind")
Name = TypeVar("Name")
MetadataT = TypeVar("MetadataT")
Spec = TypeVar("Spec")


class ReservedMetadata(CamelModel, Generic[Name]):
    """What the file is called."""

    model_config = ConfigDict(json_schema_extra={"description": "What the file is called."})

    name: Name
    """The file's name without `.yaml`."""


class WrittenFile(CamelModel, Generic[Kind, MetadataT, Spec]):
    """The parts of each kind of file."""

    api_version: Literal["gpupolicy.dev/v1alpha1"]
    """Version of this format."""
    kind: Kind
    """What the file holds."""
    metadata: MetadataT
    spec: Spec


class PolicyMetadata(CamelModel):
    """What the file is called."""

    name: str
    """The file's name without `.yaml`; `_default` for the policy of every namespace."""


class Workloads(CamelModel):
    """What happens to workloads (Deployments, PyTorchJobs and other objects that make pods) when they are applied."""

    mode: WorkloadsMode
    """What happens to a workload whose pods would be refused; `disabled` checks none."""


class AppliedDrivers(CamelModel):
    """What happens to a ClusterPolicy or NVIDIADriver of GPU Operator when it is applied."""

    mode: WorkloadsMode
    """What happens to one whose driver breaks workloads, or no longer drives GPUs: `warn` admits it with a warning,
    `enforce` refuses it if that is certain, `disabled` does not check it."""


MOST_DAYS = 90
"""Days for which an exception may hold, unless `_default.yaml` says otherwise."""


class ExceptionLimits(CamelModel):
    """What the exceptions of `_exceptions.yaml` may do."""

    max_days: Annotated[int, Field(ge=1, le=3650)] = MOST_DAYS
    """How many days ahead the end of an exception may be."""


_LONGEST_NAMED = 60
"""Characters of a contact, a ticket or an owner. Messages have to hold them."""


def on_one_line(such_as: str) -> AfterValidator:
    """The annotation of a text that messages name, without a full stop at its end."""

    def check(value: str) -> str:
        text = value.strip().rstrip(".")
        if not text or not value.isprintable() or len(value) > _LONGEST_NAMED:
            allowed = f"write up to {_LONGEST_NAMED} characters on one line, such as {such_as}"
            raise ValueError(f"{spelled(value)} cannot stand in a message; {allowed}")
        return text

    return AfterValidator(check)


_CONTACT = on_one_line('"#gpu-help" or gpu-team@example.com')

TaintKeyGlob = Annotated[
    str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9._/*?-]*[A-Za-z0-9][A-Za-z0-9._/*?-]*$")
]
"""The key of a taint, or a glob of keys that is not a star alone."""


class PolicySpec(CamelModel):
    """What this policy says, and for which namespaces."""

    namespaces: tuple[str, ...] | None = None
    """Namespaces that the policy is for: exact names and globs with `*` and `?`. Unset: the namespace with the file's
    name. An exact name takes precedence over any glob, and a longer glob over a shorter one."""
    rules: dict[str, dict[str, Any]]
    """Settings of each rule, merged over `_default.yaml`. A rule that neither file names is disabled."""
    node_pools: tuple[PoolSettings, ...] | None = None
    """Pools of nodes that scale from zero, so that they may have no node at the moment: rules then know that pods could
    run there, too. A namespace's list replaces the list of `_default.yaml`."""
    transient_taints: Annotated[tuple[TaintKeyGlob, ...], Field(max_length=32, examples=[["example.com/*"]])] | None = (
        None
    )
    """Keys of taints that go away by themselves, such as start-up taints of your own, with `*` for any text. Nodes that
    have only such taints start: pods may land on them soon, and nobody is advised to tolerate the taint. The taints of
    Kubernetes, clouds, autoscalers, and GPU, network and storage operators are known. A namespace's list replaces the
    list of `_default.yaml`."""
    workloads: Workloads | None = None
    """What happens to workloads (Deployments, PyTorchJobs and other objects that make pods) when they are applied.
    Unset: `warn`. Their pods are validated in any case, when they are created."""
    contact: Annotated[str, _CONTACT, Field(examples=["#gpu-help"])] | None = None
    """Whom users should ask, such as `"#gpu-help"` or an address, in up to 60 characters. Messages name it instead of
    "the platform team". A namespace's contact replaces the contact of `_default.yaml`."""
    device_classes: dict[ObjectName, DeclaredClassSettings] | None = None
    """What the devices of DeviceClasses count in quotas: `{gpu.nvidia.com: {model: H100}}` where all GPUs of the
    cluster are of one model. The devices of a class that is named here are GPUs for quotas. A namespace's entries
    replace entries of `_default.yaml` with the same name; shared quotas go by `_default.yaml`."""
    accelerators: AcceleratorSettings | None = None
    """Resource names of GPUs that are not built in. They are declared in `_default.yaml` only, for all namespaces."""
    drivers: AppliedDrivers | None = None
    """What happens to a ClusterPolicy or NVIDIADriver of GPU Operator when it is applied. Unset: `warn`. It stands in
    `_default.yaml` only."""
    exceptions: ExceptionLimits | None = None
    """What the exceptions of `_exceptions.yaml` may do. It stands in `_default.yaml` only, for all namespaces."""


class PolicyFile(WrittenFile[Literal["GPUPolicy"], PolicyMetadata, PolicySpec]):
    """A policy of gpu-policy-webhook: which rules apply to some namespaces, and in which mode."""


@lru_cache(maxsize=16)
def policy_schema(rules: tuple[Rule, ...] = RULES) -> Schema:
    """JSON Schema (draft-07) of a policy file. Callers share it and must not change it."""
    schema = schema_of(PolicyFile, "GPUPolicy")
    spec = schema["properties"]["spec"]["properties"]
    spec["namespaces"]["minItems"] = 1
    spec["rules"] = {
        "type": "object",
        "description": spec["rules"]["description"],
        "additionalProperties": False,
        "properties": {rule.key: optional(rule) for rule in rules},
    }
    return schema


def rule_schema(rule: Rule) -> Schema:
    """JSON Schema of one rule's settings. Callers share it and must not change it."""
    return settings_schema(rule.settings)


@lru_cache(maxsize=256)
def settings_schema(settings: type[RuleSettings]) -> Schema:
    """JSON Schema of settings, with references resolved, and defaults as people write them."""
    schema = schema_of(settings)
    for name, field in settings.model_fields.items():
        if field.default_factory is not None:
            default = to_jsonable_python(field.get_default(call_default_factory=True, validated_data={}))
            schema["properties"][field.alias or name]["default"] = default
    return schema


def part_at(schema: Schema, path: Sequence[str | int]) -> Schema:
    """The schema of the value at `path`; empty if the schema has none."""
    for key in path:
        schema = _child(schema, key)
    return schema


def _child(schema: Schema, key: str | int) -> Schema:
    for alternative in (schema, *schema.get("anyOf", ())):
        if isinstance(key, int):
            items = alternative.get("items")
            if isinstance(items, dict):
                return items
            continue
        if key in alternative.get("properties", {}):
            return dict(alternative["properties"][key])
        for values in (*alternative.get("patternProperties", {}).values(), alternative.get("additionalProperties")):
            if isinstance(values, dict):
                return values
    return {}


def optional(rule: Rule) -> Schema:
    """The schema of a rule in a file of a namespace, which inherits what it leaves out."""
    schema = {key: value for key, value in rule_schema(rule).items() if key != "required"}
    pairs = [sorted(pair) for group in rule.settings.exclusive for pair in combinations(sorted(group), 2)]
    if pairs:
        schema["allOf"] = [{"not": {"required": pair}} for pair in pairs]
    return {**schema, "description": rule.promise}


def schema_of(model: type[BaseModel], title: str = "") -> Schema:
    """JSON Schema of a model for editors: with references resolved, without titles of parts and nulls, and with each
    description on one line. With a title it is the schema of a whole file.
    """
    schema = model.model_json_schema(by_alias=True)
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": title} if title else {}
    return {**head, **_resolve(schema, schema.pop("$defs", {}))}


def _resolve(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    if "$ref" in schema:
        target = definitions[schema["$ref"].rpartition("/")[2]]
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    resolved: Schema = {}
    for key, value in schema.items():
        match key:
            case "title":
                continue
            case "description":
                resolved[key] = " ".join(value.split())
            case "properties" | "patternProperties":
                resolved[key] = {name: _resolve(part, definitions) for name, part in value.items()}
            case "items" | "additionalProperties" if isinstance(value, dict):
                resolved[key] = _resolve(value, definitions)
            case "anyOf":
                resolved[key] = [_resolve(part, definitions) for part in value if part.get("type") != "null"]
            case _:
                resolved[key] = value
    return _tidy(resolved)


def _tidy(schema: Schema) -> Schema:
    """Replace a single alternative by itself, leave out unset defaults, write sizes as quantities, and forbid all keys
    that no pattern allows.
    """
    if len(schema.get("anyOf", ())) == 1:
        (only,) = schema.pop("anyOf")
        schema = {**only, **schema}
    if schema.get("default", ...) is None:
        del schema["default"]
    elif "default" in schema:
        schema["default"] = as_written(schema["default"], schema)
    if "patternProperties" in schema:
        schema.setdefault("additionalProperties", False)
    return schema


def as_written(value: Any, schema: Schema) -> Any:
    """A setting as people write it: bytes as a quantity, and maps without keys that have their default.

    >>> as_written(17179869184, {"type": "string"})
    '16Gi'
    """
    if isinstance(value, int) and not isinstance(value, bool) and schema.get("type") == "string":
        return format_bytes(value)
    if isinstance(value, Mapping):
        return {
            key: as_written(part, _child(schema, key))
            for key, part in value.items()
            if part is not None and part != _child(schema, key).get("default", ...)
        }
    if isinstance(value, list | tuple):
        return [as_written(part, _child(schema, index)) for index, part in enumerate(value)]
    return value
