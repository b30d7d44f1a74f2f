"""Finds the tests of policies below a directory and reads them, their policies and their clusters.

A file that cannot be read may be a test, so it is an error: a test that is not run must not look like a test that
passed. Files with other objects, such as inventories and manifests, are skipped.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from webhook.audit.documents import Document, DocumentError, Warn, read_all, read_text
from webhook.facts.facts import ClusterFacts
from webhook.facts.made_pools import faults_of, node_pool_from_raw
from webhook.ledger.inventory import OBJECT_KINDS, Inventory, inventory_of, read_inventory
from webhook.ledger.static_pods import StaticPods, fault_of
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.pod_reader import pod_from_raw
from webhook.model.shape import ShapeError
from webhook.policy.directory import contents_of
from webhook.policy.document import check_names_differ, read_as, read_document
from webhook.policy.exception_times import read_instant
from webhook.policy.loader import build, load
from webhook.policy.policy_set import PolicySet
from webhook.policy.schema import API_VERSION, DEFAULT_FILE, KINDS
from webhook.policy_tests.format import KIND, Case, CaseSettings, PolicyTestFile, Suite, policy_test_schema
from webhook.yaml_files.file_errors import Faults, FileError, FileErrors, KeyPath, key_text
from webhook.yaml_files.yaml_lines import MAX_BYTES, YamlNode

CASES: KeyPath = ("spec", "cases")

_SUFFIXES = frozenset({".yaml", ".yml"})
_MARK = re.compile(rb"""kind["']?[ \t]*:[ \t]*["']?gpupolicytest""", re.IGNORECASE)
_POLICIES: KeyPath = ("spec", "policies")
_INVENTORY: KeyPath = ("spec", "inventory")


def find(path: Path) -> Iterator[Path]:
    """The files below a directory that may be tests, sorted, or the one file itself. Raises FileErrors."""
    if path.is_file():
        yield path
        return
    if not path.is_dir():
        raise FileErrors.of(str(path), "no such file or directory; name one with tests of policies")
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
        raise FileErrors.of(path, f"cannot be read: {error.strerror}") from None
    if not _MARK.search(source):
        _check_that_it_is_something_else(file, is_strict=warn is None)
        return None
    if len(source) > MAX_BYTES:
        message = f"larger than {MAX_BYTES} bytes (1 MiB); put its resources into files beside it"
        raise FileErrors([FileError(path, 1, "", message)])
    faults = Faults()
    root = read_document(path, source, KIND, _null_fault, faults)
    content = None if root is None else read_as(root, PolicyTestFile, policy_test_schema(), faults)
    if root is not None:
        check_names_differ(root, CASES, faults)
    if root is None or content is None or faults:
        raise FileErrors(_without_echoes(faults.errors))
    cases = tuple(_case(root, (*CASES, index), settings, warn) for index, settings in enumerate(content.spec.cases))
    return Suite(path, content.metadata.name, root.at(*_POLICIES), root.at(*_INVENTORY), cases)


def _null_fault(path: KeyPath) -> str:
    """The message about an empty value; none for values of resources, and of what is expected of them."""
    above = path[:-1]
    if above[:2] in (_POLICIES, _INVENTORY) or not {"resources", "injected", "result"}.isdisjoint(above[3:]):
        return ""
    return "is empty; write a value, or remove the line"


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


def _case(root: YamlNode, path: KeyPath, settings: CaseSettings, warn: Warn | None) -> Case:
    found: list[Document | FileError] = []
    for index in range(len(settings.resources)):
        found += _resources(root.at(*path, "resources", index), (*path, "resources", index), warn)
    return Case(
        settings,
        tuple(one for one in found if isinstance(one, Document)),
        tuple(one for one in found if isinstance(one, FileError)),
        root.at(*path),
        path,
        None if settings.at is None else read_instant(settings.at).begins,
    )


def _resources(node: YamlNode, place: KeyPath, warn: Warn | None) -> Iterator[Document | FileError]:
    """The objects in the files that a test names, or the one that stands in the test itself."""
    if not isinstance(node.value, str):
        for document in read_text(json.dumps(node.plain()), node.file):
            if isinstance(document, DocumentError):
                yield FileError(node.file, node.line, key_text(place), document.message)
            else:
                yield replace(document, line=node.line)
    elif not (path := _beside(node)).exists():
        yield FileError(node.file, node.line, key_text(place), f"{path}: no such file or directory")
    else:
        for document in read_all([str(path)], BytesIO(), warn):
            yield _file_error(document) if isinstance(document, DocumentError) else document


def _beside(node: YamlNode) -> Path:
    return Path(os.path.normpath(Path(node.file).parent / str(node.value)))


def _file_error(error: DocumentError) -> FileError:
    return FileError(error.source, error.line or 0, "", error.message)


class PolicyTestInputs:
    """The policies and clusters of tests, each read once. `policies` and `inventory` are used for tests that name none
    themselves.
    """

    def __init__(self, policies: Path | None = None, inventory: Path | None = None) -> None:
        self._policies = policies
        self._inventory = inventory
        self._load = cache(load)
        self._read = cache(read_inventory)

    def policies_of(self, suite: Suite) -> PolicySet:
        written = suite.policies
        if isinstance(written.value, dict):
            return _build_inline(written.value)
        if written.value is None:
            return self._load(self._policies or _nearest(suite.file))
        directory = _beside(written)
        if not directory.is_dir():
            raise _error(written, _POLICIES, f"{directory}: no such directory")
        return self._load(directory)

    def inventory_of(self, suite: Suite, accelerators: Accelerators = BUILT_IN) -> Inventory:
        """The cluster of a test; `accelerators` are the names of GPUs. Raises FileErrors."""
        written, place = suite.inventory, _INVENTORY
        if isinstance(written.value, list):
            return _inventory_inline(written.value, accelerators)
        path = _beside(written)
        if written.value is None:
            if self._inventory is None:
                return Inventory(ClusterFacts(), StaticPods())
            written, path, place = YamlNode(None, suite.file, 0), self._inventory, ()
        try:
            found = self._read(path, accelerators)
        except FileErrors as error:
            raise _error(written, place, str(error)) from None
        if unreadable := found.pods.unreadable:
            raise _error(written, place, f"{path}: has {unreadable} pods that Kubernetes would refuse; correct them")
        return found


def _nearest(file: str) -> Path:
    """The nearest directory above a test that has a _default.yaml. Raises FileErrors if there is none."""
    here = Path.cwd()
    for directory in (Path(file).parent.absolute(), *Path(file).parent.absolute().parents):
        if (directory / DEFAULT_FILE).is_file():
            return directory.relative_to(here) if directory.is_relative_to(here) else directory
    message = f"missing, and no directory above this file has a {DEFAULT_FILE}; write one, or name --policies"
    raise FileErrors([FileError(file, 1, "spec.policies", message)])


def _build_inline(files: Mapping[str, YamlNode]) -> PolicySet:
    """The policies in files that stand in a test. Raises FileErrors that name the test's lines."""
    file = next(iter(files.values())).file
    texts = {name: ("\n" * node.line + str(node.value)).encode(errors="surrogatepass") for name, node in files.items()}
    documents = {name: _document(name, node) for name, node in files.items() if isinstance(node.value, dict)}
    try:
        return build(contents_of(Path(file), texts), documents=documents)
    except FileErrors as errors:
        raise FileErrors(_placed(error, file, files) for error in errors.errors) from None


def _document(name: str, node: YamlNode) -> YamlNode:
    """A policy file that stands in a test as keys; apiVersion, kind and metadata may be left out."""
    metadata = YamlNode({"name": YamlNode(name.removesuffix(".yaml"), node.file, node.line)}, node.file, node.line)
    head = {"apiVersion": API_VERSION, "kind": KINDS.get(name, "GPUPolicy")}
    nodes = {key: YamlNode(value, node.file, node.line) for key, value in head.items()}
    return _moved(
        YamlNode({**nodes, "metadata": metadata, **node.entries}, node.file, node.line), f"{node.file}/{name}"
    )


def _moved(node: YamlNode, file: str) -> YamlNode:
    """A value as if it stood in another file, in the same line."""
    value = node.value
    if isinstance(value, dict):
        value = {key: _moved(child, file) for key, child in value.items()}
    elif isinstance(value, list):
        value = [_moved(child, file) for child in value]
    return YamlNode(value, file, node.line, node.text)


def _placed(error: FileError, file: str, files: Mapping[str, YamlNode]) -> FileError:
    """An error in a policy file as an error in the test that contains this file."""
    name = error.path.removeprefix(f"{file}/")
    key = key_text((*_POLICIES, name))
    line = max(error.line, files[name].line if name in files else 0)
    return FileError(file, line, f"{key}: {error.key}" if error.key else key, error.message)


def _inventory_inline(objects: list[YamlNode], accelerators: Accelerators) -> Inventory:
    kinds: Mapping[str, list[Any]] = {kind: [] for kind in OBJECT_KINDS}
    errors = []
    for index, node in enumerate(objects):
        raw = node.plain()
        if fault := _fault_in(raw):
            errors.append(FileError(node.file, node.line, key_text((*_INVENTORY, index)), fault))
        else:
            kinds[raw["kind"]].append(raw)
    if errors:
        raise FileErrors(errors)
    return inventory_of(kinds, accelerators)


def _fault_in(raw: Mapping[str, Any]) -> str:
    kind, metadata = raw.get("kind"), raw.get("metadata")
    if kind not in OBJECT_KINDS:
        found = f'kind "{kind}" is not used' if isinstance(kind, str) else "an object without a kind"
        return f"{found}; rules ask about objects of kind {', '.join(OBJECT_KINDS)}"
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return f"a {kind} without a name; write metadata.name"
    if kind == "NodePool":
        read = dict(filter(None, [node_pool_from_raw(raw)]))
        return next(faults_of(read), "") if read else "a NodePool of no known API; write apiVersion: karpenter.sh/v1"
    if kind == "Pod":
        try:
            pod_from_raw(raw)
        except ShapeError as error:
            return str(error)
        fault = fault_of(raw)
        return f"a Pod that Kubernetes would refuse: {fault}; correct it" if fault else ""
    return ""


def _error(node: YamlNode, place: KeyPath, message: str) -> FileErrors:
    return FileErrors([FileError(node.file, node.line, key_text(place), message)])
