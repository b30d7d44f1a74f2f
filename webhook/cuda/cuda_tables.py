"""The tables that decide which image runs where, as one value: those of this release, or with rows of the platform.

Functions that judge take the tables as a value, so the tables of two policies never mix. Results that are computed from
a table are kept in the table itself.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.cuda import DATA
from webhook.cuda.compute_capabilities import ComputeCapabilities, FirstCuda, Generation
from webhook.cuda.drivers import Branch, Drivers, Floor, Toolkit, Toolkits
from webhook.cuda.forward_compat import CompatListings
from webhook.cuda.kernels import Kernels
from webhook.cuda.need import Compat
from webhook.gpus.gpu_model import models_from
from webhook.gpus.gpu_table import GPUS, GpuTable
from webhook.model.globs import is_glob, matcher
from webhook.model.versions import Version, parse_version
from webhook.yaml_files.shipped_tables import read_table

PLATFORM_FILE = "_cuda.yaml"
"""Name of the file with the platform's own rows."""

CAPABILITIES = "computeCapabilities"
_CONTEXT = "cudaTables"
_OTHERS = "otherCudaRows"


@dataclass(frozen=True, slots=True)
class PlatformImage:
    """A platform's row about the images that a glob matches. None stands for what the row leaves out.

    `cuda` is the CUDA version that the images need; `is_cpu_only` is true if they need none. `compat` says whether they
    have the cuda-compat package, `kernels` whether their code has PTX.
    """

    glob: str
    cuda: Version | None = None
    is_cpu_only: bool = False
    compat: Compat | None = None
    kernels: Kernels | None = None
    source: str = ""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "PlatformImage":
        """Read a row of the platform's file."""
        cuda, compat, ptx = row.get("cuda"), row.get("compat"), row.get("ptx")
        return cls(
            row["image"],
            None if cuda is None else parse_version(cuda),
            row.get("cpuOnly", False),
            None if compat is None else Compat.YES if compat else Compat.NO,
            None if ptx is None else Kernels.WITH_PTX if ptx else Kernels.WITHOUT_PTX,
            row["source"],
        )

    @property
    def needs(self) -> str:
        """The CUDA version that the images need, `none`, or an empty text if the row does not say."""
        return "none" if self.is_cpu_only else str(self.cuda or "")


@dataclass(frozen=True, eq=False)
class PlatformImages:
    """The rows of a platform about images. A name itself beats every glob, and a longer glob a shorter one.

    Tenants choose the names that are compared, so a look-up takes a time that is linear in the length of the name and
    in the number of globs.
    """

    rows: tuple[PlatformImage, ...] = ()
    _exact: Mapping[str, PlatformImage] = field(init=False, repr=False)
    _globs: tuple[tuple[str, re.Pattern[str], PlatformImage], ...] = field(init=False, repr=False)
    _beginnings: tuple[str, ...] = field(init=False, repr=False)
    """The text before the first wildcard of each glob."""

    def __post_init__(self) -> None:
        exact = {row.glob: row for row in self.rows if not is_glob(row.glob)}
        ranked = sorted((row for row in self.rows if is_glob(row.glob)), key=lambda row: (-len(row.glob), row.glob))
        globs = ((re.split(r"[*?]", row.glob, maxsplit=1)[0], matcher(row.glob), row) for row in ranked)
        object.__setattr__(self, "_exact", exact)
        object.__setattr__(self, "_globs", tuple(globs))
        object.__setattr__(self, "_beginnings", tuple({beginning for beginning, _, _ in self._globs}))

    def named(self, names: Collection[str]) -> PlatformImage | None:
        """The row about an image with all these names; None if no row matches."""
        exact = [row for name in sorted(names) if (row := self._exact.get(name)) is not None]
        if exact:
            return max(exact, key=lambda row: len(row.glob))
        eligible = [name for name in names if name.startswith(self._beginnings)]
        for beginning, glob, row in self._globs if eligible else ():
            for name in eligible:
                if name.startswith(beginning) and glob.fullmatch(name):
                    return row
        return None


NO_IMAGES = PlatformImages()
"""No rows about images."""


Rows = Mapping[str, Iterable[Mapping[str, Any]]]
"""Rows as the YAML file has them, by the key of their list."""


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class CudaTables:
    """Toolkits, drivers, GPUs, forward compatibility and the platform's images. Compared by identity."""

    toolkits: Toolkits
    drivers: Drivers
    capabilities: ComputeCapabilities
    forward_compat: CompatListings
    gpus: GpuTable = GPUS
    images: PlatformImages = NO_IMAGES

    def merged(self, rows: Rows) -> "CudaTables":
        """A copy with the rows of a platform, which replace rows with the same key.

        The lists are `toolkits`, `floors`, `drivers`, `computeCapabilities`, `gpus` and `images`; each may be left out.
        """
        floors = {row["major"]: Floor.of(row) for row in rows.get("floors", ())}
        capabilities = ((Generation.of(row), FirstCuda.of_generation(row)) for row in rows.get(CAPABILITIES, ()))
        return CudaTables(
            self.toolkits.merged(map(Toolkit.of, rows.get("toolkits", ())), floors),
            self.drivers.merged(map(Branch.of, rows.get("drivers", ()))),
            self.capabilities.merged(capabilities),
            self.forward_compat,
            self.gpus.merged(models_from(rows.get("gpus", ()))),
            PlatformImages(tuple(map(PlatformImage.of, rows.get("images", ())))),
        )

    def first_cuda(self, compute: Version) -> FirstCuda | None:
        """The first CUDA with code for a GPU; None for old GPUs that the table lacks.

        A toolkit that a platform adds may or may not have code for GPUs that the tables lack. So the newest toolkit of
        this release counts for them.
        """
        return self.capabilities.first_cuda(compute, SHIPPED.toolkits.newest)

    def generation_of(self, compute: Version | None) -> Generation | None:
        """The row of a compute capability; None if `compute` is None or the table lacks it."""
        return None if compute is None else self.capabilities.generation_of(compute)

    def is_base(self, cuda: Version, branch: int, arch: str = "") -> bool | None:
        """Whether the cuda-compat package of a CUDA version runs on drivers of a branch; None if that is not known."""
        return self.forward_compat.is_base(cuda, branch, self.toolkits, arch)


SHIPPED = CudaTables(
    Toolkits.of(read_table(DATA / "toolkits.yaml")),
    Drivers.of(read_table(DATA / "drivers.yaml")),
    ComputeCapabilities.of(read_table(DATA / "compute_capabilities.yaml")),
    CompatListings.of(read_table(DATA / "forward_compat.yaml")),
)
"""The tables of this release."""


def context_of(tables: CudaTables, *, has_others: bool = False) -> dict[str, Any]:
    """The validation context for settings about CUDA and GPUs.

    `has_others`: the platform may have more rows, in a file that is faulty or not read.
    """
    return {_CONTEXT: tables, _OTHERS: has_others}


def tables_in(context: Any) -> CudaTables:
    """The tables in a validation context; the tables of this release if it has none."""
    found: CudaTables = (context or {}).get(_CONTEXT, SHIPPED)
    return found


def has_other_rows(context: Any) -> bool:
    """Whether the platform may have rows that the tables in the context lack."""
    return bool((context or {}).get(_OTHERS))
