"""`_cuda.yaml`: a platform's own rows for the tables of CUDA, in the form of the shipped rows.

With them, a new CUDA, driver, GPU or image needs no release of this project. A row replaces the shipped row with its
key, and an earlier row of the file.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from webhook.cuda.cuda_tables import CAPABILITIES, SHIPPED, CudaTables
from webhook.cuda.evidence import cuda_version
from webhook.gpus.gpu_model import GpuRow
from webhook.model.shape import FormatError, spelled
from webhook.model.versions import parse_version
from webhook.policy.document import read_as, read_document
from webhook.policy.schema import CUDA_KIND, ReservedMetadata, Schema, WrittenFile, schema_of
from webhook.yaml_files.camel_model import CamelModel, matching
from webhook.yaml_files.file_errors import Faults, KeyPath
from webhook.yaml_files.yaml_lines import YamlNode

KEYS: Mapping[str, str] = {
    "toolkits": "cuda",
    "floors": "major",
    "drivers": "branch",
    CAPABILITIES: "compute",
    "gpus": "name",
    "images": "image",
}
"""The lists of the file, each with the key that identifies its rows."""

_LATEST_BRANCH = 9999
_FIRST_WITH_FLOOR = 11
"""The first major version of CUDA with minor-version compatibility."""


def _version(numbers: int, fault: str) -> AfterValidator:
    """A version of CUDA with so many numbers, in one spelling."""

    def check(value: str) -> str:
        if len(parse_version(value).parts) != numbers:
            raise ValueError(f"{spelled(value)} is not {fault}")
        return str(cuda_version(value))

    return AfterValidator(check)


def _compute(value: str) -> str:
    if len(parse_version(value).parts) != 2:
        raise ValueError(f"{spelled(value)} is not a compute capability; write two numbers, such as 10.3")
    return value


def _driver(value: str) -> str:
    version = parse_version(value)
    if len(version.parts) > 3 or not _OLDEST_BRANCH <= version.major <= _LATEST_BRANCH:
        raise ValueError(f"{spelled(value)} is not a driver version; write one such as 650.10.02, or its branch, 650")
    return value


_OLDEST_BRANCH = 300
"""The least first number of a driver version. A smaller number is most likely a version of CUDA."""


_DATE = matching(
    r"20[0-9]{2}-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]|3[01]))?|unknown",
    'is not a date; write a month such as "2027-03", a day such as "2027-03-01", or unknown',
)
_MONTH = matching(r"20[0-9]{2}-(0[1-9]|1[0-2])|ended", 'is not a month; write one such as "2030-06", or ended')
_FAMILY = matching(
    r"[a-z]{1,20}(-[a-z]{1,20}){0,2}", "is not a family; write small letters, such as hopper or ada-lovelace"
)
_GLOB = matching(r"[!-~]+", "cannot name images; write no spaces, such as registry.example.com/llm/*")


def _line(value: str) -> str:
    if not value.strip() or not value.isprintable():
        such_as = "write one line, such as release notes of CUDA 13.5"
        raise ValueError(f"{spelled(value)} names no source; {such_as}")
    return value


Release = Annotated[
    str, _version(3, "a release of CUDA; write its three numbers, such as 13.5.0"), Field(examples=["13.5.0"])
]
Minor = Annotated[str, _version(2, "a version of two numbers; write one such as 13.5"), Field(examples=["13.5"])]
Compute = Annotated[str, AfterValidator(_compute), Field(examples=["10.3"])]
DriverVersion = Annotated[str, AfterValidator(_driver), Field(examples=["650.10.02"])]
BranchNumber = Annotated[int, Field(ge=_OLDEST_BRANCH, le=_LATEST_BRANCH)]
ImageGlob = Annotated[str, AfterValidator(_GLOB), Field(examples=["registry.example.com/llm/*"])]


class SourcedRow(CamelModel):
    """A row with its source."""

    source: Annotated[str, AfterValidator(_line), Field(examples=["release notes of CUDA 13.5"])]
    """Where the row comes from: a page, a file or a person, on one line."""
    date: Annotated[str, AfterValidator(_DATE), Field(examples=["2027-03"])]
    """The date of the source, or of reading it, as a month (`"2027-03"`) or a day in quotes, or `unknown`."""
    note: str | None = None
    """A remark for readers of the file."""


class ToolkitRow(SourcedRow):
    """A release of CUDA, and the driver from which it runs with all its features."""

    cuda: Release
    """The release, as three numbers in quotes, such as `"13.5.0"`."""
    driver: DriverVersion
    """The driver that NVIDIA's release notes name for Linux, in quotes, such as `"650.10.02"`; if only its branch is
    known, the number of the branch."""


class FloorRow(SourcedRow):
    """Minor-version compatibility of a major version of CUDA. Without it, an older driver than the one that a release
    came with is not known to run it, and not known to fail.
    """

    major: Annotated[int, Field(ge=_FIRST_WITH_FLOOR, le=99)]
    """The major version of CUDA."""
    driver: DriverVersion
    """The driver from which every release of the major version runs."""
    reported: Minor
    """The CUDA version that the oldest such driver reports, such as `"14.0"`."""

    @model_validator(mode="after")
    def _is_of_its_major_version(self) -> "FloorRow":
        if parse_version(self.reported).major != self.major:
            raise ValueError(f"reported is {self.reported}, and major is {self.major}; write two of one major version")
        return self


class BranchRow(SourcedRow):
    """A driver branch, and the newest CUDA version that its drivers report."""

    branch: BranchNumber
    """The first number of its drivers, such as 650."""
    cuda: Minor
    """The newest CUDA version that its drivers report, such as `"13.5"`; `nvidia-smi` shows it."""
    support: Literal["long-term", "production", "new feature", "legacy", "evaluation"] | None = None
    """What NVIDIA calls the branch. Shown in documents only."""
    ends: Annotated[str, AfterValidator(_MONTH)] | None = None
    """The month of its last release, such as `"2030-06"`, or `ended`. Unset: not known. Drivers of a branch that has
    ended bring an alert, once nodes have them."""


class CapabilityRow(SourcedRow):
    """A compute capability: its family, the drivers that drive it, and the first CUDA version with code for it."""

    compute: Compute
    """The compute capability, as two numbers in quotes, such as `"14.0"`."""
    family: Annotated[str, AfterValidator(_FAMILY), Field(examples=["hopper"])]
    """What GPU Feature Discovery writes as `nvidia.com/gpu.family`, such as `hopper`."""
    first_cuda: Minor
    """The first CUDA version that has code for these GPUs."""
    first_branch: BranchNumber | None = None
    """The first driver branch that drives them. Unset: not known."""
    last_branch: BranchNumber | None = None
    """The last driver branch that drives them. Unset: none so far."""

    @model_validator(mode="after")
    def _has_a_range(self) -> "CapabilityRow":
        if self.first_branch is not None and self.last_branch is not None and self.last_branch < self.first_branch:
            raise ValueError(f"lastBranch {self.last_branch} is older than firstBranch {self.first_branch}; swap them")
        return self


class ImageRow(SourcedRow):
    """What the images that a glob matches need and contain."""

    image: ImageGlob
    """Glob of image names, with or without registry and tag: `*` stands for any text, `?` for one character. The name
    itself beats every glob, and a longer glob a shorter one."""
    cuda: Annotated[str, AfterValidator(lambda value: str(cuda_version(value))), Field(examples=["12.4"])] | None = None
    """The CUDA version that the images need, in quotes, such as `"12.4"`."""
    cpu_only: bool = False
    """`true` for images that need no CUDA."""
    compat: bool | None = None
    """Whether the images contain the `cuda-compat` package. Unset: whatever else is known of them."""
    ptx: bool | None = None
    """Whether all their code has PTX for newer GPUs (`true`), or none of it (`false`). Unset: whatever else is known of
    them."""

    @model_validator(mode="after")
    def _says_something(self) -> "ImageRow":
        about = [
            key for key, value in (("cuda", self.cuda), ("compat", self.compat), ("ptx", self.ptx)) if value is not None
        ]
        if self.cpu_only and about:
            raise ValueError(f"cpuOnly is true, and {' and '.join(about)} speaks of CUDA; keep one of them")
        if not self.cpu_only and not about:
            raise ValueError("says nothing of the images; write at least one of cuda, cpuOnly, compat and ptx")
        return self


class CudaSpec(CamelModel):
    """Rows that are added to the tables of this release. A row with the key of a shipped row replaces it."""

    toolkits: tuple[ToolkitRow, ...] = ()
    """Releases of CUDA, by `cuda`."""
    floors: tuple[FloorRow, ...] = ()
    """Minor-version compatibility, by `major`."""
    drivers: tuple[BranchRow, ...] = ()
    """Driver branches, by `branch`."""
    compute_capabilities: tuple[CapabilityRow, ...] = ()
    """Compute capabilities, by `compute`."""
    gpus: tuple[GpuRow, ...] = ()
    """GPUs by their names, by `name`, in the form of the table of this release. They count before all others."""
    images: tuple[ImageRow, ...] = ()
    """What the platform team knows of images, by `image`. Only `images` of a policy's `cudaDriver` takes precedence."""


