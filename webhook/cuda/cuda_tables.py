"""The tables that decide which image runs where, as one value: those of this release, or with rows of the platform.

Whoever judges takes the tables as a value, so that the tables of two policies never mix. What functions of several
tables remember is kept by the tables themselves.
"""

from dataclasses import dataclass
from pathlib import Path

from webhook.cuda.compute_capabilities import ComputeCapabilities, FirstCuda, Generation
from webhook.cuda.drivers import Drivers
from webhook.cuda.forward_compat import CompatListings
from webhook.cuda.toolkits import Toolkits
from webhook.model.versions import Version
from webhook.yaml_files.shipped_tables import read_table

DATA = Path(__file__).with_name("data")
"""Where the tables of this release are."""


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class CudaTables:
    """Toolkits, drivers, GPUs and forward compatibility. Two of these are equal where they are one."""

    toolkits: Toolkits
    drivers: Drivers
    capabilities: ComputeCapabilities
    forward_compat: CompatListings

    def first_cuda(self, compute: Version) -> FirstCuda | None:
        """The first CUDA with code for a GPU; None for old GPUs that the table lacks."""
        return self.capabilities.first_cuda(compute, self.toolkits.newest)

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
