"""A pod that is being changed: a copy that shares untouched parts, and the JSON Patch (RFC 6902) of the changes."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

Path = tuple[str | int, ...]

MOST_OPERATIONS = 10_000
"""Most operations of a JSON Patch that a client may send (`maxJSONPatchOperations` of k8s.io/apiserver)."""

LONGEST_PATCH = 3 * 1024**2
"""Most bytes of a JSON Patch: `MaxRequestBodyBytes` of k8s.io/apiserver. Our patches only add, so an object with a
longer patch would be too large for the API server."""


class _Copy:
    """A copied map or list, which may be changed, and the copied parts below it."""

    __slots__ = ("below", "value")

    def __init__(self, value: Any) -> None:
        self.value: Any = dict(value) if isinstance(value, dict) else list(value)
        self.below: dict[str | int, _Copy] = {}


class Draft:
    """The changed copy of a pod, and the operations of its JSON Patch so far."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._copied = _Copy(raw)
        self.object: dict[str, Any] = self._copied.value
        self.patch: list[dict[str, Any]] = []

    def get(self, path: Path) -> Any:
        current: Any = self.object
        for key in path:
            if isinstance(key, int):
                current = current[key] if isinstance(current, list) and key < len(current) else None
            else:
                current = current.get(key) if isinstance(current, dict) else None
            if current is None:
                return None
        return current

    def put(self, path: Path, value: Any) -> None:
        self._add(*self._reach(path[:-1]), path, value)

    def replace(self, path: Path, value: Any) -> None:
        if self.get(path) is None:
            self.put(path, value)
            return
        parent, _ = self._reach(path[:-1])
        parent.value[path[-1]] = value
        self.patch.append({"op": "replace", "path": _pointer(path), "value": value})

    def append(self, path: Path, value: Any) -> None:
        parent, depth = self._reach(path)
        if depth < len(path):
            self._add(parent, depth, path, [value])
        elif not parent.value:
            self.put(path, [value])
        else:
            parent.value.append(value)
            self.patch.append({"op": "add", "path": _pointer(path) + "/-", "value": value})

    def _add(self, parent: _Copy, depth: int, path: Path, value: Any) -> None:
        """Add the missing part of `path`. The first `depth` keys lead to `parent`, the last part that exists."""
        for missing in reversed(path[depth + 1 :]):
            value = {missing: value}
        key = path[depth]
        parent.value[key] = value
        parent.below.pop(key, None)  # a new list replaces an empty one
        operation = "add" if isinstance(parent.value, dict) else "replace"  # add to a list would insert before its null
        self.patch.append({"op": operation, "path": _pointer(path[: depth + 1]), "value": value})

    def _reach(self, path: Path) -> tuple[_Copy, int]:
        """The last existing part on the way down `path`, copied for changes, and the number of keys that lead to it."""
        part = self._copied
        for depth, key in enumerate(path):
            below = part.below.get(key)
            if below is None:
                found = part.value[key] if isinstance(key, int) else part.value.get(key)
                if found is None:
                    return part, depth
                below = part.below[key] = _Copy(found)
                part.value[key] = below.value
            part = below
        return part, len(path)


@lru_cache(maxsize=1024)
def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


@lru_cache(maxsize=4096)
def _pointer(path: Path) -> str:
    return "/" + "/".join([_escape(part) if part.__class__ is str else str(part) for part in path])
