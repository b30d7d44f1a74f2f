"""Reads a cluster with the rights of whoever asks. What cannot be read is noted, with the right that is missing.

Lists are read in pages, and never kept whole unless the caller keeps them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from webhook.audit.report import ObjectReference
from webhook.kubernetes.api_errors import ApiServerError
from webhook.kubernetes.api_paths import segment
from webhook.kubernetes.api_server import JSON, ApiServer
from webhook.kubernetes.discovery import ApiResource, Discovery
from webhook.kubernetes.paged_list import Listed, PagedList, RetryingReader
from webhook.model.json_parts import mapped, part
from webhook.model.shape import shortened
from webhook.why.explanation import MissingAnswer
from webhook.why.observed import EventCollector, Raw, SeenEvent, text

SECONDS = 15.0
"""Longest pause within an answer."""
_PAGE = 250
MOST_EVENTS = 5_000
"""Events about one object that are read; of each reason the newest is kept."""
_EVENTS = ApiResource("", "v1", "Event", "events", is_namespaced=True)
_LONGEST = 3_000
"""Characters of an event's message that are kept. Refusals of the webhook may be longer than the 1,024 of an event."""
_BUSY_SECONDS = 2.0
"""Longest wait before a request is repeated: somebody waits at a terminal."""


class ClusterReader:
    """The API server, and everything that it did not say."""

    def __init__(self, server: ApiServer) -> None:
        self.gets = RetryingReader(server, _wait)
        self.discovery = Discovery(self.gets)
        self._missing: dict[tuple[str, str, str], MissingAnswer] = {}

    @property
    def missing(self) -> tuple[MissingAnswer, ...]:
        """What could not be read, each right once."""
        return tuple(self._missing.values())

    def get(self, resource: ApiResource, namespace: str, name: str, unknown: str) -> dict[str, Any] | None:
        """An object; None where there is none, or where it cannot be read. `unknown` is what it would tell."""
        try:
            found = self.gets.get(f"{resource.path(namespace)}/{segment(name)}", {}, SECONDS)
        except ApiServerError as error:
            if error.status != 404:
                self.note("get", resource, namespace, unknown, error)
            return None
        return _typed(found, resource)

    def items(  # noqa: PLR0913  # all that a list is asked by
        self,
        resource: ApiResource,
        namespace: str,
        unknown: str,
        *,
        selector: str = "",
        labels: str = "",
        accept: str = JSON,
    ) -> Iterator[dict[str, Any]]:
        """The objects of a kind, as they arrive, without managed fields. A fault ends the list, and is noted."""
        listed = Listed(resource.path(namespace), _PAGE, selector, accept, labels, goes_on=True)
        try:
            for raw in PagedList(self.gets, listed, lambda: SECONDS):
                if isinstance(raw, dict) and isinstance(raw.get("metadata"), dict):
                    yield _typed(raw, resource)
        except ApiServerError as error:
            self.note("list", resource, namespace, unknown, error)

    def find(self, group: str, kind: str) -> ApiResource | None:
        """The resource of a kind; None where the cluster has none, or does not say, which is noted."""
        try:
            return self.discovery.find(group, kind)
        except ApiServerError as error:
            place = f"/apis/{group}" if group else "/api"
            unknown = f"whether the cluster has {kind} and other kinds of {group or 'Kubernetes'}"
            fault = MissingAnswer("get", place, "", unknown, str(error))
            self._missing.setdefault((fault.verb, place, ""), fault)
            return None

    def note(self, verb: str, resource: ApiResource, namespace: str, unknown: str, error: ApiServerError) -> None:
        """Remember that something could not be read."""
        fault = "" if error.status == 403 else str(error)
        self._missing.setdefault(
            (verb, str(resource), namespace), MissingAnswer(verb, str(resource), namespace, unknown, fault)
        )

    def is_missing(self, verb: str, resource: str, namespace: str = "") -> bool:
        """Whether something could not be read."""
        return (verb, resource, namespace) in self._missing

    def events(self, abouts: Iterable[ObjectReference]) -> tuple[SeenEvent, ...]:
        """The newest event of each reason about these objects, the newest first."""
        collector = EventCollector()
        for about in abouts:
            selector = f"involvedObject.uid={about.uid}" if about.uid else f"involvedObject.name={about.name}"
            found = self.items(_EVENTS, about.namespace, "what controllers and nodes said of it", selector=selector)
            for number, raw in enumerate(found, start=1):
                collector.add(seen_event(raw, about))
                if number >= MOST_EVENTS:
                    break
        return collector.events


def seen_event(raw: Raw, about: ObjectReference) -> SeenEvent:
    """Read an event of any shape."""
    count = part(raw, "series", "count") or part(raw, "count")
    times = (
        text(raw, "series", "lastObservedTime"),
        text(raw, "lastTimestamp"),
        text(raw, "eventTime"),
        text(raw, "metadata", "creationTimestamp"),
    )
    return SeenEvent(
        about,
        shortened(text(raw, "reason"), 128),
        shortened(" ".join(text(raw, "message").split(" ")), _LONGEST),
        next(filter(None, times), ""),
        count if isinstance(count, int) else 1,
        is_warning=text(raw, "type") == "Warning",
    )


def _typed(raw: dict[str, Any], resource: ApiResource) -> dict[str, Any]:
    metadata = {key: value for key, value in mapped(raw, "metadata").items() if key != "managedFields"}
    return {**raw, "metadata": metadata, "apiVersion": resource.api_version, "kind": resource.kind}


def _wait(seconds: float) -> None:
    from time import sleep  # noqa: PLC0415  # tests read without waiting

    sleep(min(seconds, _BUSY_SECONDS))


def label_selector(selector: Mapping[str, Any]) -> str:
    """A LabelSelector as a query has it, as far as matchLabels say; empty if that cannot be said."""
    labels = mapped(selector, "matchLabels")
    if not labels or not all(isinstance(value, str) for value in labels.values()):
        return ""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
