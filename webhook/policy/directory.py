"""Reads all policy files of a directory as they were at one moment.

A mounted ConfigMap is a directory of symlinks into `..data`, which is a symlink itself. The kubelet replaces `..data`
in one step, so all files are read through one resolution of `..data`. This also works for several ConfigMaps in one
volume, and for a directory that is itself a symlink, as git-sync makes it.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from webhook.policy.schema import RESERVED_FILES
from webhook.yaml_files.file_errors import Faults, FileError, FileErrors
from webhook.yaml_files.yaml_lines import MAX_BYTES

DATA = "..data"
_ATTEMPTS = 5

Place = TypeVar("Place")


@dataclass(frozen=True, slots=True)
class Contents:
    """The policy files of a directory, sorted by name. `digest` is a hash of their names and bytes."""

    path: Path
    files: tuple[tuple[str, bytes], ...]
    faults: tuple[FileError, ...]
    digest: str


def read_directory(directory: Path) -> Contents:
    """All policy files as they were at one moment.

    `faults` has the files that cannot be read, and files that look like policy files and are none. Raises FileErrors
    for a directory that is missing or has no policy file.
    """
    for attempt in range(_ATTEMPTS):
        root = _root(directory)
        try:
            contents = _collect(directory, sorted(_entries(root)), _read_file)
        except OSError as error:
            if attempt + 1 < _ATTEMPTS and root != _root(directory):
                continue
            message = f"cannot be read as a directory of policies: {error.strerror}"
            raise FileErrors([FileError(str(directory), 0, "", message)]) from None
        if root == _root(directory):
            break
    return _not_empty(contents)


def contents_of(directory: Path, files: Mapping[str, bytes]) -> Contents:
    """The policy files among `files`, as if they had been read in `directory`. Raises FileErrors if there are none."""
    entries = sorted(entry for entry in files.items() if _looks_like_a_policy(entry[0]))
    return _not_empty(_collect(directory, entries, lambda content: content))


@dataclass(frozen=True, slots=True)
class _Root:
    """A directory with its symlinks resolved, and the directory that its `..data` leads to; None without `..data`."""

    directory: Path
    data: Path | None


def _root(directory: Path) -> _Root:
    """The place to read from. It differs after all files were replaced in one step."""
    resolved = Path(os.path.realpath(directory))
    try:
        return _Root(resolved, resolved / os.readlink(resolved / DATA))
    except OSError:
        return _Root(resolved, None)


def _entries(root: _Root) -> Iterator[tuple[str, Path]]:
    """Names of policy files and where to read them. Raises OSError for a directory that cannot be listed."""
    if root.data is not None:
        yield from ((name, root.data / name) for name in os.listdir(root.data) if _looks_like_a_policy(name))
    with os.scandir(root.directory) as entries:
        for entry in entries:
            if _looks_like_a_policy(entry.name) and not (root.data is not None and _leads_into_data(entry)):
                yield entry.name, Path(entry.path)


def _leads_into_data(entry: os.DirEntry[str]) -> bool:
    """Whether the entry is a link made by the kubelet, or was one that the kubelet has just removed."""
    try:
        return entry.is_symlink() and os.readlink(entry.path).startswith(DATA + "/")
    except FileNotFoundError:
        return True


def _looks_like_a_policy(name: str) -> bool:
    return not name.startswith(".") and name.lower().endswith((".yaml", ".yml"))


def _not_empty(contents: Contents) -> Contents:
    if not contents.files and not contents.faults:
        message = f"holds no policy file; write {RESERVED_FILES[0]} or <namespace>.yaml"
        raise FileErrors([FileError(str(contents.path), 0, "", message)])
    return contents


def _collect(directory: Path, entries: Iterable[tuple[str, Place]], read: Callable[[Place], bytes]) -> Contents:
    """The contents of the entries, which are names and places of files. `read` may raise OSError."""
    faults = Faults()
    files: list[tuple[str, bytes]] = []
    for name, place in entries:
        fault = _name_fault(name)
        if not fault:
            try:
                files.append((name, read(place)))
                continue
            except OSError as error:
                fault = f"cannot be read: {error.strerror}"
        faults.add(str(directory / _printable(name)), 0, "", fault)
    errors = faults.errors
    digest = hashlib.sha256()
    for name, source in files:
        digest.update(f"{name}\0{len(source)}\0".encode("utf-8", "surrogateescape") + source)
    digest.update("\0".join(map(str, errors)).encode("utf-8", "surrogateescape"))
    return Contents(directory, tuple(files), errors, digest.hexdigest())


def _read_file(path: Path) -> bytes:
    """The bytes of a file, up to one more than a policy may have. Raises OSError for anything but a plain file."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(0, "not a file")
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _printable(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode()


def _name_fault(name: str) -> str:
    if _printable(name) != name:
        return "the file's name is not UTF-8; rename it"
    stem, _, ending = name.rpartition(".")
    if ending != "yaml":
        return f"policy files end in .yaml; rename it to {stem}.yaml"
    if name.startswith("_") and name not in RESERVED_FILES:
        known = ", ".join(RESERVED_FILES)
        return f"names that start with an underscore are reserved; known ones are {known}. Rename or remove it"
    return ""
