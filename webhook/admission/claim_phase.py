"""What is decided about ResourceClaims that are about to be created: by the rules of their namespace, and by quotas.

A claim that Kubernetes makes for a pod has the exceptions of the pod as well. Otherwise the pod would be admitted, and
wait for its claim for ever. The pod is looked up while the claim waits for its answer.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import Semaphore
from typing import TYPE_CHECKING, Any

from webhook import engine
from webhook.admission.admission_review import AdmissionRequest, AdmissionResponse
from webhook.admission.phases import NO_TIME, UNCONCERNED, Decision, decide, in_force
from webhook.admission.watchdog import TimeBudget
from webhook.engine.quota_requests import requests_of_claim, requests_of_scheduler
from webhook.facts.facts import ClusterFacts
from webhook.kubernetes.api_errors import ApiServerError
from webhook.kubernetes.api_paths import CORE, path_of
from webhook.ledger.gpu_pods import is_for_extended_resources
from webhook.model.claims import CLAIM, GROUP, ClaimOwner, claim_owner, subject_for_pod
from webhook.model.subject import PodSubject, subject_of
from webhook.outcome import Outcome
from webhook.policy.policy_set import InForce, PolicySet
from webhook.rules import gpu_quota, gpu_types

if TYPE_CHECKING:  # without a cluster nothing is looked up
    from webhook.kubernetes.api_server import ApiServer

SCHEDULER = "system:kube-scheduler"
"""The user that makes claims for extended resources."""
CONTROLLERS = frozenset(
    ("system:serviceaccount:kube-system:resource-claim-controller", "system:kube-controller-manager")
)
"""The users that make claims from templates: the user of this controller (cmd/kube-controller-manager/app/resource.go),
or the one user of all controllers where they share credentials."""

_OF_QUOTAS = frozenset((gpu_quota.RULE.key, gpu_types.RULE.key))
"""The rules whose exceptions may change a quota, or what counts against it."""

_LONGEST_LOOK_UP = 1.0
_SHARE = 0.25
"""Share of a claim's waiting time that the look-up of its pod may take; the rest is for the ledgers of quotas."""
AT_A_TIME = 2
"""Most pods that are read at a time: a pod of 1.5 MiB may take 60 MiB of memory while it is read."""

_log = logging.getLogger("gpu_policy.claims")

PodOf = Callable[[ClaimOwner], PodSubject | None]
"""Looks up what exceptions are compared with for the pod that a claim was made for; None where that is not known."""


def claims(
    request: AdmissionRequest,
    policies: PolicySet,
    facts: ClusterFacts,
    now: float = NO_TIME,
    pod_of: PodOf = lambda _owner: None,
) -> Decision:
    """Judge a ResourceClaim that is about to be created, and count it in the quotas of its namespace.

    The claim that a scheduler makes for extended resources of a pod is not judged, because the pod was, and takes
    the entry of the pod over. Who made it decides, because anybody who may create claims may write its annotation.

    `pod_of` is asked only about a claim that Kubernetes has made for a pod, and only if an exception might change the
    decision.
    """
    raw, namespace = request.object, request.namespace
    group, _, _ = request.api_version.rpartition("/")
    if (group, request.kind) != (GROUP, CLAIM) or request.operation != "CREATE" or raw is None:
        return UNCONCERNED
    decision = _judged(request, raw, in_force(request, policies, now), facts)
    owner, outcome, wanted = _owner(request, raw), decision.outcome, decision.requests
    if owner is None or outcome is None:
        return decision
    in_question = {one.rule for one in outcome.refusals}
    in_question |= _OF_QUOTAS if wanted.requests or wanted.findings else set()
    if not policies.exceptions.may_hold(namespace, in_question, now) or (pod := pod_of(owner)) is None:
        return decision
    held = policies.in_force(namespace, lambda: subject_for_pod(raw, pod), now)
    return _judged(request, raw, held, facts)


