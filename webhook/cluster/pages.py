"""Lists of any length, one page after the other: never more than one page is in memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Any

from webhook.cluster.api_server import JSON, ApiServer, TooLongError, UnreachableError


class Deadline:
    """The end of a time in which all pages of a list have to arrive."""

    def __init__(self, seconds: float) -> None:
        self._at = monotonic() + seconds

    def left(self) -> float:
        """The seconds that are left. Raises UnreachableError where there are none."""
        seconds = self._at - monotonic()
        if seconds <= 0:
            raise UnreachableError("there was no time left for the rest of the list")
        return seconds


@dataclass(frozen=True, slots=True)
class Listed:
    """What is listed: at most `page` objects in one answer, and fewer where they are large.

    `selector` is of fields, `labels` of labels; empty for all.
    """

    path: str
    page: int
    selector: str = ""
    accept: str = JSON
    labels: str = ""


class PagedList:
    """One consistent list, as of a moment after it began. Iterating reads it, and gives each object as it arrives.

    `seconds` says before each page how long that may pause, or raises what the reader is to see instead. Raises what
    `ApiServer.get` raises, RefusedError 410 where the rest of the list was no longer to be had, and ValueError where an
    answer is no list.
    """

    def __init__(self, server: ApiServer, listed: Listed, seconds: Callable[[], float]) -> None:
        self._server = server
        self._listed = listed
        self._seconds = seconds
        self.version = ""
        """The resourceVersion of the whole list; empty until its end was read."""

    def __iter__(self) -> Iterator[Any]:
        query = {"fieldSelector": self._listed.selector} if self._listed.selector else {}
        if self._listed.labels:
            query["labelSelector"] = self._listed.labels
        limit = self._listed.page
        while True:
            query["limit"] = str(limit)
            try:
                answer = self._server.get(self._listed.path, query, self._seconds(), self._listed.accept)
            except TooLongError:
                if limit == 1:
                    raise
                limit = (limit + 1) // 2
                continue
            limit = min(limit * 2, self._listed.page)
            metadata, items = answer.get("metadata"), answer.pop("items", None)
            items = [] if items is None else items
            if not (isinstance(metadata, dict) and metadata.get("resourceVersion") and isinstance(items, list)):
                raise ValueError("the answer to a list is no list")
            while items:
                yield items.pop()  # a page goes as it is read, before the next one comes
            if not metadata.get("continue"):
                self.version = str(metadata["resourceVersion"])
                return
            query["continue"] = str(metadata["continue"])
