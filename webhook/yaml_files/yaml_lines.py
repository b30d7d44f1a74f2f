"""A reader of YAML that keeps the line of every key, because an error with its line is corrected in seconds.

It is stricter than YAML: one document, keys that are strings, no duplicate keys, no tags, plain decimal numbers, and
limits of size, depth and expansion. Anchors, aliases and merge keys work. Anybody who can connect to the webhook can
have any bytes read here.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.constructor import SafeConstructor
from yaml.reader import Reader

from webhook.yaml_files.file_errors import Faults, FileError, FileErrors, KeyPath
from webhook.yaml_files.repeated_keys import mistake

MAX_BYTES = 1024 * 1024
"""Bytes that a file may have, as many as a ConfigMap."""
MAX_NODES = 200_000
"""Keys and values that one file may have after its aliases are expanded."""
MAX_CHARACTERS = 8 * MAX_BYTES
"""Characters of all values of one file, each with the keys that lead to it: an alias may stand for a long text."""
MAX_DEPTH = 50
"""Levels of maps and lists that a file may have."""

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONFLICT = re.compile(r"<<<<<<<|>>>>>>>|\|\|\|\|\|\|\|")
_TAG_DIRECTIVE = re.compile("(?:^|[\n\r\x85\u2028\u2029])%TAG")
"""libyaml compares each such line with all before it while the whole process waits: minutes for a file of 1 MiB."""
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]+)?")
_TAG = "tag:yaml.org,2002:"
_TEXTS = frozenset({_TAG + "str", _TAG + "timestamp", _TAG + "value"})
_MERGE = _TAG + "merge"

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class YamlNode:
    """A value with its file, its line and its text. Lines count from 1; a value in a map has the line of its key."""

    value: "Scalar | list[YamlNode] | dict[str, YamlNode]"
    file: str
    line: int
    text: str = ""

    @property
    def entries(self) -> "dict[str, YamlNode]":
        """The values of a map by key; none if it is no map."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> "list[YamlNode]":
        """The values of a list; none if it is no list."""
        return self.value if isinstance(self.value, list) else []

    def at(self, *path: str | int) -> "YamlNode":
        """The value at a path below. Where there is none, None, with the line of the nearest value above."""
        node = self
        for key in path:
            children: Mapping[Any, YamlNode] = node.entries or dict(enumerate(node.items))
            if key not in children:
                return YamlNode(None, node.file, node.line)
            node = children[key]
        return node

    def plain(self) -> Any:
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


