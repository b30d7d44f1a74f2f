"""The Flask application: the pages beside the review endpoints. The only import of Flask."""

import math
import threading
import time
from collections.abc import Callable, Iterable

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from webhook.admission.endpoint import Environ, ReviewEndpoint, StartResponse, Wsgi
from webhook.admission.metrics import CONTENT_TYPE, Metrics
from webhook.admission.service import Service

SECONDS = 1.0
"""Least time from the end of making a page to the beginning of the next; scrapers are not faster."""


class CachedPage:
    """A page that is made at most once a second, by one thread at a time. Whoever makes it gets what `make` raises."""

    def __init__(self, make: Callable[[], bytes], clock: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._clock = clock
        self._lock = threading.Lock()
        self._page = b""
        self._made = -math.inf

    def get(self) -> bytes:
        """The page; it is at most as old as a second and the time to make it."""
        with self._lock:
            if self._clock() - self._made >= SECONDS:
                self._page = self._make()
                self._made = self._clock()
            return self._page


METRICS = "/metrics"


class MetricsPort:
    """WSGI middleware that serves METRICS only on the port for metrics, and everything else only on the other port."""

    def __init__(self, application: Wsgi, metrics: Metrics) -> None:
        self._application = application
        self._metrics = metrics

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        is_metrics_port = environ.get("webhook.is_metrics_port")
        if is_metrics_port is None or is_metrics_port is (environ["PATH_INFO"] == METRICS):
            return self._application(environ, start_response)
        self._metrics.error("bad_request")
        text = b"not found on this port: /metrics has a port of its own, on which nothing else is served\n"
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(text)))]
        start_response("404 Not Found", headers)
        return [text]


_SERVED = (
    "POST /mutate, /validate, /workloads, /policies and /claims, GET /livez, /readyz, /statusz and /metrics are served"
)


def create_app(service: Service) -> Flask:
    """The application of one replica."""
    app = Flask("gpu-policy", static_folder=None)
    app.wsgi_app = MetricsPort(app.wsgi_app, service.metrics)  # type: ignore[method-assign]  # how Flask takes middleware
    app.wsgi_app = ReviewEndpoint(service, app.wsgi_app)  # type: ignore[method-assign]

    pages = {is_draining: CachedPage(service.metrics.page) for is_draining in (False, True)}

    @app.get("/livez")
    def livez() -> Response:
        return _text("ok\n", 200)

    @app.get("/readyz")
    def readyz() -> Response:
        return _text(*service.readiness())

    @app.get("/statusz")
    def statusz() -> dict[str, str]:
        return service.state()

    @app.get(METRICS)
    def metrics() -> Response:
        request.environ.get("webhook.may_block", bool)()  # other requests are answered while the page is made
        return Response(pages[service.is_draining].get(), content_type=CONTENT_TYPE)

    @app.errorhandler(HTTPException)
    def refused(error: HTTPException) -> Response:
        service.metrics.error("bad_request")
        answer = _text(f"{request.method} {request.path}: {error.name}; {_SERVED}\n", error.code or 500)
        answer.headers.extend((name, value) for name, value in error.get_headers() if name == "Allow")
        return answer

    return app


def _text(text: str, status: int) -> Response:
    return Response(text, status, content_type="text/plain; charset=utf-8")
