"""Errors of requests to the API server; each is an ApiServerError.

The API server refuses (RefusedError), another writer was faster (ConflictError), no answer comes (UnreachableError), or
the answer cannot be used (AnswerError).
"""


class ClusterConfigError(ValueError):
    """No way to reach the cluster is known; the text says what was tried and what to do."""


class ApiServerError(Exception):
    """A request to the API server failed; the text says why. `status` is the HTTP status of a refusal, else 0.

    `about` is the name of the object that a refusal is about; empty where the refusal names none.
    """

    status = 0
    about = ""

    @property
    def code(self) -> int:
        """The HTTP status to answer with: 503, or 500 where somebody first has to give a right, a namespace or room."""
        return 500 if self.status in {403, 404, 413, 422} else 503

    def is_about_missing(self, name: str) -> bool:
        """Whether the API server says that there is no object of this name."""
        return self.status == 404 and self.about == name

    def sentence(self, method: str, path: str) -> str:
        """A message about the failed request for operators, with a remedy where a right is missing.

        >>> RefusedError(403, "not allowed").sentence("GET", "/api/v1/pods")
        'GET /api/v1/pods: the API server answered 403: not allowed; install the RBAC objects of the chart again'
        """
        return f"{method} {path}: {self}{self.remedy()}"

    def remedy(self, condition: str = "") -> str:
        """What an operator can do where a right is missing; else empty. `condition` is what the chart must have."""
        return f"; install the RBAC objects of the chart again{condition}" if self.status == 403 else ""

    def for_authors(self, what: str) -> str:
        """A message for the author of a pod, without paths and without remedies for operators."""
        return f"{what} (the API server {f'answered {self.status}' if self.status else 'does not answer'})"


class RefusedError(ApiServerError):
    """The API server answered with an error. `status` is the HTTP status or its equivalent.

    `about` is the name of the object that the error is about; empty for an unknown resource. `rest` is the token with
    which an expired list can be continued; empty where the list has to start again. `retry_after` is in seconds.
    """

    def __init__(self, status: int, message: str, retry_after: float = 0.0, about: str = "", *, rest: str = "") -> None:
        super().__init__(f"the API server answered {status}: {message}")
        self.status = status
        self.retry_after = retry_after
        self.about = about
        self.rest = rest

    def is_about_ending(self, namespace: str) -> bool:
        """Whether the reason is that this namespace is deleted or being deleted, which needs no remedy."""
        return (self.status == 404 and self.about == namespace) or "being terminated" in str(self)


class ConflictError(ApiServerError):
    """An object was changed, created or deleted since it was read. Nothing was written."""


class UnreachableError(ApiServerError):
    """No answer came, or the answer broke off.

    `was_silent`: the connection stood, and nothing arrived for longer than the API server promised.
    """

    def __init__(self, message: str, *, was_silent: bool = False) -> None:
        super().__init__(message)
        self.was_silent = was_silent


class AnswerError(ApiServerError, ValueError):
    """An answer is no JSON, or not what was asked for.

    `is_too_long`: the answer is longer than the longest answer that is read.
    """

    def __init__(self, message: str, *, is_too_long: bool = False) -> None:
        super().__init__(message)
        self.is_too_long = is_too_long