def _judged(request: AdmissionRequest, raw: Mapping[str, Any], held: InForce, facts: ClusterFacts) -> Decision:
    policy, quotas, namespace = held.policy, held.quotas, request.namespace
    if request.user == SCHEDULER and is_for_extended_resources(raw):
        found = requests_of_scheduler(raw, namespace, quotas, facts)
        return Decision(AdmissionResponse(is_allowed=True), Outcome(policy, raw, ()), found) if quotas else UNCONCERNED
    decision = decide(outcome := engine.validate_claim(raw, namespace, policy, facts))
    if not quotas or outcome.refusals:
        return decision
    return replace(decision, requests=requests_of_claim(raw, namespace, quotas, facts))


def _owner(request: AdmissionRequest, raw: Mapping[str, Any]) -> ClaimOwner | None:
    """The pod that Kubernetes has made a claim for; None for claims of others, who may write any owner."""
    owner = claim_owner(raw)
    if owner is None or request.user not in (CONTROLLERS if owner.claim else (SCHEDULER,)):
        return None
    return owner if owner.claim or is_for_extended_resources(raw) else None


class PodUnknownError(Exception):
    """What a pod is cannot be found out now; the text, for its author, says why. `code` is as in ApiServerError."""

    def __init__(self, text: str, code: int = 503) -> None:
        super().__init__(text)
        self.code = code


class PodsOfClaims:
    """Reads the pods that Kubernetes makes claims for, each as it is stored at this moment. Threads may share it."""

    def __init__(self, server: "ApiServer") -> None:
        self._server = server
        self._turns = Semaphore(AT_A_TIME)

    def subject(self, namespace: str, owner: ClaimOwner, seconds: float) -> PodSubject | None:
        """What exceptions are compared with for the pod that a claim was made for, within `seconds`.

        None where there is no such pod, or it does not name the claim. Raises PodUnknownError.
        """
        try:
            path = path_of(CORE, "pods", namespace=namespace, name=owner.name)
        except ValueError:  # no name of a pod
            return None
        ends = time.monotonic() + seconds
        if not self._turns.acquire(timeout=max(0.0, seconds)):
            raise PodUnknownError("too many pods are being looked up; Kubernetes tries again")
        try:
            found = self._server.get(path, {}, max(0.05, ends - time.monotonic()))
        except ApiServerError as error:
            if error.is_about_missing(owner.name):
                return None
            _log.warning("exceptions of a pod are not known: %s", error.sentence("GET", path))
            text = f"{error.for_authors('the pod cannot be read')}; Kubernetes tries again"
            raise PodUnknownError(text, error.code) from error
        finally:
            self._turns.release()
        return subject_of(found) if owner.is_of(found) else None


class PodLookUp:
    """The look-up for one claim in a namespace. Without `pods` nothing is known.

    `left` is what is left of the time budget.
    """

    def __init__(self, pods: PodsOfClaims | None, namespace: str, budget: TimeBudget) -> None:
        self._pods = pods
        self._namespace = namespace
        self._problem = ""
        self._code: int | None = None
        self.left = budget

    def __call__(self, owner: ClaimOwner) -> PodSubject | None:
        if self._pods is None:
            return None
        begun, found = time.monotonic(), None
        try:
            with self.left.waiting():
                seconds = min(_LONGEST_LOOK_UP, self.left.seconds * _SHARE)
                found = self._pods.subject(self._namespace, owner, seconds)
        except PodUnknownError as error:
            self._problem = f"it is not known whether an exception holds for pod {owner.name}, because {error}"
            self._code = error.code
        else:
            if found is None:
                missing = "no pod with this uid and claim is stored"
                self._problem = f"no exception of pod {owner.name} counts, because {missing}"
        self.left = replace(self.left, seconds=max(0.0, self.left.seconds - (time.monotonic() - begun)))
        return found

    def explained(self, decision: Decision) -> Decision:
        """The decision; a refusal also says why nothing was known of the pod, and is no verdict if that is a fault."""
        answer = decision.answer
        if not self._problem or answer.is_allowed:
            return decision
        message, code = f"{answer.message}\nNote: {self._problem}.", self._code or answer.code
        return replace(decision, answer=replace(answer, message=message, code=code))
