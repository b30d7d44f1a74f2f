"""The last step of the validating phase: a pod that nothing refuses is entered in the ledgers of its quotas."""

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from http import HTTPStatus
from typing import Protocol
from uuid import UUID

from webhook.admission.phases import Decision, decide
from webhook.admission.review import AdmissionRequest, AdmissionResponse, objection_to
from webhook.admission.watchdog import DECISION_SECONDS, DecisionDeadline
from webhook.engine import quota_claims
from webhook.engine.quota_claims import NO_CLAIMS
from webhook.ledger.book import UID_BYTES
from webhook.ledger.ledger_store import GpuPod
from webhook.ledger.ledgers import Ledgers
from webhook.ledger.verdicts import AlreadyStored, Claim, Unanswered, Verdict
from webhook.model.fixed import fixed

_NO_LEDGERS = Unanswered("this replica was started without --quota-ledgers, the namespace that the ledgers are in")


class _NameTakenError(Exception):
    """There is another pod with the name of the request's, so the API server will not store it."""


@fixed(frozen=True, slots=True)
class TimeBudget:
    """How long the sender of a request waits, and how to wait without holding up others.

    `seconds` are what may be spent on waiting; `may_block` is called before it. `deadline` bounds the rest.
    """

    seconds: float = 1.0
    may_block: Callable[[], None] = lambda: None
    deadline: DecisionDeadline = field(default_factory=lambda: DecisionDeadline(DECISION_SECONDS, math.inf))


class HasLedgers(Protocol):
    """Something that has the ledgers of this replica, once there are some."""

    @property
    def ledgers(self) -> Ledgers:
        """The ledgers."""
        ...


def reserve(decision: Decision, request: AdmissionRequest, desk: HasLedgers | None, patience: TimeBudget) -> Decision:
    """The decision once the quotas have had their say. `desk` is None where no ledgers are kept.

    Dry runs are judged alike and leave nothing behind. A pod that is refused already is not entered.
    """
    outcome = decision.outcome
    if outcome is None or decision.claims == NO_CLAIMS:
        return decision
    tells_usage = desk is not None and desk.ledgers.means.tells_usage
    try:
        judged = quota_claims.entered(
            outcome,
            request.namespace,
            decision.claims,
            lambda claims: _ask(claims, request, desk, patience),
            (lambda namespace: _seen(namespace, desk, patience)) if desk is not None and tells_usage else None,
        )
    except _NameTakenError as taken:  # in the words of the API server, which would say it after us
        annotations = decision.answer.audit_annotations
        return Decision(
            AdmissionResponse(False, str(taken), HTTPStatus.CONFLICT, audit_annotations=annotations), outcome
        )
    return decision if judged is outcome else decide(judged)


def _ask(
    claims: Sequence[Claim], request: AdmissionRequest, desk: HasLedgers | None, patience: TimeBudget
) -> Sequence[Verdict]:
    if desk is None:
        return [_NO_LEDGERS] * len(claims)
    ledgers, uid, name = desk.ledgers, _uid(request), _name(request)

    def reserved() -> Sequence[Verdict]:
        patience.may_block()
        deadline = time.monotonic() + patience.seconds
        return ledgers.reserve(uid, claims, deadline, is_dry_run=request.is_dry_run, name=name)

    verdicts = patience.deadline.outside(reserved)
    for verdict in verdicts:
        if isinstance(verdict, AlreadyStored):
            raise _NameTakenError(f'pods "{verdict.name}" already exists')
    return verdicts


def _seen(namespace: str, desk: HasLedgers, patience: TimeBudget) -> Iterable[GpuPod]:
    return patience.deadline.outside(lambda: desk.ledgers.means.pods.seen(namespace))


def _name(request: AdmissionRequest) -> str:
    """The name of the pod, which one with a generated name has by now, too."""
    metadata = (request.object or {}).get("metadata")
    name = request.name or (metadata.get("name") if isinstance(metadata, dict) else None)
    return name if isinstance(name, str) and not objection_to("name", name) else ""


def _uid(request: AdmissionRequest) -> bytes:
    """The uid of the pod, which the API server has given it by now; that of the request for a pod without one."""
    metadata = (request.object or {}).get("metadata")
    for text in (metadata.get("uid") if isinstance(metadata, dict) else None, request.uid):
        try:
            return UUID(str(text)).bytes
        except ValueError:
            continue
    return hashlib.sha256(request.uid.encode()).digest()[:UID_BYTES]
