"""Reads one manifest from text, without the dangerous parts of YAML, and reports keys whose values are lost."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import isfinite
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import yaml

from webhook.yaml_files.repeated_keys import MERGE, RepeatedKey, mistake, without_repeated

MAX_DEPTH = 200
MAX_VALUES = 5_000_000
"""Most values in one document once its aliases are expanded."""

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONFLICT = re.compile(r"^(<<<<<<<|=======|>>>>>>>)", re.MULTILINE)
_TEMPLATE = re.compile(r"\{\{|<%")
_TEXT_OR_BRACE = re.compile(r'"(?:[^"\\]|\\.)*"|[{}]')
_HALF_OF_A_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
_TAG = "tag:yaml.org,2002:"


class Unreadable(NamedTuple):
    """Why a text is neither YAML nor JSON; `line` counts from 0 within the text."""

    line: int
    message: str


class Loaded(NamedTuple):
    """The value of a document, and its repeated keys if it is YAML. In the value, the last value of such a key counts.

    `lines` has the line of each map that may be an item of a list, by its id. Lines count from 0 within the text.
    """

    value: Any
    repeated: Sequence[RepeatedKey] = ()
    lines: Mapping[int, int] = MappingProxyType({})


def load(chunk: str) -> Loaded | Unreadable:
    """The value of one YAML or JSON document, or the line that is wrong and why."""
    conflict = _CONFLICT.search(chunk)
    if conflict is not None:
        return Unreadable(chunk.count("\n", 0, conflict.start()), "a git conflict marker; resolve the conflict")
    if chunk.lstrip().startswith("{"):
        try:
            return _load_json(chunk)
        except json.JSONDecodeError as error:
            return _load_braces(chunk, error)
    return _load_yaml(chunk)


def _load_json(chunk: str) -> Loaded | Unreadable:
    """The value of a JSON text. Raises JSONDecodeError for a text that is no JSON, which may be YAML."""
    ids: list[int] = []

    def noted(found: dict[str, Any]) -> dict[str, Any]:
        ids.append(id(found))
        return found

    try:
        value = json.loads(chunk, object_hook=noted, parse_float=_finite, parse_constant=_finite)
        _check_depth(value)
        if _HALF_OF_A_PAIR.search(chunk):
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError:
        raise
    except RecursionError:
        return Unreadable(0, f"nested deeper than {MAX_DEPTH} levels")
    except UnicodeEncodeError:
        return Unreadable(
            0, "not valid JSON: an unpaired surrogate, an escape from \\ud800 to \\udfff without its other half"
        )
    except ValueError as error:
        return Unreadable(0, f"not valid JSON: {error}")
    lines = dict(zip(ids, _lines_of_maps(chunk), strict=True)) if "items" in value else {}
    return Loaded(value, (), lines)


def _lines_of_maps(text: str) -> list[int]:
    """The line of each map in valid JSON, in the order in which the maps end."""
    ended, begun = [], []
    for part in _TEXT_OR_BRACE.finditer(text):
        if part[0] == "{":
            begun.append(part.start())
        elif part[0] == "}":
            ended.append(begun.pop())
    line, lines = 0, {}
    for before, place in pairwise([0, *sorted(ended)]):
        line += text.count("\n", before, place)
        lines[place] = line
    return [lines[place] for place in ended]


def _load_braces(chunk: str, error: json.JSONDecodeError) -> Loaded | Unreadable:
    """The value of a text in braces that is no JSON: it is YAML in flow style, a template, or broken."""
    found = _load_yaml(chunk)
    if isinstance(found, Loaded) or _TEMPLATE.search(chunk):
        return found
    return Unreadable(error.lineno - 1, f"not valid JSON: {error.msg}")


def _load_yaml(chunk: str) -> Loaded | Unreadable:
    try:
        fault = _fault_of_size(chunk)
        if fault is not None:
            return fault
        loader = _Loader(chunk)
        try:
            node = loader.get_single_node()
            repeated = without_repeated(node)
            return Loaded(None if node is None else loader.construct_document(node), repeated, loader.lines)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = min(mark.line, chunk.count("\n")) if mark is not None else 0  # the end of the text is no line
        template = _TEMPLATE.search(chunk)
        if template is None:
            return Unreadable(line, f"not valid YAML: {error.problem}")
        line = min(line, chunk.count("\n", 0, template.start()))
        return Unreadable(line, f"not valid YAML: {error.problem}; render the template first")
    except yaml.reader.ReaderError as error:
        found = f"not valid YAML: the character U+{error.character:04X} is not allowed"
        return Unreadable(chunk.count("\n", 0, chunk.find(chr(error.character))), found)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return Unreadable(0, f"not valid YAML: {' '.join(str(error).split())}")


def _check_depth(value: Any) -> None:
    """Raise RecursionError for JSON that is nested more deeply than MAX_DEPTH."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            part
            for parent in level
            if isinstance(parent, (dict, list))
            for part in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return
    raise RecursionError


