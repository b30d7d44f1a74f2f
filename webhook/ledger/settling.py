"""What is done for a pod that would fit while its namespace holds too much of a pot without stored pods.

It waits for a moment, because honest pods are stored within milliseconds.
"""

import logging
import time
from collections.abc import Callable
from fractions import Fraction

from webhook.ledger.context import LedgerContext
from webhook.ledger.ledger_store import LedgerError
from webhook.ledger.plan import Reservation
from webhook.ledger.space import Unconfirmed, is_shared
from webhook.ledger.verdicts import AlreadyStored, Claim, Exceeded, InTreeExceeded, Verdict, Withheld
from webhook.quota.amounts import used
from webhook.quota.quota_wording import amount_of
from webhook.quota.quotas import Demand

_log = logging.getLogger("gpu_policy.quota")

_REST = 4
"""So many times as long as a list took, none is made for the next ones."""
_MOST_NAMED = 3
_LOG_SECONDS = 60.0
"""Of one quota, what is in the way is logged once in so many seconds."""


class Settling:
    """Waits for pods of one ledger to be stored. Threads may share it."""

    def __init__(self, key: str, means: LedgerContext, unconfirmed: Unconfirmed) -> None:
        self._key = key
        self._means = means
        self._unconfirmed = unconfirmed
        self._list_from: dict[str, float] = {}
        self._log_from = -float("inf")

    def settled(self, reservation: Reservation, ask: Callable[[], Verdict]) -> Verdict:
        """The verdict of `ask`, which is repeated while the pods of the last seconds may still be stored."""
        verdict = ask()
        if not isinstance(verdict, Withheld) or not reservation.claim.enforced:
            return verdict
        verdict = self._looked_at(reservation, verdict, ask)
        namespace = reservation.claim.demand.namespace
        if not isinstance(verdict, Withheld) or not self._means.seats.take(namespace):
            return verdict
        try:
            for pause in self._means.timing.waits:
                if not isinstance(verdict, Withheld) or not verdict.settles:
                    break
                if self._means.clock() + pause >= reservation.deadline:
                    break
                time.sleep(pause)
                verdict = self._looked_at(reservation, verdict, ask)
        finally:
            self._means.seats.leave(namespace)
        return verdict

    def _looked_at(self, reservation: Reservation, verdict: Withheld, ask: Callable[[], Verdict]) -> Verdict:
        """Ask again, where a closer look shows that there is something new to say."""
        latest: Verdict = verdict
        if verdict.held:
            self._confirm(reservation.claim.demand.namespace, reservation.deadline)
            latest = ask()
        if isinstance(latest, Withheld) and not latest.held and not reservation.is_cleared:
            latest = self._cleared(reservation) or ask()
        return latest

    def _cleared(self, reservation: Reservation) -> Verdict | None:
        """Clear a pod that would be the only open entry of its namespace; a verdict where it cannot be stored."""
        demand = reservation.claim.demand
        try:
            refusal = self._refusal(reservation, demand)
        except LedgerError as error:
            _log.warning("quota %s: %s", self._key, error)
        else:
            if refusal is not None:
                return refusal
        reservation.is_cleared = not self._unconfirmed.is_resting(demand.namespace, self._means.clock())
        return None

    def _refusal(self, reservation: Reservation, demand: Demand) -> Verdict | None:
        """What the API server would refuse the pod for after us: its name, or a ResourceQuota. Raises LedgerError."""
        pods, name = self._means.pods, reservation.name
        if name and pods.stored_now(demand.namespace, name, self._seconds(reservation.deadline)) not in (
            None,
            reservation.uid,
        ):
            return AlreadyStored(name)
        full = pods.full_quota(demand.namespace, dict(demand.gpus), self._seconds(reservation.deadline))
        return InTreeExceeded(full) if full else None

    def _confirm(self, namespace: str, deadline: float) -> None:
        """Learn which pods of a namespace are stored, by a list where the watch has not told."""
        now = self._means.clock()
        if now < self._list_from.get(namespace, now) or not self._unconfirmed.are_there(namespace):
            return
        try:
            self._unconfirmed.confirm(self._means.pods.live_now([namespace], self._seconds(deadline)))
        except LedgerError as error:
            _log.warning("quota %s: %s", self._key, error)
        took = self._means.clock() - now
        self._list_from = {name: until for name, until in self._list_from.items() if until > now}
        self._list_from[namespace] = now + max(self._means.timing.confirm_every, took * (1 + _REST))

    def _seconds(self, deadline: float) -> float:
        """Half of what is left, so that there is time for the answer."""
        return max(0.0, min((deadline - self._means.clock()) / 2, self._means.timing.one_call))

    def tell(self, claim: Claim, verdict: Verdict) -> None:
        """Say to operators whose entries without a stored pod a claim was refused for, if it was."""
        if isinstance(verdict, Withheld):
            self._means.observer.withheld(self._key, claim.demand.namespace)
            held = f"{amount_of(verdict.held, verdict.limit)} of {amount_of(verdict.most, verdict.limit)}"
            self._say(f"a pod of {claim.demand.namespace} is refused, whose entries without a stored pod hold {held}")
        elif isinstance(verdict, Exceeded) and is_shared(claim.quota):
            self._tell_blockers(claim, verdict)

    def _tell_blockers(self, claim: Claim, verdict: Exceeded) -> None:
        """Those without whose entries the claim would fit."""
        limit, over = max(
            ((one.limit, one.used + one.asks - one.limit.hard) for one in verdict.excesses), key=lambda one: one[1]
        )
        held: dict[str, Fraction] = {}
        for namespace, counts in self._unconfirmed.by_namespace().items():
            amount = used(counts, claim.quota)[limit]
            if amount and namespace != claim.demand.namespace:
                held[namespace] = amount
        if sum(held.values()) < over:
            return
        largest = sorted(held, key=lambda name: (-held[name], name))
        for namespace in largest[:_MOST_NAMED]:
            self._means.observer.blocked(self._key, namespace)
        named = ", ".join(f"{name} {amount_of(held[name], limit)}" for name in largest[:_MOST_NAMED])
        self._say(f"a pod of {claim.demand.namespace} is refused for entries without a stored pod: {named}")

    def _say(self, text: str) -> None:
        now = self._means.clock()
        if now >= self._log_from:
            self._log_from = now + _LOG_SECONDS
            _log.warning("quota %s: %s", self._key, text)