def read_yaml(source: bytes, file: str, kind: str = "GPUPolicy") -> YamlNode:
    """The document in a file. Raises FileErrors with all mistakes.

    `file` is the name of the file in errors, and `kind` the kind of document that it should have.
    """
    text = _decode(source, file)
    try:
        _check_structure(text, file, kind)
        root = yaml.compose(text, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        raise FileErrors([_syntax_error(error, text, file)]) from None
    except yaml.YAMLError as error:
        raise FileErrors([FileError(file, 1, "", f"not valid YAML: {error}")]) from None
    if root is None or root.tag == _TAG + "null":
        raise FileErrors([FileError(file, 1, "", f"the file is empty; write a {kind}, or remove the file")])
    reader = _Reader(file)
    node = reader.read(root, (), root.start_mark.line + 1)
    reader.faults.raise_if_any()
    return node


def count_values(source: bytes, most: int) -> int:
    """The number of keys and values in a file after its aliases are expanded, up to one more than `most`.

    In a file that `read_yaml` refuses, those before the first fault are counted. Takes a fraction of the time of
    `read_yaml`, and hardly any memory.
    """
    count = 0
    with suppress(yaml.YAMLError, FileErrors):
        for _, count, depth in sized_events(_decode(source, "")):
            if count > most or depth > MAX_DEPTH:
                break
    return min(count, most + 1)


def sized_events(text: str) -> Iterator[tuple[yaml.Event, int, int]]:
    """Each event of a text, the number of keys and values so far with aliases expanded, and the depth.

    Takes hardly any memory. Raises yaml.YAMLError, also for an alias that cannot be expanded.
    """
    count = 0
    begun: list[tuple[str | None, int]] = []
    sizes: dict[str | None, int] = {}
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                fault = f"the alias *{event.anchor} refers to an anchor that is not defined, or that contains the alias"
                raise mistake(fault, event)
            count += sizes[event.anchor]
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = begun.pop()
            if anchor is not None:
                sizes[anchor] = count - before
        elif isinstance(event, yaml.NodeEvent):
            count += 1
            if isinstance(event, yaml.CollectionStartEvent):
                begun.append((event.anchor, count - 1))
            elif event.anchor is not None:
                sizes[event.anchor] = 1
        yield event, count, len(begun)


def _decode(source: bytes, file: str) -> str:
    if len(source) > MAX_BYTES:
        raise FileErrors(
            [FileError(file, 0, "", f"larger than {MAX_BYTES} bytes (1 MiB), the most that such a file may have")]
        )
    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        raise FileErrors([FileError(file, line, "", "not UTF-8; save the file in UTF-8")]) from None
    bad = Reader.NON_PRINTABLE.search(text)
    if bad is not None:
        line = text.count("\n", 0, bad.start()) + 1
        message = f"control character U+{ord(bad.group()):04X}, which YAML does not allow; remove it"
        raise FileErrors([FileError(file, line, "", message)])
    directive = _TAG_DIRECTIVE.search(text)
    if directive is not None:
        line = text.count("\n", 0, directive.end()) + 1
        raise FileErrors([FileError(file, line, "", "a %TAG directive, which is not supported; remove the line")])
    if marked := [number for number, line in enumerate(text.split("\n"), 1) if _CONFLICT.match(line)]:
        raise FileErrors(
            FileError(file, number, "", "a merge conflict marker; resolve the conflict") for number in marked
        )
    return text


def _check_structure(text: str, file: str, kind: str) -> None:
    """Refuse files that could exhaust the composer, which recurses, and files with a second document."""
    documents = 0
    for event, count, depth in sized_events(text):
        documents += isinstance(event, yaml.DocumentStartEvent)
        if depth > MAX_DEPTH:
            fault = f"nested deeper than {MAX_DEPTH} levels"
        elif count > MAX_NODES:
            fault = f"more than {MAX_NODES} keys and values once aliases are expanded; write fewer, or smaller aliases"
        elif documents > 1:
            fault = f"a second document starts here; a file holds one {kind}"
        else:
            continue
        raise FileErrors([FileError(file, event.start_mark.line + 1 if event.start_mark else 1, "", fault)])


def _syntax_error(error: yaml.MarkedYAMLError, text: str, file: str) -> FileError:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark is not None else 1
    lines = text.splitlines()
    written = lines[line - 1] if line <= len(lines) else ""
    if re.match(r"\s*\t", written):
        return FileError(file, line, "", "a tab indents this line; YAML is indented with spaces")
    context = f" {error.context}" if error.context else ""
    return FileError(file, line, "", f"not valid YAML: {error.problem}{context}")


class _Reader:
    """Turns the nodes of one file into values, and collects faults."""

    def __init__(self, file: str) -> None:
        self.faults = Faults()
        self._file = file
        self._characters = 0
        self._construct = SafeConstructor()

    def read(self, node: yaml.Node, path: KeyPath, line: int) -> YamlNode:
        """The value of a node. A faulty part is replaced by an empty value."""
        self._weigh(path, line)
        if isinstance(node, yaml.ScalarNode):
            self._weigh((node.value,), line)
            return YamlNode(self._scalar(node, path), self._file, line, node.value)
        if node.tag not in (_TAG + "map", _TAG + "seq"):
            self._refuse_tag(node, path)
        if isinstance(node, yaml.MappingNode):
            value: dict[str, YamlNode] | list[YamlNode] = self._map(node, path)
        else:
            value = [self.read(item, (*path, index), item.start_mark.line + 1) for index, item in enumerate(node.value)]
        return YamlNode(value, self._file, line)

    def _weigh(self, texts: KeyPath, line: int) -> None:
        self._characters += sum(len(part) if isinstance(part, str) else 1 for part in texts)
        if self._characters > MAX_CHARACTERS:
            message = (
                f"more than {MAX_CHARACTERS} characters in values and the keys that lead to them once aliases are "
                "expanded; write shorter texts and keys, or fewer aliases"
            )
            raise FileErrors([FileError(self._file, line, "", message)])

    def _map(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, YamlNode]:
        own: dict[str, YamlNode] = {}
        merged: dict[str, YamlNode] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if isinstance(key_node, yaml.ScalarNode):
                self._weigh((*path, key_node.value), line)
            key = self._key(key_node, path)
            if key is None:
                continue
            if key in lines:
                message = f"{key} is already set in line {lines[key]}; keep one of the two"
                self.faults.add(self._file, line, (*path, key), message)
                continue
            lines[key] = line
            if key_node.tag == _MERGE:
                for source in self._merge_sources(value_node, path, line):
                    for name, value in source.items():
                        merged.setdefault(name, value)
            else:
                own[key] = self.read(value_node, (*path, key), line)
        return {**merged, **own}

    def _key(self, node: yaml.Node, path: KeyPath) -> str | None:
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.ScalarNode):
            self.faults.add(self._file, line, path, "a key must be a string, not a map or a list")
            return None
        if node.tag == _MERGE or node.tag in _TEXTS:
            return str(node.value)
        kind = "a boolean" if node.tag == _TAG + "bool" else "null" if node.tag == _TAG + "null" else "a number"
        message = f"the key {node.value or '(nothing)'} is {kind} in YAML; put it in quotes"
        self.faults.add(self._file, line, (*path, node.value), message)
        return None

    def _merge_sources(self, node: yaml.Node, path: KeyPath, line: int) -> Iterator[dict[str, YamlNode]]:
        value = self.read(node, path, line).value
        sources = [item.value for item in value] if isinstance(value, list) else [value]
        for source in sources:
            if isinstance(source, dict):
                yield source
            else:
                self.faults.add(self._file, line, (*path, "<<"), "a merge key takes a map or a list of maps")

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Scalar:
        match node.tag.removeprefix(_TAG):
            case "str" | "timestamp" | "value" | "merge":
                return str(node.value)
            case "bool":
                return self._boolean(node, path)
            case "null":
                return None
            case "int" | "float":
                return self._number(node, path)
        self._refuse_tag(node, path)
        return ""

    def _boolean(self, node: yaml.ScalarNode, path: KeyPath) -> Scalar:
        value = SafeConstructor.bool_values.get(node.value.lower())
        if value is None:
            self._refuse_tag(node, path)
        return bool(value)

    def _number(self, node: yaml.ScalarNode, path: KeyPath) -> Scalar:
        try:
            if _DECIMAL.fullmatch(node.value) and len(node.value) <= 40:
                if node.tag == _TAG + "int":
                    return int(node.value)
                value = float(node.value)
                if abs(value) < float("inf"):
                    return value
        except ValueError:
            pass
        line = node.start_mark.line + 1
        message = f"{node.value[:40]} is not a plain decimal number; write one, or put it in quotes"
        self.faults.add(self._file, line, path, message)
        return 0

    def _refuse_tag(self, node: yaml.Node, path: KeyPath) -> None:
        tag = str(node.tag).replace(_TAG, "!!")
        self.faults.add(self._file, node.start_mark.line + 1, path, f"the tag {tag} is not supported; remove it")
