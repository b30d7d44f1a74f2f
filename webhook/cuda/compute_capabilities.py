"""Which CUDA versions have code for GPUs of a compute capability, and which driver branches support them.

The rows are in `data/compute_capabilities.yaml`, each with its source.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.model.versions import Version, parse_version


@dataclass(frozen=True, slots=True)
class Generation:
    """GPUs of one compute capability, and the driver branches that support them. None stands for no bound."""

    compute: Version
    family: str
    first_branch: int | None = None
    last_branch: int | None = None
    is_first_verified: bool = True

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Generation":
        """Read a row of the table."""
        first, last, is_verified = row.get("firstBranch"), row.get("lastBranch"), row.get("verified", True)
        return cls(parse_version(row["compute"]), row["family"], first, last, is_verified)


@dataclass(frozen=True, slots=True)
class FirstCuda:
    """The first CUDA with code for a GPU: not before `possible`, and not after `sure`, which is None if not known."""

    possible: Version
    sure: Version | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "FirstCuda":
        """Read a row of the table."""
        possible = parse_version(row["cuda"])
        return cls(possible, parse_version(row["sure"]) if "sure" in row else possible)

    @classmethod
    def of_generation(cls, row: Mapping[str, Any]) -> "FirstCuda":
        """Read the first CUDA in a row of a compute capability."""
        first = parse_version(row["firstCuda"])
        return cls(first, first)


@dataclass(frozen=True, eq=False)
class ComputeCapabilities:
    """The known compute capabilities, in order, and what CUDA has code for them.

    `first_by_major` has the first CUDA by major number of the compute capability, `first_by_compute` the exceptions.
    `least_by_cuda` is the least compute capability for which each major version of CUDA has code.
    """

    rows: tuple[Generation, ...]
    first_by_major: Mapping[int, FirstCuda]
    first_by_compute: Mapping[tuple[int, ...], FirstCuda]
    least_by_cuda: Mapping[int, Version]
    newest_major: int = field(init=False)
    """The newest first number of a compute capability."""
    _newest_cuda: int = field(init=False, repr=False)
    _by_compute: Mapping[tuple[int, ...], Generation] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_compute", {row.compute.parts: row for row in self.rows})
        object.__setattr__(self, "newest_major", max(self.first_by_major))
        object.__setattr__(self, "_newest_cuda", max(self.least_by_cuda))

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "ComputeCapabilities":
        """The content of `data/compute_capabilities.yaml`."""
        return cls(
            tuple(map(Generation.of, table["capabilities"])),
            {row["major"]: FirstCuda.of(row) for row in table["firstCuda"]},
            {parse_version(row["compute"]).parts: FirstCuda.of(row) for row in table["firstCudaOf"]},
            {row["cuda"]: parse_version(row["compute"]) for row in table["leastCompute"]},
        )

    def merged(self, rows: Iterable[tuple[Generation, FirstCuda]]) -> "ComputeCapabilities":
        """A copy with these rows and their first CUDA, which replace the rows of equal compute capabilities."""
        added = {generation.compute.parts: (generation, first) for generation, first in rows}
        by_compute = {**self._by_compute, **{parts: generation for parts, (generation, _) in added.items()}}
        firsts = {**self.first_by_compute, **{parts: first for parts, (_, first) in added.items()}}
        ordered = tuple(by_compute[parts] for parts in sorted(by_compute))
        return ComputeCapabilities(ordered, self.first_by_major, firsts, self.least_by_cuda)

    def generation_of(self, compute: Version) -> Generation | None:
        """The row of a compute capability; None if the table lacks it."""
        return self._by_compute.get(compute.parts)

    def least_compute(self, cuda: Version) -> Version | None:
        """The least compute capability that a CUDA version supports; None for a version older than the table.

        CUDA only ever drops support, so a newer major version needs at least what the newest known one needs.
        """
        return self.least_by_cuda.get(min(cuda.major, self._newest_cuda))

    def first_cuda(self, compute: Version, newest: Version) -> FirstCuda | None:
        """The first CUDA with code for a GPU; None for old GPUs that the table lacks.

        No known toolkit, up to `newest`, has code for GPUs that are newer than the table.
        """
        known = self.first_by_compute.get(compute.parts)
        if known is None and compute.major > self.newest_major:
            return FirstCuda(newest.cut(2), None)
        return known or self.first_by_major.get(compute.major)
