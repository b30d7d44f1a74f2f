"""A cluster written down in a file, as `kubectl get nodes,namespaces,runtimeclasses,priorityclasses,pods -A -o yaml`
prints it; on clusters with dynamic resource allocation `deviceclasses`, `resourceclaimtemplates`, `resourceclaims` and
`resourceslices` belong to it, and with Karpenter `nodepools`.

It stands in for a live cluster on laptops, in tests and in audits. Lists, single objects, several documents and JSON
are read; other kinds are ignored.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import yaml

from webhook.facts.facts import ClusterFacts
from webhook.facts.made_pools import faults_of
from webhook.facts.snapshot import MAKING_KINDS, Snapshot
from webhook.ledger.static_pods import StaticPods
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.claims import CLAIM, TEMPLATE
from webhook.model.json_parts import text
from webhook.model.resource_slices import SLICE
from webhook.yaml_files.file_errors import FileError, FileErrors
from webhook.yaml_files.repeated_keys import RepeatedKey, without_repeated

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_EXPECTED = "expected what `kubectl get nodes,runtimeclasses,priorityclasses -o yaml` prints: a List with items"

_OTHERS = ("Node", "RuntimeClass", "PriorityClass", "DeviceClass", CLAIM, TEMPLATE, SLICE)
_OF_SNAPSHOT = (*_OTHERS, *(kind for kind, *_ in MAKING_KINDS.values()))
OBJECT_KINDS = (*_OF_SNAPSHOT, "Pod", "AKSNodeClass", "GCENodeClass", "NodeClass")
"""Kinds of the objects that belong to an inventory; node classes of other clouds say nothing that rules ask."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """The cluster in a file: the facts that rules ask about, and the pods that count against quotas.

    `left_out` has a message for each object that could not be used and for each key that stands twice in one map; only
    the first of many such messages are kept.
    """

    facts: ClusterFacts
    pods: StaticPods
    left_out: tuple[str, ...] = ()


def read_inventory(
    path: Path | str,
    accelerators: Accelerators = BUILT_IN,
    on_object: Callable[[str, Any], object] = lambda _kind, _object: None,
) -> Inventory:
    """The cluster in the file at `path`, which need not have nodes. Raises FileErrors.

    `accelerators` says which resources of nodes and pods are GPUs. `on_object` is called with the kind of each object
    and the object, for callers that look at more of the file than rules may ask.
    """
    path = Path(path)
    objects: dict[str, list[Any]] = {kind: [] for kind in OBJECT_KINDS}
    repeated: list[RepeatedKey] = []
    for document in _documents(path):
        repeated += document.repeated
        for kind, item in _items(path, document.line, document.value):
            on_object(kind, item)
            if kind in objects:
                objects[kind].append(item)
    found = inventory_of(objects, accelerators)
    cluster = found.facts.cluster
    repetitions = (f"{one.message(1)}; the last value counts" for one in repeated)
    left_out = (
        *repetitions,
        *_nameless(objects),
        *faults_of(cluster.node_pools, cluster.ec2_node_classes),
        *found.pods.left_out,
    )
    return replace(found, left_out=left_out)


def inventory_of(objects: Mapping[str, Sequence[Any]], accelerators: Accelerators = BUILT_IN) -> Inventory:
    """The cluster with these objects of each of `OBJECT_KINDS`."""
    facts = ClusterFacts(Snapshot.of(*(objects[kind] for kind in _OF_SNAPSHOT), accelerators=accelerators))
    pods = StaticPods(objects["Pod"], accelerators=accelerators, claims=objects[CLAIM], known=facts)
    return Inventory(facts, pods)


def _nameless(objects: Mapping[str, list[Any]]) -> Iterator[str]:
    """Messages about the objects of each kind that are left out because they have no name. Pods need no name."""
    for kind, raws in objects.items():
        count = 0 if kind == "Pod" else sum(not text(raw, "metadata", "name") for raw in raws)
        if count:
            are = "has no name and is" if count == 1 else "have no name and are"
            yield f"{count} of {len(raws)} objects of kind {kind} {are} left out"


def load_inventory(path: Path | str, accelerators: Accelerators = BUILT_IN) -> ClusterFacts:
    """The facts about the cluster in a file. Raises FileErrors."""
    return read_inventory(path, accelerators).facts


class _Document(NamedTuple):
    """A document of the file, the line that it starts on (0 for JSON), and the keys that it repeats in a map."""

    line: int
    value: Any
    repeated: Sequence[RepeatedKey] = ()


def _documents(path: Path) -> list[_Document]:
    try:
        data = path.read_bytes()
    except OSError as error:
        found = f"the file cannot be read ({error.strerror or error})"
        raise _fault(path, 0, found, "name a readable file") from None
    documents = [document for document in _parsed(path, data) if document.value is not None]
    if not documents:
        raise _fault(path, 0, "the file is empty")
    return documents


def _parsed(path: Path, data: bytes) -> list[_Document]:
    if data.lstrip().startswith(b"{"):
        try:
            return [_Document(0, orjson.loads(data))]
        except orjson.JSONDecodeError:
            pass  # YAML says on which line, and reads the JSON dialects that people write by hand
    try:
        return list(_yaml_documents(data))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 0
        raise _fault(path, line, f"not valid YAML ({error.problem})") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _fault(path, 0, f"not valid YAML ({' '.join(str(error).split())[:200]})") from None


def _yaml_documents(data: bytes) -> Iterator[_Document]:
    loader = _Loader(data)
    try:
        while loader.check_node():
            node = loader.get_node()
            repeated = without_repeated(node)
            yield _Document(node.start_mark.line + 1, loader.construct_document(node), repeated)
    finally:
        loader.dispose()


def _items(path: Path, line: int, document: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(document, dict):
        raise _fault(path, line, f"found {_kind_of_value(document)}")
    kind = document.get("kind")
    if not isinstance(kind, str) or not kind:
        raise _fault(path, line, "found a map without a kind")
    if not kind.endswith("List"):
        yield kind, document
        return
    items = document.get("items")
    if not isinstance(items, list):
        found = f"{kind} has no items" if items is None else f"the items of {kind} are {_kind_of_value(items)}"
        raise _fault(path, line, found)
    for item in items:
        own_kind = item.get("kind") if isinstance(item, dict) else None
        yield str(own_kind or kind.removesuffix("List")), item


def _fault(path: Path, line: int, found: str, expected: str = _EXPECTED) -> FileErrors:
    return FileErrors([FileError(str(path), line, "", f"{found}; {expected}")])


def _kind_of_value(value: Any) -> str:
    names = {dict: "a map", list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "something else")
