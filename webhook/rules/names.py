"""Types of settings: names, which the API server must accept in pods, and exact numbers of GPUs.

A name that the API server refuses would break every pod that gets it. Numbers are whole or fractions, and are never
rounded.
"""

import re
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator, ValidationInfo, WithJsonSchema

from webhook.cuda.cuda_tables import has_other_rows, tables_in
from webhook.gpus.gpu_catalogue import Catalogue, catalogue_of
from webhook.gpus.gpu_kinds import is_profile, known_profiles
from webhook.model.accelerators import ANY, Accelerators, accelerators_in
from webhook.model.globs import is_glob, overlap
from webhook.model.shape import spelled
from webhook.model.wording import closest, hint
from webhook.quota.amounts import MIG_RESOURCES, is_unknown_slice
from webhook.yaml_files.camel_model import matching

_WORD = "[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_DOMAIN = "[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*"

ResourceGlobs = tuple[Annotated[str, Field(min_length=1)], ...]
"""Globs of the names of GPU resources."""


@lru_cache(maxsize=1024)
def is_one_of(resource: str, globs: ResourceGlobs) -> bool:
    """Whether one of the globs matches the name."""
    return any(fnmatchcase(resource, glob) for glob in globs)


_LABEL_KEY = "is not a label key; write one such as nvidia.com/gpu.present"
LabelKey = Annotated[str, AfterValidator(matching(f"({_DOMAIN}/)?{_WORD}", _LABEL_KEY))]

_TAINT_KEY = "is not a taint key; write one such as nvidia.com/gpu"
TaintKey = Annotated[str, AfterValidator(matching(f"(({_DOMAIN}/)?{_WORD})?", _TAINT_KEY))]
"""A valid key of a taint; empty for every taint."""

_VALUE_GLOB = "is not a label value or glob; write letters, digits, - _ . and the wildcards * and ?"
LabelValueGlob = Annotated[str, AfterValidator(matching("[A-Za-z0-9_.*?-]{1,63}", _VALUE_GLOB))]
"""A glob of values of a label. A glob that no valid value can match is an error."""

_VALUE = "is not a label value of letters, digits and inner - _ . up to 63 in all"
LabelValue = Annotated[str, AfterValidator(matching(f"({_WORD})?", _VALUE))]
"""A valid value of a label or taint; may be empty."""

_OBJECT = "is not the name of an object; write lower-case letters, digits, - and ."
ObjectName = Annotated[str, AfterValidator(matching(rf"(?=.{{1,253}}\Z){_DOMAIN}", _OBJECT))]

_OBJECT_GLOB = "is not the name of an object or a glob; write lower-case letters, digits, - . and * and ?"
ObjectGlob = Annotated[str, AfterValidator(matching("[a-z0-9.*?-]{1,253}", _OBJECT_GLOB))]
"""A glob of names of objects. A glob that no valid name can match is an error."""

_KEY_GLOB = "is not a key or a glob of keys; write letters, digits, - . _ / and * and ?"
KeyGlob = Annotated[str, AfterValidator(matching("[A-Za-z0-9._/*?-]{1,317}", _KEY_GLOB))]
"""A glob of keys of taints."""

_NAMESPACE_GLOB = "is not a namespace or a glob; write lower-case letters, digits, - and * and ?"
NamespaceGlob = Annotated[str, AfterValidator(matching("[a-z0-9*?-]{1,63}", _NAMESPACE_GLOB))]
"""A glob of namespaces. A glob that no namespace can match is an error."""


_FRACTION = re.compile(r"([0-9]{1,9})/([0-9]{1,9})", re.ASCII)
_LARGEST = 10**9
"""Whole numbers have to be smaller. No cluster has so many GPUs."""
_REMEDY = 'write a whole number such as 4, or a fraction in quotes such as "1/4"'


def _read(value: object) -> Fraction:
    written = _FRACTION.fullmatch(value) if isinstance(value, str) else None
    if written is not None and int(written.group(2)):
        return Fraction(int(written.group(1)), int(written.group(2)))
    if isinstance(value, Fraction):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST:
        return Fraction(value)
    raise ValueError(f"{spelled(value)} {_fault(value, is_fraction=written is not None)}")


def _fault(value: object, *, is_fraction: bool) -> str:
    """What is wrong with a number, and what to write instead."""
    match value:
        case bool():
            return f"is a boolean; {_REMEDY}"
        case int() if value < 0:
            return f"is below 0; {_REMEDY}"
        case int():
            return f"is too large; write a number below {_LARGEST}"
        case str() if is_fraction:
            return f"divides by 0; {_REMEDY}"
        case str() if value.isascii() and value.isdigit():
            return "is a string; remove the quotes"
    return f"is no exact number; {_REMEDY}"


def _read_positive(value: object) -> Fraction:
    number = _read(value)
    if not number:
        raise ValueError(f"{spelled(value)} is no weight; {_REMEDY}")
    return number


def _schema(least: int) -> dict[str, Any]:
    whole = {"type": "integer", "minimum": least}
    return {"anyOf": [whole, {"type": "string", "pattern": "^[0-9]{1,9}/[0-9]{1,9}$", "examples": ["1/4"]}]}


_WRITTEN = PlainSerializer(lambda number: number.numerator if number.denominator == 1 else str(number))


Amount = Annotated[Fraction, PlainValidator(_read), _WRITTEN, WithJsonSchema(_schema(0))]
"""A number of GPUs, 0 included: a whole number, or a fraction in quotes."""

Weight = Annotated[Fraction, PlainValidator(_read_positive), _WRITTEN, WithJsonSchema(_schema(1))]
"""The weight of one unit in GPUs, more than 0: a whole number, or a fraction in quotes."""


def _gpu_resource(name: str, info: ValidationInfo) -> str:
    if accelerators_in(info.context).of(name) is None:
        raise ValueError(
            f"{spelled(name)} is no GPU resource; write one such as nvidia.com/gpu, nvidia.com/gpu.shared, "
            "nvidia.com/mig-1g.10gb, nvidia.com/pgpu, amd.com/gpu, gpu.intel.com/i915 or gpu.intel.com/xe, a device "
            "class of GPUs, or a name in accelerators.extra"
        )
    return name


GpuResource = Annotated[str, AfterValidator(_gpu_resource)]


def _are_all_names_known(info: ValidationInfo) -> bool:
    """Whether all names of GPUs and all rows of the platform are known, so that an unknown name is a mistake."""
    return accelerators_in(info.context) is not ANY and not has_other_rows(info.context)


def _existing_resource(name: str, info: ValidationInfo) -> str:
    """Refuse a MIG slice that no known GPU has, unless `weights` has it: a limit for it would limit nothing."""
    weights = info.data.get("weights") if _are_all_names_known(info) else None
    if weights is not None and name not in weights and is_unknown_slice(name, tables_in(info.context).gpus):
        close = closest(name, MIG_RESOURCES)
        lead = f"did you mean {close}? If it is right" if close else "if it is right"
        raise ValueError(
            f"{spelled(name)} is a slice of no GPU that is known; {lead}, write under weights what it weighs"
        )
    return name


ExistingResource = Annotated[GpuResource, AfterValidator(_existing_resource)]
"""The name of a GPU resource. A MIG slice has to be in the table of GPUs or in `weights`."""

_MODEL_NAME = "cannot be a model's name; write up to 63 letters, digits and inner - _ ."
ModelName = Annotated[str, AfterValidator(matching(_WORD, _MODEL_NAME))]
"""A name that a GPU model may have."""


def _known_model(name: str, info: ValidationInfo) -> str:
    declared = info.data.get("models") if _are_all_names_known(info) else None
    catalogue = catalogue_of(tables_in(info.context).gpus).extended(declared or {})
    if declared is not None and not catalogue.leaves(name):
        meant = _meant_model(name, catalogue)
        if meant:
            remedy = f"did you mean {meant}? docs/rules.md names all, and others are declared under models"
        else:
            remedy = f"declare it under models, or use one of {', '.join(catalogue.names)}"
        raise ValueError(f"{spelled(name)} is no known model; {remedy}")
    return name


def _meant_model(name: str, catalogue: Catalogue) -> str:
    """The known name that is meant by another spelling or by the value of a label; empty if there is none."""
    found = catalogue.table.models_in(name)
    same = [known for known in catalogue.names if catalogue.leaves(known) == found]
    return same[0] if same else closest(name, catalogue.names)


KnownModel = Annotated[str, AfterValidator(_known_model)]
"""The name of a GPU model in the catalogue or in `models`."""

_SAMPLES = (
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    *MIG_RESOURCES,
    *(f"{name}.shared" for name in MIG_RESOURCES),
    "nvidia.com/pgpu",
    "amd.com/gpu",
    *(f"amd.com/{mode}_nps{number}" for mode in ("spx", "dpx", "qpx", "cpx") for number in (1, 2, 4, 8)),
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "intel.com/gpu",
    "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
    "deviceclass.resource.kubernetes.io/mig.nvidia.com",
)
"""Names of GPU resources. A glob that is spelled right matches one of them, or other names of vGPU plugins."""

_check_resource_glob = matching(
    "[A-Za-z0-9_./*?+-]{1,317}",
    "is not a glob of resource names; write letters, digits, - _ . / and the wildcards * and ?",
)


def _resource_glob(name: str, accelerators: Accelerators) -> None:
    """Refuse a glob that matches no name of GPUs."""
    _check_resource_glob(name)
    samples = [*_SAMPLES, *(one.name for one in accelerators.declared if one.share is not None)]
    if is_glob(name):
        is_known = any(overlap(name, sample) for sample in samples) or name.startswith("nvidia.com/")
    else:
        is_known = accelerators.of(name) is not None
    if not is_known:
        remedy = hint(name, samples) or "; write one such as nvidia.com/mig-* or amd.com/*"
        raise ValueError(f"{spelled(name)} is the name of no GPUs{remedy}")


def _model(name: str, info: ValidationInfo, others: str = "") -> str:
    """Refuse a name that no model has; `others` says what else may stand there."""
    catalogue = catalogue_of(tables_in(info.context).gpus)
    if not _are_all_names_known(info) or catalogue.leaves(name):
        return name
    meant = _meant_model(name, catalogue)
    remedy = f"did you mean {meant}? docs/rules.md names all{others}" if meant else f"docs/rules.md names all{others}"
    raise ValueError(f"{spelled(name)} is no known model; {remedy}")


def _gpu_kind(name: str, info: ValidationInfo) -> str:
    if "/" in name or is_glob(name):
        if _are_all_names_known(info):
            _resource_glob(name, accelerators_in(info.context))
    elif is_profile(name):
        profiles = known_profiles(tables_in(info.context).gpus)
        if _are_all_names_known(info) and name not in profiles:
            raise ValueError(f"{spelled(name)} is a MIG profile of no GPU that is known{hint(name, profiles)}")
    elif _are_all_names_known(info):
        profile = closest(name.removeprefix("mig-"), known_profiles(tables_in(info.context).gpus))
        if name.startswith("mig-") and profile:
            raise ValueError(f"{spelled(name)} is no MIG profile; did you mean {profile}?")
        _model(name, info, "; a name of resources has a slash, such as nvidia.com/mig-*")
    return name


GpuKind = Annotated[str, AfterValidator(_gpu_kind)]
"""A model or family of the catalogue, a MIG profile, or a glob of resource names."""

GpuModelName = Annotated[str, AfterValidator(_model)]
"""A model or family of the catalogue."""
