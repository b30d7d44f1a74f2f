"""POST /mutate, /validate, /workloads, /policies and /claims as plain WSGI in front of Flask.

Flask's routing and request objects would cost 80 microseconds for each request, as much as the decision itself. All
other requests are passed on to Flask.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from webhook.admission import logs, phases
from webhook.admission.admission_review import (
    AdmissionRequest,
    UnansweredError,
    parse,
    render,
    unavailable,
)
from webhook.admission.memory_budget import MOST_OF_A_REVIEW, Room, memory_of
from webhook.admission.phases import Decision
from webhook.admission.service import Service
from webhook.admission.watchdog import DecisionDeadline, TimeBudget, TookTooLongError
from webhook.facts.facts import ClusterFacts
from webhook.model.shape import ShapeError

LARGEST_BODY = 7 * 1024**2
"""Most bytes of a body: the API server accepts objects of about 3 MiB, and an UPDATE carries two of them."""

_LATEST_START = 0.5
"""Share of the sender's timeout after which a request that still waits is not begun."""

_SPENDABLE = 0.75
"""Share of the remaining time that may be spent on waiting for a ledger; the rest is for sending the answer."""

_DEFAULT_TIMEOUT_SECONDS = 10
"""Kubernetes' default timeout of webhooks, for senders that do not say how long they wait."""

_OF_POLICIES = "policies"
"""The phase of ConfigMaps with policies."""

_WHOLE_SECONDS = re.compile(r"[0-9]{1,3}s")

_LOG = logging.getLogger("gpu_policy.admission")

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Wsgi = Callable[[Environ, StartResponse], Iterable[bytes]]
Phase = Callable[[AdmissionRequest, ClusterFacts, TimeBudget], Decision]


class ReviewEndpoint:
    """WSGI middleware that answers AdmissionReviews and passes every other request on."""

    def __init__(self, service: Service, otherwise: Wsgi) -> None:
        self._service = service
        self._otherwise = otherwise
        self._room = Room()
        self._turn = Room(1, most_waiting=1)
        """Policies are checked one at a time: the size of JSON does not bound the memory and CPU time of YAML in it."""
        self._phases: dict[str, tuple[str, Phase]] = {
            "/mutate": ("mutate", service.mutate),
            "/validate": ("validate", service.validate),
            "/workloads": ("workloads", service.workloads),
            "/policies": (_OF_POLICIES, service.config_maps),
            "/claims": ("claims", service.claims),
        }

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        is_review = not environ.get("webhook.is_metrics_port")
        phase = self._phases.get(environ["PATH_INFO"]) if is_review else None
        if phase is None:
            return self._otherwise(environ, start_response)
        try:
            body = self._answer(environ, *phase)
        except UnansweredError as error:
            self._service.metrics.error(error.reason)
            text = f"{error}\n".encode()
            headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(text)))]
            start_response(f"{error.status.value} {error.status.phrase}", headers + error.headers)
            return [text]
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

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
        with self._turn.taken(int(name == _OF_POLICIES), *wait), self._room.taken(needed, *wait):
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
    timeout = _timeout_seconds(environ.get("QUERY_STRING", ""))
    if waited > timeout * _LATEST_START:
        text = f"overloaded: the request waited for {waited:.1f} s of the {timeout} s that its sender waits"
        raise unavailable(text, "overloaded")
    left = timeout - waited
    deadline = DecisionDeadline(decision_seconds, time.monotonic() + left)
    return TimeBudget(left * _SPENDABLE, environ.get("webhook.may_block", lambda: None), deadline)


def _timeout_seconds(query: str) -> int:
    name, _, value = query.partition("=")
    if name == "timeout" and _WHOLE_SECONDS.fullmatch(value):
        return int(value[:-1])
    return _DEFAULT_TIMEOUT_SECONDS


def _body(environ: Environ) -> bytes:
    """The body of a request that may carry an AdmissionReview; raises UnansweredError for any other."""
    if environ["REQUEST_METHOD"] != "POST":
        text = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}: an AdmissionReview comes with POST"
        raise UnansweredError(text, HTTPStatus.METHOD_NOT_ALLOWED, Allow="POST")
    content_type = environ.get("CONTENT_TYPE", "")
    if content_type.partition(";")[0].strip().lower() != "application/json":
        text = f"Content-Type: found {logs.short(content_type) or 'none'}, expected application/json"
        raise UnansweredError(text, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    length = int(environ.get("CONTENT_LENGTH") or 0)
    if length > LARGEST_BODY:
        text = f"body: larger than {LARGEST_BODY} bytes; the API server sends less"
        raise UnansweredError(text, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    body: bytes = environ["wsgi.input"].read(length)
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
