"""Reads manifests from files, directories and standard input; a broken document does not affect other documents.

Files are read as kubectl reads them (YAML or JSON, several documents, `kind: List`). Two faults that kubectl accepts
silently are reported: a key that stands twice in one map (kubectl uses the last value), and a Pod of a wrong
apiVersion.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

import orjson
import yaml
from yaml.constructor import SafeConstructor

from webhook.model.json_parts import mapped
from webhook.model.wording import one_slip_away
from webhook.model.workloads import WORKLOADS, is_pod, workload_of
from webhook.yaml_files.repeated_keys import MERGE, RepeatedKey, mistake, without_repeated
from webhook.yaml_files.yaml_lines import LOADER, sized_events

SUFFIXES = frozenset({".yaml", ".yml", ".json"})

_SEPARATOR = re.compile(r"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
_BLANK_LINES = re.compile(r"(?:[ \t\r]*\n)*")


@dataclass(frozen=True, slots=True)
class DocumentError:
    """A document that cannot be reviewed. `number` counts documents from 1; `line` counts from 1, None if unknown.

    `source` is empty for objects of a cluster; the message then names the object. `is_another_file` is true for what
    stands in files of other kinds: values of charts, settings of CI, patches of kustomize, and nothing but comments.
    """

    source: str
    number: int
    line: int | None
    message: str
    is_another_file: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        place = f"{self.source}{f':{self.line}' if self.line else ''}: " if self.source else ""
        return f"{place}{self.message}"

    def to_json(self) -> dict[str, Any]:
        return {"source": self.source, "document": self.number, "line": self.line, "message": self.message}


@dataclass(frozen=True, slots=True)
class Document:
    """One object and its place: `number` counts the documents of the source from 1, `line` is the object's first line.

    An item of a List has a line of its own.
    """

    source: str
    number: int
    line: int
    object: Mapping[str, Any]

    @property
    def api_version(self) -> str:
        return str(self.object.get("apiVersion") or "")

    @property
    def kind(self) -> str:
        return str(self.object.get("kind") or "")

    def error(self, message: str, *, is_another_file: bool = False) -> DocumentError:
        return DocumentError(self.source, self.number, self.line, message, is_another_file)


Warn = Callable[[str], None]
"""Called with a message, file and line included, about a key that stands more than once in one map of an object."""


def own_namespace(document: Document) -> str:
    """The namespace that an object names; empty if it names none."""
    return str(mapped(document.object, "metadata").get("namespace") or "")


def read_all(paths: Iterable[str], stdin: BinaryIO, warn: Warn | None = None) -> Iterator[Document | DocumentError]:
    """Every document of the files, of the directories (recursively, sorted by name) and of standard input (`-`).

    With `warn` the last value of a repeated key counts; without `warn` an object with repeated keys is an error.
    """
    for path in paths:
        if path == "-":
            yield from _read_bytes(stdin.read(), "-", warn)
        elif os.path.isdir(path):  # Path.is_dir raises if it may not look at the path
            yield from _read_directory(Path(path), warn)
        else:
            yield from _read_file(Path(path), warn)


def _read_directory(directory: Path, warn: Warn | None) -> Iterator[Document | DocumentError]:
    """The manifests below a directory. Files without Kubernetes objects (values, CI, comments) are skipped."""
    found = "no .yaml, .yml or .json file"
    faults: list[OSError] = []
    for file in sorted(_files(directory, faults.append)):
        found = found and "no Kubernetes object"
        for document in _read_file(file, warn):
            if not isinstance(document, DocumentError) or not document.is_another_file:
                found = ""
                yield document
    yield from (_unreadable(str(fault.filename), fault) for fault in faults)
    if found:
        yield DocumentError(str(directory), 0, None, f"{found} in this directory")


def _files(directory: Path, fails: Callable[[OSError], None]) -> Iterator[Path]:
    """Files below a directory that may be manifests, broken links included, hidden files excluded.

    Links to directories are not followed: most lead to files that are read anyway, and some lead in a circle.
    """
    for place, directories, files in os.walk(directory, onerror=fails):
        directories[:] = (name for name in directories if not name.startswith("."))
        for file in (Path(place, name) for name in files if not name.startswith(".")):
            if file.suffix in SUFFIXES and (os.path.isfile(file) or not os.path.exists(file)):  # methods of Path raise
                yield file


def _read_file(file: Path, warn: Warn | None) -> Iterator[Document | DocumentError]:
    try:
        content = file.read_bytes()
    except OSError as error:
        yield _unreadable(str(file), error)
    else:
        yield from _read_bytes(content, str(file), warn)


def _unreadable(source: str, error: OSError) -> DocumentError:
    return DocumentError(source, 0, None, f"cannot be read: {error.strerror}; name a file that you can read")


def _read_bytes(content: bytes, source: str, warn: Warn | None) -> Iterator[Document | DocumentError]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        yield DocumentError(source, 0, line, f"not UTF-8 at byte {error.start}; save the file in UTF-8")
    else:
        yield from read_text(text, source, warn)


def read_text(text: str, source: str, warn: Warn | None = None) -> Iterator[Document | DocumentError]:
    """Every document of one text; `warn` as in `read_all`."""
    number = 0
    for line, chunk in _split(text):
        if not _has_content(chunk):
            continue
        number += 1
        blank = _BLANK_LINES.match(chunk)
        end = blank.end() if blank else 0
        yield from _read_document(chunk[end:], Document(source, number, line + chunk.count("\n", 0, end), {}), warn)
    if number == 0:
        yield DocumentError(source, 0, 1, "contains no YAML or JSON document", is_another_file=True)


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


def _read_document(chunk: str, place: Document, warn: Warn | None) -> Iterator[Document | DocumentError]:
    found = load(chunk)
    if isinstance(found, Unreadable):
        yield DocumentError(place.source, place.number, place.line + found.line, found.message)
        return
    value, repeated, lines = found
    if not _is_object(value):
        keys = set(value) if isinstance(value, dict) else set()  # a Helm chart's Chart.yaml has an apiVersion alone
        is_half = "kind" in keys or ("apiVersion" in keys and not keys.isdisjoint(("metadata", "spec")))
        fault = "an incomplete Kubernetes object" if is_half else "not a Kubernetes object"
        yield place.error(f"{fault}: expected a map with apiVersion and kind", is_another_file=not is_half)
    elif repeated and warn is None:
        messages = "; ".join(one.message(place.line) for one in repeated)
        refused = place.error(f"{messages}; keep one of {'them' if len(repeated) == 1 else 'each'}")
        yield replace(refused, line=place.line + repeated[0].last)
    else:
        if warn is not None:
            for one in repeated:
                how = "kubectl uses the last value, and so does this command; keep one of them"
                warn(f"{place.source}:{place.line + one.last}: {one.message(place.line)}; {how}")
        yield from _objects(replace(place, object=value), {key: place.line + line for key, line in lines.items()})


def _objects(document: Document, lines: Mapping[int, int]) -> Iterator[Document | DocumentError]:
    """The object itself, or the items of a List; items of a PodList need no kind. `lines` are those of maps by id."""
    items = document.object.get("items")
    kind = document.kind.removesuffix("List")
    is_typed = kind != document.kind and (_is_known(document.api_version, kind) or _are_objects(items))
    if isinstance(items, list) and (is_typed or document.kind == "List"):
        head = {"apiVersion": document.api_version, "kind": kind} if is_typed and kind else {}
        for index, item in enumerate(items):
            here = replace(document, line=lines.get(id(item), document.line))
            whole = {**head, **item} if isinstance(item, dict) else item
            if _is_object(whole):
                yield from _objects(replace(here, object=whole), lines)
            else:
                yield here.error(f"items[{index}]: not a Kubernetes object: expected a map with apiVersion and kind")
    else:
        yield _mistaken(document) or _patch(document) or document


def _are_objects(items: object) -> bool:
    names = [mapped(item, "metadata") for item in items] if isinstance(items, list) else []
    return bool(names) and all(one.get("name") or one.get("generateName") for one in names)


_BUILT_IN = (("", "Pod"), *(group_and_kind for group_and_kind in WORKLOADS if "." not in group_and_kind[0]))
"""API groups and kinds of pods and workloads that Kubernetes itself knows."""


def _mistaken(document: Document) -> DocumentError | None:
    """The error of an object that is meant to be a Pod or a built-in workload, but is misspelled.

    Groups with a dot are not built in: they may have a Job or a Deployment of their own, and kinds in any spelling.
    """
    group = document.api_version.rpartition("/")[0]
    for expected_group, kind in _BUILT_IN:
        if document.kind.lower() != kind.lower() or "." in group:
            continue
        if document.kind != kind:
            return document.error(f"kind: found {document.kind!r}, but it is spelled {kind!r}")
        if not _is_known(document.api_version, kind) or document.api_version != document.api_version.lower():
            version = f"{expected_group}/v1" if expected_group else "v1"
            article = "an" if kind[0] in "AEIOU" else "a"
            return document.error(f"apiVersion: found {document.api_version!r}, but {article} {kind}'s is {version!r}")
    # the core group has many more kinds, and old manifests of others name it, so only a slip is certain there
    own = {kind.lower(): kind for of_group, kind in (*_BUILT_IN, ("apps", "ControllerRevision")) if of_group == group}
    written = document.kind.lower()
    near = one_slip_away(written, sorted(own))
    if written.removesuffix("list") in own or not (near or (group and own)):
        return None
    meant = f"did you mean {own[near]}?" if near else f"its kinds are {', '.join(sorted(own.values()))}"
    return document.error(f"kind: found {document.kind!r}, but {document.api_version} has no such kind; {meant}")


_SELECTING = frozenset({"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"})
"""The kinds of the group apps that need a selector."""


def _patch(document: Document) -> DocumentError | None:
    """The error of a patch, which kustomize merges into a whole object.

    It has no selector and a container without an image, which no API server accepts.
    """
    spec = mapped(document.object, "spec")
    if document.kind not in _SELECTING or not document.api_version.startswith("apps/") or "selector" in spec:
        return None
    containers = mapped(spec, "template", "spec").get("containers")
    if not isinstance(containers, list) or all(isinstance(one, dict) and "image" in one for one in containers):
        return None
    fault = "a patch, not a whole Kubernetes object: it has no selector, and a container has no image"
    return document.error(f"{fault}; run kustomize build first", is_another_file=True)


def _is_known(api_version: str, kind: str) -> bool:
    return is_pod(api_version, kind) or workload_of(api_version, kind) is not None


def _is_object(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("kind"), str) and "apiVersion" in value


# One document from text, without the dangerous parts of YAML.

MAX_DEPTH = 200
"""Most levels of maps and lists in YAML; orjson writes JSON of up to 254."""
MAX_VALUES = 5_000_000
"""Most values in one document once its aliases are expanded."""

_CONFLICT = re.compile(r"^(<<<<<<<|=======|>>>>>>>)", re.MULTILINE)
_TEMPLATE = re.compile(r"\{\{|<%")
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
    fault = None
    if chunk.lstrip().startswith("{"):
        try:
            value = orjson.loads(chunk)
            orjson.dumps(value)
            return Loaded(value)
        except orjson.JSONDecodeError as error:
            fault = Unreadable(error.lineno - 1, f"not valid JSON: {error.msg}")
        except TypeError:
            return Unreadable(0, _TOO_DEEP)
    found = _load_yaml(chunk)
    if fault is None or isinstance(found, Loaded) or _TEMPLATE.search(chunk):
        return found  # YAML in flow style, or a template
    return fault


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
    return mistake(f"the tag {node.tag!r} is not allowed here; leave it out", node)
