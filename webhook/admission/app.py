"""The Flask application: the pages beside the review endpoints. The only import of Flask."""

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from webhook.admission.endpoint import ReviewEndpoint
from webhook.admission.kept_page import KeptPage
from webhook.admission.metrics import CONTENT_TYPE
from webhook.admission.metrics_port import METRICS, MetricsApart
from webhook.admission.service import Service

_SERVED = "POST /mutate, /validate, /workloads and /policies, GET /livez, /readyz and /metrics are served"


def create_app(service: Service) -> Flask:
    """The application of one replica."""
    app = Flask("gpu-policy", static_folder=None)
    app.wsgi_app = ReviewEndpoint(service, app.wsgi_app)  # type: ignore[method-assign]  # how Flask takes middleware
    app.wsgi_app = MetricsApart(app.wsgi_app, service.metrics)  # type: ignore[method-assign]

    pages = {is_draining: KeptPage(service.metrics.page) for is_draining in (False, True)}

    @app.get("/livez")
    def livez() -> Response:
        return _text("ok\n", 200)

    @app.get("/readyz")
    def readyz() -> Response:
        return _text(*service.readiness())

    @app.get(METRICS)
    def metrics() -> Response:
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
