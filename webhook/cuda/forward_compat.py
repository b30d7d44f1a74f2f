"""Forward compatibility: the driver branches from which the cuda-compat package of an image lets its CUDA run.

The rows are in `data/forward_compat.yaml`. They follow NVIDIA_REQUIRE_CUDA in the images of nvidia/cuda, which names,
for each brand of GPU, the branches that a build was made for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from webhook.cuda.toolkits import Toolkits
from webhook.model.versions import Version, parse_version

Brands = tuple[str, ...]
Terms = tuple[tuple[Brands, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Build:
    """What builds of an image accept besides their own CUDA: branches by brands, and any driver of `any_from` or newer.

    `patches` are the third numbers of the versions that were built so; empty means all.
    """

    terms: Terms
    any_from: int | None = None
    patches: tuple[int, ...] = ()

    @classmethod
    def of(cls, row: Mapping[str, Any], brands: Mapping[str, Brands]) -> "Build":
        """A build as tables write it; `brands` are the brands by the names that tables give them."""
        terms = tuple((brands[name], tuple(branches)) for name, branches in row.items() if name in brands)
        return cls(terms, row.get("anyFrom"), tuple(row.get("patches", ())))

    @property
    def branches(self) -> frozenset[int]:
        """Every branch that it names."""
        return frozenset(branch for _, branches in self.terms for branch in branches)

    def require(self, cuda: Version) -> str:
        """The text of NVIDIA_REQUIRE_CUDA."""
        terms = [f"cuda>={cuda.cut(2)}"]
        terms += [
            f"brand={brand},driver>={branch},driver<{branch + 1}"
            for brands, branches in self.terms
            for branch in branches
            for brand in brands
        ]
        terms += [] if self.any_from is None else [f"driver>={self.any_from}"]
        return " ".join(terms)


@dataclass(frozen=True, slots=True)
class CompatBuilds:
    """The builds of one CUDA version, the original one first.

    Where `is_verified` is false, they are what different sources say of one build. `is_on_arm` is false where builds
    for arm64 accept nothing but their own CUDA.
    """

    cuda: Version
    builds: tuple[Build, ...]
    is_verified: bool = True
    is_on_arm: bool = True

    def builds_of(self, cuda: Version) -> tuple[Build, ...]:
        """The builds of a release of this version; all where it is not said which."""
        if len(cuda.parts) < 3:
            return self.builds
        return tuple(build for build in self.builds if not build.patches or cuda.parts[2] in build.patches)

    def has(self, branch: int, cuda: Version, arch: str) -> bool | None:
        """Whether a release of this version runs from this branch on; None where sources disagree."""
        if arch == "arm64" and not self.is_on_arm:
            return False
        builds = self.builds_of(cuda)
        counting = builds if not self.is_verified else builds[:1]
        if counting and all(branch in build.branches for build in counting):
            return True
        return None if any(branch in build.branches for build in self.builds) else False


@dataclass(frozen=True, eq=False)
class CompatListings:
    """Every known listing, in order, and the brands that the branches of builds are for, by their names in tables."""

    rows: tuple[CompatBuilds, ...]
    brands: Mapping[str, Brands]
    requirements: Callable[[Version], tuple[tuple[str, str], ...]] = field(init=False, repr=False)
    """NVIDIA_REQUIRE_CUDA in images of a CUDA version, each with the NVARCH that it is for; empty means any."""
    _by_minor: Mapping[tuple[int, ...], CompatBuilds] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_minor", {row.cuda.parts: row for row in self.rows})
        object.__setattr__(self, "requirements", lru_cache(256)(self._requirements))

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "CompatListings":
        """The content of `data/forward_compat.yaml`."""
        brands = {name: tuple(them) for name, them in table["brands"].items()}
        brands["all"] = brands["tesla"] + brands["others"]
        rows = (
            CompatBuilds(
                parse_version(row["cuda"]),
                tuple(Build.of(build, brands) for build in row["builds"]),
                row.get("verified", True),
                row.get("arm", True),
            )
            for row in table["listings"]
        )
        return cls(tuple(rows), brands)

    def is_base(self, cuda: Version, branch: int, toolkits: Toolkits, arch: str = "") -> bool | None:
        """Whether the cuda-compat package of a CUDA version runs on drivers of a branch; None where that is not known.

        That of 13.0 runs on 535 and not on 560. `toolkits` are the releases that the version may stand for. The
        architecture of the node is amd64 where it is not known.
        """
        if not cuda.at_least(self.rows[0].cuda):
            return False
        releases = toolkits.toolkits_of(cuda) if len(cuda.parts) < 3 else ()
        answers = {self._is_base_of(release.cuda, branch, arch) for release in releases}
        answers = answers or {self._is_base_of(cuda, branch, arch)}
        return answers.pop() if len(answers) == 1 else None

    def _is_base_of(self, release: Version, branch: int, arch: str) -> bool | None:
        """The same for one release; of those that are not listed, only branches that were never listed are certain."""
        row = self._by_minor.get(release.parts[:2])
        if row is not None:
            return row.has(branch, release, arch)
        listed = self._listed(release)
        return None if branch in listed or branch > max(listed) else False

    def _listed(self, cuda: Version) -> frozenset[int]:
        """Every branch listed for any version of the major version, or of the newest one known."""
        major = min(cuda.major, self.rows[-1].cuda.major)
        return frozenset(
            branch for row in self.rows if row.cuda.major == major for build in row.builds for branch in build.branches
        )

    def base_branches(self, cuda: Version) -> tuple[int, ...]:
        """The branches listed for a CUDA version in its first build; empty where none are known."""
        row = self._by_minor.get(cuda.parts[:2])
        builds = row.builds_of(cuda) if row is not None else ()
        return tuple(sorted(builds[0].branches)) if builds else ()

    def base_image_env(self, cuda: Version, arch: str | None = None) -> tuple[dict[str, str], ...]:
        """The environment of nvidia/cuda images of a CUDA version, for the container toolkit: one for each build.

        Empty where the version has no second number. For versions that are not listed these are the two extremes,
        between which theirs lies. NVARCH tells builds for different architectures apart where they differ; `arch`
        leaves one.
        """
        wanted = ("", "x86_64", "sbsa") if arch is None else ("", "sbsa" if arch == "arm64" else "x86_64")
        return tuple(
            {"CUDA_VERSION": str(cuda), "NVIDIA_REQUIRE_CUDA": text, **({"NVARCH": built_for} if built_for else {})}
            for text, built_for in self.requirements(cuda)
            if built_for in wanted
        )

    def _requirements(self, cuda: Version) -> tuple[tuple[str, str], ...]:
        if cuda.minor is None:
            return ()
        own = Build(())
        row = self._by_minor.get(cuda.parts[:2])
        if row is None:
            newest = Build(((self.brands["server"], tuple(sorted(self._listed(cuda)))),))
            return ((own.require(cuda), ""), (newest.require(cuda), ""))
        built_for = "" if row.is_on_arm else "x86_64"
        found = tuple((build.require(cuda), built_for) for build in row.builds_of(cuda) or row.builds)
        return found if row.is_on_arm else (*found, (own.require(cuda), "sbsa"))
