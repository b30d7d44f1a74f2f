"""The last step of the validating phase: a pod that nothing refuses is entered in the ledgers of its quotas."""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from webhook.admission.phases import Decision, decide
from webhook.admission.review import Request
from webhook.engine import quotas
from webhook.ledger.book import UID_BYTES
from webhook.ledger.ledgers import Ledgers
from webhook.ledger.verdicts import Claim, Unanswered, Verdict
from webhook.policy.policy_set import PolicySet

_NO_LEDGERS = Unanswered("this replica was started without --quota-ledgers, the namespace that the ledgers are in")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the sender of a request waits, and how to wait without holding up others.

    `seconds` are what may be spent on waiting; `may_block` is called before it.
    """

    seconds: float = 1.0
    may_block: Callable[[], None] = lambda: None


class HasLedgers(Protocol):
    """Something that has the ledgers of this replica, once there are some."""

    @property
    def ledgers(self) -> Ledgers:
        """The ledgers."""
        ...


def reserve(
    decision: Decision, request: Request, policies: PolicySet, desk: HasLedgers | None, patience: Patience
) -> Decision:
    """The decision once the quotas have had their say. `desk` is None where no ledgers are kept.

    Dry runs are judged alike and leave nothing behind. A pod that is refused already is not entered.
    """
    outcome = decision.outcome
    if outcome is None or request.operation != "CREATE" or request.subresource:
        return decision
    bound = policies.quotas_for(request.namespace)
    if not bound:
        return decision
    judged = quotas.reserved(
        outcome,
        request.namespace,
        bound,
        lambda claims: _ask(claims, request, desk, patience),
        lambda namespace: () if desk is None else desk.ledgers.means.pods.seen(namespace),
    )
    return decision if judged is outcome else decide(judged)


def _ask(claims: Sequence[Claim], request: Request, desk: HasLedgers | None, patience: Patience) -> Sequence[Verdict]:
    if desk is None:
        return [_NO_LEDGERS] * len(claims)
    patience.may_block()
    deadline = time.monotonic() + patience.seconds
    return desk.ledgers.reserve(_uid(request), claims, deadline, is_dry_run=request.is_dry_run)


def _uid(request: Request) -> bytes:
    """The uid of the pod, which the API server has given it by now; that of the request for a pod without one."""
    metadata = (request.object or {}).get("metadata")
    for text in (metadata.get("uid") if isinstance(metadata, dict) else None, request.uid):
        try:
            return UUID(str(text)).bytes
        except ValueError:
            continue
    return hashlib.sha256(request.uid.encode()).digest()[:UID_BYTES]
