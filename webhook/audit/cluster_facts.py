"""The nodes and runtime classes of a live cluster, read once."""

from collections.abc import Iterator
from typing import Any

from webhook.audit.documents import DocumentError
from webhook.audit.listing import Listing, Scope
from webhook.cluster.api_server import ApiServer
from webhook.cluster.discovery import Discovery, DiscoveryError, Resource
from webhook.cluster.reading import Reader
from webhook.cluster.snapshot import EMPTY, Snapshot

_NODES = Resource("", "v1", "Node", "nodes", is_namespaced=False)


def read_facts(server: ApiServer) -> tuple[Snapshot, tuple[DocumentError, ...]]:
    """What rules may ask about the cluster, and errors for what of it could not be read."""
    reader = Reader(server)
    errors: list[DocumentError] = []
    facts = EMPTY.with_nodes(_read(reader, _NODES, errors))
    try:
        classes = Discovery(reader).find("node.k8s.io", "RuntimeClass")
    except DiscoveryError as error:
        errors.append(DocumentError("", 0, None, str(error)))
        classes = None
    if classes is not None:
        facts = facts.with_runtime_classes(_read(reader, classes, errors))
    return facts, tuple(errors)


def _read(reader: Reader, resource: Resource, errors: list[DocumentError]) -> Iterator[dict[str, Any]]:
    """The objects of one kind, as they arrive."""
    for found in Listing(reader, resource, Scope()).read():
        if isinstance(found, DocumentError):
            errors.append(found)
        else:
            yield found
