"""Forward compatibility: which images bring the cuda-compat package, and on which driver branches it lets CUDA run.

The rows are in `data/forward_compat.yaml`. They follow NVIDIA_REQUIRE_CUDA in the images of nvidia/cuda, which names
the driver branches that a build was made for, by brand of GPU. What an image is built on (`Base`) says whether it
brings the package, and what the container toolkit reads in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from typing import Any

from webhook.cuda.drivers import Toolkits
from webhook.cuda.need import Compat, ImageEnv
from webhook.model.versions import Version
from webhook.yaml_files.shipped_tables import read_rows

Brands = Mapping[str, tuple[str, ...]]
"""Brands of GPUs by the names that the table uses for them."""


@dataclass(frozen=True, slots=True)
class Build:
    """The driver branches that a build of nvidia/cuda accepts for forward compatibility, by brands of GPUs.

    It also accepts any driver of branch `any_from` or newer. `patches` are the third numbers of the CUDA versions that
    were built so; empty means all.
    """

    tesla: tuple[int, ...] = ()
    others: tuple[int, ...] = ()
    all: tuple[int, ...] = ()
    server: tuple[int, ...] = ()
    any_from: int | None = None
    patches: tuple[int, ...] = ()

    @property
    def branches(self) -> frozenset[int]:
        return frozenset((*self.tesla, *self.others, *self.all, *self.server))

    def require(self, cuda: Version, brands: Brands) -> str:
        named = (("tesla", self.tesla), ("others", self.others), ("all", self.all), ("server", self.server))
        terms = [f"cuda>={cuda.cut(2)}"]
        terms += [
            f"brand={brand},driver>={branch},driver<{branch + 1}"
            for name, branches in named
            for branch in branches
            for brand in brands[name]
        ]
        terms += [] if self.any_from is None else [f"driver>={self.any_from}"]
        return " ".join(terms)


@dataclass(frozen=True, slots=True)
class CompatBuilds:
    """The builds of one CUDA version, the original build first.

    If `is_verified` is false, sources disagree, and each build is what one source says. `is_on_arm` is false if builds
    for arm64 accept no other driver than one for their own CUDA.
    """

    cuda: Version
    builds: tuple[Build, ...]
    is_verified: bool = True
    is_on_arm: bool = field(default=True, metadata={"key": "arm"})

    def builds_of(self, cuda: Version) -> tuple[Build, ...]:
        """The builds of a release of this version; all builds if `cuda` names no release."""
        if len(cuda.parts) < 3:
            return self.builds
        return tuple(build for build in self.builds if not build.patches or cuda.parts[2] in build.patches)

    def has(self, branch: int, cuda: Version, arch: str) -> bool | None:
        """Whether cuda-compat of a release of this version runs on this branch; None if sources disagree."""
        if arch == "arm64" and not self.is_on_arm:
            return False
        builds = self.builds_of(cuda)
        counting = builds if not self.is_verified else builds[:1]
        if counting and all(branch in build.branches for build in counting):
            return True
        return None if any(branch in build.branches for build in self.builds) else False


@dataclass(frozen=True, eq=False)
class CompatListings:
    """The builds of every known CUDA version, in order, and the brands of GPUs."""

    rows: tuple[CompatBuilds, ...]
    brands: Brands

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "CompatListings":
        brands = {name: tuple(them) for name, them in table["brands"].items()}
        brands["all"] = brands["tesla"] + brands["others"]
        return cls(read_rows(CompatBuilds, table["listings"], "forward_compat.yaml"), brands)

    def is_base(self, cuda: Version, branch: int, toolkits: Toolkits, arch: str = "") -> bool | None:
        """Whether the cuda-compat package of a CUDA version runs on drivers of a branch; None if that is not known.

        The package of CUDA 13.0 runs on 535 and not on 560. `toolkits` resolves a version of two numbers to its
        releases. An unknown architecture of the node counts as amd64.
        """
        if not cuda.at_least(self.rows[0].cuda):
            return False
        releases = [toolkit.cuda for toolkit in toolkits.toolkits_of(cuda)] if len(cuda.parts) < 3 else []
        answers = {self._is_base_of(release, branch, arch) for release in releases or [cuda]}
        return answers.pop() if len(answers) == 1 else None

    def _is_base_of(self, release: Version, branch: int, arch: str) -> bool | None:
        """Answer for one release. A release that is not listed certainly lacks the branches that were never listed."""
        row = self._row(release)
        if row is not None:
            return row.has(branch, release, arch)
        listed = self._listed(release)
        return None if branch in listed or branch > max(listed) else False

    def _row(self, cuda: Version) -> CompatBuilds | None:
        return next((row for row in self.rows if row.cuda.parts == cuda.parts[:2]), None)

    def _listed(self, cuda: Version) -> frozenset[int]:
        """Every branch listed for any CUDA of this major version, or of the newest known major version."""
        major = min(cuda.major, self.rows[-1].cuda.major)
        builds = [build for row in self.rows if row.cuda.major == major for build in row.builds]
        return frozenset().union(*(build.branches for build in builds))

    def base_branches(self, cuda: Version) -> tuple[int, ...]:
        """The branches that the first build of a CUDA version lists; empty if no build is known."""
        row = self._row(cuda)
        builds = row.builds_of(cuda) if row is not None else ()
        return tuple(sorted(builds[0].branches)) if builds else ()

    def base_image_env(self, cuda: Version, arch: str | None = None) -> tuple[dict[str, str], ...]:
        """The environment of nvidia/cuda images of a CUDA version, for the container toolkit: one for each build.

        Empty if the version has no second number. For a version that is not listed, the result is the two extremes
        between which its environment lies. NVARCH tells builds for different architectures apart if they differ;
        `arch` selects one architecture.
        """
        if cuda.minor is None:
            return ()
        own, row = Build(), self._row(cuda)
        if row is None:
            found = [(own, ""), (Build(server=tuple(sorted(self._listed(cuda)))), "")]
        elif row.is_on_arm:
            found = [(build, "") for build in row.builds_of(cuda) or row.builds]
        else:
            found = [*((build, "x86_64") for build in row.builds_of(cuda) or row.builds), (own, "sbsa")]
        left_out = "" if arch is None else "x86_64" if arch == "arm64" else "sbsa"
        return tuple(
            {
                "CUDA_VERSION": str(cuda),
                "NVIDIA_REQUIRE_CUDA": build.require(cuda, self.brands),
                **({"NVARCH": built_for} if built_for else {}),
            }
            for build, built_for in found
            if not built_for or built_for != left_out
        )


NGC_REQUIREMENT = {"NVIDIA_REQUIRE_CUDA": "cuda>=9.0"}
"""Every framework container of NVIDIA from 20.06 to 26.x has this, whatever its CUDA. So it says nothing about CUDA."""


class Base(Enum):
    """What an image is built on."""

    CUDA = auto()
    """nvidia/cuda of the same CUDA, with its environment unchanged."""
    NGC = auto()
    """The common base of NVIDIA's framework containers."""
    RELATED = auto()
    """nvidia/cuda; neither its release nor changes to its environment are known."""
    PLAIN = auto()
    """An image without CUDA. Its CUDA libraries came with pip or conda."""
    UNKNOWN = auto()
    """The base is not known, but a driver for the CUDA of the image satisfies its requirement."""
    FOREIGN = auto()
    """Neither the base nor its requirement is known."""

    @property
    def compat(self) -> Compat:
        if self is Base.PLAIN:
            return Compat.NO
        return Compat.YES if self in (Base.CUDA, Base.NGC, Base.RELATED) else Compat.UNKNOWN

    def env(self, cuda: Version | None, architectures: tuple[str, ...], known: CompatListings) -> ImageEnv | None:
        """What the container toolkit reads in an image with this base and CUDA; None if that is not known."""
        if self is Base.PLAIN:
            return ImageEnv.of({})
        if self is Base.NGC:
            return ImageEnv.of(NGC_REQUIREMENT)
        if self is Base.FOREIGN or cuda is None or cuda.minor is None:
            return None
        if self is Base.CUDA:
            return _of_nvidia_cuda(cuda, architectures, known)
        return ImageEnv.of({"NVIDIA_REQUIRE_CUDA": f"cuda>={cuda.cut(2)}"}, is_complete=False)


@lru_cache(maxsize=256)  # the texts have up to 4 KiB, which many needs share
def _of_nvidia_cuda(cuda: Version, architectures: tuple[str, ...], known: CompatListings) -> ImageEnv | None:
    variants = known.base_image_env(cuda, architectures[0] if len(architectures) == 1 else None)
    return ImageEnv.of(*variants) if variants else None
