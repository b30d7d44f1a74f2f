"""Manifests from files, directories and standard input, each document on its own: one broken document spoils no other.

Files are read as kubectl reads them (YAML or JSON, several documents, `kind: List`), but stricter where kubectl would
silently drop something: duplicate keys and Pods of the wrong apiVersion are errors.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import yaml

SUFFIXES = frozenset({".yaml", ".yml", ".json"})
MAX_DEPTH = 200
MAX_VALUES = 5_000_000
"""Most values in one document once its aliases are expanded."""

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SEPARATOR = re.compile(r"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
_BLANK_LINES = re.compile(r"(?:[ \t\r]*\n)*")
_CONFLICT = re.compile(r"^(<<<<<<<|=======|>>>>>>>)", re.MULTILINE)
_TEMPLATE = re.compile(r"\{\{|\$\{\{|<%")


@dataclass(frozen=True, slots=True)
class DocumentError:
    """A document that cannot be reviewed. `number` counts documents from 1; `line` counts from 1, None if unknown."""

    source: str
    number: int
    line: int | None
    message: str

    def __str__(self) -> str:
        return f"{self.source}{f':{self.line}' if self.line else ''}: {self.message}"


@dataclass(frozen=True, slots=True)
class Document:
    """One object and where it came from. `number` counts the documents of the source from 1, `line` is its first."""

    source: str
    number: int
    line: int
    object: Mapping[str, Any]

    @property
    def api_version(self) -> str:
        """The apiVersion of the object, as text."""
        return str(self.object.get("apiVersion") or "")

    @property
    def kind(self) -> str:
        """The kind of the object, as text."""
        return str(self.object.get("kind") or "")

    def error(self, message: str) -> DocumentError:
        """An error about this document."""
        return DocumentError(self.source, self.number, self.line, message)


def read_all(paths: Iterable[str], stdin: TextIO) -> Iterator[Document | DocumentError]:
    """Every document of the files, of the directories (recursively, sorted by name) and of standard input (`-`)."""
    for path in paths:
        if path == "-":
            yield from read_text(stdin.read(), "-")
        elif Path(path).is_dir():
            yield from _read_directory(Path(path))
        else:
            yield from _read_file(Path(path))


def _read_directory(directory: Path) -> Iterator[Document | DocumentError]:
    """The manifests below a directory; YAML that is no Kubernetes object (values, CI files) is passed over."""
    found = False
    for file in sorted(p for p in directory.rglob("*") if p.suffix in SUFFIXES and p.is_file()):
        if any(part.startswith(".") for part in file.relative_to(directory).parts):
            continue
        found = True
        for document in _read_file(file):
            if not isinstance(document, DocumentError) or not document.message.startswith(_NO_OBJECT):
                yield document
    if not found:
        yield DocumentError(str(directory), 0, None, "no .yaml, .yml or .json file in this directory")


def _read_file(file: Path) -> Iterator[Document | DocumentError]:
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        yield DocumentError(str(file), 0, None, f"cannot be read: {error.strerror}")
        return
    except UnicodeDecodeError as error:
        yield DocumentError(str(file), 0, None, f"not UTF-8 at byte {error.start}; save the file in UTF-8")
        return
    yield from read_text(text, str(file))


def read_text(text: str, source: str) -> Iterator[Document | DocumentError]:
    """Every document of one text."""
    number = 0
    for line, chunk in _split(text):
        if not _has_content(chunk):
            continue
        number += 1
        blank = _BLANK_LINES.match(chunk)
        end = blank.end() if blank else 0
        yield from _read_document(chunk[end:], source, number, line + chunk.count("\n", 0, end))
    if number == 0:
        yield DocumentError(source, 0, 1, "holds no document")


def _split(text: str) -> Iterator[tuple[int, str]]:
    """Documents with the line they start on. A separator stands at the start of a line, also inside block scalars."""
    start, line = 0, 1
    for match in _SEPARATOR.finditer(text):
        yield line, text[start : match.start()]
        line += text.count("\n", start, match.start())
        start = match.end()
    yield line, text[start:]


def _has_content(chunk: str) -> bool:
    lines = (line.strip() for line in chunk.splitlines())
    return any(line and not line.startswith(("#", "%")) and line != "..." for line in lines)


_NO_OBJECT = "no Kubernetes object"


def _read_document(chunk: str, source: str, number: int, line: int) -> Iterator[Document | DocumentError]:
    try:
        value = _load(chunk)
    except _UnreadableError as error:
        yield DocumentError(source, number, line + error.line, error.message)
        return
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str) or "apiVersion" not in value:
        yield DocumentError(source, number, line, f"{_NO_OBJECT}: a map with apiVersion and kind is expected")
        return
    yield from _objects(Document(source, number, line, value))


def _objects(document: Document) -> Iterator[Document | DocumentError]:
    """The object itself, or the items of a List."""
    items = document.object.get("items")
    if document.kind.endswith("List") and isinstance(items, list):
        for index, item in enumerate(items):
            if isinstance(item, dict) and isinstance(item.get("kind"), str):
                yield from _objects(Document(document.source, document.number, document.line, item))
            else:
                yield document.error(f"items[{index}]: {_NO_OBJECT}: a map with apiVersion and kind is expected")
    elif document.kind == "Pod" and document.api_version != "v1":
        yield document.error(f"apiVersion: found {document.api_version!r}, but a Pod's is 'v1'")
    else:
        yield document


class _UnreadableError(Exception):
    """A text that is neither YAML nor JSON; `line` counts from 0 within the text."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


