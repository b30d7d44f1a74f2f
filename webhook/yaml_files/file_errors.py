"""Mistakes in files as values: file, line, key and message."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

KeyPath = tuple[str | int, ...]

MOST_FAULTS = 10_000
"""Faults that are kept. Others are reported once these are corrected."""


def key_text(path: Sequence[str | int]) -> str:
    """A key path as people write it.

    >>> key_text(("spec", "rules", "tolerations", "add", 0, "key"))
    'spec.rules.tolerations.add[0].key'
    """
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


@dataclass(frozen=True, slots=True, order=True)
class FileError:
    """One fault in a file. `line` counts from 1; it is 0 for a fault of the whole file. `key` may be empty.

    >>> str(FileError("policies/team-a.yaml", 9, "spec.rules.sharedMemory.sise", "unknown key"))
    'policies/team-a.yaml:9: spec.rules.sharedMemory.sise: unknown key'
    """

    path: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return ": ".join(part for part in (place, self.key, self.message) if part)


class FileErrors(Exception):  # noqa: N818  # it holds errors, in the plural
    """All faults of a set of files, sorted by file and line. The text has one line for each fault."""

    def __init__(self, errors: Iterable[FileError]) -> None:
        self.errors = tuple(sorted(set(errors)))
        super().__init__(self.errors)

    @classmethod
    def of(cls, path: str, message: str) -> "FileErrors":
        return cls([FileError(path, 0, "", message)])

    def __str__(self) -> str:
        return "\n".join(map(str, self.errors))


class Faults:
    """Collects faults while reading goes on. Only the first fault of a key is kept, because others follow from it."""

    def __init__(self) -> None:
        self._errors: dict[tuple[str, str, int], FileError] = {}

    def __bool__(self) -> bool:
        return bool(self._errors)

    @property
    def errors(self) -> tuple[FileError, ...]:
        return tuple(self._errors.values())

    def add(self, path: str, line: int, key: str | Sequence[str | int], message: str) -> None:
        if len(self._errors) >= MOST_FAULTS:
            return
        text = key if isinstance(key, str) else key_text(key)
        self._errors.setdefault((path, text, 0 if text else line), FileError(path, line, text, message))

    def extend(self, errors: Iterable[FileError]) -> None:
        for error in errors:
            self.add(error.path, error.line, error.key, error.message)

    def raise_if_any(self) -> None:
        if self._errors:
            raise FileErrors(self._errors.values())