def _finite(text: str) -> float:
    if not isfinite(number := float(text)):
        raise ValueError(f"{text[:60]} is not a number in JSON")
    return number


class _Size:
    """Counts the depth of a document, and its values once aliases are expanded, from its events alone."""

    def __init__(self) -> None:
        self._values = 0
        self._anchored: dict[str, int] = {}
        self._open: list[tuple[str | None, int]] = []

    def add(self, event: yaml.Event) -> str:
        """Count one event; returns the limit that is exceeded, or an empty text."""
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchored:
                return f"the alias *{event.anchor} refers to an anchor that is not defined, or that contains the alias"
            self._values += self._anchored[event.anchor]
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open.append((event.anchor, self._values))
            self._values += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = self._open.pop()
            if anchor is not None:
                self._anchored[anchor] = self._values - before
        elif isinstance(event, yaml.ScalarEvent):
            self._values += 1
            if event.anchor is not None:
                self._anchored[event.anchor] = 1
        if len(self._open) > MAX_DEPTH:
            return f"nested deeper than {MAX_DEPTH} levels"
        return f"more than {MAX_VALUES} values once aliases are expanded" if self._values > MAX_VALUES else ""


def _fault_of_size(chunk: str) -> Unreadable | None:
    """Nesting that would exhaust the stack, or aliases that would exhaust the memory; None for a harmless text."""
    size = _Size()
    for event in yaml.parse(chunk, Loader=_BASE):
        if message := size.add(event):
            return Unreadable(event.start_mark.line if event.start_mark is not None else 0, message)
    return None


class _Loader(_BASE):  # type: ignore[misc]  # the class is chosen at run time
    """YAML as manifests use it: types of JSON, and texts as keys; a date or 12:30 stays a text.

    Maps are constructed after `without_repeated` has looked at them.
    """

    yaml_implicit_resolvers: ClassVar[dict[str, list[Any]]] = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != f"{_TAG}timestamp"]
        for first, resolvers in _BASE.yaml_implicit_resolvers.items()
    }
    yaml_constructors: ClassVar[dict[Any, Any]] = {
        tag: constructor
        for tag, constructor in _BASE.yaml_constructors.items()
        if tag is None or tag in {_TAG + name for name in ("null", "bool", "int", "float", "str", "seq")}
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lines: dict[int, int] = {}

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: ARG002  # the base class's signature
        """A map with texts as keys; its own keys override merged keys."""
        self.flatten_mapping(node)
        made = {str(key.value): self.construct_object(value, deep=True) for key, value in node.value}
        self.lines[id(made)] = node.start_mark.line
        return made

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Put merged keys before a map's own keys. The base class takes time quadratic in the number of merge keys."""
        merged: list[tuple[yaml.Node, yaml.Node]] = []
        own: list[tuple[yaml.Node, yaml.Node]] = []
        for key, value in node.value:
            if key.tag != MERGE:
                own.append((key, value))
                continue
            parts = reversed(value.value) if isinstance(value, yaml.SequenceNode) else [value]
            for part in parts:
                if not isinstance(part, yaml.MappingNode):
                    raise mistake("expected a map, or a list of maps, to merge", part)
                self.flatten_mapping(part)
                merged += part.value
        node.value = merged + own

    def construct_map(self, node: yaml.MappingNode) -> Iterator[dict[Any, Any]]:
        """A map. It is constructed at once, because aliases to unfinished maps were refused before."""
        if not isinstance(node, yaml.MappingNode):
            raise mistake("tagged as a map, but is not a map", node)
        yield self.construct_mapping(node)

    def construct_number(self, node: yaml.ScalarNode) -> Any:
        """A number. 12:30, which YAML 1.1 reads as a number of base 60, stays a text, as for kubectl."""
        text = str(self.construct_scalar(node))
        if ":" in text:
            return text
        is_int = node.tag == f"{_TAG}int"
        try:
            value = self.construct_yaml_int(node) if is_int else self.construct_yaml_float(node)
        except (ValueError, IndexError):
            raise mistake(f"{text[:60]!r} cannot be read as a number", node) from None
        if isinstance(value, float) and not isfinite(value):
            raise mistake(f"{text} is not a number in JSON; put it in quotes", node)
        return value

    def construct_bool(self, node: yaml.ScalarNode) -> Any:
        """A boolean; the constructor of the base class raises KeyError for other texts."""
        try:
            return self.construct_yaml_bool(node)
        except KeyError:
            raise mistake(f"{str(node.value)[:60]!r} is not a boolean", node) from None


_Loader.add_constructor(f"{_TAG}map", _Loader.construct_map)
_Loader.add_constructor(f"{_TAG}int", _Loader.construct_number)
_Loader.add_constructor(f"{_TAG}float", _Loader.construct_number)
_Loader.add_constructor(f"{_TAG}bool", _Loader.construct_bool)
