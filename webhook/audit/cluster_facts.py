"""The nodes, classes and resource claims of a live cluster, read once."""

from collections.abc import Iterator
from typing import Any

from webhook.audit.documents import DocumentError
from webhook.audit.listing import Listing, NamespaceScope
from webhook.facts.snapshot import EMPTY, Snapshot
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.discovery import ApiResource, Discovery, DiscoveryError, Reader
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.claims import CLAIM, GROUP, TEMPLATE

_NODES = ApiResource("", "v1", "Node", "nodes", is_namespaced=False)


def read_facts(server: ApiServer, accelerators: Accelerators = BUILT_IN) -> tuple[Snapshot, tuple[DocumentError, ...]]:
    """What rules may ask about the cluster, and errors for what of it could not be read."""
    reader = Reader(server)
    discovery = Discovery(reader)
    errors: list[DocumentError] = []

    def read(resource: ApiResource | None) -> Iterator[dict[str, Any]]:
        return iter(()) if resource is None else _read(reader, resource, errors)

    facts = EMPTY.telling(accelerators).with_nodes(read(_NODES))
    facts = facts.with_runtime_classes(read(_found(discovery, "node.k8s.io", "RuntimeClass", errors)))
    facts = facts.with_priority_classes(read(_found(discovery, "scheduling.k8s.io", "PriorityClass", errors)))
    facts = facts.with_device_classes(_device_classes(discovery, reader, errors))
    for kind in (CLAIM, TEMPLATE):
        facts = facts.with_claims(kind, _claims(discovery, reader, kind))
    return facts, tuple(errors)


def _claims(discovery: Discovery, reader: Reader, kind: str) -> Iterator[dict[str, Any]]:
    """The claims, or templates of claims, of all namespaces. Whoever may not list these audits without them."""
    unheard: list[DocumentError] = []
    resource = _found(discovery, GROUP, kind, unheard)
    return iter(()) if resource is None else _read(reader, resource, unheard)


def _device_classes(discovery: Discovery, reader: Reader, errors: list[DocumentError]) -> list[dict[str, Any]] | None:
    """The DeviceClasses; None where nobody can tell which there are."""
    faults: list[DocumentError] = []
    resource = _found(discovery, GROUP, "DeviceClass", faults)
    found = [] if resource is None else list(_read(reader, resource, faults))
    errors += (fault for fault in faults if fault not in errors)
    return None if faults else found


def _found(discovery: Discovery, group: str, kind: str, errors: list[DocumentError]) -> ApiResource | None:
    """Where the objects of a kind are; None where there are none, or nobody can tell."""
    try:
        return discovery.find(group, kind)
    except DiscoveryError as error:
        fault = DocumentError("", 0, None, str(error))
        if fault not in errors:
            errors.append(fault)
        return None


def _read(reader: Reader, resource: ApiResource, errors: list[DocumentError]) -> Iterator[dict[str, Any]]:
    """The objects of one kind, as they arrive."""
    for found in Listing(reader, resource, NamespaceScope()).read():
        if isinstance(found, DocumentError):
            errors.append(found)
        else:
            yield found
