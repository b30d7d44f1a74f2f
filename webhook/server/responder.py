"""Requests become answers here: those of the application, or the server's own where it cannot be asked."""

import contextlib
import logging
from collections.abc import Callable
from typing import Any

from gunicorn.http import wsgi

from webhook.server.connection import Answer, Connection
from webhook.server.refusal import Refusal, failed, malformed

log = logging.getLogger("gpu_policy.server")


class Responder:
    """Calls the application. Besides what WSGI demands, its environment has

    - `webhook.may_block`: a function to call before waiting for something, so that others are served meanwhile,
    - `webhook.waited`: a function that returns the seconds for which this request waited to be read,
    - `webhook.is_metrics_port`: whether the client has reached the port for metrics; None where there is no such port,
    - `webhook.objection`: why this client gets no review answered; empty where it does.

    An answer with status 503 ends its connection: whoever asks again may get another replica.
    """

    def __init__(self, application: Any, cfg: Any, server_address: Any, metrics_port: int | None = None) -> None:
        self._application = application
        self._cfg = cfg
        self._server_address = server_address
        self._metrics_port = metrics_port
        self.leaving = False
        """Every answer ends its connection."""

    def respond(self, connection: Connection, request: Any, may_block: Callable[[], None]) -> Answer:
        """Answer a request; one in which the application fails is answered with 500."""
        output = _Output()
        try:
            response, environ = wsgi.create(request, output, connection.peer, self._server_address, self._cfg)
            environ["wsgi.multithread"] = True
            environ["webhook.may_block"] = may_block
            environ["webhook.waited"] = connection.unread_seconds
            environ["webhook.is_metrics_port"] = self._metrics_port and connection.port == self._metrics_port
            environ["webhook.objection"] = connection.objection
            body = self._application(environ, response.start_response)
            if self.leaving or response.status_code == 503:
                response.force_close()
            with contextlib.closing(body) if hasattr(body, "close") else contextlib.nullcontext():
                for part in body:
                    response.write(part)
                response.close()
            return Answer(output.bytes(), response.should_close())
        except Exception:  # a bug in the application is an answer: 500
            log.exception("the application failed at %s %s", request.method, request.path)
            return self.refuse(connection.peer, failed())

    def refuse(self, peer: Any, error: Exception) -> Answer:
        """Answer what is no request, or one that cannot be received."""
        refusal = error if isinstance(error, Refusal) else malformed(error)
        log.info("%s for %s: %s", refusal.status, peer, refusal.message)
        self._application.refused(refusal.code)
        return Answer(refusal.response(), last=True)


class _Output:
    """Where gunicorn writes the response: it goes out in one piece, in one TLS record if it fits."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def sendall(self, data: bytes) -> None:
        self._parts.append(data)

    def gettimeout(self) -> float:
        return 0.0

    def bytes(self) -> bytes:
        return b"".join(self._parts)
