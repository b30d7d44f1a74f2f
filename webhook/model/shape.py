"""Reads JSON of unknown shape. As in the API server, null stands for a missing value.

A wrong type, and a list or map with more entries than an API server stores, is an error that names its place.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from webhook.model import bounds

Item = TypeVar("Item")

_KINDS = {
    type(None): "null",
    dict: "a map",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
}


_SHOWN = 60
"""Most characters of a text that a message shows."""

_TOO_MUCH = 1e300
"""No manifest has larger numbers or infinities; huge integers would be slow to print."""


def shortened(text: str, most: int) -> str:
    """The beginning of a text that is longer than `most` characters.

    >>> shortened("trainer", 7), shortened("trainers", 7)
    ('trainer', 'trai...')
    """
    return text if len(text) <= most else f"{text[: most - 3]}..."


def cut_to_bytes(text: str, most: int) -> str:
    """The text, or its beginning if it has more than `most` bytes in UTF-8. No character is cut in two.

    >>> cut_to_bytes("Modell größer", 14), cut_to_bytes("Modell größer", 13)
    ('Modell grö...', 'Modell gr...')
    """
    written = text.encode("utf-8", "replace")
    return text if len(written) <= most else f"{written[: most - 3].decode('utf-8', 'ignore')}..."


class FormatError(ValueError):
    """A text or file that is not in its format, such as a version or a host name. The message says what is wrong."""


class ShapeError(ValueError):
    """A part of an object that the API server would refuse, for its type or its size; the text names the place.

    Each reader adds its part of the place while the error passes through it. So sound objects cost nothing extra.
    `remedy` is what the author of the object can do.
    """

    remedy = "correct the manifest"

    def __init__(self, found: object, expected: str, *place: str) -> None:
        super().__init__()
        self._place = place
        self.fault = f"found {_KINDS.get(type(found), 'an unknown kind of value')}, expected {expected}"

    def inside(self, *place: str) -> "ShapeError":
        self._place = (*place, *self._place)
        return self

    def at(self, where: Callable[[str], str]) -> "ShapeError":
        self._place = (where(self.place),)
        return self

    @property
    def place(self) -> str:
        """The place as a path of keys, such as `spec.containers[a].env[0].name`."""
        return ".".join(part for part in self._place if part)

    def __str__(self) -> str:
        return f"{self.place}: {self.fault}"


def too_much(found: str, most: str, *place: str) -> ShapeError:
    """The error for a part that is larger than an API server stores or accepts."""
    error = ShapeError(None, "", *place)
    error.fault = f"found {found}, expected at most {most}"
    error.remedy = "make several objects of it, or leave entries out"
    return error


def too_many(found: int, most: int, *place: str) -> ShapeError:
    """The error for a list or map that has more entries than an API server stores."""
    return too_much(f"{found} entries", f"{most}, since no API server stores more", *place)


_EMPTY: Mapping[str, Any] = {}
_FEWEST, _MOST_OF_A_MAP = bounds.FEWEST, bounds.MOST_OF_A_MAP


def mapping(value: object, *place: str) -> Mapping[str, Any]:
    """`value` as a map; null is an empty map. Raises ShapeError for any other type."""
    if value.__class__ is dict:
        return value
    if value is None:
        return _EMPTY
    raise ShapeError(value, "a map", *place)


def entries(value: object, *place: str) -> Mapping[str, Any]:
    """`value` as a map whose entries will be read. Raises ShapeError for other types and for too many entries."""
    if value.__class__ is dict and len(value) <= _MOST_OF_A_MAP:
        return value
    found = mapping(value, *place)
    if len(found) > _MOST_OF_A_MAP:
        raise too_many(len(found), _MOST_OF_A_MAP, *place)
    return found


def text(value: object, *place: str) -> str:
    """`value` as text: null is empty, a number or boolean is spelled as in JSON. Raises ShapeError for other types."""
    if value.__class__ is str:
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)) and abs(value) < _TOO_MUCH:
        return str(value)
    raise ShapeError(value, "a string", *place)


def each(
    parent: Mapping[str, Any], key: str, read: Callable[[Any], Item], *, by_name: bool = False
) -> tuple[Item, ...]:
    """The result of `read` for each item of the list at `key`; null is an empty list.

    Raises ShapeError where the value is no list, has more items than can be stored, or `read` raises one. The place of
    the error names the item by its number, or with `by_name` by its name where it has one.
    """
    values = parent.get(key)
    if values is None:
        return ()
    if values.__class__ is not list:
        raise ShapeError(values, "a list", key)
    if len(values) > _FEWEST and len(values) > (most := bounds.MOST.get(key, bounds.MOST_OF_ANY_LIST)):
        raise too_many(len(values), most, key)
    try:
        return tuple(map(read, values))
    except ShapeError as error:
        at = _first_faulty(values, read)
        name = values[at].get("name") if by_name and isinstance(values[at], dict) else None
        raise error.inside(f"{key}[{name if name and isinstance(name, str) else at}]") from None


def _first_faulty(values: Sequence[Any], read: Callable[[Any], object]) -> int:
    """Position of the first item that cannot be read. Reads all items again, so that sound lists need no counter."""
    for at, value in enumerate(values):
        try:
            read(value)
        except ShapeError:
            return at
    return len(values) - 1


def spelled(value: object) -> str:
    """A value for messages, as it stands in a manifest: texts have quotes, long texts are cut.

    >>> spelled("$GPUS"), spelled(None), spelled(2), spelled({})
    ('"$GPUS"', 'null', '2', 'a map')
    """
    if isinstance(value, str):
        return f'"{shortened(value, _SHOWN)}"'
    if isinstance(value, (bool, int, float)) and abs(value) < _TOO_MUCH:
        return text(value)
    return _KINDS.get(type(value), "an unknown kind of value")
