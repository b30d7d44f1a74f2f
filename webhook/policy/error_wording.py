"""Messages about mistakes in settings: what was found, what is allowed, and how to correct it.

Messages of the validator are never shown. A message is made from the type of the validator's error, the value as it is
in the file, and the schema of the place.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from webhook.model.wording import hint
from webhook.policy.schema import Schema, part_at
from webhook.rules.rule_settings import Mode
from webhook.yaml_files.file_errors import KeyPath
from webhook.yaml_files.yaml_lines import YamlNode

MODES = ", ".join(Mode)
_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "string": "a string",
    "boolean": "true or false",
    "array": "a list",
    "object": "a map",
}
_ENTRIES = {"string": " of strings", "integer": " of whole numbers", "number": " of numbers", "object": " of maps"}

_MOST_DETAILS = 5_000
"""Mistakes in one part of a file up to which each gets a message. Each takes some 3 kB of memory until then."""


def describe(schema: Schema) -> str:
    """The values that a schema allows, in words.

    >>> describe({"type": "integer", "minimum": 1, "maximum": 8})
    'a whole number from 1 to 8'
    """
    if "anyOf" in schema:
        return " or ".join(describe(part) for part in schema["anyOf"])
    if "enum" in schema:
        return "one of " + ", ".join(str(value) or '""' for value in schema["enum"])
    if "const" in schema:
        return str(schema["const"])
    kind = schema.get("type", "")
    such_as = f" such as {schema['examples'][0]}" if "examples" in schema else ""
    if kind == "object" and "mode" in schema.get("properties", ()) and set(schema.get("required", ())) <= {"mode"}:
        such_as = " such as {mode: enforce}"
    entries = _ENTRIES.get(schema.get("items", {}).get("type", ""), "")
    return _KINDS.get(kind, "another value") + such_as + _range(schema) + entries


def _range(schema: Schema) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if least is not None and most is not None:
        return f" from {least:g} to {most:g}"
    bounds = [
        f"{words} {bound:g}"
        for words, bound in (("of at least", least), ("above", above), ("at most", most), ("below", below))
        if bound is not None
    ]
    return " " + " and ".join(bounds) if bounds else ""


def unknown_key(key: str, known: Iterable[str], what: str = "key") -> str:
    """The message for an unknown key, with all known ones."""
    known = sorted(known)
    return f"unknown {what}; known {what}s are {', '.join(known)}{hint(key, known)}"


def locate(node: YamlNode, loc: Sequence[str | int], missing: bool = False) -> tuple[KeyPath, YamlNode]:
    """The key path of a validator's location, and the nearest node at or above it.

    Parts of the location that are not keys (the alternatives of a union) are left out. The key of a `missing` value is
    kept.
    """
    path: list[str | int] = []
    for index, part in enumerate(loc):
        value = node.value
        if (isinstance(value, dict) and part in value) or (
            isinstance(value, list) and isinstance(part, int) and part < len(value)
        ):
            node = value[part]  # type: ignore[index]  # the part fits the collection, as just checked
            path.append(part)
        elif missing and index == len(loc) - 1:
            path.append(part)
    return tuple(path), node


class Mistake(NamedTuple):
    """A mistake that a validator found: the type of its error, the key path, the nearest node, and the message."""

    kind: str
    path: KeyPath
    node: YamlNode
    message: str


def mistakes_in(root: YamlNode, error: ValidationError, schema: Schema) -> Iterator[Mistake]:
    """Each mistake in the value of `root`; one that says how many there are if they are too many."""
    if (found := error.error_count()) > _MOST_DETAILS:
        text = f"holds {found} mistakes, too many to name them; correct all of one kind, and check again"
        yield Mistake("value_error", (), root, text)
        return
    for detail in error.errors(include_url=False):
        path, node = locate(root, detail["loc"], detail["type"] == "missing")
        message = _about_key(detail, schema, path) or _about_value(detail, part_at(schema, path), path, node)
        yield Mistake(detail["type"], path, node, message)


def _about_key(error: ErrorDetails, schema: Schema, path: KeyPath) -> str:
    """The message about a faulty key; empty if the value of the key is faulty."""
    if error["type"] == "extra_forbidden":
        return unknown_key(str(path[-1]), part_at(schema, path[:-1]).get("properties", ()))
    if error["type"] == "missing":
        return f"missing; write {describe(part_at(schema, path))}"
    if error["loc"][-1:] == ("[key]",):
        reason = _about_form(error.get("ctx", {}))
        return "not allowed as a key here" + (f"; {reason}" if reason else "")
    return ""


def _about_form(context: Mapping[str, object]) -> str:
    """The form that a key must have; empty if it is not known."""
    match context:
        case {"error": reason}:
            return str(reason)
        case {"pattern": pattern}:
            return f"keys match {pattern}"
        case {"min_length": least}:
            return f"keys have at least {least} {'character' if least == 1 else 'characters'}"
        case {"max_length": most}:
            return f"keys have at most {most} characters"
    return ""


def _about_value(error: ErrorDetails, place: Schema, path: KeyPath, node: YamlNode) -> str:
    kind = error["type"]
    context = error.get("ctx", {})
    if "enum" in place or "const" in place:
        return _not_a_choice(node, place, str(path[-1]) if path else "")
    if kind == "value_error" and "error" in context:
        told = str(context["error"])
        if isinstance(node.value, bool) and ";" in told:  # show the boolean as it was written, such as yes
            told = f"{found(node)};{told.partition(';')[2]}"
        return f"{told}; write {describe(place)}" if "examples" in place and ";" not in told else told
    if kind.startswith(("greater_than", "less_than")):
        return f"{node.text} is out of range; write {describe(place)}"
    return f"{found(node)}; {_remedy(kind, place, node, context)}"


def _remedy(kind: str, place: Schema, node: YamlNode, context: Mapping[str, object]) -> str:
    if kind == "string_type" and isinstance(node.value, bool | int | float):
        return "put it in quotes"
    if kind == "string_pattern_mismatch":
        return f"write one that matches {context.get('pattern')}"
    if place.get("type") in ("integer", "number") and _is_number(node.value):
        return "remove the quotes"
    if node.value == "":
        return f"write {describe(place)}, not an empty one"
    return f"write {describe(place)}"


def found(node: YamlNode) -> str:
    """A value as it was written, and its type in YAML.

    >>> found(YamlNode(False, "team.yaml", 3, "off"))
    'off is a boolean in YAML'
    """
    match node.value:
        case bool():
            return f"{node.text} is a boolean in YAML"
        case int() | float():
            return f"{node.text} is a number"
        case str():
            return f"{_shown(node.value)} is a string"
        case list():
            return "found a list"
        case dict():
            return "found a map"
    return "found nothing"


def _not_a_choice(node: YamlNode, place: Schema, key: str) -> str:
    choices = [str(choice) for choice in place.get("enum", [place.get("const")])]
    if choices == list(Mode) and key == "mode":
        if isinstance(node.value, str):
            return f"{_shown(node.value)} is not a mode; modes are {MODES}" + hint(node.value, choices)
        return f"{found(node)}; modes are words: {MODES}"
    if isinstance(node.value, str):
        meant = hint(node.value, choices) if len(choices) > 1 else ""
        return f"{_shown(node.value)} is not allowed; write {describe(place)}{meant}"
    return f"{found(node)}; write {describe(place)}"


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:56] + '..."'


def _is_number(value: object) -> bool:
    try:
        float(value) if isinstance(value, str) else int("")
    except ValueError:
        return False
    return True
