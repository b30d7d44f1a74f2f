"""What one replica decides with, whether it is ready to, and what it asks of quotas.

Quotas are the last step of the validating phase: a pod that nothing refuses is entered in the ledgers of its quotas.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from http import HTTPStatus
from uuid import UUID

from webhook.admission import claim_phase, phases
from webhook.admission.admission_review import AdmissionRequest, AdmissionResponse, objection_to
from webhook.admission.claim_phase import PodLookUp, PodsOfClaims
from webhook.admission.metrics import Metrics, show_nodes
from webhook.admission.phases import Decision, decide
from webhook.admission.watchdog import DECISION_SECONDS, DecisionDeadline, TimeBudget
from webhook.engine import Around
from webhook.engine.quota_requests import NO_REQUESTS, entered
from webhook.facts.driver_objects import driver_object_from, is_driver_object
from webhook.facts.facts import ClusterFacts, FactsSource
from webhook.images.lookups import LookupService
from webhook.ledger.entries import UID_BYTES
from webhook.ledger.ledger_store import GpuPod, LedgerError
from webhook.ledger.ledgers import InUse, Ledgers
from webhook.ledger.verdicts import AlreadyStored, QuotaRequest, Unanswered, Verdict
from webhook.model.image import ImageInfo
from webhook.model.json_parts import part
from webhook.model.workloads import is_pod
from webhook.outcome import Outcome
from webhook.policy.policy_store import PolicyStore
from webhook.quota.quotas import Quota

_SHARE = 0.25
"""Share of a pod's waiting time that reading its group may take; the rest is for the ledgers of quotas."""
_NO_LEDGERS = Unanswered("this replica was started without --quota-ledgers, the namespace of the ledgers", 500)


def reserve(decision: Decision, request: AdmissionRequest, ledgers: Ledgers | None, budget: TimeBudget) -> Decision:
    """The decision after the pod was entered in the ledgers of its quotas, or refused by one of them.

    `ledgers` is None where this replica has no ledgers. Dry runs are decided like other requests and leave no entry. A
    pod that is refused already gets no entry.
    """
    outcome, wanted = decision.outcome, decision.requests
    if outcome is None or wanted == NO_REQUESTS:
        return decision
    verdicts: list[Verdict] = []

    def ask(requests: Sequence[QuotaRequest]) -> Sequence[Verdict]:
        if ledgers is None:
            return [_NO_LEDGERS] * len(requests)
        with budget.waiting():
            until, groups = time.monotonic() + budget.seconds, ledgers.context.groups
            if wanted.made_alike is not None and groups is not None and request.object is not None:
                try:
                    found = groups.of(request.object, request.namespace, budget.seconds * _SHARE)
                except LedgerError as error:
                    return [Unanswered(error.for_authors, error.code)] * len(requests)
                requests = wanted.together(found, ledgers.context.wall())
            verdicts[:] = ledgers.reserve(
                _uid(request),
                requests,
                until,
                is_dry_run=request.is_dry_run,
                name=_name(request),
                takes_over=wanted.takes_over,
                stands_for=wanted.stands_for,
                starts=wanted.starts,
            )
        return verdicts

    def seen(namespace: str) -> Iterable[GpuPod]:
        with budget.deadline.outside():
            return ledgers.context.pods.seen(namespace) if ledgers is not None else ()

    tells_usage = ledgers is not None and ledgers.context.tells_usage
    judged = entered(outcome, request.namespace, wanted, ask, seen if tells_usage else None)
    for verdict in verdicts:
        if isinstance(verdict, AlreadyStored):  # answered in the words of the API server, which would refuse it later
            message, annotations = f'pods "{verdict.name}" already exists', decision.answer.audit_annotations
            answer = AdmissionResponse(False, message, HTTPStatus.CONFLICT, audit_annotations=annotations)
            return Decision(answer, outcome)
    return decision if judged is outcome else decide(judged)


def _name(request: AdmissionRequest) -> str:
    """The name of the pod; the validating phase has generated names, too. Empty for what no pod can be called."""
    name = request.name or part(request.object, "metadata", "name")
    is_one = is_pod(request.api_version, request.kind) and isinstance(name, str) and not objection_to("name", name)
    return name if is_one else ""


def _uid(request: AdmissionRequest) -> bytes:
    """The uid of the pod, which the API server has set by now; the uid of the request for a pod without one."""
    for text in (part(request.object, "metadata", "uid"), request.uid):
        try:
            return UUID(str(text)).bytes
        except ValueError:
            continue
    return hashlib.sha256(request.uid.encode()).digest()[:UID_BYTES]


DecisionListener = Callable[[AdmissionRequest, Decision], None]
"""Takes note of a decision of the validating phase. Never waits and never raises."""


class _ImagesOfReview:
    """Implements ImageSource for one review. A dry run starts no look-up.

    Images are asked about outside of the deadline: a thread that is ended halfway could leave a look-up open for ever.
    """

    def __init__(self, images: LookupService, deadline: DecisionDeadline, *, is_dry_run: bool) -> None:
        self._images = images
        self._deadline = deadline
        self._is_dry_run = is_dry_run

    def info(self, text: str, asker: str = "") -> ImageInfo:
        with self._deadline.outside():
            return self._images.info(text, asker, looks_up=not self._is_dry_run)


