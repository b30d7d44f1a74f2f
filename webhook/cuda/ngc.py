"""The monthly releases of NVIDIA's framework containers (NGC), and the CUDA that each is built with.

pytorch, tensorflow, tritonserver, jax, mxnet and cuda-dl-base of one month share one base. A month that is not in the
table has no answer: neither its CUDA nor its compute capabilities follow from its neighbours.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from webhook.model.versions import Version, parse_version

NOTES = "release notes of the month"
"""docs.nvidia.com/deeplearning/<framework>/release-notes/rel-YY-MM.html"""
TRITON = "compatibility table of tritonserver"
"""github.com/triton-inference-server/server, docs/introduction/compatibility.md (2026-08)"""
QUOTED = "release notes of the month, as others quote them"
UNREAD = "unverified"
"""Known from memory or from its neighbours; nobody has read the release notes."""

_MONTH = re.compile(r"([12][0-9]\.(?:0[1-9]|1[0-2]))(?:\.[0-9]{1,2})?(?![0-9.])", re.ASCII)


@dataclass(frozen=True)
class Release:
    """One month: the CUDA of its images and the least compute capability that its release notes support.

    `floor_source` is UNREAD where nobody has read the floor; it then lies between `certain_floor` and `floor`.
    """

    month: str
    cuda_text: str
    source: str
    floor_text: str = "6.0"
    floor_source: str = ""
    certain_floor_text: str = ""

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


RELEASES: tuple[Release, ...] = (
    Release("19.11", "10.2.89", NOTES),
    Release("20.01", "10.2.89", NOTES),
    Release("20.02", "10.2.89", NOTES),
    Release("20.03", "10.2.89", NOTES),
    Release("20.06", "11.0.167", NOTES),
    Release("20.07", "11.0.194", NOTES),
    Release("20.08", "11.0.3", NOTES),
    Release("20.09", "11.0.3", NOTES),
    Release("20.10", "11.1.0", NOTES),
    Release("20.11", "11.1.0", NOTES),
    Release("20.12", "11.1.1", NOTES),
    Release("21.02", "11.2.0", NOTES),
    Release("21.03", "11.2.1", NOTES),
    Release("21.04", "11.3.0", NOTES),
    Release("21.05", "11.3.0", NOTES),
    Release("21.06", "11.3.1", UNREAD),
    Release("21.07", "11.4.0", UNREAD),
    Release("21.08", "11.4.1", UNREAD),
    Release("21.09", "11.4.2", NOTES),
    Release("21.10", "11.4.2", QUOTED),
    Release("21.11", "11.5.0", NOTES),
    Release("21.12", "11.5.0", UNREAD),
    Release("22.01", "11.6.0", NOTES),
    Release("22.02", "11.6.0", NOTES),
    Release("22.03", "11.6.1", NOTES),
    Release("22.04", "11.6.2", UNREAD),
    Release("22.05", "11.7.0", NOTES),
    Release("22.06", "11.7.1", NOTES),
    Release("22.07", "11.7.1", UNREAD),
    Release("22.08", "11.7.1", NOTES),
    Release("22.09", "11.8.0", NOTES),
    Release("22.10", "11.8.0", NOTES),
    Release("22.11", "11.8.0", NOTES),
    Release("22.12", "11.8.0", NOTES),
    Release("23.01", "12.0.1", NOTES),
    Release("23.02", "12.0.1", QUOTED),
    Release("23.03", "12.1.0", QUOTED),
    Release("23.04", "12.1.0", NOTES),
    Release("23.05", "12.1.1", NOTES),
    Release("23.06", "12.1.1", NOTES),
    Release("23.07", "12.1.1", NOTES),
    Release("23.08", "12.2.1", NOTES),
    Release("23.09", "12.2.1", NOTES),
    Release("23.10", "12.2.2", UNREAD),
    Release("23.11", "12.3.0", NOTES),
    Release("23.12", "12.3.2", NOTES),
    Release("24.01", "12.3.2", NOTES),
    Release("24.02", "12.3.2", UNREAD),
    Release("24.03", "12.4.0", NOTES),
    Release("24.04", "12.4.1", TRITON),
    Release("24.05", "12.4.1", NOTES),
    Release("24.06", "12.5.0", TRITON),
    Release("24.07", "12.5.1", TRITON),
    Release("24.08", "12.6.0", TRITON),
    Release("24.09", "12.6.1", TRITON),
    Release("24.10", "12.6.2", NOTES),
    Release("24.11", "12.6.3", TRITON, "7.5", UNREAD, "6.0"),
    Release("24.12", "12.6.3", NOTES, "7.5", UNREAD, "6.0"),
    Release("25.01", "12.8.0", NOTES, "7.5"),
    Release("25.02", "12.8.0", TRITON, "7.5", UNREAD),
    Release("25.03", "12.8.1", NOTES, "7.5"),
    Release("25.04", "12.9.0", TRITON, "7.5"),
    Release("25.05", "12.9.0", TRITON, "7.5"),
    Release("25.06", "12.9.1", NOTES, "7.5"),
    Release("25.07", "12.9.1", UNREAD, "7.5"),
    Release("25.08", "13.0.0", NOTES, "7.5"),
    Release("25.09", "13.0.1", TRITON, "7.5"),
    Release("25.10", "13.0.2", NOTES, "7.5"),
    Release("25.11", "13.0.2", TRITON, "7.5"),
    Release("25.12", "13.1.0", TRITON, "7.5"),
    Release("26.01", "13.1.1", TRITON, "7.5"),
    Release("26.02", "13.1.1", NOTES, "7.5"),
    Release("26.03", "13.2.0", NOTES, "7.5"),
    Release("26.04", "13.2.1", TRITON, "7.5"),
    Release("26.05", "13.2.1", TRITON, "7.5"),
    Release("26.06", "13.3.0", NOTES, "7.5"),
    Release("26.07", "13.3.0", TRITON, "7.5"),
    Release("26.08", "13.4.1", NOTES, "7.5"),
    Release("26.09", "13.4.1", NOTES, "7.5"),
    Release("26.10", "13.4.3", NOTES, "7.5"),
)
"""All that are known, in order. 20.04, 20.05 and 21.01 were never released on this base. Triton's notes of 24.12 say
compute capability 6.0, those of 25.01 say 7.5; what the other frameworks of 24.11 and 24.12 support nobody has read."""

TRITON_TRTLLM: Mapping[str, str] = {
    "24.04": "12.3.2",
    "24.05": "12.3.2",
    "24.06": "12.4.0",
    "24.07": "12.4.1",
    "24.08": "12.5.1",
    "24.09": "12.5.1",
    "24.10": "12.5.1",
    "24.11": "12.6.3",
    "24.12": "12.6.3",
    "25.01": "12.8.0",
    "25.02": "12.8.0",
    "25.03": "12.8.1",
    "25.04": "12.8.1",
    "25.05": "12.8.1",
    "25.06": "12.9.0",
    "25.07": "12.9.0",
    "25.08": "12.9.0",
    "25.09": "12.9.1",
    "25.10": "12.9.1",
    "25.11": "13.0.2",
    "25.12": "13.0.2",
    "26.01": "13.0.2",
    "26.02": "13.0.2",
    "26.03": "13.1.0",
    "26.04": "13.1.0",
    "26.05": "13.1.0",
    "26.06": "13.1.0",
    "26.07": "13.1.0",
}
"""CUDA of tritonserver:YY.MM-trtllm-python-py3, which has a base of its own (TRITON); other months are unknown."""

TRITON_VLLM: Mapping[str, str] = {"25.06": "12.9.0", "25.07": "12.9.0", "25.08": "13.0.1"}
"""CUDA of tritonserver:YY.MM-vllm-python-py3 where it is not that of the month (TRITON)."""

_LAST_READ = "26.08"
"""The last month of that table in the server's branch r26.08. Of later ones nobody has read whether they differ."""

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
