"""JSON that every pipe carries and every parser reads: plain ASCII, keys in the order in which they are written."""

import json
from typing import Any


def dumps(document: Any) -> str:
    """`document`, indented, with a newline at its end. Half a surrogate pair, which is no character, is replaced."""
    return json.dumps(_sound(document), indent=2, allow_nan=False) + "\n"


def _sound(value: Any) -> Any:
    if isinstance(value, dict):
        return {_sound(key): _sound(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_sound(item) for item in value]
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value
