"""The objects of an audit, from files or from a cluster, with everything that is needed to review them.

Nodes, classes, resource claims and slices of a live cluster are read once, before its objects.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from webhook.audit.auditing import AuditScope, Background
from webhook.audit.cluster_objects import ClusterObjects, Listing, NamespaceScope, Progress
from webhook.audit.documents import Document, DocumentError
from webhook.audit.owners import Owners
from webhook.audit.review_objects import with_input_claims
from webhook.facts.facts import ClusterFacts
from webhook.facts.pod_source import LivePods
from webhook.facts.snapshot import EMPTY
from webhook.kubernetes.api_errors import ApiServerError
from webhook.kubernetes.api_server import ApiServer
from webhook.kubernetes.discovery import ApiResource, Discovery
from webhook.kubernetes.paged_list import RetryingReader
from webhook.model.accelerators import BUILT_IN, Accelerators
from webhook.model.claims import CLAIM, GROUP, TEMPLATE
from webhook.model.resource_slices import SLICE
from webhook.model.workloads import is_pod, templates_of

_NODES = ApiResource("", "v1", "Node", "nodes", is_namespaced=False)


def read_facts(
    server: ApiServer,
    accelerators: Accelerators = BUILT_IN,
    on_node: Callable[[Mapping[str, Any]], object] = lambda _node: None,
) -> tuple[ClusterFacts, tuple[DocumentError, ...]]:
    """What rules may ask about the cluster, and errors for parts that could not be read.

    `on_node` is called with each node, for callers that look at more of nodes than rules may ask.
    """
    reader = RetryingReader(server)
    discovery = Discovery(reader)
    errors: list[DocumentError] = []

    def read(resource: ApiResource | None) -> Iterator[dict[str, Any]]:
        return iter(()) if resource is None else _read(reader, resource, errors)

    nodes = _watched(read(_NODES), on_node)
    snapshot = EMPTY.with_accelerators(accelerators).with_nodes(nodes)
    snapshot = snapshot.with_runtime_classes(read(_found(discovery, "node.k8s.io", "RuntimeClass", errors)))
    snapshot = snapshot.with_priority_classes(read(_found(discovery, "scheduling.k8s.io", "PriorityClass", errors)))
    snapshot = snapshot.with_device_classes(_all_of_kind("DeviceClass", discovery, reader, errors))
    for kind in (CLAIM, TEMPLATE):
        snapshot = snapshot.with_claims(kind, _claims(discovery, reader, kind))
    snapshot = snapshot.with_slices(_all_of_kind(SLICE, discovery, reader, []))
    return ClusterFacts(snapshot), tuple(errors)


def _watched(raws: Iterable[dict[str, Any]], look: Callable[[Mapping[str, Any]], object]) -> Iterator[dict[str, Any]]:
    """The objects, each after a look at it."""
    for raw in raws:
        look(raw)
        yield raw


def _claims(discovery: Discovery, reader: RetryingReader, kind: str) -> Iterator[dict[str, Any]]:
    """The claims or claim templates of all namespaces; none if they cannot be listed."""
    ignored: list[DocumentError] = []
    resource = _found(discovery, GROUP, kind, ignored)
    return iter(()) if resource is None else _read(reader, resource, ignored)


def _all_of_kind(
    kind: str, discovery: Discovery, reader: RetryingReader, errors: list[DocumentError]
) -> list[dict[str, Any]] | None:
    """The DeviceClasses or ResourceSlices of the cluster; None if they cannot be listed."""
    faults: list[DocumentError] = []
    resource = _found(discovery, GROUP, kind, faults)
    found = [] if resource is None else list(_read(reader, resource, faults))
    errors += (fault for fault in faults if fault not in errors)
    return None if faults else found


def _found(discovery: Discovery, group: str, kind: str, errors: list[DocumentError]) -> ApiResource | None:
    """The resource of a kind; None if the cluster has no such kind or does not say so."""
    try:
        return discovery.find(group, kind)
    except ApiServerError as error:
        fault = DocumentError("", 0, None, str(error))
        if fault not in errors:
            errors.append(fault)
        return None


def _read(reader: RetryingReader, resource: ApiResource, errors: list[DocumentError]) -> Iterator[dict[str, Any]]:
    """The objects of one kind, as they arrive."""
    for found in Listing(reader, resource, NamespaceScope()).read():
        if isinstance(found, DocumentError):
            errors.append(found)
        else:
            yield found


@dataclass(frozen=True, slots=True)
class ObjectSource:
    """The objects, to be read once. `owners` knows the owners of an object before the object comes."""

    documents: Iterable[Document | DocumentError]
    owners: Owners
    place: AuditScope
    background: Background
    now: float | None = None
    """The API server's clock in seconds since 1970; None for objects of files."""
    unsent: Callable[[], int] = lambda: 0
    """How many objects so far were left out of `documents` because the webhook is never asked about them."""


def of_files(documents: Sequence[Document | DocumentError], namespace: str, background: Background) -> ObjectSource:
    """The objects of files; `namespace` is the namespace of objects that name none."""
    owners, facts = Owners(namespace), with_input_claims(background.facts, documents, namespace)
    for document in documents:
        if isinstance(document, Document):
            makes_pods = bool(templates_of(document.object)) or is_pod(document.api_version, document.kind)
            owners.learn(document.object, is_audited=makes_pods)
    return ObjectSource(documents, owners, AuditScope(False, namespace), replace(background, facts=facts))


def of_cluster(  # noqa: PLR0913  # all that is known of the cluster
    server: ApiServer,
    scope: NamespaceScope,
    on_progress: Callable[[Progress], None],
    facts: ClusterFacts | None = None,
    accelerators: Accelerators = BUILT_IN,
    *,
    on_node: Callable[[Mapping[str, Any]], object] = lambda _node: None,
) -> ObjectSource:
    """The objects of a cluster. They are read while they are iterated; `on_progress` is called with the progress.

    `facts` are known facts about the cluster; without them its nodes and classes are read first, and `on_node` is
    called with each node.
    """
    errors: tuple[DocumentError, ...] = ()
    if facts is None:
        facts, errors = read_facts(server, accelerators, on_node)
    objects = ClusterObjects(server, scope, on_progress)
    place = AuditScope(True, scope=scope)
    return ObjectSource(
        chain(errors, objects), objects.owners, place, Background(facts), server.now(), lambda: objects.unsent
    )


def read_background(
    server: ApiServer, accelerators: Accelerators = BUILT_IN
) -> tuple[Background, tuple[DocumentError, ...]]:
    """The cluster that files are meant for, and errors for parts that could not be read."""
    facts, errors = read_facts(server, accelerators)
    return Background(facts, LivePods(server, accelerators=accelerators)), errors
