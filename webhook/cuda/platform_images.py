"""What a platform says of images, by globs of their names: which CUDA they need, and what they bring for other drivers.

Tenants choose the names that are compared, so looking one up takes a time that is linear in its length and in the
number of globs.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.cuda.kernels import Kernels
from webhook.cuda.need import Compat
from webhook.model.globs import is_glob, matcher
from webhook.model.versions import Version, parse_version


@dataclass(frozen=True, slots=True)
class PlatformImage:
    """What is said of the images that a glob matches; what nothing is said of is None.

    `cuda` is the CUDA version that they need, `is_cpu_only` whether they need none. `compat` is whether they have the
    cuda-compat package, `kernels` whether their code has PTX.
    """

    glob: str
    cuda: Version | None = None
    is_cpu_only: bool = False
    compat: Compat | None = None
    kernels: Kernels | None = None
    source: str = ""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "PlatformImage":
        """A row as tables write it."""
        cuda, compat, ptx = row.get("cuda"), row.get("compat"), row.get("ptx")
        return cls(
            row["image"],
            None if cuda is None else parse_version(cuda),
            row.get("cpuOnly", False),
            None if compat is None else Compat.YES if compat else Compat.NO,
            None if ptx is None else Kernels.WITH_PTX if ptx else Kernels.WITHOUT_PTX,
            row["source"],
        )

    @property
    def needs(self) -> str:
        """The CUDA version that they need, `none`, or nothing where that is not said."""
        return "none" if self.is_cpu_only else str(self.cuda or "")


@dataclass(frozen=True, eq=False)
class PlatformImages:
    """The rows of a platform. A name itself beats every glob, and a longer glob a shorter one."""

    rows: tuple[PlatformImage, ...] = ()
    _exact: Mapping[str, PlatformImage] = field(init=False, repr=False)
    _globs: tuple[tuple[str, re.Pattern[str], PlatformImage], ...] = field(init=False, repr=False)
    _beginnings: tuple[str, ...] = field(init=False, repr=False)
    """What stands before the first star or question mark of each glob."""

    def __post_init__(self) -> None:
        exact = {row.glob: row for row in self.rows if not is_glob(row.glob)}
        ranked = sorted((row for row in self.rows if is_glob(row.glob)), key=lambda row: (-len(row.glob), row.glob))
        globs = ((re.split(r"[*?]", row.glob, maxsplit=1)[0], matcher(row.glob), row) for row in ranked)
        object.__setattr__(self, "_exact", exact)
        object.__setattr__(self, "_globs", tuple(globs))
        object.__setattr__(self, "_beginnings", tuple({beginning for beginning, _, _ in self._globs}))

    def named(self, names: Collection[str]) -> PlatformImage | None:
        """The row of an image that has all these names; None where no row is about it."""
        exact = [row for name in sorted(names) if (row := self._exact.get(name)) is not None]
        if exact:
            return max(exact, key=lambda row: len(row.glob))
        eligible = [name for name in names if name.startswith(self._beginnings)]
        for beginning, glob, row in self._globs if eligible else ():
            for name in eligible:
                if name.startswith(beginning) and glob.fullmatch(name):
                    return row
        return None


NO_IMAGES = PlatformImages()
"""What a platform says that says nothing."""
