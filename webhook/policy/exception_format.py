"""The format of `_exceptions.yaml`: models, and the JSON Schema for editors."""

from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from webhook.model.globs import is_glob
from webhook.model.shape import spelled
from webhook.model.workloads import WORKLOADS
from webhook.policy.exception_times import DAYS, Weekly, read_clock, read_day, read_instant, read_zone
from webhook.policy.exceptions import Match
from webhook.policy.namespaces import DNS_LABEL, NamespaceGlob
from webhook.policy.schema import (
    EXCEPTIONS_KIND,
    ReservedMetadata,
    Schema,
    WrittenFile,
    on_one_line,
    optional,
    schema_of,
)
from webhook.rules import RULES
from webhook.rules.rule import Rule
from webhook.yaml_files.camel_model import CamelModel, matching, not_empty, readable

_KINDS = {spelling: one.kind for one in WORKLOADS.values() for spelling in (one.kind.lower(), one.resource)} | {
    "pod": "Pod",
    "pods": "Pod",
}
"""Other spellings of known kinds -> kind."""
_NAME = matching(
    DNS_LABEL,
    "cannot be the name of an exception; write up to 63 lower-case letters, digits and inner dashes, such as "
    "bert-legacy",
)
_LABEL = matching(
    r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?",
    "cannot be the value of a label; labels are compared as they are, without globs. Write a value that pods have, or "
    "match by names",
)
_SETS_NOTHING = "sets nothing; write settings such as {maxPerPod: 16}, or remove the rule"
_ON_ONE_LINE = on_one_line("OPS-123")
_SOME = not_empty("names nothing; write at least one name or glob, or remove the key")


def _reason(value: str) -> str:
    text = " ".join(value.split())
    if not text:
        raise ValueError(f"{spelled(value)} is no reason; write why")
    return text


def _kind(value: str) -> str:
    known = _KINDS.get(value.lower())
    if not is_glob(value) and known is not None and value not in _KINDS.values():
        raise ValueError(f"{spelled(value)} is not how the kind is spelled; write {known}")
    return value


_Pattern = Annotated[str, Field(min_length=1)]
_Patterns = Annotated[tuple[_Pattern, ...], *_SOME]
_Kinds = Annotated[tuple[Annotated[_Pattern, AfterValidator(_kind)], ...], *_SOME]
_Clock = Annotated[str, AfterValidator(readable(read_clock)), Field(examples=["20:00"])]


class MatchSettings(CamelModel):
    """Which pods are meant. All keys that are written have to hold."""

    kinds: _Kinds | None = None
    """Kinds of the pod or of a workload that makes it, such as Deployment or Job, and globs of kinds."""
    names: _Patterns | None = None
    """Names of the pod or of a workload that makes it, and globs. With `kinds`, one object has to have both."""
    labels: (
        Annotated[dict[_Pattern, Annotated[str, AfterValidator(_LABEL)]], Field(json_schema_extra={"minProperties": 1})]
        | None
    ) = None
    """Labels of the pod. It has to have all of them."""
    containers: _Patterns | None = None
    """Names of containers, and globs of names. Findings about other containers of the pod stay as they are."""
    images: _Patterns | None = None
    """Images of containers: globs of the image as written or in full, in which `*` takes no slash and `**` does, or a
    digest. With `containers`, one container has to have both."""
    all: Literal[True] | None = None
    """`true` means all pods of the namespaces, and excludes the other keys."""

    @model_validator(mode="after")
    def _means_something(self) -> "MatchSettings":
        written = [key for key in ("kinds", "names", "labels", "containers", "images") if getattr(self, key)]
        if self.all and written:
            raise ValueError(f"all means every pod, so it excludes {' and '.join(written)}; keep one of the two")
        if not self.all and not written:
            raise ValueError(
                "matches nothing in particular; write names, kinds, labels, containers or images, or `all: true` for "
                "every pod of the namespaces"
            )
        return self

    @property
    def match(self) -> Match:
        return Match(self.kinds or (), self.names or (), self.labels or {}, self.containers or (), self.images or ())


class WeeklySettings(CamelModel):
    """Windows of the week. Between them the exception does not hold."""

    days: Annotated[
        tuple[Annotated[str, AfterValidator(readable(read_day)), Field(examples=["Sat"])], ...], _SOME[0]
    ] = DAYS
    """Days on which a window begins: Mon, Tue, Wed, Thu, Fri, Sat, Sun. Unset: every day."""
    from_: _Clock = Field(default="00:00", alias="from")
    """When a window begins, in hours and minutes. Unset: 00:00."""
    to: _Clock = "24:00"
    """When it ends. A time that is not after `from` is one of the next day. Unset: 24:00, the end of the day."""
    timezone: Annotated[str, AfterValidator(readable(read_zone)), Field(examples=["Europe/Berlin"])] = "UTC"
    """The time zone of both, by its name in the IANA database."""

    @model_validator(mode="after")
    def _says_something(self) -> "WeeklySettings":
        if not self.model_fields_set - {"timezone"}:
            raise ValueError("says nothing; write days, from or to, or remove the key")
        if read_clock(self.from_) == read_clock(self.to):
            raise ValueError(f"from and to are both {self.to}; leave both out for the whole day")
        if read_clock(self.from_) == read_clock("24:00"):
            raise ValueError('from is "24:00", the end of the day; write "00:00", and the day after it')
        return self

    @property
    def weekly(self) -> Weekly:
        days = frozenset(map(read_day, self.days))
        return Weekly(days, read_clock(self.from_), read_clock(self.to), self.timezone)


