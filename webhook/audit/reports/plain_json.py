"""JSON that every pipe carries and every parser reads: plain ASCII, keys in the order in which they are written."""

import json
from collections.abc import Iterator, Mapping
from typing import Any


def dumps(document: Mapping[str, Any]) -> str:
    """`document`, indented, with a newline at its end. Half a surrogate pair, which is no character, is replaced.

    An iterator among its values becomes a list; nothing but the text is kept of what it gives.
    """
    return "".join(_pieces(document))


def _pieces(document: Mapping[str, Any]) -> Iterator[str]:
    before = "{\n"
    for key, value in document.items():
        yield f"{before}  {_text(key, 0)}: "
        if isinstance(value, Iterator):
            yield from _list(value)
        else:
            yield _text(value, 2)
        before = ",\n"
    yield "\n}\n" if document else "{}\n"


def _list(items: Iterator[Any]) -> Iterator[str]:
    before = "["
    for item in items:
        yield f"{before}\n    "
        yield _text(item, 4)
        before = ","
    yield "[]" if before == "[" else "\n  ]"


def _text(value: Any, indent: int) -> str:
    """A value where every line but the first is indented; a text in JSON has no line breaks."""
    text = json.dumps(_sound(value), indent=2, allow_nan=False)
    return text.replace("\n", "\n" + " " * indent) if indent else text


def _sound(value: Any) -> Any:
    if isinstance(value, dict):
        return {_sound(key): _sound(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_sound(item) for item in value]
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value
