"""Forward compatibility: the driver branches from which the cuda-compat package of an image lets its CUDA run.

Source: NVIDIA_REQUIRE_CUDA in the Dockerfiles of nvidia/cuda (gitlab nvidia/container-images/cuda); for 13.1 to 13.3 in
published dumps of image configurations. It names, per brand of GPU, the branches that a build was made for. Builds of
one version differ: rebuilds drop branches out of support from the variable, while their libraries work as before. Where
sources contradict each other, what they agree on counts; 13.4 has not been seen.
"""

from dataclasses import dataclass
from functools import lru_cache

from webhook.cuda.toolkits import toolkits_of
from webhook.model.versions import Version, parse_version

TESLA_BRAND = ("tesla",)
OTHER_BRANDS = (
    "unknown",
    "nvidia",
    "nvidiartx",
    "geforce",
    "geforcertx",
    "quadro",
    "quadrortx",
    "titan",
    "titanrtx",
)
ALL_BRANDS = TESLA_BRAND + OTHER_BRANDS
SERVER_BRANDS = (
    "unknown",
    "grid",
    "tesla",
    "nvidia",
    "quadro",
    "quadrortx",
    "nvidiartx",
    "vapps",
    "vpc",
    "vcs",
    "vws",
    "cloudgaming",
)

