"""Tables that come with the package, as YAML files beside the modules that use them.

They are read once, at the start, and without line numbers: tests compare each file with its schema, so that no release
has a faulty one.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

from webhook.model.shape import FormatError

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


def read_rows(
    read: Callable[[Mapping[str, Any]], Row], rows: Iterable[Mapping[str, Any]], where: str
) -> tuple[Row, ...]:
    """Every row, read by `read`. Raises FormatError, which names the row, if a version in it cannot be read."""
    found: list[Row] = []
    for row in rows:
        try:
            found.append(read(row))
        except FormatError as error:
            raise FormatError(f"{where}: {dict(row)}: {error}") from None
    return tuple(found)
