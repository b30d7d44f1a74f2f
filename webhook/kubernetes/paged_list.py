"""Reads lists of any length page by page: never more than one page is in memory.

`RetryingReader` reads much of a cluster once, and waits when the API server asks it to.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from webhook.kubernetes.api_errors import AnswerError, RefusedError, UnreachableError
from webhook.kubernetes.api_server import JSON
from webhook.model.json_parts import text

_EXPIRED = 410
"""HTTP status when the rest of a list has expired; the API server keeps it for some minutes."""
_MOST_EXPIRIES = 10


class Gets(Protocol):
    """Answers requests for pages: an ApiServer, or a wrapper of one."""

    def get(self, path: str, query: Mapping[str, str], seconds: float, accept: str = JSON) -> dict[str, Any]: ...


class ListDeadline:
    """The time by which all pages of a list have to arrive."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        """The seconds that are left. Raises UnreachableError where there are none."""
        seconds = self._at - time.monotonic()
        if seconds <= 0:
            raise UnreachableError("there was no time left for the rest of the list")
        return seconds


@dataclass(frozen=True, slots=True)
class Listed:
    """What to list: at most `page` objects in one answer, and fewer where they are large.

    `selector` is a field selector, `labels` a label selector; an empty one selects all. With `goes_on`, a list whose
    rest has expired is continued in its current state, and yields each object once.
    """

    path: str
    page: int
    selector: str = ""
    accept: str = JSON
    labels: str = ""
    goes_on: bool = False


class PagedList:
    """One consistent list, of a moment after the reading began. Iterating reads it and yields objects as they arrive.

    `seconds` is called before each page: it returns the longest pause in the page, or raises an error. Raises what
    `ApiServer.get` raises, RefusedError 410 where the rest of the list has expired, and AnswerError where an answer is
    no list.
    """

    def __init__(self, server: Gets, listed: Listed, seconds: Callable[[], float]) -> None:
        self._server = server
        self._listed = listed
        self._seconds = seconds
        self._limit = listed.page
        self._items: list[Any] = []
        self._after_page: int | None = None
        self._expiries = 0
        self.version = ""
        """The resourceVersion of the whole list; empty until its end was read."""

    @property
    def remaining(self) -> int | None:
        """The number of objects still to be read; None where the API server does not say, as with selectors."""
        return None if self._after_page is None else self._after_page + len(self._items)

    def __iter__(self) -> Iterator[Any]:
        query = {"fieldSelector": self._listed.selector} if self._listed.selector else {}
        if self._listed.labels:
            query["labelSelector"] = self._listed.labels
        last = ""
        while True:
            try:
                metadata, items = self._page(query)
            except RefusedError as refusal:
                self._expiries += 1
                if refusal.status != _EXPIRED or not self._listed.goes_on or self._expiries > _MOST_EXPIRIES:
                    raise
                query["continue"] = refusal.rest
                continue
            if self._expiries and last:  # the list may have started again; objects up to there were yielded
                items = [item for item in items if _place(item) > last]
            if items:
                last = _place(items[-1]) if self._listed.goes_on else ""
            self._items = items
            while items:
                yield items.pop()  # the page is empty before the next page arrives
            if not metadata.get("continue"):
                self.version = str(metadata["resourceVersion"])
                return
            query["continue"] = str(metadata["continue"])

    def _page(self, query: Mapping[str, str]) -> tuple[Mapping[str, Any], list[Any]]:
        """The metadata and the objects of the next page, halved until it is short enough."""
        while True:
            wanted = {name: value for name, value in query.items() if value} | {"limit": str(self._limit)}
            try:
                answer = self._server.get(self._listed.path, wanted, self._seconds(), self._listed.accept)
            except AnswerError as error:
                if not error.is_too_long or self._limit == 1:
                    raise
                self._limit = (self._limit + 1) // 2
                continue
            self._limit = min(self._limit * 2, self._listed.page)
            metadata, items = answer.get("metadata"), answer.get("items")
            items = [] if items is None else items
            if not (isinstance(metadata, dict) and metadata.get("resourceVersion") and isinstance(items, list)):
                raise AnswerError("the answer to a list is no list")
            count = metadata.get("remainingItemCount")
            self._after_page = count if isinstance(count, int) else None if metadata.get("continue") else 0
            return metadata, items


def _place(item: Any) -> str:
    """The position of an object in its list, which the API server sorts by namespace and name."""
    return f"{text(item, 'metadata', 'namespace')}/{text(item, 'metadata', 'name')}"


ATTEMPTS = 4
"""Most attempts of one request."""
LONGEST_WAIT_SECONDS = 30.0
"""Longest pause between two attempts, also if the API server asks for a longer one."""
MOST_WAITED_SECONDS = 180.0
"""Longest sum of all pauses; when it is used up, requests are not repeated."""

_TEMPORARY = frozenset({429, 502, 503, 504})
_LOST_AFTER = 2
"""Number of requests without an answer, one after the other, after which no request is sent."""


class RetryingReader:
    """Sends requests to an API server one after the other. Used by one thread.

    Requests with a temporary error are repeated after the time in `Retry-After`, or after 1, 2 and 4 s.
    """

    def __init__(self, server: Gets, wait: Callable[[float], None] = time.sleep) -> None:
        self._server = server
        self._wait = wait
        self._waited = 0.0
        self._unanswered = 0
        self.calls = 0
        """Number of requests so far, including repetitions."""

    def get(self, path: str, query: Mapping[str, str], seconds: float, accept: str = JSON) -> dict[str, Any]:
        if self._unanswered >= _LOST_AFTER:
            raise UnreachableError("the API server did not answer before and was not asked again")
        attempt = 0
        while True:
            attempt += 1
            self.calls += 1
            try:
                answer = self._server.get(path, query, seconds, accept)
            except (RefusedError, UnreachableError) as error:
                pause = self._pause(error, attempt)
                if pause is None:
                    self._unanswered = self._unanswered + 1 if isinstance(error, UnreachableError) else 0
                    raise
                self._waited += pause
                self._wait(pause)
            else:
                self._unanswered = 0
                return answer

    def _pause(self, error: RefusedError | UnreachableError, attempt: int) -> float | None:
        asked_for = 0.0
        if isinstance(error, RefusedError):
            if error.status not in _TEMPORARY:
                return None
            asked_for = error.retry_after
        pause = min(asked_for or 2.0 ** (attempt - 1), LONGEST_WAIT_SECONDS)
        return None if attempt >= ATTEMPTS or self._waited + pause > MOST_WAITED_SECONDS else pause
