"""The policies and the clusters that tests name, each read once.

Policy files may stand in the test itself; errors about them then name lines of the test.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from webhook.facts.facts import ClusterFacts
from webhook.facts.inventory import Inventory, read_inventory
from webhook.facts.static_pods import StaticPods
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.pod_reader import pod_from_raw
from webhook.model.resource_slices import SLICE
from webhook.model.shape import ShapeError
from webhook.policy.directory import contents_of
from webhook.policy.loader import build, load
from webhook.policy.policy_set import PolicySet
from webhook.policy.schema import (
    API_VERSION,
    CUDA_FILE,
    CUDA_KIND,
    DEFAULT_FILE,
    EXCEPTIONS_FILE,
    EXCEPTIONS_KIND,
    QUOTAS_FILE,
    QUOTAS_KIND,
)
from webhook.policy_tests.files import beside
from webhook.policy_tests.format import Suite
from webhook.yaml_files.file_errors import FileError, FileErrors, key_text
from webhook.yaml_files.yaml_lines import YamlNode


def load_inline(files: Mapping[str, YamlNode], path: tuple[str, ...]) -> PolicySet:
    """The policies in files that stand at `path` of a test. Raises FileErrors that name the test's lines."""
    file = next(iter(files.values())).file
    sources = {name: _text(name, node).encode("utf-8", "surrogatepass") for name, node in files.items()}
    try:
        return build(contents_of(Path(file), sources))
    except FileErrors as errors:
        raise FileErrors(_placed(error, file, path, files) for error in errors.errors) from None


def _placed(error: FileError, file: str, path: tuple[str, ...], files: Mapping[str, YamlNode]) -> FileError:
    """An error in a policy file as an error in the test that contains this file."""
    name = error.path.removeprefix(f"{file}/")
    key = key_text((*path, name))
    line = max(error.line, files[name].line if name in files else 0)
    return FileError(file, line, f"{key}: {error.key}" if error.key else key, error.message)


def _text(name: str, node: YamlNode) -> str:
    """The content of a policy file, with each key on the line on which it stands in the test.

    apiVersion, kind and metadata may be left out.
    """
    if not isinstance(node.value, dict):
        return "\n" * node.line + str(node.value)

    def node_of(value: str | dict[str, YamlNode]) -> YamlNode:
        return YamlNode(value, node.file, node.line)

    kinds = {QUOTAS_FILE: QUOTAS_KIND, CUDA_FILE: CUDA_KIND, EXCEPTIONS_FILE: EXCEPTIONS_KIND}
    head = {
        "apiVersion": node_of(API_VERSION),
        "kind": node_of(kinds.get(name, "GPUPolicy")),
        "metadata": node_of({"name": node_of(name.removesuffix(".yaml"))}),
    }
    return "".join(_aligned(node_of({**head, **node.value}), [1]))


def _aligned(node: YamlNode, line: list[int]) -> list[str]:
    """YAML in flow style. `line` holds the number of the last line that was written."""
    match node.value:
        case dict():
            parts = ["{"]
            for key, child in node.value.items():
                parts += [_down_to(child, line), json.dumps(key, ensure_ascii=False), ": ", *_aligned(child, line), ","]
            return [*parts, "}"]
        case list():
            parts = ["["]
            for child in node.value:
                parts += [_down_to(child, line), *_aligned(child, line), ","]
            return [*parts, "]"]
        case bool() | None:
            return [json.dumps(node.value)]
        case int() | float():
            return [node.text]
    return [json.dumps(node.value, ensure_ascii=False)]


def _down_to(node: YamlNode, line: list[int]) -> str:
    """Line breaks up to the line of the node."""
    missing = max(node.line - line[0], 0)
    line[0] += missing
    return "\n" * missing


