"""Which driver each CUDA toolkit needs on Linux, and which CUDA the drivers of each branch report.

The rows are in `data/toolkits.yaml` and `data/drivers.yaml`, each with its source.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from webhook.model.versions import Version, parse_version

_KEPT = 1024
"""Versions for which a table keeps its answer. Tenants write versions, so the number is bounded."""


@dataclass(frozen=True, slots=True)
class Toolkit:
    """A release of CUDA, and the driver from which it runs with all its features.

    `driver` is None if only the branch is known. `build` is the third number that NVIDIA's own containers use for early
    releases, such as 11.0.167 for 11.0.1.
    """

    cuda: Version
    driver: Version | None
    branch: int
    source: str
    is_verified: bool = True
    build: int | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Toolkit":
        """Read a row of the table. A driver with one number is a branch."""
        least = parse_version(row["driver"])
        driver = least if len(least.parts) > 1 else None
        cuda, is_verified = parse_version(row["cuda"]), row.get("verified", True)
        return cls(cuda, driver, least.major, row["source"], is_verified, row.get("build"))


@dataclass(frozen=True, slots=True)
class Floor:
    """Minor-version compatibility: from `driver` on, every release of the major version runs.

    Every driver that reports CUDA `reported` or newer is at least `driver`.
    """

    driver: Version
    reported: Version
    source: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Floor":
        """Read a row of the table."""
        return cls(parse_version(row["driver"]), parse_version(row["reported"]), row["source"])


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
    newest: Version = field(init=False)
    """The newest known release."""
    minors: tuple[Version, ...] = field(init=False)
    """The known versions as two numbers, in order."""
    released: frozenset[str] = field(init=False)
    """The known releases as texts."""
    toolkits_of: Callable[[Version], tuple[Toolkit, ...]] = field(init=False, repr=False)
    """The releases that a CUDA version may stand for: 11.0.194 is 11.0.2. An unknown release counts as the nearest
    older release of its minor version."""
    threshold_of: Callable[[Version], Threshold | None] = field(init=False, repr=False)
    """The drivers that run a CUDA version without cuda-compat: from 525.60.13 on for 12.4.1. None for CUDA 11 or newer
    if the table lacks the major version."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "newest", self.rows[-1].cuda)
        minors = dict.fromkeys(toolkit.cuda.cut(2) for toolkit in self.rows)
        object.__setattr__(self, "minors", tuple(minors))
        object.__setattr__(self, "released", frozenset(str(toolkit.cuda) for toolkit in self.rows))
        object.__setattr__(self, "toolkits_of", lru_cache(_KEPT)(self._toolkits_of))
        object.__setattr__(self, "threshold_of", lru_cache(_KEPT)(self._threshold_of))

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "Toolkits":
        """The content of `data/toolkits.yaml`."""
        floors = {row["major"]: Floor.of(row) for row in table["floors"]}
        return cls(tuple(map(Toolkit.of, table["toolkits"])), floors)

    def merged(self, rows: Iterable[Toolkit], floors: Mapping[int, Floor]) -> "Toolkits":
        """A copy with these rows and floors, which replace the known rows of the same releases and major versions."""
        by_release = {row.cuda.parts: row for row in self.rows}
        for row in rows:
            known = by_release.get(row.cuda.parts)
            by_release[row.cuda.parts] = row if known is None or row.build else replace(row, build=known.build)
        return Toolkits(tuple(by_release[parts] for parts in sorted(by_release)), {**self.floors, **floors})

    def native_driver(self, cuda: Version) -> Version | None:
        """The driver from which all features of a CUDA version work; None for a version that the table lacks.

        The first of several releases counts. The result is a bare branch if no more is known.
        """
        rows = self.toolkits_of(cuda)
        return (rows[0].driver or Version((rows[0].branch,))) if rows else None

    def _toolkits_of(self, cuda: Version) -> tuple[Toolkit, ...]:
        known = cuda.parts[:2]
        rows = tuple(toolkit for toolkit in self.rows if toolkit.cuda.parts[: len(known)] == known)
        if len(cuda.parts) < 3:
            return rows
        patch = cuda.parts[2]
        named = tuple(toolkit for toolkit in rows if patch in (toolkit.cuda.parts[2], toolkit.build))
        older = tuple(toolkit for toolkit in rows if toolkit.cuda.parts[2] < patch)
        return named or older[-1:] or rows

    def _threshold_of(self, cuda: Version) -> Threshold | None:
        own = [toolkit.driver for toolkit in self.toolkits_of(cuda) if toolkit.driver is not None]
        floor = self.floors.get(cuda.major)
        if floor is not None:
            enough = [min(driver, floor.driver) for driver in own] or [floor.driver]
        elif cuda.major > min(self.floors):
            return self._without_floor(cuda.major, own)
        elif own:
            enough = own
        else:
            enough = self._enough_for_the_next(cuda)
        return Threshold(min(enough), max(enough)) if enough else None

    def _without_floor(self, major: int, own: list[Version]) -> Threshold | None:
        """The drivers of a major version whose floor is not known.

        Older drivers than that of its first release are too old. If that release is not known, no driver is too old.
        """
        if not own:
            return None
        first = next(toolkit for toolkit in self.rows if toolkit.cuda.major == major)
        is_first = first.cuda.minor == 0 and first.driver is not None
        low = first.driver if is_first and first.driver is not None else Version((0,))
        return Threshold(min(low, *own), max(own))

    def _enough_for_the_next(self, cuda: Version) -> list[Version]:
        """A driver that is new enough for a version that the table lacks: the driver of the next release.

        For a version that is older than the table, no driver is too old.
        """
        after = next(toolkit.driver for toolkit in self.rows if toolkit.driver is not None and cuda < toolkit.cuda)
        return [after] if cuda.at_least(self.rows[0].cuda) else [Version((0,)), after]


