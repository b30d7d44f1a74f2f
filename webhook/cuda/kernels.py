"""Whether the code in an image runs on GPUs newer than its CUDA. Only PTX does: the driver compiles it for them.

The rows are in `data/kernels.yaml`: who builds code, whether it has PTX, and whose code is in which family of images.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

from webhook.cuda import DATA, UNVERIFIED
from webhook.model.versions import Version, parse_version
from webhook.yaml_files.shipped_tables import read_table


class Kernels(StrEnum):
    """What an image brings for GPUs that are newer than its CUDA."""

    WITHOUT_PTX = "without PTX"
    WITH_PTX = "with PTX"
    NONE = "none"
    """The image has CUDA libraries only; images that are built on it add the kernels."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CompiledCode:
    """What the builds of one project bring, with the source.

    That is known for CUDA versions from `first` on and before `before`; None stands for no bound.
    """

    brings: Kernels
    source: str
    first: Version | None = None
    before: Version | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "CompiledCode":
        """Read a row of the table."""
        first, before = (parse_version(row[key]) if key in row else None for key in ("first", "before"))
        source = row["source"] if row["source"] != UNVERIFIED else ""
        return cls(Kernels(row["brings"]), source, first, before)

    def is_known_for(self, cuda: Version | None) -> bool:
        """Whether the source covers this CUDA version. `cuda` is None if the version is not known."""
        is_late = self.first is None or (cuda is not None and cuda.reaches(self.first) is True)
        is_early = self.before is None or (cuda is not None and cuda.reaches(self.before) is False)
        return is_late and is_early


class KernelBuild(Enum):
    """Who built the code in an image. `data/kernels.yaml` has a row for each."""

    PYTORCH_OF_PIP = "pytorch-of-pip"
    PYTORCH_OF_CONDA = "pytorch-of-conda"
    PYTORCH_OF_NVIDIA = "pytorch-of-nvidia"
    JAX_OF_NVIDIA = "jax-of-nvidia"
    TENSORFLOW = "tensorflow"
    RAPIDS = "rapids"
    CUDA_SAMPLES = "cuda-samples"
    NCCL_TESTS_OF_AWS = "nccl-tests-of-aws"
    TEXT_EMBEDDINGS = "text-embeddings"
    NCCL_OF_TCPXO = "nccl-of-tcpxo"
    USER = "user"
    UNKNOWN = "unknown"

    @property
    def code(self) -> CompiledCode:
        """What the code brings, with the source."""
        return _CODE[self]

    def kernels(self, cuda: Version | None) -> Kernels:
        """What an image brings that is built with this CUDA. `cuda` is None if the version is not known.

        >>> KernelBuild.PYTORCH_OF_PIP.kernels(Version((12, 4)))
        <Kernels.WITHOUT_PTX: 'without PTX'>
        """
        code = _CODE[self]
        return code.brings if code.is_known_for(cuda) else Kernels.UNKNOWN


@dataclass(frozen=True, slots=True)
class Origin:
    """Families of images with code of the same build.

    A family is the last two parts of the path, the last part alone, or a namespace followed by /*. If the build is
    unknown, other stars stand for any text. `note` is a remark, such as why the build is not known. If `by_tag` is
    true, the reader of the family decides, because the form of the tag matters.
    """

    families: tuple[str, ...]
    build: KernelBuild
    note: str
    by_tag: bool

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Origin":
        """Read a row of the table."""
        return cls(tuple(row["images"]), KernelBuild(row["build"]), row.get("note", ""), row.get("byTag", False))


_TABLE = read_table(DATA / "kernels.yaml")
_CODE: Mapping[KernelBuild, CompiledCode] = {
    KernelBuild(row["build"]): CompiledCode.of(row) for row in _TABLE["builds"]
}

ORIGINS: tuple[Origin, ...] = tuple(map(Origin.of, _TABLE["origins"]))
"""Every family that may have CUDA, each in one row. A row is about the family's own kernels."""

_BUILDS: Mapping[str, KernelBuild] = {
    family: origin.build for origin in ORIGINS if not origin.by_tag for family in origin.families
}


def build_of(parts: tuple[str, ...]) -> KernelBuild:
    """Who built the code in an image, by the parts of its path alone."""
    places = ("/".join(parts[-2:]), parts[-1], *(f"{part}/*" for part in reversed(parts[-3:-1])))
    return next((_BUILDS[place] for place in places if place in _BUILDS), KernelBuild.UNKNOWN)
