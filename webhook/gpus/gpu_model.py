"""A GPU model, and the row of a table that describes it.

`GpuRow` defines both the rows of this release and the rows of a platform.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, model_validator
from pydantic_core import ErrorDetails

from webhook.gpus.gpu_names import INSTANCE_TYPES, PRODUCT_KEYS
from webhook.model.accelerators import Vendor
from webhook.model.shape import FormatError, spelled
from webhook.model.versions import Version, parse_version
from webhook.yaml_files.camel_model import CamelModel, not_empty, readable


@dataclass(frozen=True, slots=True)
class GpuTraits:
    """The properties of a GPU that matter to CUDA and drivers, equal for all GPUs whose names have `words`.

    None and empty stand for unknown. `brands` are the brands that the container toolkit may see. `first_driver` is the
    oldest driver that is said to support the GPU, if its generation as a whole needs an older one; it is never certain.
    `arch` is set if the board also has a CPU.
    """

    words: frozenset[str]
    compute: Version | None = None
    is_data_center: bool | None = None
    brands: tuple[str, ...] = ()
    first_driver: Version | None = None
    arch: str = ""


@dataclass(frozen=True, slots=True)
class GpuModel:
    """One GPU model, or a series of models that CUDA treats alike and quotas do not name (`in_quotas` is false).

    Models are as fine as limits may need: an A100 of 40 GB and one of 80 GB are two models, because their MIG slices
    differ. `family` stands for both. A model without a family has its own name there.

    A name means every model whose `words` it has. If several models have these words, only those with one of their
    `marks` in the name count, or all of them if the name has no marks.
    """

    name: str
    family: str
    vendor: Vendor
    words: frozenset[str]
    marks: frozenset[str]
    product: str
    """A value of the vendor's product label, empty if none is known."""
    values: tuple[tuple[str, str], ...]
    """Label keys, and values or globs of values that nodes with this model have."""
    slices: Mapping[str, int] = field(hash=False)
    """The most MIG slices of each profile, or partitions of each mode, on one GPU."""
    memory: int | None
    """The most memory of one GPU in GB, as its name or its vendor says; None if not known."""
    in_quotas: bool
    traits: GpuTraits | None
    """None if another row has them, or nothing is known."""
    source: str
    date: str

    @property
    def example(self) -> tuple[str, str] | None:
        return (PRODUCT_KEYS[self.vendor], self.product) if self.product else None

    @property
    def spellings(self) -> tuple[str, ...]:
        return tuple(text.lower() for text in (self.name, self.family, self.product) if text)


Brand = Literal[
    "nvidia", "unknown", "tesla", "geforce", "geforcertx", "titan", "titanrtx", "quadro", "quadrortx", "nvidiartx",
    "grid", "vapps", "vpc", "vcs", "vws", "cloudgaming"
]  # fmt: skip  # sixteen lines of one word


SOME_VALUES = not_empty("names no value; write at least one value or glob")

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._#-]{0,61}[A-Za-z0-9#])?$", examples=["A100-40GB"])]
Words = Annotated[str, Field(pattern=r"^[a-z0-9#]+( [a-z0-9#]+)*$", max_length=63, examples=["rtx 6000"])]
Globs = Annotated[
    tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9_.*?-]{1,63}$")], ...], Field(max_length=64), *SOME_VALUES
]
Amount = Annotated[int, Field(ge=1, le=64)]


_BRANDS = frozenset(("nvidia", "gpu", "grid", "tesla", "geforce", "quadro", "rtx", "gtx", "titan"))
"""Words in the names of many GPUs. Two of them may name a series, such as Quadro RTX."""


