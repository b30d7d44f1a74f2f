"""Which GPUs the code in an image runs on.

`data/compiled.yaml` has the libraries in the releases that somebody has read; one library has to serve. Machine code
for X.Y runs on X.Z where Z is not less. PTX runs on every newer GPU, but only with the driver of its own CUDA, because
minor-version compatibility does not cover it. For all others, `data/kernels.yaml` says who builds the code, whether it
has PTX, and whose code is in which family of images.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from functools import cached_property

from webhook.cuda import DATA
from webhook.cuda.releases import is_between, version_of
from webhook.model.versions import Version, parse_version
from webhook.yaml_files.shipped_tables import read_rows, read_table


class Kernels(StrEnum):
    """What an image brings for GPUs that are newer than its CUDA."""

    WITHOUT_PTX = "without PTX"
    WITH_PTX = "with PTX"
    NONE = "none"
    """The image has CUDA libraries only; images that are built on it add the kernels."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class _Build:
    """Who builds code, and what it brings, for CUDA versions from `first` on and before `before`, if these are set."""

    build: str
    brings: Kernels
    first: Version | None = None
    before: Version | None = None


_TABLE = read_table(DATA / "kernels.yaml")
_BUILDS = {row.build: row for row in read_rows(_Build, _TABLE["builds"], "kernels.yaml")}
_BUILD_OF: Mapping[str, str] = {
    image: row["build"] for row in _TABLE["origins"] if not row.get("byTag") for image in row["images"]
}


def build_of(parts: tuple[str, ...]) -> str:
    """Who built the code in an image, by the parts of its path alone; `unknown` if that does not tell."""
    places = ("/".join(parts[-2:]), parts[-1], *(f"{part}/*" for part in reversed(parts[-3:-1])))
    return next((_BUILD_OF[place] for place in places if place in _BUILD_OF), "unknown")


def kernels_of(build: str, cuda: Version | None) -> Kernels:
    """What an image of this build brings. `cuda` is None if the version of its CUDA is not known.

    >>> kernels_of("pytorch-of-pip", Version((12, 4)))
    <Kernels.WITHOUT_PTX: 'without PTX'>
    """
    row = _BUILDS[build]
    is_late = row.first is None or (cuda is not None and cuda.reaches(row.first) is True)
    is_early = row.before is None or (cuda is not None and cuda.reaches(row.before) is False)
    return row.brings if is_late and is_early else Kernels.UNKNOWN


_ON_BOARDS = frozenset(map(parse_version, ("5.3", "6.2", "7.2", "8.7", "10.1", "11.0")))
"""Compute capabilities of Jetson and Drive, to which the rule about X.Z does not apply."""


class Way(Enum):
    """How a library runs on a GPU."""

    CODE = auto()
    PTX = auto()
    UNKNOWN = auto()
    NONE = auto()


@dataclass(frozen=True, kw_only=True)
class Library:
    """The GPU code of one build, and the images that have it: from release `first` to `last`, with a tag like `tags`.

    `written` are the compute capabilities with machine code; an "a" means that the code runs on no other GPU, which is
    true of all in `only`. `written_ptx` is None if nobody has read whether there is PTX. `driver` is the least driver
    because the code is compressed, `ptx_driver` the least one that compiles its PTX. `cudas` are the CUDA versions of
    the images, `cuda` the library's own if it is another one, `cpu` the processor; empty and None stand for any. With
    `is_on_cpu`, the program computes on the CPU if no library serves; with `is_for_others`, it also brings code for
    GPUs of other vendors.
    """

    tags: re.Pattern[str] = re.compile(".*")
    first: Version | None = field(default=None, metadata={"key": "from"})
    last: Version | None = field(default=None, metadata={"key": "to"})
    cudas: tuple[Version, ...] = field(default=(), metadata={"key": "cuda"})
    written: tuple[str, ...] = field(default=(), metadata={"key": "code"})
    only: tuple[Version, ...] = ()
    written_ptx: tuple[Version, ...] | None = field(default=None, metadata={"key": "ptx"})
    written_least: Version | None = field(default=None, metadata={"key": "least"})
    cuda: Version | None = field(default=None, metadata={"key": "library"})
    driver: Version | None = None
    ptx_driver: Version | None = None
    cpu: str = ""
    is_verified: bool = True
    is_on_cpu: bool = False
    is_for_others: bool = field(default=False, metadata={"key": "others"})

    @cached_property
    def code(self) -> tuple[Version, ...]:
        return self.only or tuple(parse_version(text.rstrip("a")) for text in self.written)

    @cached_property
    def exact(self) -> tuple[Version, ...]:
        return self.only or tuple(parse_version(text[:-1]) for text in self.written if text.endswith("a"))

    @cached_property
    def ptx(self) -> tuple[Version, ...] | None:
        return () if self.only else self.written_ptx

    @cached_property
    def least(self) -> Version | None:
        """The least compute capability of all its code; None if that is not known."""
        return self.written_least or min((*self.code, *(self.ptx or ())), default=None)

    def is_in(self, tag: str, cuda: Version | None) -> bool:
        """Whether an image has it whose name says this tag and this CUDA."""
        found = self.tags.fullmatch(tag)
        if found is None or (self.cudas and (cuda is None or cuda.cut(2) not in self.cudas)):
            return False
        if self.first is None or self.last is None:
            return True
        release = found.groupdict().get("release")
        version = parse_version(release) if release else version_of(tag)
        return version is not None and is_between(version, self.first, self.last)

    def way(self, compute: Version) -> Way:
        if any(compute == one or (one not in self.exact and _is_served(compute, one)) for one in self.code):
            return Way.CODE
        if compute in _ON_BOARDS:
            return Way.UNKNOWN
        if any(compute.at_least(one) for one in self.ptx or ()):
            return Way.PTX
        is_open = self.ptx is None and (self.least is None or compute.at_least(self.least))
        return Way.UNKNOWN if is_open else Way.NONE


def _is_served(compute: Version, code: Version) -> bool:
    return compute.major == code.major and compute.at_least(code) and _ON_BOARDS.isdisjoint((compute, code))


BUILT: dict[str, tuple[Library, ...]] = {}
"""The libraries of all releases of every image that the table has, by the last two parts of its path."""
for _group in read_table(DATA / "compiled.yaml")["compiled"]:
    _common = {key: _group[key] for key in ("tags", "cpu") if key in _group}
    _rows = read_rows(Library, [{**_common, **row} for row in _group["releases"]], "compiled.yaml")
    BUILT |= {image: BUILT.get(image, ()) + _rows for image in _group["images"]}


def libraries_in(parts: tuple[str, ...], tag: str, cuda: Version | None) -> tuple[Library, ...]:
    """The libraries of an image, by the parts of its path, its tag and the CUDA that these say; empty if not known."""
    return tuple(one for one in BUILT.get("/".join(parts[-2:]), ()) if one.is_in(tag, cuda))