class CudaFile(WrittenFile[Literal["GPUCudaTables"], ReservedMetadata[Literal["_cuda"]], CudaSpec]):
    """Rows for the tables by which gpu-policy-webhook decides which CUDA image runs on which node."""


@lru_cache(maxsize=1)
def cuda_schema() -> Schema:
    """JSON Schema (draft-07) of `_cuda.yaml`. Callers share it and must not change it."""
    return schema_of(CudaFile, CUDA_KIND)


@dataclass(frozen=True, slots=True)
class PlatformTables:
    """The tables by which a set of policies judges images, and the platform's rows as they are in its file."""

    tables: CudaTables = SHIPPED
    written: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def counts(self) -> str:
        return ", ".join(f"{key} {len(self.written[key])}" for key in KEYS if key in self.written)


SHIPPED_ONLY = PlatformTables()
"""The tables with an empty file, or without one."""


def read_cuda_tables(path: str, source: bytes | YamlNode, faults: Faults) -> PlatformTables:
    """The tables with the rows of a file, which errors call `path`; if it has mistakes, the tables of this release."""
    root = read_document(path, source, CUDA_KIND, _null_fault, faults)
    document = read_as(root, CudaFile, cuda_schema(), faults) if root is not None else None
    if document is None:
        return SHIPPED_ONLY
    spec = document.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    rows = {name: [*{_identity(row[KEYS[name]]): row for row in listed}.values()] for name, listed in spec.items()}
    rows = {name: listed for name, listed in rows.items() if listed}
    return PlatformTables(SHIPPED.merged(rows), rows) if rows else SHIPPED_ONLY


def _null_fault(path: KeyPath) -> str:
    return f"is empty; write a {'list' if path[:1] == ('spec',) and len(path) == 2 else 'value'}, or remove the line"


def _identity(value: str | int) -> object:
    try:
        return parse_version(value).parts
    except FormatError:
        return value
