"""The pod that a claim was made for, looked up while the claim waits for its answer."""

import time
from dataclasses import replace
from typing import Protocol

from webhook.admission.phases import Decision
from webhook.admission.watchdog import TimeBudget
from webhook.model.claim_owner import ClaimOwner
from webhook.model.subject import PodSubject

_SECONDS = 1.0
"""Longest time of one look-up."""
_SHARE = 0.25
"""Most of the time that a claim may wait which is spent on its pod; the rest is for the ledgers of quotas."""


class PodUnknownError(Exception):
    """What a pod is cannot be found out now; the text, for authors of pods, says why. `code` is as in LedgerError."""

    def __init__(self, text: str, code: int = 503) -> None:
        super().__init__(text)
        self.code = code


class StoredPods(Protocol):
    """The pods that the API server has. Threads may share it."""

    def subject(self, namespace: str, owner: ClaimOwner, seconds: float) -> PodSubject | None:
        """What exceptions are compared with for the pod that a claim was made for, within `seconds`.

        None where there is no such pod, or it does not name the claim. Raises PodUnknownError.
        """
        ...


class PodLookUp:
    """The look-up for one claim in a namespace. Without `pods` nothing is known.

    `left` is what is left of the time budget.
    """

    def __init__(self, pods: StoredPods | None, namespace: str, budget: TimeBudget) -> None:
        self._pods = pods
        self._namespace = namespace
        self._problem = ""
        self._code: int | None = None
        self.left = budget

    def __call__(self, owner: ClaimOwner) -> PodSubject | None:
        """What exceptions are compared with for this pod; None where that is not known."""
        if (pods := self._pods) is None:
            return None
        seconds, begun = min(_SECONDS, self.left.seconds * _SHARE), time.monotonic()
        try:
            with self.left.waiting():
                found = pods.subject(self._namespace, owner, seconds)
        except PodUnknownError as error:
            found, problem = None, f"it is not known whether an exception holds for pod {owner.name}, because {error}"
            self._code = error.code
        else:
            problem = f"no exception of pod {owner.name} counts, because no pod with this uid and claim is stored"
        self.left = replace(self.left, seconds=max(0.0, self.left.seconds - (time.monotonic() - begun)))
        self._problem = problem if found is None else ""
        return found

    def explained(self, decision: Decision) -> Decision:
        """The decision; a refusal also says why nothing was known of the pod, and is no verdict if that is a fault."""
        answer = decision.answer
        if not self._problem or answer.is_allowed:
            return decision
        message, code = f"{answer.message}\nNote: {self._problem}.", self._code or answer.code
        return replace(decision, answer=replace(answer, message=message, code=code))
