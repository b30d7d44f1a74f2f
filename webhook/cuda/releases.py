"""Which CUDA the releases of images are built with: NVIDIA's monthly framework containers (NGC), and other products.

The monthly pytorch, tensorflow, tritonserver, jax, mxnet and cuda-dl-base share one base. For a month that the table
lacks there is no answer: neither its CUDA nor its compute capabilities follow from its neighbours. The rows are in
`data/ngc.yaml` and `data/releases.yaml`, each with its source.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.cuda import DATA, UNVERIFIED
from webhook.model.versions import Version, parse_version
from webhook.yaml_files.shipped_tables import read_rows, read_table

_MONTH = re.compile(r"([12][0-9]\.(?:0[1-9]|1[0-2]))(?:\.[0-9]{1,2})?(?![0-9.])", re.ASCII)


@dataclass(frozen=True, slots=True)
class MonthlyRelease:
    """NVIDIA's framework containers of one month: their CUDA, and the least compute capability that they support.

    If nobody has read the `floor` in the release notes, it lies between `certain_floor`, if that is set, and `floor`.
    """

    month: str
    cuda: Version
    source: str
    floor: Version = Version((6, 0))  # noqa: RUF009  # a frozen value
    floor_verified: bool = True
    certain_floor: Version | None = None

    @property
    def is_verified(self) -> bool:
        return self.source != UNVERIFIED

    @property
    def is_floor_verified(self) -> bool:
        return self.is_verified and self.floor_verified


_NGC = read_table(DATA / "ngc.yaml")

MONTHS = {row.month: row for row in read_rows(MonthlyRelease, _NGC["months"], "ngc.yaml")}
"""The releases of all known months such as 24.09, in order."""

TRITON_TRTLLM: Mapping[str, str] = {row["month"]: row["cuda"] for row in _NGC["tritonTrtllm"]}
"""CUDA of tritonserver:YY.MM-trtllm-python-py3, whose base is its own. The CUDA of other months is unknown."""

TRITON_VLLM: Mapping[str, str] = {row["month"]: row["cuda"] for row in _NGC["tritonVllm"]}
"""CUDA of tritonserver:YY.MM-vllm-python-py3, for the months in which it differs from the other images."""

_LAST_READ: str = _NGC["lastRead"]
"""The last month for which somebody has read whether the vLLM variant differs."""


def month_of(text: str) -> str | None:
    """The month at the beginning of a tag or of a variable of an image; None if the text begins with no month.

    >>> month_of("24.09-py3"), month_of("20.03.1-py3"), month_of("2.41.0"), month_of("24.13")
    ('24.09', '20.03', None, None)
    """
    found = _MONTH.match(text)
    return found[1] if found else None


def monthly_cuda(month: str, tag: str) -> tuple[Version | None, bool]:
    """The CUDA of an image of that month with this tag, None if unknown, and whether somebody has read it.

    Variants of tritonserver may have another base than the month.

    >>> str(monthly_cuda("24.07", "24.07-py3")[0]), str(monthly_cuda("24.07", "24.07-trtllm-python-py3")[0])
    ('12.5.1', '12.4.1')
    """
    if "-trtllm" in tag:
        text = TRITON_TRTLLM.get(month)
        return parse_version(text) if text else None, True
    if "-vllm" in tag and month in TRITON_VLLM:
        return parse_version(TRITON_VLLM[month]), True
    release = MONTHS.get(month)
    is_read = "-vllm" not in tag or month <= _LAST_READ
    return (release.cuda, release.is_verified and is_read) if release else (None, True)


_VERSION = re.compile(r"v?([0-9]{1,4}(?:\.[0-9]{1,4}){1,2})(?=[-_.+a-z]|\Z)", re.ASCII)


def is_between(version: Version, first: Version, last: Version) -> bool:
    """Whether a version is between two versions, both included with all their patches."""
    return version.at_least(first) and last.at_least(version.cut(len(last.parts)))


@dataclass(frozen=True, slots=True)
class ReleaseRange:
    """The versions from `first` to `last`, both included, whose images are built with this CUDA.

    A `last` with two numbers includes all its patches. If `cuda` has one number, its minor version is not known.
    `architectures` are the CPU architectures of the images, empty if not known.
    """

    first: Version = field(metadata={"key": "from"})
    last: Version = field(metadata={"key": "to"})
    cuda: Version
    source: str
    architectures: tuple[str, ...] = field(default=(), metadata={"key": "arch"})

    def covers(self, version: Version) -> bool:
        return is_between(version, self.first, self.last)

    @property
    def is_verified(self) -> bool:
        return self.source != UNVERIFIED


def version_of(tag: str) -> Version | None:
    """The version of the framework at the beginning of a tag; None if the tag begins with no version.

    >>> str(version_of("v0.8.5.post1-x86_64")), str(version_of("2.12.0rc1-gpu")), version_of("sha-1a2b3c4")
    ('0.8.5', '2.12.0', None)
    """
    found = _VERSION.match(tag)
    return parse_version(found[1]) if found else None


def built_with(table: tuple[ReleaseRange, ...], tag: str) -> ReleaseRange | None:
    """The row of the table for the version in a tag; None if the table has none. A tag may be a number alone."""
    version = Version((int(tag),)) if tag.isdecimal() and len(tag) < 9 else version_of(tag)
    return None if version is None else next((row for row in table if row.covers(version)), None)


_TABLE = read_table(DATA / "releases.yaml")
RELEASES: Mapping[str, tuple[ReleaseRange, ...]] = {
    row["product"]: read_rows(
        ReleaseRange,
        [{"arch": row.get("arch", ()), **one} for one in row["releases"]],
        f"releases.yaml {row['product']}",
    )
    for row in _TABLE["products"]
}
"""The releases of each product, in order."""

TORCH: Mapping[str, tuple[str, ...]] = {row["release"]: tuple(row["cuda"]) for row in _TABLE["torch"]}
"""The CUDA versions for which each PyTorch release is built; pytorch/pytorch has an image for each."""

RAPIDS: Mapping[str, tuple[str, ...]] = {row["release"]: tuple(row["cuda"]) for row in _TABLE["rapids"]}
"""The CUDA versions of rapidsai/base and rapidsai/notebooks by release. Their tags name the major version alone."""