ENDED = "ended"
"""The end of a branch that is over, if the month is not known."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A driver branch and the newest CUDA that its drivers report (nvidia.com/cuda.runtime-version.*).

    `support` is NVIDIA's name for the kind of branch. `end` is the month of its last release, such as 2028-06: empty if
    unknown, ENDED if only that is known. `note` is a remark for people.
    """

    number: int
    cuda: Version
    support: str
    end: str
    source: str
    note: str = ""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Branch":
        """Read a row of the table."""
        support, end, note = row.get("support", ""), row.get("ends", ""), row.get("note", "")
        return cls(row["branch"], parse_version(row["cuda"]), support, end, row["source"], note)

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
    newest: int = field(init=False)
    """The newest known branch."""
    _by_number: Mapping[int, Branch] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "newest", self.rows[-1].number)
        object.__setattr__(self, "_by_number", {branch.number: branch for branch in self.rows})

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "Drivers":
        """The content of `data/drivers.yaml`."""
        return cls(tuple(map(Branch.of, table["drivers"])))

    def merged(self, rows: Iterable[Branch]) -> "Drivers":
        """A copy with these rows, which replace the known rows of the same branches."""
        by_number = {**self._by_number, **{row.number: row for row in rows}}
        return Drivers(tuple(by_number[number] for number in sorted(by_number)))

    def reported_by(self, driver: Version) -> Version | None:
        """The newest CUDA that a driver reports, such as 12.4 for 550.54.15; None for a branch that the table lacks."""
        branch = self._by_number.get(driver.major)
        return None if branch is None else branch.cuda

    def branch(self, number: int) -> Branch | None:
        """The branch of this number, such as 535; None if the table lacks it."""
        return self._by_number.get(number)

    def has_ended(self, number: int, now: float) -> bool | None:
        """Whether a branch gets no more releases at a moment in seconds since 1970; None if that is not known."""
        known = self._by_number.get(number)
        return None if known is None else known.has_ended(now)

    def is_before(self, driver: Version, major: int) -> bool:
        """Whether a driver certainly reports an older CUDA than this major version, because a newer branch does."""
        return any(row.number >= driver.major and row.cuda.major < major for row in reversed(self.rows))

    def branches_reporting(self, cuda: Version) -> tuple[int, ...]:
        """The branches whose drivers report this CUDA, such as 418 and 430 for 10.1; empty if the table lacks it.

        For a CUDA that is newer than the table, the number after the newest branch stands for all newer branches.
        """
        if not self.rows[-1].cuda.at_least(cuda):
            return (self.newest + 1,)
        return tuple(branch.number for branch in self.rows if branch.cuda.parts == cuda.parts[:2])
