"""A pod being changed: a copy that shares what no change touches, and the JSON Patch (RFC 6902) that makes the same."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

Path = tuple[str | int, ...]


class Draft:
    """A pod being completed: the changed copy and the operations so far."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.object: dict[str, Any] = dict(raw)
        self.patch: list[dict[str, Any]] = []
        self._copied: dict[Path, Any] = {(): self.object}

    def get(self, path: Path) -> Any:
        """What stands at `path` of the pod; None where nothing does."""
        current: Any = self.object
        for key in path:
            if isinstance(key, int):
                current = current[key] if isinstance(current, list) and key < len(current) else None
            else:
                current = current.get(key) if isinstance(current, dict) else None
        return current

    def put(self, path: Path, value: Any) -> None:
        """Add a map entry, with the maps above it where they are missing."""
        parent, depth = self._reach(path[:-1])
        for missing in reversed(path[depth + 1 :]):
            value = {missing: value}
        parent[path[depth]] = value
        self._copied.pop(path[: depth + 1], None)  # an empty list gives way to one with the value
        operation = "add" if isinstance(parent, dict) else "replace"  # add to a list would insert before its null
        self.patch.append({"op": operation, "path": _pointer(path[: depth + 1]), "value": value})

    def replace(self, path: Path, value: Any) -> None:
        """Put another value in the place of one that stands there, or add it where none does."""
        if self.get(path) is None:
            self.put(path, value)
            return
        parent, _ = self._reach(path[:-1])
        parent[path[-1]] = value
        self.patch.append({"op": "replace", "path": _pointer(path), "value": value})

    def append(self, path: Path, value: Any) -> None:
        """Append to a list, making it where it is missing or empty."""
        parent, depth = self._reach(path)
        if depth < len(path) or not parent:
            self.put(path, [value])
        else:
            parent.append(value)
            self.patch.append({"op": "add", "path": _pointer(path) + "/-", "value": value})

    def _reach(self, path: Path) -> tuple[Any, int]:
        """The last part on the way down `path` that exists, free to be changed, and how many keys lead to it."""
        known = self._copied.get(path)
        if known is not None:
            return known, len(path)
        parent, depth = self._reach(path[:-1])
        key = path[-1]
        if depth < len(path) - 1 or (child := parent[key] if isinstance(key, int) else parent.get(key)) is None:
            return parent, depth
        copy = self._copied[path] = parent[key] = dict(child) if isinstance(child, dict) else list(child)
        return copy, len(path)


@lru_cache(maxsize=1024)
def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


@lru_cache(maxsize=4096)
def _pointer(path: Path) -> str:
    return "/" + "/".join([_escape(part) if part.__class__ is str else str(part) for part in path])
