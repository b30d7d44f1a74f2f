"""All objects of one kind in the namespaces of an audit, in pages, and what is said where they cannot be had."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from webhook.audit.documents import DocumentError
from webhook.kubernetes.api_errors import RefusedError, UnreachableError
from webhook.kubernetes.api_server import JSON
from webhook.kubernetes.discovery import ApiResource, Reader
from webhook.kubernetes.paged_list import Listed, PagedList
from webhook.model.globs import matcher

PAGE = 250
"""Objects in one answer, one or two MiB of pods. Parsing takes twice the time where a page has twice as many."""
METADATA_PAGE = 500
SECONDS = 60.0
"""The longest pause in an answer; an API server gives itself as much for a whole one."""
_NAMED = 5


@dataclass(frozen=True, slots=True)
class NamespaceScope:
    """Which namespaces are read: these, without any the whole cluster, and none of those that are excluded, by name or
    glob. Objects that are in no namespace belong to the whole cluster only.
    """

    namespaces: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    def holds(self, namespace: str) -> bool:
        """Whether a namespace is not excluded."""
        return not any(pattern == namespace or matcher(pattern).fullmatch(namespace) for pattern in self.excluded)


class Listing:
    """The objects of one kind, one after the other. Iterating reads them once, each with its apiVersion and kind, and
    without its managed fields. After those that could be read comes an error for those that could not.
    """

    def __init__(self, reader: Reader, resource: ApiResource, scope: NamespaceScope) -> None:
        self._reader = reader
        self._resource = resource
        self._scope = scope
        self._list: PagedList | None = None
        self._faults: dict[str, list[tuple[str, Exception]]] = {}

    @property
    def remaining(self) -> int | None:
        """How many objects are still to come; None where that is not known."""
        return self._list.remaining if self._list is not None and not self._scope.namespaces else None

    def read(self, selector: str = "", accept: str = JSON) -> Iterator[dict[str, Any] | DocumentError]:
        """Read all of them. `selector` is of fields; `accept` may ask for nothing but metadata."""
        page = PAGE if accept == JSON else METADATA_PAGE
        for namespace in self._places():
            listed = Listed(self._resource.path(namespace), page, selector, accept, goes_on=True)
            self._list = PagedList(self._reader, listed, lambda: SECONDS)
            try:
                yield from filter(None, map(self._taken, self._list))
            except (RefusedError, UnreachableError, ValueError) as error:
                key = str(error.status) if isinstance(error, RefusedError) else type(error).__name__
                self._faults.setdefault(key, []).append((namespace, error))
        yield from map(self._explained, self._faults.values())

    def _places(self) -> Iterator[str]:
        """The namespaces to ask for, empty for all of them at once."""
        if not self._scope.namespaces:
            yield ""
        elif self._resource.is_namespaced:
            yield from filter(self._scope.holds, dict.fromkeys(self._scope.namespaces))

    def _taken(self, raw: Any) -> dict[str, Any] | None:
        """The object as it is passed on; None where it is excluded."""
        metadata = raw.get("metadata") if isinstance(raw, dict) else None
        if not isinstance(metadata, dict) or not self._scope.holds(str(metadata.get("namespace") or "")):
            return None
        metadata.pop("managedFields", None)
        return {**raw, "apiVersion": self._resource.api_version, "kind": self._resource.kind}

    def _explained(self, faults: list[tuple[str, Exception]]) -> DocumentError:
        """One error for all namespaces in which the same went wrong."""
        namespaces = [namespace for namespace, _ in faults if namespace]
        where = f" in {_counted(namespaces)}" if namespaces else ""
        error = faults[0][1]
        remedy = _remedy(self._resource, error, is_everywhere=not namespaces)
        return DocumentError(
            "", 0, None, f"{self._resource.kind}: {self._resource} cannot be listed{where}: {error}{remedy}"
        )


def _counted(namespaces: list[str]) -> str:
    named, others = ", ".join(namespaces[:_NAMED]), len(namespaces) - _NAMED
    more = f" and {others} more" if others > 0 else ""
    return f"namespace{'s' if len(namespaces) > 1 else ''} {named}{more}"


def _remedy(resource: ApiResource, error: Exception, *, is_everywhere: bool) -> str:
    if not isinstance(error, RefusedError):
        return ""
    if error.status == 403:
        role = "a ClusterRole, or name the namespaces to audit" if is_everywhere else "a Role there"
        return f'; grant the verb list on {resource.name} of apiGroup "{resource.group}" in {role}'
    return (
        "; the kind was removed meanwhile, or something before the API server hides it" if error.status == 404 else ""
    )
