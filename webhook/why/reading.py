"""Reads a cluster with the rights of whoever asks. What cannot be read is noted, with the right that is missing.

Lists are read in pages, and never kept whole unless the caller keeps them.
"""

from collections.abc import Iterable, Iterator
from time import sleep
from typing import Any

from webhook.audit.report import ObjectReference
from webhook.kubernetes.api_errors import ApiServerError
from webhook.kubernetes.api_paths import segment
from webhook.kubernetes.api_server import JSON, ApiServer
from webhook.kubernetes.discovery import ApiResource, Discovery
from webhook.kubernetes.paged_list import Listed, PagedList, RetryingReader
from webhook.model.json_parts import mapped
from webhook.why.explanation import MissingAnswer
from webhook.why.observed import SeenEvent

SECONDS = 15.0
"""Longest pause within an answer."""
_PAGE = 250
_EVENTS = ApiResource("", "v1", "Event", "events", is_namespaced=True)
_BUSY_SECONDS = 2.0
"""Longest wait before a request is repeated: somebody waits at a terminal."""


class ClusterReader:
    """The API server, and everything that it did not say."""

    def __init__(self, server: ApiServer) -> None:
        self._gets = RetryingReader(server, lambda seconds: sleep(min(seconds, _BUSY_SECONDS)))
        self._discovery = Discovery(self._gets)
        self._missing: dict[tuple[str, str, str], MissingAnswer] = {}

    @property
    def missing(self) -> tuple[MissingAnswer, ...]:
        """What could not be read, each right once."""
        return tuple(one for one in self._missing.values() if one.unknown)

    def get(self, resource: ApiResource, namespace: str, name: str, unknown: str) -> dict[str, Any] | None:
        """An object; None where there is none, or where it cannot be read. `unknown` is what it would tell."""
        try:
            found = self._gets.get(f"{resource.path(namespace)}/{segment(name)}", {}, SECONDS)
        except ApiServerError as error:
            if error.status != 404:
                self._note("get", str(resource), namespace, unknown, error)
            return None
        return _typed(found, resource)

    def items(  # noqa: PLR0913  # all that a list is asked by
        self,
        resource: ApiResource | None,
        namespace: str,
        unknown: str,
        *,
        selector: str = "",
        labels: str = "",
        accept: str = JSON,
    ) -> Iterator[dict[str, Any]]:
        """The objects of a kind, as they arrive, without managed fields. A fault ends the list, and is noted.

        Nobody misses what a list without an `unknown` would tell. A cluster has no objects of a kind that is None.
        """
        if resource is None:
            return
        listed = Listed(resource.path(namespace), _PAGE, selector, accept, labels, goes_on=True)
        try:
            for raw in PagedList(self._gets, listed, lambda: SECONDS):
                if isinstance(raw, dict) and isinstance(raw.get("metadata"), dict):
                    yield _typed(raw, resource)
        except ApiServerError as error:
            self._note("list", str(resource), namespace, unknown, error)

    def find(self, group: str, kind: str) -> ApiResource | None:
        """The resource of a kind; None where the cluster has none, or does not say, which is noted."""
        try:
            return self._discovery.find(group, kind)
        except ApiServerError as error:
            place = f"/apis/{group}" if group else "/api"
            unknown = f"whether the cluster has {kind} and other kinds of {group or 'Kubernetes'}"
            self._missing.setdefault(("get", place, ""), MissingAnswer("get", place, "", unknown, str(error)))
            return None

    def _note(self, verb: str, resource: str, namespace: str, unknown: str, error: ApiServerError) -> None:
        fault = "" if error.status == 403 else str(error)
        self._missing.setdefault((verb, resource, namespace), MissingAnswer(verb, resource, namespace, unknown, fault))

    def is_missing(self, verb: str, resource: str, namespace: str = "") -> bool:
        return (verb, resource, namespace) in self._missing

    def events(self, abouts: Iterable[ObjectReference]) -> tuple[SeenEvent, ...]:
        """The newest event of each reason about these objects, the newest first."""
        newest: dict[tuple[str, str], SeenEvent] = {}
        for about in abouts:
            selector = f"involvedObject.uid={about.uid}" if about.uid else f"involvedObject.name={about.name}"
            found = self.items(_EVENTS, about.namespace, "what controllers and nodes said of it", selector=selector)
            for raw in found:
                event = SeenEvent.of(raw, about)
                known = newest.setdefault((about.uid, event.reason), event)
                if event.last >= known.last:
                    newest[about.uid, event.reason] = event
        return tuple(sorted(newest.values(), key=lambda event: event.last, reverse=True))


def _typed(raw: dict[str, Any], resource: ApiResource) -> dict[str, Any]:
    metadata = {key: value for key, value in mapped(raw, "metadata").items() if key != "managedFields"}
    return {**raw, "metadata": metadata, "apiVersion": resource.api_version, "kind": resource.kind}
