"""Finds the tests of policies below a directory and reads them, with every mistake in them.

A file that cannot be read may be a test, so it is an error: a test that is not run must not look like a test that
passed. Files with other objects, such as inventories and manifests, are skipped.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path

from webhook.audit.documents import Document, DocumentError, Warn, read_all, read_text
from webhook.policy.document import check_names_differ, read_head
from webhook.policy.exception_times import read_instant
from webhook.policy.schema import API_VERSION
from webhook.policy_tests.format import KIND, Case, CaseSettings, PolicyTestFile, Suite, node_at, policy_test_schema
from webhook.yaml_files.file_errors import Faults, FileError, FileErrors, KeyPath, key_text
from webhook.yaml_files.yaml_lines import MAX_BYTES, YamlNode, read_yaml

CASES: KeyPath = ("spec", "cases")

_SUFFIXES = frozenset({".yaml", ".yml"})
_MARK = re.compile(rb"""kind["']?[ \t]*:[ \t]*["']?gpupolicytest""", re.IGNORECASE)
_FREE = frozenset({"injected", "result"})
"""Keys below which any value may stand, null included."""


def find(path: Path) -> Iterator[Path]:
    """The files below a directory that may be tests, sorted, or the one file itself. Raises FileErrors."""
    if path.is_file():
        yield path
        return
    if not path.is_dir():
        raise FileErrors([FileError(str(path), 0, "", "no such file or directory; name one with tests of policies")])
    for file in sorted(path.rglob("*")):
        is_hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
        if file.suffix in _SUFFIXES and not is_hidden and file.is_file():
            yield file


def read_suite(file: Path, warn: Warn | None = None) -> Suite | None:
    """The test in a file; None if the file has other objects. Raises FileErrors with every mistake.

    `warn` is called with a message about each key that stands twice in one map of a resource; without `warn` such a key
    is an error.
    """
    path = str(file)
    try:
        with file.open("rb") as opened:
            source = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise FileErrors([FileError(path, 0, "", f"cannot be read: {error.strerror}")]) from None
    if not _MARK.search(source):
        _check_that_it_is_something_else(file, is_strict=warn is None)
        return None
    if len(source) > MAX_BYTES:
        message = f"larger than {MAX_BYTES} bytes (1 MiB); put its resources into files beside it"
        raise FileErrors([FileError(path, 1, "", message)])
    faults = Faults()
    suite = _suite(read_yaml(source, path, KIND), faults, warn)
    if faults:
        raise FileErrors(_without_echoes(faults.errors))
    return suite


def _without_echoes(errors: Sequence[FileError]) -> Iterator[FileError]:
    """The errors, without an error about a map or list if there is an error about one of its parts."""
    for error in errors:
        parts = (f"{error.key}.", f"{error.key}[")
        if not (error.message.startswith("found a") and any(other.key.startswith(parts) for other in errors)):
            yield error


def _check_that_it_is_something_else(file: Path, *, is_strict: bool) -> None:
    """Raises FileErrors for documents that cannot be read, and for a test whose kind is misspelled."""
    errors = []
    # The case that names the file prints warnings about it.
    for document in read_all([str(file)], BytesIO(), None if is_strict else lambda _warning: None):
        if isinstance(document, DocumentError):
            errors.append(_file_error(document))
        elif document.api_version.startswith("gpupolicy.dev/") and "test" in document.kind.lower():
            found = f'"{document.kind}" is not the kind of a test; write kind: {KIND}'
            errors.append(FileError(str(file), document.line, "kind", found))
    if errors:
        raise FileErrors(errors)


def _suite(root: YamlNode, faults: Faults, warn: Warn | None) -> Suite | None:
    if not isinstance(root.value, dict):
        message = f"not a map; a test starts with apiVersion: {API_VERSION} and kind: {KIND}"
        faults.add(root.file, root.line, "", message)
        return None
    _refuse_nulls(root, (), faults)
    content = read_head(root, PolicyTestFile, policy_test_schema(), faults)
    check_names_differ(root, CASES, faults)
    if content is None or faults:
        return None
    spec = node_at(root, ("spec",)).value
    written = spec if isinstance(spec, dict) else {}
    cases = tuple(_case(root, (*CASES, index), settings, warn) for index, settings in enumerate(content.spec.cases))
    return Suite(root.file, content.metadata.name, written.get("policies"), written.get("inventory"), cases)


def _case(root: YamlNode, path: KeyPath, settings: CaseSettings, warn: Warn | None) -> Case:
    documents: list[Document] = []
    errors: list[FileError] = []
    for index, written in enumerate(settings.resources):
        place = (*path, "resources", index)
        node = node_at(root, place)
        found = _from_file(node, written, place, warn) if isinstance(written, str) else _inline(node, place)
        for one in found:
            if isinstance(one, Document):
                documents.append(one)
            else:
                errors.append(one)
    return Case(
        settings.name,
        settings.description or "",
        settings.namespace,
        tuple(documents),
        tuple(errors),
        settings.expect,
        node_at(root, path),
        path,
        None if settings.at is None else read_instant(settings.at).begins,
    )


def _from_file(node: YamlNode, written: str, place: KeyPath, warn: Warn | None) -> Iterator[Document | FileError]:
    path = beside(node.file, written)
    if not path.exists():
        yield FileError(node.file, node.line, key_text(place), f"{path}: no such file or directory")
        return
    for document in read_all([str(path)], BytesIO(), warn):
        yield _file_error(document) if isinstance(document, DocumentError) else document


def _inline(node: YamlNode, place: KeyPath) -> Iterator[Document | FileError]:
    """An object that stands in the test itself, read by the rules for manifests in files."""
    for document in read_text(json.dumps(node.plain()), node.file):
        if isinstance(document, DocumentError):
            yield FileError(node.file, node.line, key_text(place), document.message)
        else:
            yield replace(document, line=node.line)


def beside(file: str, written: str) -> Path:
    """The path of a file that a test names relative to itself."""
    return Path(os.path.normpath(Path(file).parent / written))


def _file_error(error: DocumentError) -> FileError:
    return FileError(error.source, error.line or 0, "", error.message)


def _refuse_nulls(node: YamlNode, path: KeyPath, faults: Faults) -> None:
    """Record an error for each key with an empty value, except for keys of resources."""
    if (path and path[-1] in _FREE) or path in (("spec", "policies"), ("spec", "inventory")):
        return
    if path[:2] == CASES and path[3:] == ("resources",):
        return
    entries: Iterable[tuple[str | int, YamlNode]] = ()
    if isinstance(node.value, dict):
        entries = node.value.items()
    elif isinstance(node.value, list):
        entries = enumerate(node.value)
    for key, child in entries:
        if child.value is None:
            faults.add(node.file, child.line, (*path, key), "is empty; write a value, or remove the line")
        else:
            _refuse_nulls(child, (*path, key), faults)
