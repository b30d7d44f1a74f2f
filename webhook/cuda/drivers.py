"""Which CUDA each driver branch reports: the newest that its drivers run. The rows are in `data/drivers.yaml`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.model.versions import Version, parse_version

UNVERIFIED = "unverified"
"""Source of a row that nobody has read anywhere."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A driver branch and the newest CUDA that its drivers report (nvidia.com/cuda.runtime-version.*).

    `support` is how NVIDIA calls the branch, `end` the month of its last release: empty where unknown, `ended` where
    only that is known. `note` is what else there is to say of it.
    """

    number: int
    cuda: Version
    support: str
    end: str
    source: str
    note: str = ""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Branch":
        """A row as tables write it."""
        support, end, note = row.get("support", ""), row.get("ends", ""), row.get("note", "")
        return cls(row["branch"], parse_version(row["cuda"]), support, end, row["source"], note)


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
        """These with other rows, which replace those of the same branch."""
        by_number = {**self._by_number, **{row.number: row for row in rows}}
        return Drivers(tuple(by_number[number] for number in sorted(by_number)))

    def reported_by(self, driver: Version) -> Version | None:
        """The newest CUDA that a driver reports, such as 12.4 of 550.54.15; None for a branch that the table lacks."""
        branch = self._by_number.get(driver.major)
        return None if branch is None else branch.cuda

    def is_before(self, driver: Version, major: int) -> bool:
        """Whether a driver certainly reports an older CUDA than this major version: a branch as new as it does."""
        return any(row.number >= driver.major and row.cuda.major < major for row in reversed(self.rows))

    def branches_reporting(self, cuda: Version) -> tuple[int, ...]:
        """The branches whose drivers report this CUDA, such as 418 and 430 for 10.1.

        One past the newest for a newer CUDA, none where the table lacks it.
        """
        if not self.rows[-1].cuda.at_least(cuda):
            return (self.newest + 1,)
        return tuple(branch.number for branch in self.rows if branch.cuda.parts == cuda.parts[:2])
