"""Reading much of a cluster once, and being no burden to its API server: what asks for patience is given it."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from webhook.kubernetes.api_server import JSON, ApiServer, RefusedError, UnreachableError

ATTEMPTS = 4
"""How often one thing is asked for."""
LONGEST_WAIT_SECONDS = 30.0
"""The longest pause between two attempts, whatever the API server asks for."""
MOST_WAITED_SECONDS = 180.0
"""All pauses together; once they are used up, whatever is refused stays refused."""

_ASKS_FOR_PATIENCE = frozenset({429, 502, 503, 504})
_LOST_AFTER = 2
"""After so many questions in a row that no attempt got an answer to, the API server is not asked again."""


class Reader:
    """Asks an API server for one thing after the other. Not for several threads.

    What is refused for the moment is asked for again, after the time in `Retry-After` or else after 1, 2 and 4 s.
    """

    def __init__(self, server: ApiServer, wait: Callable[[float], None] = time.sleep) -> None:
        self._server = server
        self._wait = wait
        self._waited = 0.0
        self._unanswered = 0
        self.calls = 0
        """Requests so far, repeated ones included."""

    def get(self, path: str, query: Mapping[str, str], seconds: float, accept: str = JSON) -> dict[str, Any]:
        """What `ApiServer.get` answers and raises, the latter after all attempts."""
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
        """Seconds until the next attempt, None where there is none."""
        asked_for = 0.0
        if isinstance(error, RefusedError):
            if error.status not in _ASKS_FOR_PATIENCE:
                return None
            asked_for = error.retry_after
        pause = min(asked_for or 2.0 ** (attempt - 1), LONGEST_WAIT_SECONDS)
        return None if attempt >= ATTEMPTS or self._waited + pause > MOST_WAITED_SECONDS else pause
