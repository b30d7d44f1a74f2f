"""The monthly releases of NVIDIA's framework containers (NGC), and the CUDA that each is built with.

pytorch, tensorflow, tritonserver, jax, mxnet and cuda-dl-base of one month share one base. A month that is not in the
table has no answer: neither its CUDA nor its compute capabilities follow from its neighbours. The rows are in
`data/ngc.yaml`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from webhook.cuda import DATA
from webhook.model.versions import Version, parse_version
from webhook.yaml_files.shipped_tables import read_table

UNREAD = "unverified"
"""Source of a month of which nobody has read the release notes."""

_OLDEST_FLOOR = "6.0"
"""The least compute capability of a month that says nothing else."""

_MONTH = re.compile(r"([12][0-9]\.(?:0[1-9]|1[0-2]))(?:\.[0-9]{1,2})?(?![0-9.])", re.ASCII)


@dataclass(frozen=True)
class Release:
    """One month: the CUDA of its images and the least compute capability that its release notes support.

    `floor_source` is UNREAD where nobody has read the floor; it then lies between `certain_floor` and `floor`.
    """

    month: str
    cuda_text: str
    source: str
    floor_text: str
    floor_source: str
    certain_floor_text: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Release":
        """A row as tables write it."""
        floor_source = "" if row.get("floorVerified", True) else UNREAD
        source = _SOURCES.get(row["source"], row["source"])
        floor, certain = row.get("floor", _OLDEST_FLOOR), row.get("certainFloor", "")
        return cls(row["month"], row["cuda"], source, floor, floor_source, certain)

    @cached_property
    def cuda(self) -> Version:
        """The CUDA version."""
        return parse_version(self.cuda_text)

    @cached_property
    def floor(self) -> Version:
        """The least compute capability."""
        return parse_version(self.floor_text)

    @cached_property
    def certain_floor(self) -> Version | None:
        """A compute capability below which the images certainly do not run, where `floor` is in doubt."""
        return parse_version(self.certain_floor_text) if self.certain_floor_text else None

    @property
    def is_verified(self) -> bool:
        """Whether somebody has read which CUDA it has."""
        return self.source != UNREAD

    @property
    def is_floor_verified(self) -> bool:
        """Whether somebody has read which compute capability it needs."""
        return UNREAD not in (self.source, self.floor_source)


_TABLE = read_table(DATA / "ngc.yaml")
_SOURCES: Mapping[str, str] = _TABLE["sources"]

RELEASES: tuple[Release, ...] = tuple(map(Release.of, _TABLE["months"]))
"""All that are known, in order."""

TRITON_TRTLLM: Mapping[str, str] = {row["month"]: row["cuda"] for row in _TABLE["tritonTrtllm"]}
"""CUDA of tritonserver:YY.MM-trtllm-python-py3, which has a base of its own; other months are unknown."""

TRITON_VLLM: Mapping[str, str] = {row["month"]: row["cuda"] for row in _TABLE["tritonVllm"]}
"""CUDA of tritonserver:YY.MM-vllm-python-py3 where it is not that of the month."""

_LAST_READ: str = _TABLE["lastRead"]
"""Of later months nobody has read whether they differ."""

_BY_MONTH: Mapping[str, Release] = {release.month: release for release in RELEASES}


def month_of(text: str) -> str | None:
    """The month at the beginning of a tag or in a variable of an image, None where none stands there.

    >>> month_of("24.09-py3"), month_of("20.03.1-py3"), month_of("2.41.0"), month_of("24.13")
    ('24.09', '20.03', None, None)
    """
    found = _MONTH.match(text)
    return found[1] if found else None


def release_of(month: str) -> Release | None:
    """The release of a month such as 24.09, None where the table does not know it."""
    return _BY_MONTH.get(month)


def cuda_of(month: str, tag: str) -> tuple[Version | None, bool]:
    """The CUDA of an image of that month with this tag, None where unknown, and whether somebody has read it.

    Variants of tritonserver may have a base of their own.

    >>> str(cuda_of("24.07", "24.07-py3")[0]), str(cuda_of("24.07", "24.07-trtllm-python-py3")[0])
    ('12.5.1', '12.4.1')
    """
    if "-trtllm" in tag:
        text = TRITON_TRTLLM.get(month)
        return parse_version(text) if text else None, True
    if "-vllm" in tag and month in TRITON_VLLM:
        return parse_version(TRITON_VLLM[month]), True
    release = _BY_MONTH.get(month)
    is_read = "-vllm" not in tag or month <= _LAST_READ
    return (release.cuda, release.is_verified and is_read) if release else (None, True)
