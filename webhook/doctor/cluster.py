"""The cluster as the doctor reads it: a method returns an object, or raises UnavailableError with the reason."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from webhook.kubernetes.api_errors import AnswerError, ApiServerError, UnreachableError
from webhook.kubernetes.api_server import ApiServer
from webhook.model.selectors import Expression

Object = dict[str, Any]
"""A Kubernetes object as JSON has it."""

ANSWER_SECONDS = 15.0
REVIEWED_SECONDS = 75.0
"""Longest time for an answer where webhooks are called, each for at most 30 seconds."""
PAGE = "500"

_NOTHING: Mapping[str, str] = MappingProxyType({})
_OTHER_RIGHTS = "look again with a kubeconfig that may"


class UnavailableError(Exception):
    """Something cannot be read. The text says why, `remedy` what would help. `is_forbidden`: a right is missing."""

    def __init__(self, why: str, remedy: str = "", *, is_forbidden: bool = False) -> None:
        super().__init__(why)
        self.remedy = remedy
        self.is_forbidden = is_forbidden

    @classmethod
    def of(cls, error: ApiServerError) -> "UnavailableError":
        """The error for a failed request to the API server, in words for the user of the command."""
        if isinstance(error, UnreachableError):
            return cls(f"the API server does not answer: {error}")
        if isinstance(error, AnswerError):
            return cls(f"the API server answers something other than JSON: {error}")
        is_forbidden = error.status == 403
        return cls(str(error), _OTHER_RIGHTS if is_forbidden else "", is_forbidden=is_forbidden)


class DoctorCluster:
    """The API server, with the rights of the user of the command."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    @property
    def clock_skew(self) -> float:
        """Seconds that this machine's clock is ahead of the API server's."""
        return self._server.clock_skew

    def now(self) -> datetime:
        """The API server's clock, in UTC."""
        return datetime.now(UTC) - timedelta(seconds=self._server.clock_skew)

    def find(self, path: str, query: Mapping[str, str] = _NOTHING) -> Object | None:
        """The object at `path`; None where there is none. Raises UnavailableError where it cannot be read."""
        try:
            return self._server.get(path, query, ANSWER_SECONDS)
        except ApiServerError as error:
            if error.status == 404:
                return None
            raise UnavailableError.of(error) from None

    def items(self, path: str, query: Mapping[str, str] = _NOTHING) -> Iterator[Object]:
        """The objects of a list, page by page. Raises UnavailableError, also for a kind that the server does not know.

        Set `limit` in the query for large objects.
        """
        query = {"limit": PAGE, **query}
        while True:
            page = self.find(path, query)
            if page is None:
                raise UnavailableError(f"the API server does not know {path}")
            yield from page.get("items") or ()
            if not (rest := page.get("metadata", {}).get("continue")):
                return
            query["continue"] = rest

    def create(self, path: str, body: Mapping[str, Any], query: Mapping[str, str] = _NOTHING) -> Object:
        """Create an object and return it. Raises RefusedError for a refusal, else UnavailableError."""
        try:
            return self._server.send("POST", path, body, REVIEWED_SECONDS, query)
        except (UnreachableError, AnswerError) as error:
            raise UnavailableError.of(error) from None


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector selects an object with these labels."""
    exact = (selector.get("matchLabels") or {}).items() <= labels.items()
    return exact and all(
        Expression(one["key"], one["operator"], tuple(one.get("values") or ())).matches(labels)
        for one in selector.get("matchExpressions") or ()
    )
