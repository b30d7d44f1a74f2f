"""Tables that come with the package, as YAML files beside the modules that use them.

They are read once, at the start, and without line numbers: tests compare each file with its schema, so that no release
has a faulty one.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import yaml

from webhook.model.shape import FormatError
from webhook.model.versions import Version, parse_version

Row = TypeVar("Row")

_SAFE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVERS = {
    first: [(tag, form) for tag, form in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in _SAFE.yaml_implicit_resolvers.items()
}
_LOADER: Any = type("_Loader", (_SAFE,), {"yaml_implicit_resolvers": _RESOLVERS})
"""Reads dates as texts, with or without quotes, as the reader of people's files does."""


def read_table(file: Path) -> Any:
    """The content of a file, as maps, lists and scalars. A row of four keys takes some 16 microseconds."""
    with file.open("rb") as content:
        return yaml.load(content, Loader=_LOADER)  # noqa: S506  # either loader is a safe one


def read_rows(kind: type[Row], rows: Iterable[Mapping[str, Any]], where: str) -> tuple[Row, ...]:
    """Every row as a `kind`, a dataclass whose fields are keys of rows. Keys that are no field are left out.

    The key of a field is its name without is_ or has_, or else `key` in the metadata of the field. Its type tells how
    to read a value: versions and patterns from texts, tuples from lists or from texts with spaces in between. Raises
    FormatError, which names the row, if a version in it cannot be read.
    """
    types, found = get_type_hints(kind), []
    named = [
        (field.metadata.get("key", _camel(field.name)), field.name, _reader(types[field.name]))
        for field in fields(kind)  # type: ignore[arg-type]  # no type says that a class is a dataclass
    ]
    for row in rows:
        try:
            found.append(kind(**{name: read(row[key]) for key, name, read in named if key in row}))
        except FormatError as error:
            raise FormatError(f"{where}: {dict(row)}: {error}") from None
    return tuple(found)


def _camel(name: str) -> str:
    return re.sub("_(.)", lambda found: found[1].upper(), re.sub("^(is|has)_", "", name))


def _reader(kind: Any) -> Callable[[Any], Any]:
    """Reads a value of this type, which may be X | None."""
    one = get_args(kind)[0] if isinstance(kind, UnionType) else kind
    if get_origin(one) is tuple:
        read = _reader(get_args(one)[0])
        return lambda value: tuple(map(read, value.split() if isinstance(value, str) else value))
    if one is Version:
        return parse_version
    if get_origin(one) is re.Pattern:
        return lambda text: re.compile(text, re.ASCII)
    if is_dataclass(one) and isinstance(one, type):
        return lambda row: read_rows(one, (row,), one.__name__)[0]
    return one if isinstance(one, type) and issubclass(one, Enum) else lambda value: value
