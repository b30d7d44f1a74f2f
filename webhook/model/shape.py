"""Reading JSON of unknown shape: null stands for absent, as in the API server, and a wrong type is a named error."""

from collections.abc import Mapping, Sequence
from typing import Any

_EMPTY_MAP: Mapping[str, Any] = {}
_EMPTY_LIST: Sequence[Any] = ()

_NAMES = {dict: "a map", list: "a list", str: "a text", bool: "a boolean", int: "a number", float: "a number"}


class ShapeError(ValueError):
    """A part of an object has a type that the API server would refuse; the text names the place and both types."""

    def __init__(self, path: str, found: object, expected: str) -> None:
        super().__init__(f"{path}: found {_NAMES.get(type(found), 'null')}, expected {expected}")


def mapping(value: object, path: str) -> Mapping[str, Any]:
    """`value` as a map; null is an empty one. Raises ShapeError for anything else."""
    if value.__class__ is dict:
        return value  # type: ignore[return-value]  # JSON maps have text keys
    if value is None:
        return _EMPTY_MAP
    raise ShapeError(path, value, "a map")


def listed(value: object, path: str) -> Sequence[Any]:
    """`value` as a list; null is an empty one. Raises ShapeError for anything else."""
    if value.__class__ is list:
        return value  # type: ignore[return-value]  # narrowed by its class
    if value is None:
        return _EMPTY_LIST
    raise ShapeError(path, value, "a list")


def text(value: object, path: str) -> str:
    """`value` as text; null is empty and a number or boolean is spelled as JSON does. Raises ShapeError otherwise."""
    if value.__class__ is str:
        return value  # type: ignore[return-value]  # narrowed by its class
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    raise ShapeError(path, value, "a text")
