"""CUDA, driver and compute-capability versions: parsed, compared and printed.

As NVIDIA's own tools do, versions are compared number by number, a missing number counts as 0, and leading zeros are
ignored: 570.26 < 570.124.06 and 535.54.03 = 535.54.3.
"""

import re
from dataclasses import dataclass, field
from itertools import zip_longest

from webhook.model.shape import FormatError, spelled

_VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,5}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Version:
    """A version as numbers. `text` is the version as it was written, for messages; comparisons ignore it."""

    parts: tuple[int, ...]
    text: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.text or ".".join(map(str, self.parts))

    def __lt__(self, other: "Version") -> bool:
        return not self.at_least(other)

    @property
    def major(self) -> int:
        return self.parts[0]

    @property
    def minor(self) -> int | None:
        return self.parts[1] if len(self.parts) > 1 else None

    def cut(self, length: int) -> "Version":
        return self if len(self.parts) <= length else Version(self.parts[:length])

    def at_least(self, bound: "Version") -> bool:
        for mine, other in zip_longest(self.parts, bound.parts, fillvalue=0):
            if mine != other:
                return mine > other
        return True

    def reaches(self, bound: "Version") -> bool | None:
        """Whether this is `bound` or newer, whatever the missing numbers are; None where that depends on them.

        >>> parse_version("12").reaches(parse_version("12.8")) is None
        True
        """
        shown = len(self.parts)
        if self.parts == bound.parts[:shown] and any(bound.parts[shown:]):
            return None
        return self.at_least(bound)


def parse_version(text: object) -> Version:
    """Read a version of one to six numbers, such as 13.0.2.006 or 535.54.03. Raises FormatError."""
    if not isinstance(text, str) or _VERSION.fullmatch(text) is None:
        raise FormatError(f"{spelled(text)} is not a version; write numbers with dots, such as 12.4 or 550.54.15")
    return Version(tuple(map(int, text.split("."))), text)
