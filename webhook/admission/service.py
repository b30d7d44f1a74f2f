"""What one replica decides with, and whether it is ready to."""

import time

from webhook.admission import phases, policies_at_apply
from webhook.admission.alike import Alike
from webhook.admission.metrics import Metrics
from webhook.admission.phases import Decision
from webhook.admission.quota_phase import HasLedgers, TimeBudget, reserve
from webhook.admission.review import AdmissionRequest
from webhook.admission.watchdog import DECISION_SECONDS, DecisionDeadline
from webhook.facts.facts_source import FactsSource
from webhook.images.image_source import ImageSource, Memory, Recalled, WithImages
from webhook.model.image import ImageInfo
from webhook.policy.policy_set import PolicySet
from webhook.policy.policy_store import PolicyStore
from webhook.rules.rule import Facts


class _Unended:
    """Asks about images outside of the deadline: a question that is ended halfway could stay open for ever."""

    def __init__(self, images: ImageSource, deadline: DecisionDeadline) -> None:
        self._images = images
        self._deadline = deadline

    def info(self, text: str, asker: str = "") -> ImageInfo:
        """What is known of the image at this moment."""
        return self._deadline.outside(lambda: self._images.info(text, asker))


class Service:
    """One replica: the policies and facts it decides with, and whether it is ready to.

    Without `images` nothing is looked up in registries; without `ledgers` no pod can be entered in a quota.
    """

    def __init__(
        self,
        policies: PolicyStore,
        facts: FactsSource,
        metrics: Metrics,
        images: Memory | None = None,
        ledgers: HasLedgers | None = None,
    ) -> None:
        self.policies = policies
        self.facts = facts
        self.metrics = metrics
        self._images = images
        self._ledgers = ledgers
        self._mutated, self._validated = Alike(phases.mutate), Alike(phases.validate)
        self.decision_seconds = DECISION_SECONDS
        """CPU time that one decision may take."""
        self.is_draining = False
        metrics.watch_readiness(lambda: not self.not_ready())
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

    def refused(self, status: int) -> None:
        """Count a request that the server answered itself, with this status."""
        self.metrics.error({403: "forbidden", 500: "bug", 503: "overloaded"}.get(status, "bad_request"))

    def mutate(self, review: AdmissionRequest, facts: Facts, patience: TimeBudget) -> Decision:
        """Answer the mutating phase."""
        return self._mutated.decision(review, self._sets(), facts, self._with_images(facts, review, patience))

    def validate(self, review: AdmissionRequest, facts: Facts, patience: TimeBudget) -> Decision:
        """Answer the validating phase; the only answer that may have to wait, for the ledgers of quotas."""
        facts_and_images = self._with_images(facts, review, patience)
        decision = self._validated.decision(review, self._sets(), facts, facts_and_images)
        return reserve(decision, review, self._ledgers, patience)

    def workloads(self, review: AdmissionRequest, facts: Facts, patience: TimeBudget) -> Decision:
        """Answer for objects that make pods."""
        return phases.workloads(review, self.policies.current, self._with_images(facts, review, patience))

    def config_maps(self, review: AdmissionRequest, facts: Facts, patience: TimeBudget) -> Decision:  # noqa: ARG002  # phases are called alike
        """Answer for ConfigMaps of policies."""
        return policies_at_apply.check(review, self.policies)

    def _sets(self) -> tuple[PolicySet, ...]:
        """The policy set in force, and the recent ones that other replicas may still use."""
        return (self.policies.current, *self.policies.recent())

    def _with_images(self, facts: Facts, review: AdmissionRequest, patience: TimeBudget) -> Facts:
        if self._images is None:
            return facts
        infos = Recalled(self._images) if review.is_dry_run else self._images
        return WithImages(facts, _Unended(infos, patience.deadline), review.namespace)

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
