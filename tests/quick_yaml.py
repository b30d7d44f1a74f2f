"""YAML for tests that read much of it: by libyaml, as the product does, which takes a tenth of the time."""

from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load(text: str) -> Any:
    """The only document of a text; None where it has none."""
    (document,) = load_all(text) or [None]
    return document


def load_all(text: str) -> list[Any]:
    """Every document of a text."""
    return list(yaml.load_all(text, _LOADER))
