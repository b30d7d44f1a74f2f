"""The workloads, pods and resource claims of a live cluster, one by one: never more than a page of them is in memory.

Lists are read in pages from one consistent state (`limit` without a resourceVersion). A list of resourceVersion 0 would
cost etcd nothing, but the API server ignores the limit for it: all pods of a cluster would come in one answer.

A kind that cannot be listed becomes an error with the reason, and all other kinds are still read.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from webhook.audit.documents import Document, DocumentError
from webhook.audit.owners import Owners
from webhook.audit.report import ObjectReference
from webhook.audit.review_objects import NEVER_SENT
from webhook.kubernetes.api_errors import ApiServerError, RefusedError
from webhook.kubernetes.api_paths import CORE, path_of
from webhook.kubernetes.api_server import JSON, METADATA, METADATA_LIST, ApiServer
from webhook.kubernetes.discovery import PODS, ApiResource, Discovery
from webhook.kubernetes.paged_list import Listed, PagedList, RetryingReader
from webhook.ledger.gpu_pods import COUNTING
from webhook.model.claims import CLAIM, GROUP
from webhook.model.globs import matcher
from webhook.model.wording import few
from webhook.model.workloads import WORKLOADS, controller_of

PAGE = 250
"""Most objects in one answer: one or two MiB of pods."""
METADATA_PAGE = 500
SECONDS = 60.0
"""Longest pause within an answer; an API server gives itself as long for a whole answer."""


@dataclass(frozen=True, slots=True)
class NamespaceScope:
    """Which namespaces are read: `namespaces`, or all of them if it is empty, but not the `excluded` ones.

    `excluded` are names or globs. Cluster-scoped objects are read only with the whole cluster.
    """

    namespaces: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    def holds(self, namespace: str) -> bool:
        return not any(pattern == namespace or matcher(pattern).fullmatch(namespace) for pattern in self.excluded)

    def holds_all(self, patterns: Iterable[str]) -> bool:
        patterns = set(patterns)
        return all(map(self.holds, patterns)) and (not self.namespaces or patterns.issubset(self.namespaces))


class Listing:
    """The objects of one kind, one after the other, with apiVersion and kind, and without managed fields.

    After the objects comes an error for each reason why some objects could not be read.
    """

    def __init__(self, reader: RetryingReader, resource: ApiResource, scope: NamespaceScope) -> None:
        self._reader = reader
        self._resource = resource
        self._scope = scope
        self._list: PagedList | None = None
        self._faults: dict[str, list[tuple[str, Exception]]] = {}
        self.unsent = 0
        """Objects so far that the webhook is never asked about, without objects that others made."""

    @property
    def remaining(self) -> int | None:
        return self._list.remaining if self._list is not None and not self._scope.namespaces else None

    def read(self, selector: str = "", accept: str = JSON) -> Iterator[dict[str, Any] | DocumentError]:
        """Read all of them. `selector` is a field selector; `accept` may ask for metadata only."""
        page = PAGE if accept == JSON else METADATA_PAGE
        for namespace in self._places():
            listed = Listed(self._resource.path(namespace), page, selector, accept, goes_on=True)
            self._list = PagedList(self._reader, listed, lambda: SECONDS)
            try:
                yield from filter(None, map(self._typed, self._list))
            except ApiServerError as error:
                key = str(error.status) if isinstance(error, RefusedError) else type(error).__name__
                self._faults.setdefault(key, []).append((namespace, error))
        yield from map(self._explained, self._faults.values())

    def _places(self) -> Iterator[str]:
        """The namespaces to ask for, empty for all of them at once."""
        if not self._scope.namespaces:
            yield ""
        elif self._resource.is_namespaced:
            yield from filter(self._scope.holds, dict.fromkeys(self._scope.namespaces))

    def _typed(self, raw: Any) -> dict[str, Any] | None:
        """The object with its apiVersion and kind; None if its namespace is excluded."""
        metadata = raw.get("metadata") if isinstance(raw, dict) else None
        if not isinstance(metadata, dict):
            return None
        namespace = str(metadata.get("namespace") or "")
        if not self._scope.holds(namespace):
            self.unsent += namespace in NEVER_SENT and controller_of(raw) is None
            return None
        metadata.pop("managedFields", None)
        return {**raw, "apiVersion": self._resource.api_version, "kind": self._resource.kind}

    def _explained(self, faults: list[tuple[str, Exception]]) -> DocumentError:
        namespaces = [namespace for namespace, _ in faults if namespace]
        where = f" in {'namespaces' if len(namespaces) > 1 else 'namespace'} {few(namespaces)}" if namespaces else ""
        resource, error, remedy = self._resource, faults[0][1], ""
        status = error.status if isinstance(error, RefusedError) else 0
        if status == 403:
            role = "a Role there" if namespaces else "a ClusterRole, or name the namespaces to audit"
            remedy = f'; grant the verb list on {resource.name} of apiGroup "{resource.group}" in {role}'
        elif status == 404:
            remedy = "; the kind was removed meanwhile, or a proxy in front of the API server hides it"
        return DocumentError("", 0, None, f"{resource.kind}: {resource} cannot be listed{where}: {error}{remedy}")


_PROGRESS_EVERY = 50
_BUILT_IN = frozenset({"", "apps", "batch"})
_MADE_BY_BUILT_IN = frozenset({"Job", "ReplicaSet"})


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of reading one kind: how many objects were read, and how many remain (None if unknown)."""

    kind: str
    objects: int
    remaining: int | None


