"""The HTTP face: routes, status codes and readiness. Decisions are made in `phases`, and only there."""

import logging
import time
from collections.abc import Callable

from flask import Flask, Request, Response, request
from werkzeug.exceptions import HTTPException

from webhook.admission import logs, phases
from webhook.admission.metrics import CONTENT_TYPE, Metrics
from webhook.admission.phases import Decision
from webhook.admission.review import BadRequestError, parse, render
from webhook.admission.review import Request as Review
from webhook.cluster.source import FactsSource
from webhook.model.shape import ShapeError
from webhook.policy.store import PolicyStore
from webhook.rules.rule import Facts

LARGEST_BODY = 7 * 1024**2
"""Bytes of a request; the API server takes objects of about 3 MiB, and an UPDATE carries two of them."""

_SERVED = "POST /mutate, POST /validate, GET /livez, GET /readyz and GET /metrics are served"
_LOG = logging.getLogger("gpu_policy.admission")

Phase = Callable[[Review, Facts], Decision]


class Service:
    """One replica: the policies and facts it decides with, and whether it is ready to."""

    def __init__(self, policies: PolicyStore, facts: FactsSource, metrics: Metrics) -> None:
        self.policies = policies
        self.facts = facts
        self.metrics = metrics
        self.is_draining = False
        metrics.watch_facts(
            lambda: facts.status(time.monotonic()).age_seconds, lambda: facts.status(time.monotonic()).server_reachable
        )

    def not_ready(self) -> str:
        """Why this replica must not get requests; empty where it is ready.

        With the API server itself unreachable a replica stays ready on the facts it has: going unready would block
        the recovery.
        """
        if self.is_draining:
            return "draining: this replica is shutting down"
        status = self.facts.status(time.monotonic())
        if not status.loaded:
            return f"facts: not loaded yet ({status.detail})" if status.detail else "facts: not loaded yet"
        if status.stale and status.server_reachable:
            return f"facts: the watch is stale although the API server answers ({status.detail})"
        return ""

    def mutate(self, review: Review, facts: Facts) -> Decision:
        """Answer the mutating phase."""
        return phases.mutate(review, self.policies.current, facts)

    def validate(self, review: Review, facts: Facts) -> Decision:
        """Answer the validating phase."""
        return phases.validate(review, self.policies.current, facts, self.policies.recent())

    def readiness(self) -> tuple[str, int]:
        """The text and status code of /readyz: every check on a line of its own."""
        problem = self.not_ready()
        reload, facts = self.policies.status, self.facts.status(time.monotonic())
        lines = [
            f"ready: {'no, ' + problem if problem else 'yes'}",
            f"policies: {self.policies.current.hash}",
            f"policy reload: {'ok' if reload.last_ok else 'REFUSED, last good set kept: ' + reload.last_error}",
            f"facts: {facts.age_seconds:.0f} s old, API server {'answers' if facts.server_reachable else 'unreachable'}"
            + (f" ({facts.detail})" if facts.detail else ""),
        ]
        return "\n".join(lines) + "\n", 503 if problem else 200


def create_app(service: Service) -> Flask:
    """The Flask application of one replica."""
    app = Flask("gpu-policy", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = LARGEST_BODY

    @app.post("/mutate")
    def mutate() -> Response:
        return _answer(service, "mutate", service.mutate)

    @app.post("/validate")
    def validate() -> Response:
        return _answer(service, "validate", service.validate)

    @app.get("/livez")
    def livez() -> Response:
        return _text("ok\n", 200)

    @app.get("/readyz")
    def readyz() -> Response:
        return _text(*service.readiness())

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(service.metrics.page(), content_type=CONTENT_TYPE)

    @app.errorhandler(HTTPException)
    def refused(error: HTTPException) -> Response:
        service.metrics.error("bad_request")
        if error.code == 413:
            return _text(f"body: larger than {LARGEST_BODY} bytes; the API server sends less\n", 413)
        answer = _text(f"{request.method} {request.path}: {error.name}; {_SERVED}\n", error.code or 500)
        answer.headers.extend((name, value) for name, value in error.get_headers() if name == "Allow")
        return answer

    return app


def _answer(service: Service, phase: str, decide: Phase) -> Response:
    started = time.perf_counter()
    facts = service.facts.facts
    if facts is None:
        service.metrics.error("not_ready")
        return _text(f"{service.not_ready() or 'facts: not loaded yet'}\n", 503, {"Retry-After": "1"})
    if request.mimetype != "application/json":
        service.metrics.error("bad_request")
        found = request.headers.get("Content-Type") or "none"
        return _text(f"Content-Type: found {found}, expected application/json\n", 415)
    try:
        review = parse(_body(request))
    except BadRequestError as error:
        service.metrics.error("bad_request")
        return _text(f"{error}\n", 400)
    try:
        decision = _decision(decide, review, facts)
        body = render(review.uid, decision.answer)
    except Exception as error:  # noqa: BLE001  # logged, and answered so that failurePolicy decides
        message = f"a bug: no decision for request {review.uid}, failurePolicy decides"
        _LOG.error(message, extra={"fields": logs.whereabouts(error)})
        service.metrics.error("bug")
        return _text("no decision because of a bug in gpu-policy; its log says more\n", 500)
    seconds = time.perf_counter() - started
    service.metrics.count(phase, _operation(review), decision.result, decision.outcome, seconds)
    logs.log_decision(phase, review, decision, seconds)
    return Response(body, content_type="application/json")


def _decision(decide: Phase, review: Review, facts: Facts) -> Decision:
    try:
        return decide(review, facts)
    except ShapeError as error:
        return phases.malformed(error)


def _body(incoming: Request) -> bytes:
    return incoming.get_data(cache=False)


def _operation(review: Review) -> str:
    """The operation as a metric label, one of a closed set."""
    return review.operation if review.operation in ("CREATE", "UPDATE", "DELETE", "CONNECT") else "other"


def _text(text: str, status: int, headers: dict[str, str] | None = None) -> Response:
    return Response(text, status, headers, content_type="text/plain; charset=utf-8")