class ExceptionSettings(CamelModel):
    """Pods that are excepted from rules for a time, or for which other settings hold."""

    name: Annotated[str, AfterValidator(_NAME), Field(examples=["bert-legacy"])]
    """Name of the exception; unique. Messages, reports and metrics have it."""
    namespaces: Annotated[tuple[NamespaceGlob, ...], *_SOME]
    """Namespaces of the pods: exact names and globs with `*` and `?`."""
    match: MatchSettings
    """Which pods are meant. All keys that are written have to hold."""
    rules: Annotated[tuple[str, ...], *not_empty("names no rule; write at least one, or remove the key")] | None = None
    """Rules that refuse and complete none of these pods. What they find is recorded, in the mode below. `gpuQuota`
    means shared quotas, too."""
    mode: Literal["audit", "warn"] = "audit"
    """What happens to findings of `rules`, beside the warning to whoever creates the pod: `audit` records them, `warn`
    also tells the controller of the pod in an Event."""
    settings: dict[str, Annotated[dict[str, Any], not_empty(_SETS_NOTHING)[0]]] | None = None
    """Settings of rules that hold for these pods, merged over the settings of the namespace's policy: maps key by key,
    lists and single values are replaced. A rule that is disabled in the namespace stays disabled."""
    until: Annotated[str, AfterValidator(readable(read_instant)), Field(examples=["2027-01-15"])]
    """The end: a time with its zone, or a day, which ends at 24:00 UTC. At most as many days ahead as `maxDays` of
    `_default.yaml` says."""
    from_: Annotated[str, AfterValidator(readable(read_instant)), Field(examples=["2026-12-01"])] | None = Field(
        default=None, alias="from"
    )
    """The beginning: a time with its zone, or a day, which begins at 00:00 UTC. Unset: at once."""
    weekly: WeeklySettings | None = None
    """Windows of the week. Between them the exception does not hold. Unset: it holds all the time."""
    reason: Annotated[str, AfterValidator(_reason), Field(examples=["migration to 8 GPUs"])]
    """Why these pods are excepted."""
    ticket: Annotated[str, _ON_ONE_LINE, Field(examples=["OPS-123"])] | None = None
    """Where this was decided. Messages name it."""
    owner: Annotated[str, _ON_ONE_LINE, Field(examples=["team-nlp"])] | None = None
    """Who asked for it."""

    @model_validator(mode="after")
    def _does_something(self) -> "ExceptionSettings":
        if not self.rules and not self.settings:
            raise ValueError("excepts from nothing; write rules, or settings such as {gpuLimits: {maxPerPod: 16}}")
        both = [key for key in self.rules or () if key in (self.settings or {})]
        if both:
            raise ValueError(f"{both[0]} is in both rules and settings; keep one of the two")
        if self.from_ is not None and read_instant(self.from_).begins >= read_instant(self.until).ends:
            raise ValueError(f"until is not after from, {self.from_}; correct one of the two")
        return self


class ExceptionsSpec(CamelModel):
    """The exceptions."""

    exceptions: tuple[dict[str, Any], ...]
    """Exceptions from policies, each with its end; `[]` for none."""


class ExceptionsFile(
    WrittenFile[Literal["GPUPolicyExceptions"], ReservedMetadata[Literal["_exceptions"]], ExceptionsSpec]
):
    """Exceptions from policies of gpu-policy-webhook, each with an end and a reason."""


@lru_cache(maxsize=16)
def exceptions_schema(rules: tuple[Rule, ...] = RULES) -> Schema:
    """JSON Schema (draft-07) of `_exceptions.yaml`. Callers share it and must not change it."""
    schema, one = schema_of(ExceptionsFile, EXCEPTIONS_KIND), schema_of(ExceptionSettings)
    one["properties"]["rules"]["items"] = {"type": "string", "enum": [rule.key for rule in rules]}
    one["properties"]["settings"] = {
        "type": "object",
        "description": one["properties"]["settings"]["description"],
        "minProperties": 1,
        "additionalProperties": False,
        "properties": {rule.key: optional(rule) for rule in rules},
    }
    schema["properties"]["spec"]["properties"]["exceptions"]["items"] = one
    return schema
