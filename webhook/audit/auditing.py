"""From objects to a report, by one set of policies or by two at the same time."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from webhook.audit.collect import Auditor, AuditScope, Collected
from webhook.audit.documents import Document, DocumentError
from webhook.audit.gathering import changed_injections, refused_anew
from webhook.audit.input_claims import InputClaims
from webhook.audit.node_kinds import capacity_of
from webhook.audit.owners import Owners
from webhook.audit.quota_report import counted, told
from webhook.audit.report import AuditReport, Comparison
from webhook.audit.review_objects import ReviewContext
from webhook.facts.snapshot import EMPTY, Snapshot
from webhook.facts.static_pods import StaticPods
from webhook.images.image_source import ImageSource, WithImages
from webhook.ledger.context import LedgerContext
from webhook.ledger.ledger_store import GpuPod, MemoryStore, Pods
from webhook.ledger.ledgers import Ledgers
from webhook.policy.policy_set import PolicySet


@dataclass(frozen=True, slots=True)
class Background:
    """What is known of the cluster that objects are in, or that files are meant for.

    `pods` are in the quotas before any of the objects is. `counted` are those of an inventory, to say how the quotas
    stand; None where there is none. `claims` are those of the input; None where nothing is to be said of claims.
    """

    facts: Snapshot = EMPTY
    pods: Pods = field(default_factory=StaticPods)
    counted: Iterable[GpuPod] | None = None
    claims: InputClaims | None = None


@dataclass(frozen=True, slots=True)
class Judges:
    """What objects are judged by, and the directory that its policies are from."""

    directory: str
    surroundings: ReviewContext

    @classmethod
    def of(
        cls, directory: str, policies: PolicySet, background: Background, images: ImageSource | None = None
    ) -> "Judges":
        """These policies, with ledgers of their own; `images` are asked about images where there are any."""
        facts = background.facts if images is None else WithImages(background.facts, images)
        ledgers = Ledgers(LedgerContext(MemoryStore(), background.pods))
        return cls(directory, ReviewContext(policies, facts, ledgers, background.claims))


class Audit:
    """One audit: `add` takes objects one by one, `report` says what was found.

    `created` is in UTC. With `in_force` the same objects are judged by other policies too.
    """

    def __init__(
        self,
        proposed: Judges,
        owners: Owners,
        place: AuditScope,
        created: datetime,
        *,
        in_force: Judges | None = None,
    ) -> None:
        self._proposed, self._in_force = proposed, in_force
        self._place, self._created = place, created
        now = created.timestamp()
        self._collector = Auditor(proposed.surroundings, owners, place, now)
        self._other = None if in_force is None else Auditor(in_force.surroundings, owners, place, now)

    def add(self, document: Document | DocumentError) -> None:
        """Judge an object."""
        self._collector.add(document)
        if self._other is not None:
            self._other.add(document)

    def report(self, background: Background) -> AuditReport:
        """What was found so far."""
        collected, policies = self._collector.collected(), self._proposed.surroundings.policies
        pods = background.counted
        return AuditReport(
            created=self._created,
            directory=self._proposed.directory,
            hash=policies.hash,
            is_of_cluster=self._place.is_cluster,
            counts=collected.counts,
            findings=collected.gathered.findings,
            errors=collected.errors,
            capacity=capacity_of(background.facts.nodes.values(), self._proposed.surroundings.policies.accelerators),
            quotas=tuple(told(collected.quotas) if pods is None else counted(policies, pods, None)),
            comparison=self._comparison(collected),
        )

    def _comparison(self, collected: Collected) -> Comparison | None:
        if self._in_force is None or self._other is None:
            return None
        mine, others = collected.gathered, self._other.collected().gathered
        return Comparison(
            directory=self._in_force.directory,
            hash=self._in_force.surroundings.policies.hash,
            newly_refused=refused_anew(mine.findings, others.findings),
            no_longer_refused=refused_anew(others.findings, mine.findings),
            changed_injections=changed_injections(mine, others),
        )
