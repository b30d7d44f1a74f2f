"""The WSGI application of one replica: POST /mutate, /validate, /workloads, /policies and /claims in front of Flask.

Flask's routing and request objects would cost 80 microseconds for each request, as much as the decision itself. All
other requests are passed on to Flask, which nothing else imports.

The memory of one review, and of all reviews together, is bounded here: JSON grows up to forty times when it is parsed.
The number of maps, lists and values in a body is estimated by counting brackets, commas and colons. The estimate is
never too low, because such characters inside of texts only add to it.
"""

import logging
import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from webhook.admission import logs, phases
from webhook.admission.admission_review import AdmissionRequest, UnansweredError, parse, render, unavailable
from webhook.admission.metrics import CONTENT_TYPE
from webhook.admission.phases import Decision
from webhook.admission.service import Service
from webhook.admission.watchdog import DecisionDeadline, TimeBudget, TookTooLongError
from webhook.facts.facts import ClusterFacts
from webhook.model.shape import ShapeError

_LATEST_START = 0.5
"""Share of the sender's timeout after which a request that still waits is not begun."""

_SPENDABLE = 0.75
"""Share of the remaining time that may be spent on waiting for a ledger; the rest is for sending the answer."""

_DEFAULT_TIMEOUT_SECONDS = 10
"""Kubernetes' default timeout of webhooks, for senders that do not say how long they wait."""

_TIMEOUT = re.compile(r"timeout=([0-9]{1,3})s")

SMALL = 65_536
"""Most bytes of a body that is not estimated. Usual reviews are smaller, so they never wait."""

MOST_OF_A_REVIEW = 80 * 2**20
"""Most bytes of memory of one parsed review; the largest manifests that people write take a fraction of it."""

MOST_AT_ONCE = MOST_OF_A_REVIEW
"""Most bytes of memory of all parsed reviews at a time; small ones do not count."""

_MOST_WAITING = 4
"""Most reviews that wait for memory; each one holds a thread."""

_PARSED = 16
"""Bytes of any value while it is parsed (`yyjson_val`)."""
_MAP, _LIST, _VALUE = 184 + 8, 56 + 8, 56 + 8 + _PARSED
"""A dict with room for five entries, an empty list, a text or anything smaller; each with a reference to it."""
_ENTRY = 58 + _VALUE
"""What a larger dict adds for each entry, on average just after it has grown, and its key."""
_WIDEST = 4
"""Bytes of a character in a text that has characters outside of Latin-1."""


def memory_of(body: bytes) -> int:
    """Most bytes of memory that a JSON text takes while and after it is parsed; 0 for a small text.

    Every comma, brace and bracket counts as a value, every colon as an entry. Sizes are those of CPython 3.11 on 64
    bits and of orjson.
    """
    if len(body) <= SMALL:
        return 0
    maps, lists = body.count(b"{"), body.count(b"[")
    values, entries = body.count(b",") + maps + lists + 1, body.count(b":")
    letters = len(body) if body.isascii() and b"\\u" not in body else len(body) * _WIDEST
    return _MAP * maps + _LIST * lists + _VALUE * values + _ENTRY * entries + letters


class Room:
    """Room that reviews share, such as memory. A review that does not fit waits until others end."""

    def __init__(self, size: int = MOST_AT_ONCE, most_waiting: int = _MOST_WAITING) -> None:
        self._left = size
        self._most_waiting = most_waiting
        self._waiting = 0
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, amount: int, seconds: float, may_block: Callable[[], None]) -> Iterator[None]:
        """Take `amount` of the room while the context lasts, after waiting for up to `seconds`.

        `may_block` is called before waiting. Raises UnansweredError where there is no room in time. An amount of 0,
        which most reviews have, never waits.
        """
        if not amount:
            yield
            return
        with self._changed:
            if amount > self._left:
                self._wait_for(amount, seconds, may_block)
            self._left -= amount
        try:
            yield
        finally:
            with self._changed:
                self._left += amount
                self._changed.notify_all()

    def _wait_for(self, amount: int, seconds: float, may_block: Callable[[], None]) -> None:
        if self._waiting >= self._most_waiting:
            raise _overloaded()
        self._waiting += 1
        try:
            may_block()
            if not self._changed.wait_for(lambda: amount <= self._left, seconds):
                raise _overloaded()
        finally:
            self._waiting -= 1


def _overloaded() -> UnansweredError:
    return unavailable("overloaded: other large reviews or policies are being checked; try again", "overloaded")


_LOG = logging.getLogger("gpu_policy.admission")

METRICS = "/metrics"

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Wsgi = Callable[[Environ, StartResponse], Iterable[bytes]]
Phase = Callable[[AdmissionRequest, ClusterFacts, TimeBudget], Decision]


