"""Reading JSON of unknown shape: null stands for absent, as in the API server, and a wrong type is a named error."""

from collections.abc import Mapping, Sequence
from typing import Any

_EMPTY_MAP: Mapping[str, Any] = {}
_EMPTY_LIST: Sequence[Any] = ()

_KINDS = {
    type(None): "null",
    dict: "a map",
    list: "a list",
    str: "a text",
    bool: "a boolean",
    int: "a number",
    float: "a number",
}


_SHOWN = 60
"""Most characters of a text that a message shows."""

_TOO_MUCH = 1e300
"""Numbers from here on, and those that are none, are no part of any manifest; a huge integer would be slow to spell."""


class ShapeError(ValueError):
    """A part of an object has a type that the API server would refuse; the text names the place and both types."""

    def __init__(self, path: str, found: object, expected: str) -> None:
        super().__init__(f"{path}: found {_KINDS.get(type(found), 'an unknown kind of value')}, expected {expected}")


def mapping(value: object, path: str) -> Mapping[str, Any]:
    """`value` as a map; null is an empty one. Raises ShapeError for anything else."""
    if value.__class__ is dict:
        return value
    if value is None:
        return _EMPTY_MAP
    raise ShapeError(path, value, "a map")


def listed(value: object, path: str) -> Sequence[Any]:
    """`value` as a list; null is an empty one. Raises ShapeError for anything else."""
    if value.__class__ is list:
        return value
    if value is None:
        return _EMPTY_LIST
    raise ShapeError(path, value, "a list")


def text(value: object, path: str) -> str:
    """`value` as text; null is empty and a number or boolean is spelled as in JSON. Raises ShapeError otherwise."""
    if value.__class__ is str:
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)) and abs(value) < _TOO_MUCH:
        return str(value)
    raise ShapeError(path, value, "a text")


def spelled(value: object) -> str:
    """A value as people know it from their manifest, for messages: texts in quotes, long ones cut.

    >>> spelled("$GPUS"), spelled(None), spelled(2), spelled({})
    ('"$GPUS"', 'null', '2', 'a map')
    """
    if isinstance(value, str):
        return f'"{value if len(value) <= _SHOWN else value[: _SHOWN - 3] + "..."}"'
    if isinstance(value, (bool, int, float)) and abs(value) < _TOO_MUCH:
        return text(value, "")
    return _KINDS.get(type(value), "an unknown kind of value")
