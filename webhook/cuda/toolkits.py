"""Which driver each CUDA toolkit needs on Linux. The rows are in `data/toolkits.yaml`, each with its source."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from webhook.model.versions import Version, parse_version

_KEPT = 1024
"""Versions about which a table remembers what it said. Tenants write versions."""


@dataclass(frozen=True, slots=True)
class Toolkit:
    """A release of CUDA, and the driver from which it runs with all its features.

    `driver` is None where only the branch is known. `build` is how NVIDIA's own containers write the third number of
    early releases, such as 11.0.167 for 11.0.1.
    """

    cuda: Version
    driver: Version | None
    branch: int
    source: str
    is_verified: bool = True
    build: int | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Toolkit":
        """A row as tables write it; a driver with one number is a branch."""
        least = parse_version(row["driver"])
        driver = least if len(least.parts) > 1 else None
        cuda, is_verified = parse_version(row["cuda"]), row.get("verified", True)
        return cls(cuda, driver, least.major, row["source"], is_verified, row.get("build"))


@dataclass(frozen=True, slots=True)
class Floor:
    """Minor-version compatibility: from `driver` on, every release of the major version runs.

    Every driver that reports CUDA `reported` or newer is that new.
    """

    driver: Version
    reported: Version
    source: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Floor":
        """A row as tables write it."""
        return cls(parse_version(row["driver"]), parse_version(row["reported"]), row["source"])


@dataclass(frozen=True, slots=True)
class Threshold:
    """The drivers that run a CUDA version: none older than `low`, all from `high` on.

    The two differ where the version may stand for several releases, or where it is not known from which driver on all
    releases of its major version run.
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
    """The releases that a CUDA version may stand for: the nearest older one of its minor version where it is unknown.
    11.0.194 is 11.0.2."""
    threshold_of: Callable[[Version], Threshold | None] = field(init=False, repr=False)
    """The drivers that run a CUDA version without help from the image: from 525.60.13 on for 12.4.1. None for a major
    version of CUDA 11 or newer that the table lacks."""

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
        """These with other rows, which replace those of the same release, and with other floors."""
        by_release = {row.cuda.parts: row for row in self.rows}
        for row in rows:
            known = by_release.get(row.cuda.parts)
            by_release[row.cuda.parts] = row if known is None or row.build else replace(row, build=known.build)
        return Toolkits(tuple(by_release[parts] for parts in sorted(by_release)), {**self.floors, **floors})

    def native_driver(self, cuda: Version) -> Version | None:
        """The driver from which all features of a CUDA version work; None for a version that the table lacks.

        It is that of the first release where several may be meant, and a bare branch where no more is known.
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
        """The drivers of a major version whose floor is not known: from that of its first release on nothing is sure.

        Where that release is not known either, nothing is too old.
        """
        if not own:
            return None
        first = next(toolkit for toolkit in self.rows if toolkit.cuda.major == major)
        is_first = first.cuda.minor == 0 and first.driver is not None
        low = first.driver if is_first and first.driver is not None else Version((0,))
        return Threshold(min(low, *own), max(own))

    def _enough_for_the_next(self, cuda: Version) -> list[Version]:
        """What is known to be enough for a version that the table lacks: what the next release needs.

        Nothing is too old for one that is older than the table.
        """
        after = next(toolkit.driver for toolkit in self.rows if toolkit.driver is not None and cuda < toolkit.cuda)
        return [after] if cuda.at_least(self.rows[0].cuda) else [Version((0,)), after]
