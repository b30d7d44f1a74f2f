"""Whether the code in an image runs on GPUs newer than its CUDA: a driver compiles PTX for them, and nothing else.

The rows are in `data/kernels.yaml`: who builds code and what it brings, and whose code is in which family of images.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

from webhook.cuda import DATA
from webhook.model.versions import Version, parse_version
from webhook.yaml_files.shipped_tables import read_table


class Kernels(StrEnum):
    """What an image brings for GPUs that are newer than its CUDA."""

    WITHOUT_PTX = "without PTX"
    WITH_PTX = "with PTX"
    NONE = "none"
    """The image has libraries of CUDA, and whoever builds on it adds the kernels."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CompiledCode:
    """What builds bring, for which CUDA that is known, and where it stands. `title` is whose builds they are.

    It is known from CUDA `first` on, and for those older than `before`; None has no such end.
    """

    title: str
    brings: Kernels
    source: str
    first: Version | None = None
    before: Version | None = None

    @property
    def span(self) -> str:
        """For which CUDA it is known, as people read it; empty where for all."""
        since = f"from CUDA {self.first} on" if self.first is not None else ""
        until = f"before CUDA {self.before}" if self.before is not None else ""
        return ", ".join(filter(None, (since, until)))

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "CompiledCode":
        """A row as tables write it."""
        first, before = (parse_version(row[key]) if key in row else None for key in ("first", "before"))
        source = row["source"] if row["source"] != "unverified" else ""
        return cls(row["title"], Kernels(row["brings"]), source, first, before)

    def is_known_for(self, cuda: Version | None) -> bool:
        """Whether the source speaks of this CUDA; None where that is not known."""
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
        """What it brings, and who says so."""
        return _CODE[self]

    def kernels(self, cuda: Version | None) -> Kernels:
        """What the image brings where it is built with this CUDA; None where that is not known.

        >>> KernelBuild.PYTORCH_OF_PIP.kernels(Version((12, 4)))
        <Kernels.WITHOUT_PTX: 'without PTX'>
        """
        code = _CODE[self]
        return code.brings if code.is_known_for(cuda) else Kernels.UNKNOWN


@dataclass(frozen=True, slots=True)
class Origin:
    """Families of images with code from the same place.

    `families` are the last two parts of the path, the last one alone, or a namespace with /* behind it; where nothing
    is known, other * stand for any text too. `note` is why it is not known, or what else there is to say. Families
    are `by_tag` where their reader decides, because it looks at the form of the tag as well.
    """

    families: tuple[str, ...]
    build: KernelBuild
    note: str
    by_tag: bool

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Origin":
        """A row as tables write it."""
        return cls(tuple(row["images"]), KernelBuild(row["build"]), row.get("note", ""), row.get("byTag", False))


_TABLE = read_table(DATA / "kernels.yaml")
_CODE: Mapping[KernelBuild, CompiledCode] = {
    KernelBuild(row["build"]): CompiledCode.of(row) for row in _TABLE["builds"]
}

ORIGINS: tuple[Origin, ...] = tuple(map(Origin.of, _TABLE["origins"]))
"""Every family that may have CUDA, each in one row, which speaks of the family's own kernels."""

_BUILDS: Mapping[str, KernelBuild] = {
    family: origin.build for origin in ORIGINS if not origin.by_tag for family in origin.families
}


def build_of(parts: tuple[str, ...]) -> KernelBuild:
    """Who built the code in an image, by the parts of its path alone."""
    places = ("/".join(parts[-2:]), parts[-1], *(f"{part}/*" for part in reversed(parts[-3:-1])))
    return next((_BUILDS[place] for place in places if place in _BUILDS), KernelBuild.UNKNOWN)