class ClusterObjects:
    """Iterating reads the cluster once: workloads of every known kind that it serves, then pods that have not finished.

    Workloads that another read workload made, or that are being deleted, are left out. A kind that cannot be read
    becomes an error in its place, and reading continues. `on_progress` is called with the progress. `owners` knows the
    owners of an object before the object comes.
    """

    def __init__(self, server: ApiServer, scope: NamespaceScope, on_progress: Callable[[Progress], None]) -> None:
        self.owners = Owners()
        self._reader = RetryingReader(server)
        self._discovery = Discovery(self._reader)
        self._scope = scope
        self._on_progress = on_progress
        self._to_come: set[tuple[str, str]] = set()
        """The kinds that are still to be read whole."""
        self._looked_up: set[tuple[str, str]] = set()
        """The kinds that were read, or searched for owners."""
        self._number = 0
        self.unsent = 0
        """Objects so far that the webhook is never asked about."""

    @property
    def calls(self) -> int:
        return self._reader.calls

    def __iter__(self) -> Iterator[Document | DocumentError]:
        yield from self._missing_namespaces()
        kinds = yield from self._served()
        self._to_come.update(map(_key, kinds))
        for kind in kinds:
            yield from self._workloads(kind)
        for found in self._read(PODS, COUNTING):
            if not isinstance(found, DocumentError):
                self._look_behind(found)
                yield self._document(found)
            else:
                yield found
        yield from (one for one in self.of_kinds([(GROUP, CLAIM)]) if isinstance(one, Document))  # count in quotas

    def of_kinds(self, kinds: Iterable[tuple[str, str]]) -> Iterator[Document | DocumentError]:
        """The objects of these kinds, each with its group; none of a kind that the cluster does not serve."""
        for group, kind in kinds:
            resource = None
            with suppress(ApiServerError):  # iterating says it
                resource = self._discovery.find(group, kind)
            for found in self._read(resource) if resource is not None else ():
                yield found if isinstance(found, DocumentError) else self._document(found)

    def _missing_namespaces(self) -> Iterator[DocumentError]:
        """Errors for namespaces that do not exist; the API server would answer their lists with no objects."""
        for namespace in dict.fromkeys(self._scope.namespaces):
            try:
                self._reader.get(path_of(CORE, "namespaces", name=namespace), {}, SECONDS, METADATA)
            except ApiServerError as error:  # any other fault is reported by the lists
                if error.status == 404:
                    yield DocumentError("", 0, None, f"there is no namespace {namespace}; name one that exists")

    def _served(self) -> Generator[DocumentError, None, list[ApiResource]]:
        """The kinds to read, owners first; yields an error if the API server does not say which kinds it serves."""
        kinds: list[ApiResource] = []
        faults: dict[str, None] = {}
        for group, kind in WORKLOADS:
            try:
                resource = self._discovery.find(group, kind)
            except ApiServerError as error:
                faults[str(error)] = None
                continue
            if resource is not None:
                kinds.append(resource)
        yield from (DocumentError("", 0, None, fault) for fault in faults)
        return sorted(kinds, key=_rank)

    def _workloads(self, kind: ApiResource) -> Iterator[Document | DocumentError]:
        for found in self._read(kind):
            if isinstance(found, DocumentError):
                yield found
                continue
            self.owners.learn(found)
            self._look_behind(found)
            if found["metadata"].get("deletionTimestamp") is None and not self.owners.is_owned_by_known(found):
                yield self._document(found)
        self._to_come.discard(_key(kind))
        self._looked_up.add(_key(kind))

    def _look_behind(self, raw: Mapping[str, Any]) -> None:
        """Learn who owns the last known owner of an object, from the metadata of all objects of the owner's kind."""
        while (owner := self.owners.unknown_owner_of(raw)) is not None and _key_of(owner) not in self._looked_up:
            self._looked_up.add(_key_of(owner))
            resource = None
            with suppress(ApiServerError):  # the reference is then all that is known about the owner, as below
                resource = self._discovery.find(*_key_of(owner))
            if resource is None:
                continue
            is_audited = _key(resource) in self._to_come
            for found in Listing(self._reader, resource, self._scope).read(accept=METADATA_LIST):
                if not isinstance(found, DocumentError) and (is_audited or _says_more_than_a_reference(found)):
                    self.owners.learn(found, is_audited=is_audited)

    def _read(self, kind: ApiResource, selector: str = "") -> Iterator[dict[str, Any] | DocumentError]:
        listing = Listing(self._reader, kind, self._scope)
        self._on_progress(Progress(kind.kind, 0, None))
        count = 0
        for found in listing.read(selector):
            yield found
            count += not isinstance(found, DocumentError)
            if count % _PROGRESS_EVERY == 0:
                self._on_progress(Progress(kind.kind, count, listing.remaining))
        self._on_progress(Progress(kind.kind, count, 0))
        self.unsent += listing.unsent

    def _document(self, raw: Mapping[str, Any]) -> Document:
        self._number += 1
        return Document("", self._number, 0, raw)


def _rank(kind: ApiResource) -> int:
    """The order of reading, owners first: kinds of operators, built-in kinds, then Jobs and ReplicaSets."""
    if kind.group not in _BUILT_IN:
        return 0
    return 2 if kind.kind in _MADE_BY_BUILT_IN else 1


def _key(kind: ApiResource) -> tuple[str, str]:
    return kind.group, kind.kind


def _key_of(owner: ObjectReference) -> tuple[str, str]:
    return owner.api_version.rpartition("/")[0], owner.kind


def _says_more_than_a_reference(raw: Mapping[str, Any]) -> bool:
    """Whether an owner has an owner itself, or is cluster-scoped; a reference to the owner says neither.

    Other owners need not be remembered: a pod that names an Event as its owner does not make the audit remember all
    Events.
    """
    return controller_of(raw) is not None or not raw["metadata"].get("namespace")