class ReviewEndpoint:
    """WSGI middleware that answers AdmissionReviews and passes every other request on, if it came at its port."""

    def __init__(self, service: Service, otherwise: Wsgi) -> None:
        self._service = service
        self._otherwise = otherwise
        self._room = Room()
        self._turn = Room(1, most_waiting=1)
        """Taken by phases whose CPU time and memory no size of a request bounds: of policies, YAML in JSON; of drivers,
        all workloads."""
        self._phases: dict[str, tuple[str, Phase]] = {
            "/mutate": ("mutate", service.mutate),
            "/validate": ("validate", service.validate),
            "/workloads": ("workloads", service.workloads),
            "/policies": ("policies", service.config_maps),
            "/claims": ("claims", service.claims),
            "/drivers": ("drivers", service.drivers),
        }

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        path, is_metrics_port = environ["PATH_INFO"], environ.get("webhook.is_metrics_port")
        if is_metrics_port is not None and is_metrics_port is not (path == METRICS):
            text = "not found on this port: /metrics has a port of its own, on which nothing else is served"
            return self._unanswered(UnansweredError(text, HTTPStatus.NOT_FOUND), start_response)
        if (phase := self._phases.get(path)) is None:
            return self._otherwise(environ, start_response)
        try:
            body = self._answer(environ, *phase)
        except UnansweredError as error:
            return self._unanswered(error, start_response)
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

    def _unanswered(self, error: UnansweredError, start_response: StartResponse) -> Iterable[bytes]:
        self._service.metrics.error(error.reason)
        text = f"{error}\n".encode()
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(text)))]
        start_response(f"{error.status.value} {error.status.phrase}", headers + error.headers)
        return [text]

    def _answer(self, environ: Environ, name: str, decide: Phase) -> bytes:
        started = time.perf_counter()
        # The one place that authenticates callers. The server has checked a client certificate at the handshake. A
        # bearer token, with which API servers may authenticate one day (KEP-6060), is neither read nor logged.
        if objection := environ.get("webhook.objection", ""):
            raise UnansweredError(objection, HTTPStatus.FORBIDDEN, "forbidden")
        budget = _time_budget(environ, self._service.decision_seconds)
        facts = self._service.facts.facts
        if facts is None:
            reason = self._service.not_ready() or "facts: not loaded yet"
            raise unavailable(reason, "not_ready")
        body = _body(environ)
        needed = memory_of(body)
        if needed > MOST_OF_A_REVIEW:
            text = (
                f"request: found maps, lists and strings that take {needed} bytes of memory, expected at most "
                f"{MOST_OF_A_REVIEW}; make several objects of it, or leave entries out"
            )
            raise UnansweredError(text, HTTPStatus.UNPROCESSABLE_ENTITY)
        wait = budget.seconds, budget.may_block
        with self._turn.taken(int(name in ("policies", "drivers")), *wait), self._room.taken(needed, *wait):
            review = parse(body)
            decision, answer = _decided(name, decide, review, facts, budget)
            seconds = time.perf_counter() - started
            self._service.metrics.count(name, review, decision, seconds)
            logs.log_decision(name, review, decision, seconds)
            self._service.tell(name, review, decision)
            return answer


def _time_budget(environ: Environ, decision_seconds: float) -> TimeBudget:
    """The time that the answer may take. Raises UnansweredError for a request that has already waited too long.

    The API server gives its timeout in the query, as in `timeout=5s`. After half of that time, a second attempt is
    better than a late answer: there is still time for one, and under load it may reach another replica.
    """
    waited = environ.get("webhook.waited", float)()
    found = _TIMEOUT.fullmatch(environ.get("QUERY_STRING", ""))
    timeout = int(found[1]) if found else _DEFAULT_TIMEOUT_SECONDS
    if waited > timeout * _LATEST_START:
        text = f"overloaded: the request waited for {waited:.1f} s of the {timeout} s that its sender waits"
        raise unavailable(text, "overloaded")
    left = timeout - waited
    deadline = DecisionDeadline(decision_seconds, time.monotonic() + left)
    return TimeBudget(left * _SPENDABLE, environ.get("webhook.may_block", lambda: None), deadline)


def _body(environ: Environ) -> bytes:
    """The body of a request that may carry an AdmissionReview; raises UnansweredError for any other."""
    if environ["REQUEST_METHOD"] != "POST":
        text = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}: an AdmissionReview comes with POST"
        raise UnansweredError(text, HTTPStatus.METHOD_NOT_ALLOWED, Allow="POST")
    content_type = environ.get("CONTENT_TYPE", "")
    if content_type.partition(";")[0].strip().lower() != "application/json":
        text = f"Content-Type: found {logs.short(content_type) or 'none'}, expected application/json"
        raise UnansweredError(text, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    return body


def _decided(
    name: str, decide: Phase, review: AdmissionRequest, facts: ClusterFacts, budget: TimeBudget
) -> tuple[Decision, bytes]:
    """The decision and its answer. Raises UnansweredError after a bug, or when the time is used up."""

    def decided() -> tuple[Decision, bytes]:
        try:
            decision = decide(review, facts, budget)
            return decision, render(review.uid, decision.answer)
        except ShapeError as error:
            decision = phases.malformed(error)
            return decision, render(review.uid, decision.answer)

    try:
        return budget.deadline.within(decided)
    except TookTooLongError as error:
        message = f"{error}: no decision for request {review.uid}, failurePolicy decides"
        fields = {"phase": name, "kind": review.kind, "namespace": review.namespace}
        _LOG.warning(message, extra={"fields": fields | logs.whereabouts(error.__cause__ or error)})
        raise UnansweredError(str(error), HTTPStatus.INTERNAL_SERVER_ERROR, "took_too_long") from None
    except Exception as error:  # noqa: BLE001  # logged, and answered so that failurePolicy decides
        message = f"a bug: no decision for request {logs.short(review.uid)}, failurePolicy decides"
        _LOG.error(message, extra={"fields": logs.whereabouts(error)})
        text = "no decision because of a bug in gpu-policy; its log says more"
        raise UnansweredError(text, HTTPStatus.INTERNAL_SERVER_ERROR, "bug") from None


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


_SERVED = (
    "POST /mutate, /validate, /workloads, /policies, /claims and /drivers, GET /livez, /readyz, /statusz and /metrics "
    "are served"
)


def create_app(service: Service) -> Flask:
    """The application of one replica."""
    app = Flask("gpu-policy", static_folder=None)
    app.wsgi_app = ReviewEndpoint(service, app.wsgi_app)  # type: ignore[method-assign]  # how Flask takes middleware

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