class GpuRow(CamelModel):
    """A row of a table of GPUs."""

    name: Name
    """Name of the model; unique in its table. Limits of quotas may have it."""
    family: Annotated[Name | None, Field(examples=["A100"])] = None
    """Name that stands for this model and others. Unset: none."""
    vendor: Literal["nvidia", "amd", "intel"] = "nvidia"
    """Who made it."""
    words: Words | None = None
    """Words in every name of the model, in small letters. `40xx` stands for any number such as 4090, and `a####` for
    any word such as a6000. Unset: the parts of `name` between hyphens."""
    marks: Words | None = None
    """Words that tell models with equal `words` apart; a name has one of them. Unset: none."""
    quotas: bool = True
    """Whether limits may name the model. `false` for a series, and for a variant that quotas count as another model."""
    compute: Annotated[str, Field(pattern=r"^[0-9]{1,2}\.[0-9]$", examples=["9.0"])] | None = None
    """Compute capability, in quotes. Unset: not known, or as for the model's series."""
    data_center: bool | None = None
    """Whether it is a data-centre GPU. Only data-centre GPUs run newer CUDA on an older driver. Unset: not known."""
    brands: Annotated[tuple[Brand, ...], Field(max_length=16)] = ()
    """Brands that the container toolkit may report for the GPU. Unset: not known."""
    first_driver: Annotated[str, AfterValidator(readable(parse_version)), Field(examples=["575.57.08"])] | None = None
    """The oldest driver that is said to support the GPU, in quotes. It never refuses a pod by itself. Unset: as for its
    compute capability."""
    arch: Literal["amd64", "arm64"] | None = None
    """Architecture of a CPU on the same board. Unset: none."""
    product: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,63}$", examples=["NVIDIA-H200"])] | None = None
    """A value of the product label of its vendor, such as `nvidia.com/gpu.product`. Unset: none is known."""
    labels: Mapping[Annotated[str, Field(min_length=1, max_length=317)], Globs] = Field(default_factory=dict)
    """Values and globs of values of node labels, by label key, that mean this model whatever words are in them."""
    machines: Mapping[Annotated[str, Field(min_length=1, max_length=200)], Globs] = Field(default_factory=dict)
    """Machine types and globs of machine types with this model, by source. A type in the rows of several models may
    have any of them."""
    mig: Mapping[Annotated[str, Field(pattern=r"^[0-9]+g\.[0-9]+gb[A-Za-z0-9.+-]*$")], Amount] = Field(
        default_factory=dict
    )
    """The most MIG slices of each profile on one GPU."""
    memory: Annotated[int, Field(ge=1, le=9999, examples=[24])] | None = None
    """Memory of one GPU in GB, the largest that is sold. Unset: as in its largest MIG profile, or not known."""
    partitions: Mapping[Annotated[str, Field(pattern=r"^[a-z]px$")], Amount] = Field(default_factory=dict)
    """The partitions of an AMD GPU in each mode."""
    source: Annotated[str, Field(min_length=1, max_length=200)]
    """Where this was read. `unverified` if nobody has read it anywhere."""
    date: Annotated[
        str, Field(pattern=r"^(20[0-9]{2}-(0[1-9]|1[0-2])(-[0-3][0-9])?|unknown|release)$", examples=["2026-11-24"])
    ]
    """When the source was written or read. `unknown` if nobody wrote that down."""
    note: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """A remark."""

    @model_validator(mode="after")
    def _is_no_brand(self) -> "GpuRow":
        words = self._words
        if self.compute is not None and (words <= _BRANDS - {"rtx"} or words == {"rtx"}):
            raise ValueError(f"{' '.join(sorted(words))} is in names of GPUs that differ in compute; write more words")
        return self

    @model_validator(mode="after")
    def _goes_together(self) -> "GpuRow":
        cuda = {"compute": self.compute, "brands": self.brands, "firstDriver": self.first_driver}
        of_vendor: Mapping[str, Mapping[str, object]] = {
            "nvidia": {"mig": self.mig, "memory": self.memory, **cuda},
            "amd": {"partitions": self.partitions},
            "intel": {},
        }
        foreign = {key for keys in of_vendor.values() for key, value in keys.items() if value}
        if wrong := sorted(foreign - of_vendor[self.vendor].keys()):
            raise ValueError(f"{self.vendor} GPUs have no {' and no '.join(wrong)}; remove that, or correct the vendor")
        counted: Mapping[str, object] = {
            "family": self.family,
            "marks": self.marks,
            "product": self.product,
            "labels": self.labels,
            "machines": self.machines,
            "mig": self.mig,
            "memory": self.memory,
            "partitions": self.partitions,
        }
        if not self.quotas and (wrong := sorted(key for key, value in counted.items() if value)):
            raise ValueError(f"{' and '.join(wrong)} only matter to quotas; remove that, or quotas: false")
        return self

    @property
    def _words(self) -> frozenset[str]:
        return frozenset(self.words.split() if self.words else self.name.lower().split("-"))

    def model(self) -> GpuModel:
        vendor, words = Vendor(self.vendor), self._words
        machines = [(key, glob) for globs in self.machines.values() for glob in globs for key in INSTANCE_TYPES]
        return GpuModel(
            name=self.name,
            family=self.family or self.name,
            vendor=vendor,
            words=words,
            marks=frozenset((self.marks or "").split()),
            product=self.product or "",
            values=(*((key, glob) for key, globs in self.labels.items() for glob in globs), *machines),
            slices={**self.mig, **self.partitions},
            memory=self.memory or max(map(_gigabytes, self.mig), default=None),
            in_quotas=self.quotas,
            traits=self._traits(words),
            source=self.source,
            date=self.date,
        )

    def _traits(self, words: frozenset[str]) -> GpuTraits | None:
        known = (self.compute, self.brands, self.first_driver, self.arch)
        if not any(known) and self.data_center is None:
            return None
        return GpuTraits(
            words=words,
            compute=parse_version(self.compute) if self.compute else None,
            is_data_center=self.data_center,
            brands=self.brands,
            first_driver=parse_version(self.first_driver) if self.first_driver else None,
            arch=self.arch or "",
        )


def _gigabytes(profile: str) -> int:
    """The memory of a MIG slice, by the name of its profile.

    >>> _gigabytes("7g.80gb"), _gigabytes("1g.10gb+me")
    (80, 10)
    """
    return int(profile.partition(".")[2].partition("gb")[0])


_ROWS: TypeAdapter[tuple[GpuRow, ...]] = TypeAdapter(tuple[GpuRow, ...])


def models_from(rows: Iterable[Mapping[str, Any]]) -> tuple[GpuModel, ...]:
    """Read the rows of a YAML file. Raises FormatError, whose text has a line for each mistake."""
    listed = list(rows)
    try:
        return tuple(row.model() for row in _ROWS.validate_json(json.dumps(listed)))
    except ValidationError as error:
        raise FormatError("\n".join(_mistake(one, listed) for one in error.errors(include_url=False))) from None


def _mistake(error: ErrorDetails, rows: Sequence[Mapping[str, Any]]) -> str:
    index, *keys = error["loc"]
    where = ".".join(map(str, ("gpus", rows[int(index)].get("name") or index, *keys)))
    if error["type"] == "value_error":
        return f"{where}: {error['ctx']['error']}"
    found, text = error["input"], f"{where}: {error['msg']}"
    if not isinstance(found, dict | list):
        text += f"; found {spelled(found)}"
    return f"{text}; put it in quotes" if error["type"] == "string_type" and isinstance(found, int | float) else text
