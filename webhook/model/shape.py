"""Reads JSON of unknown shape. As in the API server, null stands for a missing value.

A wrong type, and a list or map with far more entries than people write, is an error that names its place.
"""

import zlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

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

MOST_ENTRIES = 40_000
"""Most entries of one list or map that are read. The largest manifests that people write have a few thousand in all; an
object of an empty container takes a hundred times the memory of its JSON."""


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


class SizeError(ShapeError):
    """A part that is larger than an API server stores or accepts."""

    remedy = "make several objects of it, or leave entries out"

    def __init__(self, found: str, most: str, *place: str) -> None:
        super().__init__(None, "", *place)
        self.fault = f"found {found}, expected at most {most}"


_EMPTY: Mapping[str, Any] = {}


def mapping(value: object, *place: str) -> Mapping[str, Any]:
    """`value` as a map; null is an empty map. Raises ShapeError for any other type."""
    if value.__class__ is dict:
        return value
    if value is None:
        return _EMPTY
    raise ShapeError(value, "a map", *place)


def entries(value: object, *place: str) -> Mapping[str, Any]:
    """`value` as a map whose entries will be read. Raises ShapeError for other types and for too many entries."""
    found = value if value.__class__ is dict else mapping(value, *place)
    if len(found) > MOST_ENTRIES:
        raise SizeError(f"{len(found)} entries", str(MOST_ENTRIES), *place)
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


def each(  # noqa: PLR0913  # what is read, how, and where it stands
    parent: Mapping[str, Any],
    key: str,
    read: Callable[[Any], Item],
    *,
    by_name: bool = False,
    are_maps: bool = True,
    at: tuple[str, ...] = (),
) -> tuple[Item, ...]:
    """The result of `read` for each item of the list at `key`; null is an empty list. `at` is the place of `parent`.

    Raises ShapeError where the value is no list, has more than MOST_ENTRIES items, or not only maps as it should, and
    where `read` raises one. The place of the error names the item by its number, or with `by_name` by its name where it
    has one.
    """
    values = parent.get(key)
    if values is None:
        return ()
    if values.__class__ is not list:
        raise ShapeError(values, "a list", *at, key)
    if len(values) > MOST_ENTRIES:
        raise SizeError(f"{len(values)} entries", str(MOST_ENTRIES), *at, key)
    found: list[Item] = []
    try:
        for value in values:
            found += [read(mapping(value) if are_maps and value.__class__ is not dict else value)]
    except ShapeError as error:
        number = len(found)
        name = values[number].get("name") if by_name and isinstance(values[number], dict) else None
        raise error.inside(*at, f"{key}[{name if name and isinstance(name, str) else number}]") from None
    return tuple(found)


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


def unzipped(packed: bytes, most: int) -> bytes:
    """Unpack gzip data of at most `most` bytes when unpacked.

    Raises ValueError where the data is larger or cut off, and zlib.error where it is not gzip.
    """
    unzip = zlib.decompressobj(wbits=31)
    text = unzip.decompress(packed, most)
    if unzip.unconsumed_tail or not unzip.eof:
        raise ValueError(f"it is cut off, or larger than {most} bytes when unpacked")
    return text
