"""The tables that decide which image runs where, as one value: with rows of the platform, or without.

Functions that judge take the tables as a value, so the tables of two policies never mix. Results that are computed from
a table are kept in the table itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.cuda import DATA
from webhook.cuda.compiled_code import Kernels
from webhook.cuda.drivers import Branch, ComputeCapabilities, Drivers, FirstCuda, Floor, Generation, Toolkit, Toolkits
from webhook.cuda.forward_compat import CompatListings
from webhook.cuda.need import Compat
from webhook.gpus.gpu_model import models_from
from webhook.gpus.gpu_table import GPUS, GpuTable
from webhook.model.versions import Version
from webhook.yaml_files.shipped_tables import Row, read_rows, read_table

PLATFORM_FILE = "_cuda.yaml"

CAPABILITIES = "computeCapabilities"
_CONTEXT = "cudaTables"
_OTHERS = "otherCudaRows"


@dataclass(frozen=True, slots=True)
class PlatformImage:
    """A platform's row about the images that a glob matches. None stands for what the row leaves out.

    `cuda` is the CUDA version that the images need; `is_cpu_only` is true if they need none. `has_compat` says whether
    they have the cuda-compat package, `has_ptx` whether their code has PTX.
    """

    glob: str = field(metadata={"key": "image"})
    cuda: Version | None = None
    is_cpu_only: bool = False
    has_compat: bool | None = None
    has_ptx: bool | None = None
    source: str = ""

    @property
    def compat(self) -> Compat | None:
        return None if self.has_compat is None else Compat.YES if self.has_compat else Compat.NO

    @property
    def kernels(self) -> Kernels | None:
        return None if self.has_ptx is None else Kernels.WITH_PTX if self.has_ptx else Kernels.WITHOUT_PTX

    @property
    def needs(self) -> str:
        """The CUDA version that the images need, `none`, or an empty text if the row does not say."""
        return "none" if self.is_cpu_only else str(self.cuda or "")


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
    images: Mapping[str, PlatformImage] = field(default_factory=dict)
    """By glob. A name itself beats every glob, and a longer glob a shorter one."""

    def merged(self, rows: Rows) -> "CudaTables":
        """A copy with the rows of a platform, which replace rows with the same key.

        The lists are `toolkits`, `floors`, `drivers`, `computeCapabilities`, `gpus` and `images`; each may be left out.
        """

        def read(kind: type[Row], key: str) -> tuple[Row, ...]:
            return read_rows(kind, rows.get(key, ()), PLATFORM_FILE)

        return CudaTables(
            self.toolkits.merged(read(Toolkit, "toolkits"), read(Floor, "floors")),
            self.drivers.merged(read(Branch, "drivers")),
            self.capabilities.merged(read(Generation, CAPABILITIES)),
            self.forward_compat,
            self.gpus.merged(models_from(rows.get("gpus", ()))),
            {row.glob: row for row in read(PlatformImage, "images")},
        )

    def first_cuda(self, compute: Version) -> FirstCuda | None:
        """The first CUDA with code for a GPU; None for old GPUs that the table lacks.

        A toolkit that a platform adds may or may not have code for GPUs that the tables lack. So the newest toolkit of
        this release counts for them.
        """
        return self.capabilities.first_cuda(compute, SHIPPED.toolkits.newest)

    def generation_of(self, compute: Version | None) -> Generation | None:
        return None if compute is None else self.capabilities.generation_of(compute)

    def is_base(self, cuda: Version, branch: int, arch: str = "") -> bool | None:
        return self.forward_compat.is_base(cuda, branch, self.toolkits, arch)


def _shipped() -> CudaTables:
    toolkits = read_table(DATA / "toolkits.yaml")
    floors = {row.major: row for row in read_rows(Floor, toolkits["floors"], "toolkits.yaml")}
    return CudaTables(
        Toolkits(read_rows(Toolkit, toolkits["toolkits"], "toolkits.yaml"), floors),
        Drivers(read_rows(Branch, read_table(DATA / "drivers.yaml")["drivers"], "drivers.yaml")),
        ComputeCapabilities.of(read_table(DATA / "compute_capabilities.yaml")),
        CompatListings.of(read_table(DATA / "forward_compat.yaml")),
    )


SHIPPED = _shipped()
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
