"""The tables that decide which image runs where, as one value: those of this release, or with rows of the platform.

Whoever judges takes the tables as a value, so that the tables of two policies never mix. What functions of several
tables remember is kept by the tables themselves.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from webhook.cuda import DATA
from webhook.cuda.compute_capabilities import ComputeCapabilities, FirstCuda, Generation
from webhook.cuda.drivers import Branch, Drivers
from webhook.cuda.forward_compat import CompatListings
from webhook.cuda.platform_images import NO_IMAGES, PlatformImage, PlatformImages
from webhook.cuda.toolkits import Floor, Toolkit, Toolkits
from webhook.gpus.gpu_model import models_from
from webhook.gpus.gpu_table import GPUS, GpuTable
from webhook.model.versions import Version
from webhook.yaml_files.shipped_tables import read_table

PLATFORM_FILE = "_cuda.yaml"
"""The file of the platform's own rows, as people and messages call it."""

CAPABILITIES = "computeCapabilities"
_CONTEXT = "cudaTables"
_OTHERS = "otherCudaRows"

Rows = Mapping[str, Iterable[Mapping[str, Any]]]
"""Rows as tables write them, by the list in which they stand."""


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class CudaTables:
    """Toolkits, drivers, GPUs, forward compatibility and the platform's images. Equal are none but the same ones."""

    toolkits: Toolkits
    drivers: Drivers
    capabilities: ComputeCapabilities
    forward_compat: CompatListings
    gpus: GpuTable = GPUS
    images: PlatformImages = NO_IMAGES

    def merged(self, rows: Rows) -> "CudaTables":
        """These with the rows of a platform, which replace those of the same key.

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

        Whoever adds a toolkit says nothing of GPUs that the tables lack: those may be of any that is newer than ours.
        """
        return self.capabilities.first_cuda(compute, SHIPPED.toolkits.newest)

    def generation_of(self, compute: Version | None) -> Generation | None:
        """The row of a compute capability; None where it is not known or has none."""
        return None if compute is None else self.capabilities.generation_of(compute)

    def is_base(self, cuda: Version, branch: int, arch: str = "") -> bool | None:
        """Whether the cuda-compat package of a CUDA version runs on drivers of a branch; None where not known."""
        return self.forward_compat.is_base(cuda, branch, self.toolkits, arch)


SHIPPED = CudaTables(
    Toolkits.of(read_table(DATA / "toolkits.yaml")),
    Drivers.of(read_table(DATA / "drivers.yaml")),
    ComputeCapabilities.of(read_table(DATA / "compute_capabilities.yaml")),
    CompatListings.of(read_table(DATA / "forward_compat.yaml")),
)
"""The tables of this release."""


def context_of(tables: CudaTables, *, has_others: bool = False) -> dict[str, Any]:
    """What whoever validates settings adds to their context, for settings that are about CUDA and GPUs.

    `has_others`: the platform may have more rows, in a file that is faulty or out of sight.
    """
    return {_CONTEXT: tables, _OTHERS: has_others}


def tables_in(context: Any) -> CudaTables:
    """The tables of the context in which settings are validated; without one, those of this release."""
    found: CudaTables = (context or {}).get(_CONTEXT, SHIPPED)
    return found


def has_other_rows(context: Any) -> bool:
    """Whether the platform may have rows that the tables of the context lack."""
    return bool((context or {}).get(_OTHERS))
