"""Exact numbers and names of GPUs in policies. A number is whole or a fraction, never a float that rounds."""

import re
from difflib import get_close_matches
from fractions import Fraction
from typing import Annotated, Any

from pydantic import AfterValidator, PlainSerializer, PlainValidator, ValidationInfo, WithJsonSchema

from webhook.model.accelerators import accelerator
from webhook.model.shape import spelled
from webhook.quota.catalogue import CATALOGUE

_FRACTION = re.compile(r"([0-9]{1,9})/([0-9]{1,9})", re.ASCII)
_LARGEST = 10**9
"""Whole numbers below this are taken; no cluster has so many GPUs."""
_REMEDY = 'write a whole number such as 4, or a fraction in quotes such as "1/4"'


def _read(value: object) -> Fraction:
    written = _FRACTION.fullmatch(value) if isinstance(value, str) else None
    if written is not None and int(written.group(2)):
        return Fraction(int(written.group(1)), int(written.group(2)))
    if isinstance(value, Fraction):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST:
        return Fraction(value)
    raise ValueError(f"{spelled(value)} is no exact number; {_REMEDY}")


def _read_positive(value: object) -> Fraction:
    number = _read(value)
    if not number:
        raise ValueError(f"{spelled(value)} is no weight; {_REMEDY}")
    return number


def _written(number: Fraction) -> int | str:
    return number.numerator if number.denominator == 1 else str(number)


def _schema(least: int) -> dict[str, Any]:
    whole = {"type": "integer", "minimum": least}
    return {"anyOf": [whole, {"type": "string", "pattern": "^[0-9]{1,9}/[0-9]{1,9}$", "examples": ["1/4"]}]}


Amount = Annotated[Fraction, PlainValidator(_read), PlainSerializer(_written), WithJsonSchema(_schema(0))]
"""A number of GPUs, 0 included: a whole number, or a fraction in quotes."""

Weight = Annotated[Fraction, PlainValidator(_read_positive), PlainSerializer(_written), WithJsonSchema(_schema(1))]
"""What a unit weighs, in GPUs: a whole number, or a fraction in quotes; more than 0."""


def _gpu_resource(name: str) -> str:
    if accelerator(name) is None:
        raise ValueError(
            f"{spelled(name)} is no GPU resource; those are nvidia.com/gpu, nvidia.com/gpu.shared, "
            "nvidia.com/mig-1g.10gb and the like, nvidia.com/pgpu, amd.com/gpu and its partitions, gpu.intel.com/i915, "
            "gpu.intel.com/xe"
        )
    return name


GpuResource = Annotated[str, AfterValidator(_gpu_resource)]
"""A resource name that stands for GPUs."""

_MODEL_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)


def _model_name(name: str) -> str:
    if not _MODEL_NAME.fullmatch(name):
        raise ValueError(f"{spelled(name)} cannot be a model's name; write up to 63 letters, digits and inner - _ .")
    return name


ModelName = Annotated[str, AfterValidator(_model_name)]
"""A name that a GPU model may have."""


def _known_model(name: str, info: ValidationInfo) -> str:
    """The name of a model of the catalogue, or of one that the settings' own `models` declare before it."""
    declared = info.data.get("models")
    catalogue = CATALOGUE.extended(declared or {})
    if declared is not None and not catalogue.leaves(name):
        lowered = {known.lower(): known for known in catalogue.names}
        close = get_close_matches(name.lower(), lowered, n=1)
        hint = f"; did you mean {lowered[close[0]]}?" if close else ""
        names = ", ".join(catalogue.names)
        raise ValueError(f"{spelled(name)} is no known model; declare it under models, or use one of {names}{hint}")
    return name


KnownModel = Annotated[str, AfterValidator(_known_model)]
"""The name of a GPU model that the catalogue or `models` know."""