Terms = tuple[tuple[tuple[str, ...], tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Build:
    """What builds of an image accept besides their own CUDA: branches by brands, and any driver of `any_from` or newer.

    `patches` are the third numbers of the versions that were built so; empty means all.
    """

    terms: Terms
    any_from: int | None = None
    patches: tuple[int, ...] = ()

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


def _tesla(*branches: int, any_from: int | None = None) -> Build:
    return Build(((TESLA_BRAND, branches),), any_from)


def _both(tesla: tuple[int, ...], others: tuple[int, ...], *patches: int) -> Build:
    return Build(((TESLA_BRAND, tesla), (OTHER_BRANDS, others)), patches=patches)


def _all(*branches: int, patches: tuple[int, ...] = ()) -> Build:
    return Build(((ALL_BRANDS, branches),), patches=patches)


def _server(*branches: int) -> Build:
    return Build(((SERVER_BRANDS, branches),))


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


def _row(cuda: str, *builds: Build, verified: bool = True, arm: bool = True) -> CompatBuilds:
    return CompatBuilds(parse_version(cuda), builds, verified, arm)


LISTINGS: tuple[CompatBuilds, ...] = (
    _row("10.0", _tesla(384)),
    _row("10.1", _tesla(418), _tesla(396, 410, 418)),
    _row("10.2", _tesla(418), _tesla(396, 410, 418, 440)),
    _row("11.0", _tesla(418)),
    _row("11.1", _tesla(418, 450)),
    _row("11.2", _tesla(418, 450), _tesla(418, 450, any_from=450)),
    _row("11.3", _tesla(418, any_from=450)),
    _row("11.4", _tesla(418, 450), _tesla(418, 440, 450, 460)),
    _row("11.5", _both((418, 450, 470), (470,), 0, 1), _all(470, patches=(2,))),
    _row("11.6", _both((418, 450, 470), (470,), 0), _all(470, patches=(1, 2))),
    _row("11.7", _both((450, 470, 510), (470, 510)), _all(470, patches=(1,))),
    _row("11.8", _both((450, 470, 510, 515), (470, 510, 515)), _all(470)),
    _row("12.0", _both((450, 470, 510, 515), (470, 510, 515)), _all(470), arm=False),
    _row("12.1", _all(470, 525), arm=False),
    _row("12.2", _all(470, 525), arm=False),
    _row("12.3", _all(470, 525, 535)),
    _row("12.4", _all(470, 525, 535)),
    _row("12.5", _server(470, 535, 550)),
    _row("12.6", _server(470, 535, 550)),
    _row("12.8", _server(470, 535, 550, 560, 565)),
    _row("12.9", _server(535, 550, 560, 565, 570)),
    _row("13.0", _server(535, 550, 565, 570, 575)),
    _row("13.1", _server(535, 550, 570, 575, 580)),
    _row("13.2", _server(535, 570, 580, 590)),
    _row("13.3", _server(535, 580, 595), _server(535, 550, 560, 565, 570, 580), verified=False),
)
"""Every known listing, in order. Branches out of support are dropped and do not come back: 525 from 12.5 on, 470 from
12.9 on."""

_BY_MINOR = {row.cuda.parts: row for row in LISTINGS}


def is_base(cuda: Version, branch: int, arch: str = "") -> bool | None:
    """Whether the cuda-compat package of a CUDA version runs on drivers of a branch; None where that is not known.

    The architecture of the node is amd64 where it is not known.

    >>> is_base(parse_version("13.0"), 535), is_base(parse_version("13.0"), 560), is_base(parse_version("13.4"), 535)
    (True, False, None)
    """
    if not cuda.at_least(LISTINGS[0].cuda):
        return False
    releases = toolkits_of(cuda) if len(cuda.parts) < 3 else ()
    answers = {_is_base_of(release.cuda, branch, arch) for release in releases} or {_is_base_of(cuda, branch, arch)}
    return answers.pop() if len(answers) == 1 else None


def _is_base_of(release: Version, branch: int, arch: str) -> bool | None:
    """The same for one release; of those that are not listed, only branches that were never listed are certain."""
    row = _BY_MINOR.get(release.parts[:2])
    if row is not None:
        return row.has(branch, release, arch)
    listed = _listed(release)
    return None if branch in listed or branch > max(listed) else False


def _listed(cuda: Version) -> frozenset[int]:
    """Every branch listed for any version of the major version, or of the newest one known."""
    major = min(cuda.major, LISTINGS[-1].cuda.major)
    return frozenset(
        branch for row in LISTINGS if row.cuda.major == major for build in row.builds for branch in build.branches
    )


def base_branches(cuda: Version) -> tuple[int, ...]:
    """The branches listed for a CUDA version in its first build; empty where none are known."""
    row = _BY_MINOR.get(cuda.parts[:2])
    builds = row.builds_of(cuda) if row is not None else ()
    return tuple(sorted(builds[0].branches)) if builds else ()


def base_image_env(cuda: Version, arch: str | None = None) -> tuple[dict[str, str], ...]:
    """The environment of nvidia/cuda images of a CUDA version, for the container toolkit: one for each way of building.

    Empty where the version has no second number. For versions that are not listed these are the two extremes, between
    which theirs lies. NVARCH tells builds for different architectures apart where they differ; `arch` leaves one.
    """
    wanted = ("", "x86_64", "sbsa") if arch is None else ("", "sbsa" if arch == "arm64" else "x86_64")
    return tuple(
        {"CUDA_VERSION": str(cuda), "NVIDIA_REQUIRE_CUDA": text, **({"NVARCH": built_for} if built_for else {})}
        for text, built_for in _requirements(cuda)
        if built_for in wanted
    )


@lru_cache(maxsize=256)
def _requirements(cuda: Version) -> tuple[tuple[str, str], ...]:
    """NVIDIA_REQUIRE_CUDA in images of a CUDA version, each with the NVARCH that it is for; empty means any."""
    if cuda.minor is None:
        return ()
    own = Build(())
    row = _BY_MINOR.get(cuda.parts[:2])
    if row is None:
        return ((own.require(cuda), ""), (_server(*sorted(_listed(cuda))).require(cuda), ""))
    built_for = "" if row.is_on_arm else "x86_64"
    found = tuple((build.require(cuda), built_for) for build in row.builds_of(cuda) or row.builds)
    return found if row.is_on_arm else (*found, (own.require(cuda), "sbsa"))
