"""Which CUDA and which drivers run on a GPU, by its compute capability.

Sources: ARCH, the page "CUDA Toolkit, Driver, and Architecture Matrix" of the data-centre driver documentation;
CUDAJL, the compatibility tables of CUDA.jl; BWCG, the Blackwell compatibility guide (code for X.Y runs on X.Z, Z >= Y,
and on no other major version, so the first toolkit of the major version counts). What is in none is unverified.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from webhook.cuda.toolkits import NEWEST
from webhook.model.versions import Version, parse_version


@dataclass(frozen=True, slots=True)
class Generation:
    """GPUs of one compute capability, and the driver branches that drive them; None where there is no bound."""

    compute: Version
    family: str
    first_branch: int | None = None
    last_branch: int | None = None
    is_first_verified: bool = True


def _row(
    compute: str, family: str, first: int | None = None, last: int | None = None, *, verified: bool = True
) -> Generation:
    return Generation(parse_version(compute), family, first, last, verified)


GENERATIONS: tuple[Generation, ...] = (
    _row("3.5", "kepler", last=470),
    _row("3.7", "kepler", last=470),
    _row("5.0", "maxwell", last=580),
    _row("5.2", "maxwell", last=580),
    _row("6.0", "pascal", last=580),
    _row("6.1", "pascal", last=580),
    _row("7.0", "volta", last=580),
    _row("7.5", "turing", 410),
    _row("8.0", "ampere", 450),
    _row("8.6", "ampere", 455),
    _row("8.7", "ampere"),
    _row("8.9", "ada-lovelace", 520),
    _row("9.0", "hopper", 520),
    _row("10.0", "blackwell", 570),
    _row("10.3", "blackwell", 575, verified=False),
    _row("10.7", "rubin", 615),
    _row("11.0", "blackwell"),
    _row("12.0", "blackwell", 570),
    _row("12.1", "blackwell", 580, verified=False),
)
"""Every known compute capability, in order. Source: ARCH; 8.7 and 11.0 are Jetson."""

_BY_COMPUTE = {row.compute.parts: row for row in GENERATIONS}


@dataclass(frozen=True, slots=True)
class First:
    """The first CUDA with code for a GPU: none older than `possible`, all from `sure` on; None where not known."""

    possible: Version
    sure: Version | None


def _first(possible: str, sure: str | None = None) -> First:
    return First(parse_version(possible), parse_version(sure or possible))


FIRST_BY_MAJOR: Mapping[int, First] = {
    3: _first("5.0"),
    5: _first("6.0"),
    6: _first("8.0"),
    7: _first("9.0"),
    8: _first("11.0"),
    9: _first("11.8"),
    10: _first("12.8"),
    11: _first("12.8", "13.0"),
    12: _first("12.8"),
}
"""By major compute capability. Source: ARCH, CUDAJL. CUDA 12.8 and 12.9 know 11.0 under its former number 10.1."""

FIRST_BY_COMPUTE: Mapping[tuple[int, ...], First] = {(10, 7): _first("12.8", "13.4")}
"""Exceptions. Toolkits know 10.7 from 13.4 on; whether older code for 10.0 runs there, nobody has said."""

LEAST_BY_CUDA: Mapping[int, Version] = {
    10: parse_version("3.0"),
    11: parse_version("3.5"),
    12: parse_version("5.0"),
    13: parse_version("7.5"),
}
"""The least compute capability that each major version of CUDA has code for. Source: ARCH, CUDAJL."""


def least_compute(cuda: Version) -> Version | None:
    """The least compute capability that a CUDA version runs on; None where the table does not reach back.

    Support is only ever dropped, so a newer major version needs what the newest known one needs, or more.
    """
    return LEAST_BY_CUDA.get(min(cuda.major, max(LEAST_BY_CUDA)))


@lru_cache(maxsize=256)
def first_cuda(compute: Version) -> First | None:
    """The first CUDA with code for a GPU; None for old GPUs that the table lacks.

    No known toolkit has code for GPUs newer than the table.
    """
    if compute.major > max(FIRST_BY_MAJOR):
        return First(NEWEST.cut(2), None)
    return FIRST_BY_COMPUTE.get(compute.parts) or FIRST_BY_MAJOR.get(compute.major)


def generation_of(compute: Version) -> Generation | None:
    """The row of a compute capability; None where there is none."""
    return _BY_COMPUTE.get(compute.parts)
