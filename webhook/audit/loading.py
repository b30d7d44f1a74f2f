"""Reads one manifest from text, without the dangerous parts of YAML, and reports keys whose values are lost."""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isfinite
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml
from yaml.constructor import SafeConstructor

from webhook.yaml_files.repeated_keys import MERGE, RepeatedKey, mistake, without_repeated
from webhook.yaml_files.yaml_lines import LOADER, sized_events

MAX_DEPTH = 200
MAX_VALUES = 5_000_000
"""Most values in one document once its aliases are expanded."""

_CONFLICT = re.compile(r"^(<<<<<<<|=======|>>>>>>>)", re.MULTILINE)
_TEMPLATE = re.compile(r"\{\{|<%")
_TEXT_OR_BRACE = re.compile(r'"(?:[^"\\]|\\.)*"|[{}]')
_HALF_OF_A_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
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
        return Unreadable(0, _TOO_DEEP)
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
        for event, count, depth in sized_events(chunk):
            if depth > MAX_DEPTH or count > MAX_VALUES:
                many = f"more than {MAX_VALUES} values once aliases are expanded"
                return Unreadable(
                    event.start_mark.line if event.start_mark is not None else 0,
                    _TOO_DEEP if depth > MAX_DEPTH else many,
                )
        node = yaml.compose(chunk, Loader=LOADER)
        repeated, values = without_repeated(node), _Values()
        return Loaded(None if node is None else values.of(node), repeated, values.lines)
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


class _Values:
    """Values of YAML as manifests use it: types of JSON, and texts as keys; a date or 12:30 stays a text.

    `lines` has the line of each map, by its id.
    """

    def __init__(self) -> None:
        self.lines: dict[int, int] = {}
        self._made: dict[int, Any] = {}
        self._construct = SafeConstructor()

    def of(self, node: yaml.Node) -> Any:
        """The value of a node; all aliases of a collection share it."""
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) not in self._made:
            if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
                self._made[id(node)] = made = self._map(node)
                self.lines[id(made)] = node.start_mark.line
            elif isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
                self._made[id(node)] = [self.of(item) for item in node.value]
            else:
                raise _untagged(node)
        return self._made[id(node)]

    def _map(self, node: yaml.MappingNode) -> dict[str, Any]:
        """A map; its own keys override merged keys, and the first of several merged maps the others."""
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag != MERGE:
                own[str(key.value)] = self.of(value)
                continue
            for part in reversed(value.value) if isinstance(value, yaml.SequenceNode) else [value]:
                if not isinstance(part, yaml.MappingNode):
                    raise mistake("expected a map, or a list of maps, to merge", part)
                merged |= self.of(part)
        return merged | own

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        match node.tag.removeprefix(_TAG):
            case "str" | "timestamp":
                return str(node.value)
            case "null":
                return None
            case "bool":
                if (value := SafeConstructor.bool_values.get(node.value.lower())) is None:
                    raise mistake(f"{str(node.value)[:60]!r} is not a boolean", node)
                return value
            case "int" | "float" as kind:
                return self._number(node, kind)
        raise _untagged(node)

    def _number(self, node: yaml.ScalarNode, kind: str) -> Any:
        """A number. 12:30, which YAML 1.1 reads as a number of base 60, stays a text, as for kubectl."""
        text = str(node.value)
        if ":" in text:
            return text
        construct = self._construct.construct_yaml_int if kind == "int" else self._construct.construct_yaml_float
        try:
            value = construct(node)
        except (ValueError, IndexError):
            raise mistake(f"{text[:60]!r} cannot be read as a number", node) from None
        if isinstance(value, float) and not isfinite(value):
            raise mistake(f"{text} is not a number in JSON; put it in quotes", node)
        return value


def _untagged(node: yaml.Node) -> yaml.constructor.ConstructorError:
    return mistake(f"could not determine a constructor for the tag {node.tag!r}", node)
