"""What settings of rules are made of: modes, sizes, durations, and the settings that all rules have.

A setting with a closed choice of words is a Literal, or a StrEnum if other modules know its members.
"""

from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr, WithJsonSchema

from webhook.cuda.cuda_tables import SHIPPED, CudaTables, tables_in
from webhook.gpus.gpu_catalogue import Catalogue, catalogue_of
from webhook.gpus.gpu_table import GpuTable
from webhook.model.quantity import format_duration, parse_duration, parse_quantity
from webhook.model.shape import FormatError, spelled
from webhook.yaml_files.camel_model import CamelModel


class Mode(StrEnum):
    """What happens to a rule's answers. The modes mean the same for every rule."""

    ENFORCE = "enforce"
    WARN = "warn"
    AUDIT = "audit"
    DISABLED = "disabled"


class IfMissing(StrEnum):
    """What happens to a pod that lost an injection of a rule in mode `enforce`."""

    REFUSE = "refuse"
    WARN = "warn"


LARGEST_SIZE = 2**60
"""Bytes, which a size has to be below: 1Ei. No node has as much, and Kubernetes cuts larger amounts to 64 bits."""


def _read_bytes(value: object) -> object:
    if not isinstance(value, str | int) or isinstance(value, bool):
        return value
    try:
        size = parse_quantity(value)
    except FormatError as error:
        raise ValueError(f"{error}; write a size such as 16Gi") from None
    if not isinstance(size, int) or not 0 < size < LARGEST_SIZE:
        raise ValueError(
            f"{spelled(value)} is not a whole positive number of bytes below 1Ei; write a size such as 16Gi"
        )
    return size


ByteSize = Annotated[
    int,
    Field(gt=0, lt=LARGEST_SIZE),
    BeforeValidator(_read_bytes),
    WithJsonSchema({"type": "string", "examples": ["16Gi"], "minLength": 1}),
]
"""A size in bytes, written in policies as a Kubernetes quantity in quotes or not, such as 16Gi."""


LONGEST_DURATION = 2**31 - 1
"""Seconds that Kubernetes accepts."""


def _read_duration(value: object) -> object:
    """The duration in the one form in which it is printed."""
    if not isinstance(value, str | int | float):
        return value
    try:
        seconds = parse_duration(str(value))
    except ValueError:
        such_as = "write hours, minutes and seconds such as 12h, 90m or 1h30m"
        raise ValueError(f"{spelled(value)} is not a duration; {such_as}") from None
    if not 0 < seconds <= LONGEST_DURATION:
        raise ValueError(f"{value} is out of range; write a duration from 1s to {format_duration(LONGEST_DURATION)}")
    return format_duration(seconds)


Duration = Annotated[
    str,
    BeforeValidator(_read_duration),
    WithJsonSchema({"type": "string", "examples": ["12h"], "pattern": "^([0-9]+h)?([0-9]+m)?([0-9]+s)?$"}),
]
"""A duration above 0 as text, such as 12h, 90m or 1h30m. `parse_duration` returns its seconds."""


class RuleSettings(CamelModel):
    """The settings that every rule has."""

    model_config = ConfigDict(populate_by_name=True)

    mode: Mode
    """`enforce` injects or refuses, `warn` says what it would do, `audit` only records it, `disabled` does nothing."""

    exclusive: ClassVar[tuple[frozenset[str], ...]] = ()
    """Groups of keys that exclude each other. The key that a namespace's file sets replaces another one in the
    default."""


class InjectionSettings(RuleSettings):
    """The settings that rules which inject have in common."""

    if_missing: IfMissing = IfMissing.WARN
    """What happens to a pod that reaches validation without what the rule injected, because another webhook removed
    it."""


class TableSettings(RuleSettings):
    """Settings of a rule that reads the tables of this release, with the rows of the platform."""

    _tables: CudaTables = PrivateAttr(default_factory=lambda: SHIPPED)  # a default is copied whole each time

    def model_post_init(self, context: Any, /) -> None:
        self._tables = tables_in(context)

    @cached_property
    def tables(self) -> CudaTables:
        return self._tables

    @property
    def gpu_table(self) -> GpuTable:
        return self.tables.gpus

    @cached_property
    def catalogue(self) -> Catalogue:
        """The GPU models that names stand for."""
        return catalogue_of(self.gpu_table)
