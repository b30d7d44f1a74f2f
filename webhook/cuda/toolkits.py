"""Which driver each CUDA toolkit needs on Linux.

Sources: CTK, the release notes of CUDA Toolkit 13.2 (tables 2 and 3: toolkits, drivers, and the floors of minor-version
compatibility) and of 13.3; TRITON, docs/introduction/compatibility.md of triton-inference-server; NGC, the release
notes of the containers. Rows that nobody has read in one of these are marked unverified. The numbers are those of
x86_64; the packages for arm64 servers are taken to need the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from webhook.model.versions import Version, parse_version


@dataclass(frozen=True, slots=True)
class Toolkit:
    """A release of CUDA, and the driver from which it runs with all its features.

    `driver` is None where only the branch is known. `build` is how NVIDIA's own containers write the third number of
    early releases, such as 11.0.167 for 11.0.1.
    """

    cuda: Version
    driver: Version | None
    branch: int
    source: str = "CTK"
    is_verified: bool = True
    build: int | None = None


def _row(cuda: str, driver: str, source: str = "CTK", *, build: int | None = None, verified: bool = True) -> Toolkit:
    least = parse_version(driver)
    is_branch = len(least.parts) == 1
    return Toolkit(parse_version(cuda), None if is_branch else least, least.major, source, verified, build)


TOOLKITS: tuple[Toolkit, ...] = (
    _row("7.0.28", "346.46"),
    _row("7.5.16", "352.31"),
    _row("8.0.44", "367.48"),
    _row("8.0.61", "375.26"),
    _row("9.0.76", "384.81"),
    _row("9.1.85", "390.46"),
    _row("9.2.88", "396.26"),
    _row("9.2.148", "396.37"),
    _row("10.0.130", "410.48"),
    _row("10.1.105", "418.39"),
    _row("10.2.89", "440.33"),
    _row("11.0.1", "450.36.06", build=167),
    _row("11.0.2", "450.51.05", build=194),
    _row("11.0.3", "450.51.06", build=221),
    _row("11.1.0", "455.23"),
    _row("11.1.1", "455.32"),
    _row("11.2.0", "460.27.03"),
    _row("11.2.1", "460.32.03"),
    _row("11.2.2", "460.32.03"),
    _row("11.3.0", "465.19.01"),
    _row("11.3.1", "465.19.01"),
    _row("11.4.0", "470.42.01"),
    _row("11.4.1", "470.57.02"),
    _row("11.4.2", "470.57.02"),
    _row("11.4.3", "470.82.01"),
    _row("11.4.4", "470.82.01"),
    _row("11.5.0", "495.29.05"),
    _row("11.5.1", "495.29.05"),
    _row("11.5.2", "495.29.05"),
    _row("11.6.0", "510.39.01"),
    _row("11.6.1", "510.47.03"),
    _row("11.6.2", "510.47.03"),
    _row("11.7.0", "515.43.04"),
    _row("11.7.1", "515.48.07"),
    _row("11.8.0", "520.61.05"),
    _row("12.0.0", "525.60.13"),
    _row("12.0.1", "525.85.12"),
    _row("12.1.0", "530.30.02"),
    _row("12.1.1", "530.30.02"),
    _row("12.2.0", "535.54.03"),
    _row("12.2.1", "535.86.09"),
    _row("12.2.2", "535.104.05"),
    _row("12.3.0", "545.23.06"),
    _row("12.3.1", "545.23.08"),
    _row("12.3.2", "545.23.08", "TRITON"),
    _row("12.4.0", "550.54.14"),
    _row("12.4.1", "550.54.15"),
    _row("12.5.0", "555.42.02"),
    _row("12.5.1", "555.42.06"),
    _row("12.6.0", "560.28.03"),
    _row("12.6.1", "560.35.03"),
    _row("12.6.2", "560.35.03"),
    _row("12.6.3", "560.35.05"),
    _row("12.8.0", "570.26"),
    _row("12.8.1", "570.124.06"),
    _row("12.9.0", "575.51.03"),
    _row("12.9.1", "575.57.08"),
    _row("12.9.2", "575.57.08", "exists; taken to need what 12.9.1 needs", verified=False),
    _row("13.0.0", "580.65.06"),
    _row("13.0.1", "580.82.07"),
    _row("13.0.2", "580.95.05"),
    _row("13.0.3", "580.95.05", "exists; taken to need what 13.0.2 needs", verified=False),
    _row("13.1.0", "590.44.01"),
    _row("13.1.1", "590.48.01"),
    _row("13.1.2", "590.48.01", "exists; taken to need what 13.1.1 needs", verified=False),
    _row("13.2.0", "595.45.04"),
    _row("13.2.1", "595.58.03", "CTK, TRITON"),
    _row("13.2.2", "595.58.03", "exists; taken to need what 13.2.1 needs", verified=False),
    _row("13.3.0", "610.43.02", "CTK, TRITON"),
    _row("13.3.1", "610.43.02"),
    _row("13.4.0", "615", "the release notes of CUTLASS name the branch", verified=False),
    _row("13.4.1", "615", "NGC"),
    _row("13.4.2", "615", "exists; taken to need what 13.4.1 needs", verified=False),
    _row("13.4.3", "615", "NGC"),
)
"""Every known release, in order. There is no toolkit 12.7; only driver branch 565 reports it."""

NEWEST = TOOLKITS[-1].cuda
"""The newest known release."""

MINORS: tuple[Version, ...] = tuple(dict.fromkeys(toolkit.cuda.cut(2) for toolkit in TOOLKITS))
"""The known versions as two numbers, in order."""


@dataclass(frozen=True, slots=True)
class Floor:
    """Minor-version compatibility: from `driver` on, every release of the major version runs.

    Every driver that reports CUDA `reported` or newer is that new.
    """

    driver: Version
    reported: Version
    source: str = "CTK"


FLOORS: Mapping[int, Floor] = {
    11: Floor(parse_version("450.80.02"), parse_version("11.1")),
    12: Floor(parse_version("525.60.13"), parse_version("12.0")),
    13: Floor(parse_version("580.65.06"), parse_version("13.0")),
}
"""By major version of CUDA. CUDA 10 and older have no minor-version compatibility; a release of 11.0 also runs from its
own row on, which is below the floor."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """The drivers that run a CUDA version: none older than `low`, all from `high` on.

    The two differ where the version may stand for several releases.
    """

    low: Version
    high: Version


@lru_cache(maxsize=1024)
def toolkits_of(cuda: Version) -> tuple[Toolkit, ...]:
    """The releases that a CUDA version may stand for: the nearest older one of its minor version where it is unknown.

    >>> [str(toolkit.cuda) for toolkit in toolkits_of(parse_version("11.0.194"))]
    ['11.0.2']
    """
    known = cuda.parts[:2]
    rows = tuple(toolkit for toolkit in TOOLKITS if toolkit.cuda.parts[: len(known)] == known)
    if len(cuda.parts) < 3:
        return rows
    patch = cuda.parts[2]
    named = tuple(toolkit for toolkit in rows if patch in (toolkit.cuda.parts[2], toolkit.build))
    older = tuple(toolkit for toolkit in rows if toolkit.cuda.parts[2] < patch)
    return named or older[-1:] or rows


@lru_cache(maxsize=1024)
def threshold_of(cuda: Version) -> Threshold | None:
    """The drivers that run a CUDA version without help from the image; None for a major version newer than the table.

    >>> str(threshold_of(parse_version("12.4.1")).high), str(threshold_of(parse_version("10.2")).high)
    ('525.60.13', '440.33')
    """
    own = [toolkit.driver for toolkit in toolkits_of(cuda) if toolkit.driver is not None]
    floor = FLOORS.get(cuda.major)
    if floor is not None:
        enough = [min(driver, floor.driver) for driver in own] or [floor.driver]
    elif own or cuda.major > NEWEST.major:
        enough = own
    else:
        enough = _enough_for_the_next(cuda)
    return Threshold(min(enough), max(enough)) if enough else None


def _enough_for_the_next(cuda: Version) -> list[Version]:
    """What is known to be enough for a version that the table lacks: what the next release needs.

    Nothing is too old for one that is older than the table.
    """
    after = next(toolkit.driver for toolkit in TOOLKITS if toolkit.driver is not None and cuda < toolkit.cuda)
    return [after] if cuda.at_least(TOOLKITS[0].cuda) else [Version((0,)), after]


def native_driver(cuda: Version) -> Version | None:
    """The driver from which all features of a CUDA version work; None for a version that the table lacks.

    It is that of the first release where several may be meant, and a bare branch where no more is known.
    """
    rows = toolkits_of(cuda)
    return (rows[0].driver or Version((rows[0].branch,))) if rows else None
