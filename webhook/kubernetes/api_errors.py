"""Errors of requests to the API server, all of them ApiServerError.

It refuses (RefusedError), somebody else was faster (ConflictError), no answer comes (UnreachableError), or the answer
is of no use (AnswerError).
"""

from typing import Any

import orjson

from webhook.kubernetes.responses import retry_after


class ClusterConfigError(ValueError):
    """No way to reach the cluster is known; the text says what was tried and what to do."""


class ApiServerError(Exception):
    """A request to the API server had no success; the text says why. `status` is the HTTP status of a refusal, else 0.

    `about` is the name of the object that a refusal is about; empty where it names none.
    """

    status = 0
    about = ""

    def is_about_missing(self, name: str) -> bool:
        """Whether the API server says that there is no object of this name."""
        return self.status == 404 and self.about == name

    def sentence(self, method: str, path: str) -> str:
        """The failed request for operators, with a remedy where a right is missing.

        >>> RefusedError(403, "not allowed").sentence("GET", "/api/v1/pods")
        'GET /api/v1/pods: the API server answered 403: not allowed; install the RBAC objects of the chart again'
        """
        return f"{method} {path}: {self}{self.remedy()}"

    def remedy(self, condition: str = "") -> str:
        """What an operator can do where a right is missing; else empty. `condition` is what the chart must have."""
        return f"; install the RBAC objects of the chart again{condition}" if self.status == 403 else ""

    def told(self, what: str) -> str:
        """What went wrong for the author of a pod, without paths and without remedies for operators."""
        return f"{what} (the API server {f'answered {self.status}' if self.status else 'does not answer'})"


class RefusedError(ApiServerError):
    """The API server answered with an error. `status` is the HTTP status or its equivalent.

    `about` is the name of the object that the error is about; empty where it names none, as for an unknown resource.
    `rest` is the token with which an expired list may go on; empty where the list has to begin anew.
    """

    def __init__(self, status: int, message: str, retry_after: float = 0.0, about: str = "", *, rest: str = "") -> None:
        super().__init__(f"the API server answered {status}: {message}")
        self.status = status
        self.retry_after = retry_after
        self.about = about
        self.rest = rest

    def is_of_ending(self, namespace: str) -> bool:
        """Whether it was refused because this namespace is gone or about to go, which nobody has to mend."""
        return (self.status == 404 and self.about == namespace) or "being terminated" in str(self)


class ConflictError(ApiServerError):
    """An object is not as it was read: it was changed, made or removed meanwhile. Nothing was written."""


class UnreachableError(ApiServerError):
    """No answer came, or the answer broke off.

    `was_silent`: the connection stood, and nothing arrived for longer than the API server promised.
    """

    def __init__(self, message: str, *, was_silent: bool = False) -> None:
        super().__init__(message)
        self.was_silent = was_silent


class AnswerError(ApiServerError, ValueError):
    """An answer came that is no JSON, or not what was asked for.

    `is_too_long`: the answer is longer than the longest answer that is read.
    """

    def __init__(self, message: str, *, is_too_long: bool = False) -> None:
        super().__init__(message)
        self.is_too_long = is_too_long


def refusal_of(response: Any) -> RefusedError:
    """The error of an answer without success, with at most 300 characters of its message."""
    body = response.read(65536)
    response.close()
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    message = found.get("message") if isinstance(found, dict) else None
    text = message if isinstance(message, str) else body.decode("utf-8", "replace")
    return RefusedError(
        response.status,
        " ".join(text.split())[:300] or "nothing",
        retry_after(response),
        _told(found, "details", "name"),
        rest=_told(found, "metadata", "continue"),
    )


def _told(found: Any, part: str, key: str) -> str:
    """A text in a part of a refusal; empty where there is none."""
    inner = found.get(part) if isinstance(found, dict) else None
    value = inner.get(key) if isinstance(inner, dict) else None
    return value if isinstance(value, str) else ""
