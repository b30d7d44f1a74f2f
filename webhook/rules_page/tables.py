"""Settings as tables in Markdown."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from webhook.policy.error_wording import describe
from webhook.policy.schema import Schema
from webhook.rules_page.as_yaml import in_one_line


def table(schema: Schema, keys: Sequence[str]) -> str:
    """One row for each of the keys."""
    lines = ["| Key | Value | Default | Meaning |", "|---|---|---|---|"]
    required = schema.get("required", ())
    for key in keys:
        part = schema["properties"][key]
        default = "required" if key in required else _code(part["default"]) if "default" in part else "unset"
        cells = (f"`{key}`", _value(part), default, part.get("description", ""))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _value(part: Schema) -> str:
    if "enum" in part:
        return ", ".join(f"`{choice}`" if choice else "empty" for choice in part["enum"])
    return describe(part)


def _code(value: Any) -> str:
    if value in ("", [], {}):
        return "empty"
    if isinstance(value, str):
        return f"`{value}`"
    return f"`{in_one_line(value) if isinstance(value, list | dict) else json.dumps(value)}`"


def entries(schema: Schema, keys: Sequence[str]) -> Iterator[str]:
    """A table for each key that holds a list of maps."""
    for key in keys:
        entries = schema["properties"][key].get("items", {})
        if "properties" in entries:
            yield f"\nEach entry of `{key}`:\n\n" + table(entries, list(entries["properties"]))
