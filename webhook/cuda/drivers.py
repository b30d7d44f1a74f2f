"""Which driver each CUDA toolkit needs on Linux, what the drivers of each branch report, and which GPUs both know.

The rows are in `data/toolkits.yaml`, `data/drivers.yaml` and `data/compute_capabilities.yaml`, each with its source.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar

from webhook.model.versions import Version, parse_version
from webhook.yaml_files.shipped_tables import read_rows

_Row = TypeVar("_Row")


def _merged(known: Iterable[_Row], added: Iterable[_Row], key: Callable[[_Row], Any]) -> tuple[_Row, ...]:
    """The rows of both in order; an added row replaces the known row with its key."""
    rows = {key(row): row for rows in (known, added) for row in rows}
    return tuple(rows[at] for at in sorted(rows))


@dataclass(frozen=True, slots=True)
class Toolkit:
    """A release of CUDA, and the driver from which it runs with all its features, which may be a branch alone.

    `build` is the third number that NVIDIA's own containers use for early releases, such as 11.0.167 for 11.0.1.
    """

    cuda: Version
    driver: Version
    is_verified: bool = True
    build: int | None = None

    @property
    def has_exact_driver(self) -> bool:
        return len(self.driver.parts) > 1


@dataclass(frozen=True, slots=True)
class Floor:
    """Minor-version compatibility: from `driver` on, every release of the major version runs.

    Every driver that reports CUDA `reported` or newer is at least `driver`.
    """

    major: int
    driver: Version
    reported: Version


@dataclass(frozen=True, slots=True)
class Threshold:
    """The drivers that run a CUDA version: none older than `low`, all from `high` on.

    The two differ if the version may stand for several releases, or if the floor of its major version is not known.
    """

    low: Version
    high: Version


@dataclass(frozen=True, eq=False)
class Toolkits:
    """The known releases of CUDA, in order, and by major version the floors of minor-version compatibility.

    CUDA 10 and older have no floor; a release of 11.0 also runs from its own row on, which is below the floor.
    """

    rows: tuple[Toolkit, ...]
    floors: Mapping[int, Floor]

    def merged(self, rows: Iterable[Toolkit], floors: Iterable[Floor]) -> "Toolkits":
        builds = {row.cuda.parts: row.build for row in self.rows}
        added = (replace(row, build=row.build or builds.get(row.cuda.parts)) for row in rows)
        together = _merged(self.rows, added, lambda row: row.cuda.parts)
        return Toolkits(together, {**self.floors, **{floor.major: floor for floor in floors}})

    @property
    def newest(self) -> Version:
        return self.rows[-1].cuda

    @cached_property
    def minors(self) -> tuple[Version, ...]:
        """The known versions as two numbers, in order."""
        return tuple(dict.fromkeys(toolkit.cuda.cut(2) for toolkit in self.rows))

    @cached_property
    def released(self) -> frozenset[str]:
        return frozenset(str(toolkit.cuda) for toolkit in self.rows)

    def native_driver(self, cuda: Version) -> Version | None:
        """The driver from which all features of a CUDA version work; None for a version that the table lacks.

        The first of several releases counts. The result is a bare branch if no more is known.
        """
        rows = self.toolkits_of(cuda)
        return rows[0].driver if rows else None

    def toolkits_of(self, cuda: Version) -> tuple[Toolkit, ...]:
        """The releases that a CUDA version may stand for: 11.0.194 is 11.0.2.

        An unknown release counts as the nearest older release of its minor version.
        """
        known = cuda.parts[:2]
        rows = tuple(toolkit for toolkit in self.rows if toolkit.cuda.parts[: len(known)] == known)
        if len(cuda.parts) < 3:
            return rows
        patch = cuda.parts[2]
        named = tuple(toolkit for toolkit in rows if patch in (toolkit.cuda.parts[2], toolkit.build))
        older = tuple(toolkit for toolkit in rows if toolkit.cuda.parts[2] < patch)
        return named or older[-1:] or rows

    def threshold_of(self, cuda: Version) -> Threshold | None:
        """The drivers that run a CUDA version without cuda-compat: from 525.60.13 on for 12.4.1.

        None for CUDA 11 or newer if the table lacks the major version.
        """
        own = [toolkit.driver for toolkit in self.toolkits_of(cuda) if toolkit.has_exact_driver]
        floor = self.floors.get(cuda.major)
        if floor is not None:
            enough = [min(driver, floor.driver) for driver in own] or [floor.driver]
        elif cuda.major > min(self.floors):
            return self._without_floor(cuda.major, own)
        elif own:
            enough = own
        else:  # the driver of the next release; none is too old for a version that is older than the table
            after = next(row.driver for row in self.rows if row.has_exact_driver and cuda < row.cuda)
            enough = [after] if cuda.at_least(self.rows[0].cuda) else [Version((0,)), after]
        return Threshold(min(enough), max(enough))

    def _without_floor(self, major: int, own: list[Version]) -> Threshold | None:
        """The drivers of a major version whose floor is not known.

        Drivers older than its first release's are too old. If that release is not known, no driver is too old.
        """
        if not own:
            return None
        first = next(toolkit for toolkit in self.rows if toolkit.cuda.major == major)
        low = first.driver if first.cuda.minor == 0 and first.has_exact_driver else Version((0,))
        return Threshold(min(low, *own), max(own))


def last_of(branch: int) -> Version:
    """A version that stands for the newest driver of a branch."""
    return Version((branch, 999))


ENDED = "ended"
"""The end of a branch that is over, if the month is not known."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A driver branch and the newest CUDA that its drivers report (nvidia.com/cuda.runtime-version.*).

    `support` is NVIDIA's name for the kind of branch. `end` is the month of its last release, such as 2028-06: empty if
    unknown, ENDED if only that is known. `note` is a remark for people.
    """

    number: int = field(metadata={"key": "branch"})
    cuda: Version
    support: str = ""
    end: str = field(default="", metadata={"key": "ends"})
    source: str = ""
    note: str = ""

    def has_ended(self, now: float) -> bool | None:
        """Whether the branch gets no more releases at a moment in seconds since 1970; None if that is not known.

        The last month counts to its end, by UTC.
        """
        if not self.end:
            return None
        return self.end == ENDED or self.end < f"{datetime.fromtimestamp(now, UTC):%Y-%m}"


@dataclass(frozen=True, eq=False)
class Drivers:
    """The known driver branches, in order."""

    rows: tuple[Branch, ...]

    def merged(self, rows: Iterable[Branch]) -> "Drivers":
        return Drivers(_merged(self.rows, rows, lambda row: row.number))

    @property
    def newest(self) -> int:
        return self.rows[-1].number

    def reported_by(self, driver: Version) -> Version | None:
        """The newest CUDA that a driver reports, such as 12.4 for 550.54.15; None for a branch that the table lacks."""
        branch = self.branch(driver.major)
        return None if branch is None else branch.cuda

    def branch(self, number: int) -> Branch | None:
        return self._by_number.get(number)

    @cached_property
    def _by_number(self) -> Mapping[int, Branch]:
        return {branch.number: branch for branch in self.rows}

    def has_ended(self, number: int, now: float) -> bool | None:
        known = self.branch(number)
        return None if known is None else known.has_ended(now)

    def is_before(self, driver: Version, major: int) -> bool:
        """Whether a driver certainly reports an older CUDA than this major version, because a newer branch does."""
        return any(row.number >= driver.major and row.cuda.major < major for row in self.rows)

    def branches_reporting(self, cuda: Version) -> tuple[int, ...]:
        """The branches whose drivers report this CUDA, such as 418 and 430 for 10.1; empty if the table lacks it.

        For a CUDA that is newer than the table, the number after the newest branch stands for all newer branches.
        """
        if not self.rows[-1].cuda.at_least(cuda):
            return (self.newest + 1,)
        return tuple(branch.number for branch in self.rows if branch.cuda.parts == cuda.parts[:2])


@dataclass(frozen=True, slots=True)
class Generation:
    """GPUs of one compute capability, and the driver branches that support them. None stands for no bound.

    `first_cuda` is the first CUDA with code for them; only rows of platforms say it here.
    """

    compute: Version
    family: str
    first_branch: int | None = None
    last_branch: int | None = None
    is_verified: bool = True
    first_cuda: Version | None = None


@dataclass(frozen=True, slots=True)
class FirstCuda:
    """The first CUDA with code for a GPU: not before `possible`, and not after `sure`, which is None if not known."""

    possible: Version
    sure: Version | None


@dataclass(frozen=True, eq=False)
class ComputeCapabilities:
    """The known compute capabilities, in order, and what CUDA has code for them.

    `firsts` has the first CUDA by the numbers of a compute capability, or by its major number alone. `least_by_cuda` is
    the least compute capability for which each major version of CUDA has code.
    """

    rows: tuple[Generation, ...]
    firsts: Mapping[tuple[int, ...], FirstCuda]
    least_by_cuda: Mapping[int, Version]

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "ComputeCapabilities":
        firsts = {
            (row["major"],) if "major" in row else parse_version(row["compute"]).parts: FirstCuda(
                parse_version(row["cuda"]), parse_version(row.get("sure", row["cuda"]))
            )
            for row in (*table["firstCuda"], *table["firstCudaOf"])
        }
        least = {row["cuda"]: parse_version(row["compute"]) for row in table["leastCompute"]}
        return cls(read_rows(Generation, table["capabilities"], "compute_capabilities.yaml"), firsts, least)

    def merged(self, rows: Iterable[Generation]) -> "ComputeCapabilities":
        added = tuple(rows)
        firsts = {row.compute.parts: FirstCuda(row.first_cuda, row.first_cuda) for row in added if row.first_cuda}
        together = _merged(self.rows, added, lambda row: row.compute.parts)
        return ComputeCapabilities(together, {**self.firsts, **firsts}, self.least_by_cuda)

    def generation_of(self, compute: Version) -> Generation | None:
        return next((row for row in self.rows if row.compute == compute), None)

    def least_compute(self, cuda: Version) -> Version | None:
        """The least compute capability that a CUDA version supports; None for a version older than the table.

        CUDA only ever drops support, so a newer major version needs at least what the newest known one needs.
        """
        return self.least_by_cuda.get(min(cuda.major, max(self.least_by_cuda)))

    def first_cuda(self, compute: Version, newest: Version) -> FirstCuda | None:
        """The first CUDA with code for a GPU; None for old GPUs that the table lacks.

        No known toolkit, up to `newest`, has code for GPUs that are newer than the table.
        """
        known = self.firsts.get(compute.parts)
        if known is None and compute.major > max(parts[0] for parts in self.firsts if len(parts) == 1):
            return FirstCuda(newest.cut(2), None)
        return known or self.firsts.get((compute.major,))
