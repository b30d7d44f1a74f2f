"""Which GPUs the code in an image runs on, by release: an image may bring several libraries, and needs one that serves.

The rows are in `data/compiled.yaml`. Machine code for X.Y runs on X.Z where Z is not less. PTX runs on every newer GPU,
but only with the driver of its own CUDA, because minor-version compatibility does not cover it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from webhook.cuda import DATA
from webhook.cuda.releases import is_between, version_of
from webhook.model.versions import Version, parse_version
from webhook.yaml_files.shipped_tables import read_rows, read_table

_ON_BOARDS = frozenset(map(parse_version, ("5.3", "6.2", "7.2", "8.7", "10.1", "11.0")))
"""Compute capabilities of Jetson and Drive, to which the rule about X.Z does not apply."""


class Way(Enum):
    """How a library runs on a GPU."""

    CODE = auto()
    PTX = auto()
    UNKNOWN = auto()
    NONE = auto()


@dataclass(frozen=True, slots=True)
class Library:
    """The GPU code of one build, and the images that have it: from release `first` to `last`, with a tag like `tags`.

    `code` are the compute capabilities with machine code, `exact` those whose code runs on no other GPU. `ptx` is None
    if it is not known whether there is PTX. `least` is the least compute capability of all code. `driver` is the least
    driver because the code is compressed, `ptx_driver` the least one that compiles its PTX. `cudas` are the CUDA
    versions of the images, `cuda` that of the library if it is another one, `cpu` the processor; empty and None stand
    for any. With `is_on_cpu`, the program computes on the CPU if no library serves; with `is_for_others`, it also
    brings code for GPUs of other vendors.
    """

    tags: re.Pattern[str]
    first: Version | None
    last: Version | None
    cudas: frozenset[Version]
    code: tuple[Version, ...]
    exact: frozenset[Version]
    ptx: tuple[Version, ...] | None
    least: Version | None
    cuda: Version | None
    driver: Version | None
    ptx_driver: Version | None
    cpu: str
    is_verified: bool
    is_on_cpu: bool
    is_for_others: bool

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Library":
        """Read a row of the table, with what its list says for all rows."""
        written = row.get("only", row.get("code", "")).split()
        code = tuple(parse_version(one.rstrip("a")) for one in written)
        exact = code if "only" in row else [one for one, text in zip(code, written, strict=True) if text.endswith("a")]
        ptx = tuple(map(parse_version, row["ptx"].split())) if "ptx" in row else () if "only" in row else None
        keys = ("from", "to", "library", "driver", "ptxDriver", "least")
        first, last, cuda, driver, ptx_driver, least = (parse_version(row[key]) if key in row else None for key in keys)
        return cls(
            re.compile(row.get("tags", ".*"), re.ASCII),
            first,
            last,
            frozenset(map(parse_version, row.get("cuda", "").split())),
            code,
            frozenset(exact),
            ptx,
            least or min((*code, *(ptx or ())), default=None),
            cuda,
            driver,
            ptx_driver,
            row.get("cpu", ""),
            row.get("verified", True),
            row.get("onCpu", False),
            row.get("others", False),
        )

    def is_in(self, tag: str, cuda: Version | None) -> bool:
        """Whether an image with this tag has it, whose name says this CUDA."""
        found = self.tags.fullmatch(tag)
        if found is None or (self.cudas and (cuda is None or cuda.cut(2) not in self.cudas)):
            return False
        if self.first is None or self.last is None:
            return True
        release = found.groupdict().get("release")
        version = parse_version(release) if release else version_of(tag)
        return version is not None and is_between(version, self.first, self.last)

    def way(self, compute: Version) -> Way:
        """How it runs on GPUs of a compute capability."""
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


def _built() -> Mapping[str, tuple[Library, ...]]:
    """The last two parts of a path -> the libraries of all releases."""
    found: dict[str, tuple[Library, ...]] = {}
    for group in read_table(DATA / "compiled.yaml")["compiled"]:
        common = {key: group[key] for key in ("tags", "cpu") if key in group}
        rows = read_rows(Library.of, [{**common, **row} for row in group["releases"]], "compiled.yaml")
        found |= {image: found.get(image, ()) + rows for image in group["images"]}
    return found


BUILT: Mapping[str, tuple[Library, ...]] = _built()
"""The libraries of every image that the table has, by the last two parts of its path."""


def libraries_in(parts: tuple[str, ...], tag: str, cuda: Version | None) -> tuple[Library, ...]:
    """The libraries with GPU code in an image, by its name; empty if the table lacks its release."""
    return tuple([library for library in BUILT.get("/".join(parts[-2:]), ()) if library.is_in(tag, cuda)])
