"""Metrics on a port of their own: who may scrape need not reach the port of the reviews, and the other way round."""

from collections.abc import Iterable

from webhook.admission.endpoint import Environ, StartResponse, Wsgi
from webhook.admission.metrics import Metrics

METRICS = "/metrics"


class MetricsApart:
    """WSGI middleware that serves METRICS, and everything else, only where the client has reached the port for it."""

    def __init__(self, application: Wsgi, metrics: Metrics) -> None:
        self._application = application
        self._metrics = metrics

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        is_metrics_port = environ.get("webhook.is_metrics_port")
        if is_metrics_port is None or is_metrics_port is (environ["PATH_INFO"] == METRICS):
            return self._application(environ, start_response)
        self._metrics.error("bad_request")
        text = b"not found on this port: /metrics has a port of its own, on which nothing else is served\n"
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(text)))]
        start_response("404 Not Found", headers)
        return [text]