_POLICIES = ("spec", "policies")
_KINDS = ("Node", "RuntimeClass", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate", SLICE, "Pod")
_NOTHING = Inventory(ClusterFacts(), StaticPods())


class PolicyTestInputs:
    """The policies and clusters of tests. `policies` and `inventory` are used for tests that name none themselves."""

    def __init__(self, policies: Path | None = None, inventory: Path | None = None) -> None:
        self._policies = policies
        self._inventory = inventory
        self._load = cache(load)
        self._read = cache(read_inventory)

    def policies_of(self, suite: Suite) -> PolicySet:
        """The policies of a test. Raises FileErrors with every mistake in them."""
        written = suite.policies
        if written is not None and isinstance(written.value, dict):
            return load_inline(written.value, _POLICIES)
        if written is not None:
            directory = beside(suite.file, str(written.value))
            if not directory.is_dir():
                raise _error(written, "spec.policies", f"{directory}: no such directory")
            return self._load(directory)
        return self._load(self._policies or _nearest(suite.file))

    def inventory_of(self, suite: Suite, accelerators: Accelerators = BUILT_IN) -> Inventory:
        """The cluster of a test; `accelerators` are the names of GPUs. Raises FileErrors."""
        written = suite.inventory
        if written is not None and isinstance(written.value, list):
            return _inline(written.value, accelerators)
        if written is not None:
            path = beside(suite.file, str(written.value))
            place = written
        elif self._inventory is not None:
            path, place = self._inventory, YamlNode(None, suite.file, 0)
        else:
            return _NOTHING
        key = "spec.inventory" if written is not None else ""
        try:
            found = self._read(path, accelerators)
        except FileErrors as error:
            raise _error(place, key, str(error)) from None
        if unreadable := found.pods.unreadable:
            raise _error(place, key, f"{path}: has {unreadable} pods that Kubernetes would refuse; correct them")
        return found


def _nearest(file: str) -> Path:
    """The nearest directory above a test that has a _default.yaml. Raises FileErrors if there is none."""
    here = Path.cwd()
    for directory in (Path(file).parent.absolute(), *Path(file).parent.absolute().parents):
        if (directory / DEFAULT_FILE).is_file():
            return directory.relative_to(here) if directory.is_relative_to(here) else directory
    message = f"missing, and no directory above this file has a {DEFAULT_FILE}; write one, or name --policies"
    raise FileErrors([FileError(file, 1, "spec.policies", message)])


def _inline(objects: list[YamlNode], accelerators: Accelerators) -> Inventory:
    kinds: Mapping[str, list[Any]] = {kind: [] for kind in _KINDS}
    errors = []
    for index, node in enumerate(objects):
        raw = node.plain()
        fault = _fault_in(raw)
        if fault:
            errors.append(FileError(node.file, node.line, f"spec.inventory[{index}]", fault))
        else:
            kinds[raw["kind"]].append(raw)
    if errors:
        raise FileErrors(errors)
    return Inventory(
        ClusterFacts.of(
            kinds["Node"],
            kinds["RuntimeClass"],
            device_classes=kinds["DeviceClass"],
            claims=kinds["ResourceClaim"],
            templates=kinds["ResourceClaimTemplate"],
            slices=kinds[SLICE],
            accelerators=accelerators,
        ),
        StaticPods(kinds["Pod"], accelerators=accelerators),
    )


def _fault_in(raw: Mapping[str, Any]) -> str:
    """What is wrong with an object of a cluster; empty for a good object."""
    kind, metadata = raw.get("kind"), raw.get("metadata")
    if kind not in _KINDS:
        found = f'kind "{kind}" is not used' if isinstance(kind, str) else "an object without a kind"
        return f"{found}; rules ask about objects of kind {', '.join(_KINDS)}"
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return f"a {kind} without a name; write metadata.name"
    if kind == "Pod":
        try:
            pod_from_raw(raw)
        except ShapeError as error:
            return str(error)
        return "a Pod that Kubernetes would refuse; correct it" if StaticPods([raw]).unreadable else ""
    return ""


def _error(node: YamlNode, key: str, message: str) -> FileErrors:
    return FileErrors([FileError(node.file, node.line, key, message)])