class Service:
    """One replica: the policies and facts that it decides with, and whether it is ready.

    Without `images` nothing is looked up in registries. Without `ledgers` no pod gets an entry in a quota. `clock`
    tells the seconds since 1970, by which exceptions begin and end. `listeners` hear the decisions of the validating
    phase. `pods` reads the pods that claims are made for; without it, no claim gets the exceptions of its pod.
    `judge_driver` judges an object that changes drivers, by the arguments of `DriverJudge.outcome`.
    """

    def __init__(  # noqa: PLR0913  # what a replica decides with
        self,
        policies: PolicyStore,
        facts: FactsSource,
        metrics: Metrics,
        images: LookupService | None = None,
        ledgers: Ledgers | None = None,
        *,
        clock: Callable[[], float] = time.time,
        listeners: Sequence[DecisionListener] = (),
        pods: PodsOfClaims | None = None,
        judge_driver: Callable[..., Outcome | None] = lambda *_, **__: None,
    ) -> None:
        self._clock = clock
        self._judge_driver = judge_driver
        self._pods = pods
        self.policies = policies
        self.facts = facts
        self.metrics = metrics
        self._images = images
        self._ledgers = ledgers
        self._listeners = listeners
        self.decision_seconds = DECISION_SECONDS
        """CPU time that one decision may take."""
        self.is_draining = False
        metrics.watch("ready", lambda: not self.not_ready())
        metrics.watch("facts_age_seconds", lambda: facts.status(time.monotonic()).age_seconds)
        metrics.watch("apiserver_reachable", lambda: facts.status(time.monotonic()).server_reachable)
        metrics.watch_exceptions(lambda: {one.name: one.period.ends for one in policies.current.exceptions.all})
        show_nodes(
            metrics.registry,
            lambda: None if facts.facts is None else facts.facts.cluster,
            lambda: policies.current.cuda.tables,
            clock,
        )

    def not_ready(self) -> str:
        """Why this replica must not get requests; empty where it is ready.

        While the API server is unreachable, a replica stays ready with the facts that it has: turning unready would
        block the recovery of the cluster.
        """
        if self.is_draining:
            return "draining: this replica is shutting down"
        status = self.facts.status(time.monotonic())
        if not status.loaded:
            return f"facts: not loaded yet ({status.detail})" if status.detail else "facts: not loaded yet"
        if status.stale and status.server_reachable:
            return f"facts: the watch is stale although the API server answers ({status.detail})"
        return ""

    def refused(self, status: int) -> None:
        self.metrics.error({403: "forbidden", 500: "bug", 503: "overloaded"}.get(status, "bad_request"))

    def mutate(self, review: AdmissionRequest, facts: ClusterFacts, budget: TimeBudget) -> Decision:
        return phases.mutate(review, self.policies.current, self._with_images(facts, review, budget), self._clock())

    def validate(self, review: AdmissionRequest, facts: ClusterFacts, budget: TimeBudget) -> Decision:
        if self.policies.current.quotas_for(review.namespace) and phases.enters(review):
            budget.may_block()  # now: after the decision, the server would have it made anew
        known = self._with_images(facts, review, budget)
        decision = phases.validate(review, self.policies.current, known, self._clock())
        return reserve(decision, review, self._ledgers, budget)

    def claims(self, review: AdmissionRequest, facts: ClusterFacts, budget: TimeBudget) -> Decision:
        pod = PodLookUp(self._pods, review.namespace, budget)
        decision = claim_phase.claims(review, self.policies.current, facts, self._clock(), pod)
        return pod.explained(reserve(decision, review, self._ledgers, pod.left))

    def workloads(self, review: AdmissionRequest, facts: ClusterFacts, budget: TimeBudget) -> Decision:
        def in_use(quota: Quota) -> InUse | None:
            with budget.deadline.outside():
                return None if self._ledgers is None else self._ledgers.in_use(quota, review.namespace)

        known = self._with_images(facts, review, budget)
        return phases.workloads(review, self.policies.current, known, self._clock(), Around(in_use))

    def config_maps(self, review: AdmissionRequest, facts: ClusterFacts, budget: TimeBudget) -> Decision:  # noqa: ARG002  # phases are called alike
        budget.may_block()  # YAML takes long for its size; pods are answered meanwhile
        return phases.config_maps(review, self.policies, self._clock())

    def drivers(self, review: AdmissionRequest, facts: ClusterFacts, budget: TimeBudget) -> Decision:
        """Answer for a ClusterPolicy or NVIDIADriver. Workloads are read and judged within the time that is left."""
        raw = review.object
        if not is_driver_object(raw) or review.operation not in ("CREATE", "UPDATE") or review.subresource:
            return phases.UNCONCERNED
        old = driver_object_from(review.old_object) if review.operation == "UPDATE" else None
        if old == driver_object_from(raw):
            return phases.UNCONCERNED
        known = self._with_images(facts, replace(review, is_dry_run=True), budget)  # no look-up for each image
        with budget.waiting():
            outcome = self._judge_driver(raw, old, self.policies.current, known, self._clock(), seconds=budget.seconds)
        return phases.UNCONCERNED if outcome is None else decide(outcome)

    def tell(self, phase: str, review: AdmissionRequest, decision: Decision) -> None:
        if phase == "validate":
            for listener in self._listeners:
                listener(review, decision)

    def _with_images(self, facts: ClusterFacts, review: AdmissionRequest, budget: TimeBudget) -> ClusterFacts:
        if self._images is None:
            return facts
        images = _ImagesOfReview(self._images, budget.deadline, is_dry_run=review.is_dry_run)
        return facts.with_images(images, review.namespace)

    def state(self) -> dict[str, str]:
        """What /statusz says: the state of this replica for programs; empty texts where nothing is wrong."""
        reload = self.policies.status
        return {
            "notReady": self.not_ready(),
            "policies": self.policies.current.hash,
            "refusedPolicies": "" if reload.last_ok else reload.last_error,
        }

    def readiness(self) -> tuple[str, int]:
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
