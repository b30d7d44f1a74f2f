"""Reading JSON of unknown shape: null stands for absent, as in the API server, and a wrong type is a named error."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

Item = TypeVar("Item")

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
    """A part of an object has a type that the API server would refuse; the text names the place and both types.

    The place is put together while the error goes up through the readers, so that reading a sound object costs none.
    """

    def __init__(self, found: object, expected: str, *place: str) -> None:
        super().__init__()
        self._place = place
        self.fault = f"found {_KINDS.get(type(found), 'an unknown kind of value')}, expected {expected}"

    def inside(self, *place: str) -> "ShapeError":
        """The same error as the part at `place` reports it."""
        self._place = (*place, *self._place)
        return self

    def at(self, where: Callable[[str], str]) -> "ShapeError":
        """The same error with another name for its place."""
        self._place = (where(self.place),)
        return self

    @property
    def place(self) -> str:
        """Where it is, as a path of keys."""
        return ".".join(part for part in self._place if part)

    def __str__(self) -> str:
        return f"{self.place}: {self.fault}"


_EMPTY: Mapping[str, Any] = {}


def mapping(value: object, *place: str) -> Mapping[str, Any]:
    """`value` as a map; null is an empty one. Raises ShapeError for anything else."""
    if value.__class__ is dict:
        return value
    if value is None:
        return _EMPTY
    raise ShapeError(value, "a map", *place)


def text(value: object, *place: str) -> str:
    """`value` as text; null is empty and a number or boolean is spelled as in JSON. Raises ShapeError otherwise."""
    if value.__class__ is str:
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)) and abs(value) < _TOO_MUCH:
        return str(value)
    raise ShapeError(value, "a text", *place)


def each(
    parent: Mapping[str, Any], key: str, read: Callable[[Any], Item], *, by_name: bool = False
) -> tuple[Item, ...]:
    """What `read` makes of every item of the list at `key`; null is an empty list.

    Raises ShapeError for anything else, and adds the item to the place of those that `read` raises: its number, or its
    name where `by_name` is set and it has one.
    """
    values = parent.get(key)
    if values is None:
        return ()
    if values.__class__ is not list:
        raise ShapeError(values, "a list", key)
    try:
        return tuple(map(read, values))
    except ShapeError as error:
        at = _first_faulty(values, read)
        name = values[at].get("name") if by_name and isinstance(values[at], dict) else None
        raise error.inside(f"{key}[{name if name and isinstance(name, str) else at}]") from None


def _first_faulty(values: Sequence[Any], read: Callable[[Any], object]) -> int:
    """Position of the first item that cannot be read; all are read again, so that sound ones need not be counted."""
    for at, value in enumerate(values):
        try:
            read(value)
        except ShapeError:
            return at
    return len(values) - 1


def spelled(value: object) -> str:
    """A value as people know it from their manifest, for messages: texts in quotes, long ones cut.

    >>> spelled("$GPUS"), spelled(None), spelled(2), spelled({})
    ('"$GPUS"', 'null', '2', 'a map')
    """
    if isinstance(value, str):
        return f'"{value if len(value) <= _SHOWN else value[: _SHOWN - 3] + "..."}"'
    if isinstance(value, (bool, int, float)) and abs(value) < _TOO_MUCH:
        return text(value)
    return _KINDS.get(type(value), "an unknown kind of value")