def _load(chunk: str) -> Any:
    if chunk.lstrip().startswith("{") and not _TEMPLATE.search(chunk):
        return _load_json(chunk)
    conflict = _CONFLICT.search(chunk)
    if conflict is not None:
        line = chunk.count("\n", 0, conflict.start())
        raise _UnreadableError(line, "a git conflict marker; resolve the conflict")
    try:
        _check_size(chunk)
        return yaml.load(chunk, Loader=_Loader)  # noqa: S506  # a safe loader, made stricter
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line if mark is not None else 0
        hint = "; render the template first" if _TEMPLATE.search(chunk) else ""
        raise _UnreadableError(line, f"not valid YAML: {error.problem}{hint}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _UnreadableError(0, f"not valid YAML: {error}") from None


def _load_json(chunk: str) -> Any:
    try:
        return json.loads(chunk, object_pairs_hook=_unique)
    except json.JSONDecodeError:
        return yaml.load(chunk, Loader=_Loader) if _is_flow_yaml(chunk) else _json_error(chunk)  # noqa: S506  # as above
    except RecursionError:
        raise _UnreadableError(0, "nested too deeply") from None


def _is_flow_yaml(chunk: str) -> bool:
    """Whether a text in braces is YAML in flow style rather than broken JSON."""
    try:
        _check_size(chunk)
        yaml.load(chunk, Loader=_Loader)  # noqa: S506  # as above
    except (yaml.YAMLError, ValueError, RecursionError, _UnreadableError):
        return False
    return True


def _json_error(chunk: str) -> Any:
    try:
        return json.loads(chunk)
    except json.JSONDecodeError as error:
        raise _UnreadableError(error.lineno - 1, f"not valid JSON: {error.msg}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, item in pairs:
        if key in value:
            raise _UnreadableError(0, f"the key {key!r} stands twice in one map; keep one of the two")
        value[key] = item
    return value


def _check_size(chunk: str) -> None:
    """Refuse nesting that would exhaust the stack and aliases that would exhaust the memory, by events alone."""
    totals: dict[str, int] = {}
    open_: list[tuple[str | None, int]] = []
    count = 0
    for event in yaml.parse(chunk, Loader=_BASE):
        line = event.start_mark.line
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in totals:
                raise _UnreadableError(line, f"the alias *{event.anchor} stands for nothing, or contains itself")
            count += totals[event.anchor]
        elif isinstance(event, yaml.CollectionStartEvent):
            count += 1
            open_.append((event.anchor, count))
            if len(open_) > MAX_DEPTH:
                raise _UnreadableError(line, f"nested deeper than {MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_.pop()
            if anchor is not None:
                totals[anchor] = count - before + 1
        elif isinstance(event, yaml.ScalarEvent):
            count += 1
            if event.anchor is not None:
                totals[event.anchor] = 1
        if count > MAX_VALUES:
            raise _UnreadableError(line, f"more than {MAX_VALUES} values once aliases are expanded")


class _Loader(_BASE):  # type: ignore[misc]  # the class is chosen at run time
    """YAML as manifests use it: text keys, no duplicates, and a date stays the text that was written."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in _BASE.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002  # the base class's signature
        """A map whose keys are texts, each once."""
        seen: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a text", key.start_mark)
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.value in seen:
                message = f"the key {key.value!r} is already set in line {seen[key.value] + 1} of the document"
                raise yaml.constructor.ConstructorError(None, None, message, key.start_mark)
            seen[key.value] = key.start_mark.line
        self.flatten_mapping(node)
        return {str(key.value): self.construct_object(value, deep=True) for key, value in node.value}

    def construct_yaml_map(self, node: yaml.MappingNode) -> Iterator[dict[Any, Any]]:
        """A map; constructed at once, since aliases to open maps are refused before."""
        yield self.construct_mapping(node)


_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.construct_yaml_map)
