"""Answers requests: by the application, or by the server itself where the application cannot be called."""

import logging
import time
from collections.abc import Callable, Sequence
from email.utils import formatdate
from functools import lru_cache
from typing import Any

from webhook.server.connection import Connection, Response
from webhook.server.framing import Head, ReceivedRequest
from webhook.server.refusal import Refusal, failed, malformed

log = logging.getLogger("gpu_policy.server")


class Responder:
    """Calls the application. Besides what WSGI demands, its environment has

    - `webhook.may_block`: a function to call before waiting, so that other requests are served meanwhile,
    - `webhook.waited`: a function that returns the seconds that this request waited to be read,
    - `webhook.is_metrics_port`: whether the client has reached the port for metrics; None where there is no such port,
    - `webhook.objection`: why this client's reviews are not answered; empty where they are.

    An answer with status 503 ends its connection, so that the next attempt may reach another replica.
    """

    def __init__(self, application: Any, metrics_port: int | None = None) -> None:
        self._application = application
        self._metrics_port = metrics_port
        self.leaving = False
        """Whether every answer ends its connection, because the server is stopping."""

    def respond(self, connection: Connection, request: ReceivedRequest, may_block: Callable[[], None]) -> Response:
        """Answer a request; with 500 where the application fails."""
        head = request.head
        try:
            started = _StartedResponse()
            body = self._application(self._environ(connection, request, may_block), started.start_response)
            try:
                content = b"".join(body)
            finally:
                if hasattr(body, "close"):
                    body.close()
            is_last = request.is_last or self.leaving or started.status.startswith("503")
            return Response(started.answer(head, content, is_last=is_last), is_last)
        except Exception:  # a bug in the application is an answer: 500
            log.exception("the application failed at %s %s", head.method, head.path)
            return self.refuse(connection.peer, failed())

    def _environ(
        self, connection: Connection, request: ReceivedRequest, may_block: Callable[[], None]
    ) -> dict[str, Any]:
        peer = connection.peer
        return {
            **request.head.environ,
            "REMOTE_ADDR": peer[0],
            "REMOTE_PORT": str(peer[1]),
            "CONTENT_LENGTH": str(request.length),
            "wsgi.input": request.body,
            "webhook.may_block": may_block,
            "webhook.waited": connection.unread_seconds,
            "webhook.is_metrics_port": self._metrics_port and connection.port == self._metrics_port,
            "webhook.objection": connection.objection,
        }

    def refuse(self, peer: Any, error: Exception) -> Response:
        """Answer a malformed request, or one that cannot be received."""
        refusal = error if isinstance(error, Refusal) else malformed(error)
        log.info("%s for %s: %s", refusal.status, peer, refusal.message)
        self._application.refused(refusal.code)
        return Response(refusal.response(), last=True)


class _StartedResponse:
    """Status and headers of an answer, which the application gives before the body (WSGI's `start_response`)."""

    __slots__ = ("headers", "status")

    def __init__(self) -> None:
        self.status = ""
        self.headers: Sequence[tuple[str, str]] = ()

    def start_response(self, status: str, headers: Sequence[tuple[str, str]], exc_info: Any = None) -> None:
        """Take status and headers. With `exc_info`, they replace earlier ones."""
        if self.status and not exc_info:
            raise AssertionError("start_response is called a second time")
        self.status, self.headers = status, headers

    def answer(self, head: Head, content: bytes, *, is_last: bool) -> bytes:
        """The answer as it is sent: in one piece, in one TLS record if it fits.

        The length of the body is counted here, except for HEAD, where only the application knows it.
        """
        has_body = head.method != "HEAD" and not self.status.startswith(_WITHOUT_BODY)
        lines = [
            f"HTTP/1.{0 if head.is_http_1_0 else 1} {self.status}",
            f"Date: {_date(int(time.time()))}",
            f"Connection: {'close' if is_last else 'keep-alive'}",
        ]
        lines += [f"{name}: {value}" for name, value in self.headers if not (has_body and name.lower() == _LENGTH)]
        if has_body:
            lines.append(f"Content-Length: {len(content)}")
        text = "\r\n".join(lines)
        if not self.status or len(text.splitlines()) != len(lines):
            raise ValueError("the status is missing, or a header has more than one line")
        return (text + "\r\n\r\n").encode("latin-1") + (content if has_body else b"")


_LENGTH = "content-length"
_WITHOUT_BODY = ("1", "204", "304")
"""Statuses that are never followed by a body."""


@lru_cache(maxsize=1)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)
