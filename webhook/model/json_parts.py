"""Parts of JSON of unknown shape. Missing parts, and parts of another type, are None or empty; nothing raises."""

import re
from collections.abc import Iterator
from typing import Any

from webhook.model.shape import shortened

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_LONGEST_KEY = 63


def part(raw: object, *path: str) -> Any:
    """The value at these keys; None where a key is missing or its parent is no map."""
    for key in path:
        raw = raw.get(key) if isinstance(raw, dict) else None
    return raw


def text(raw: object, *path: str) -> str:
    """The text at these keys; empty where there is none."""
    found = part(raw, *path)
    return found if isinstance(found, str) else ""


def mapped(raw: object, *path: str) -> dict[str, Any]:
    """The map at these keys; an empty map where there is none."""
    found = part(raw, *path)
    return found if isinstance(found, dict) else {}


def listed(raw: object, *path: str) -> list[Any]:
    """The list at these keys; an empty list where there is none."""
    found = part(raw, *path)
    return found if isinstance(found, list) else []


def entries(raw: object, *path: str, named_by: str = "name") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The maps in the list or map at these keys, each with its place and its name or key before it.

    >>> list(entries({"a": [{"name": "x"}, None, {}]}, "a"))
    [('a[x]', 'x', {'name': 'x'}), ('a[2]', '', {})]
    >>> list(entries({"a": {"Worker": {}}}, "a"))
    [('a.Worker', 'Worker', {})]
    """
    found, where = part(raw, *path), ".".join(path)
    if isinstance(found, list):
        for index, value in enumerate(found):
            if isinstance(value, dict):
                name = named(value, named_by)
                yield f"{where}[{name or index}]", name, value
    elif isinstance(found, dict):
        for key, value in found.items():
            if isinstance(value, dict):
                yield f"{where}.{short(key)}", short(key), value


def named(raw: object, key: str = "name") -> str:
    """The name of a part; empty where it has no name, or the name would be unreadable in a path."""
    name = part(raw, key)
    return name if isinstance(name, str) and _PLAIN.fullmatch(name) else ""


def short(key: str) -> str:
    """A key for a path. Very long keys are cut."""
    return shortened(key, _LONGEST_KEY)
