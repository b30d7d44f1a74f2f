"""An audit: from objects to a report, under one set of policies or under two at the same time.

Objects are reviewed one after the other. Only findings are kept, not objects.
"""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from webhook.audit.audit_findings import (
    Deduplicator,
    changed_injections,
    findings_of,
    new_refusals,
    quota_overuse,
)
from webhook.audit.cluster_objects import NamespaceScope
from webhook.audit.documents import Document, DocumentError, own_namespace
from webhook.audit.node_kinds import capacity_of
from webhook.audit.owners import Owners
from webhook.audit.quota_report import QuotaInUse, quotas_in_use, quotas_with_pods, reported_quotas
from webhook.audit.report import AuditFinding, AuditReport, Comparison, Counts, Level
from webhook.audit.review_objects import ReviewContext, ReviewedObject, is_never_sent, review_object
from webhook.facts.facts import ClusterFacts, ImageSource
from webhook.facts.gpu_pods import counted_once, stored_claim, stored_from_raw
from webhook.facts.static_pods import StaticPods
from webhook.ledger.context import LedgerContext
from webhook.ledger.ledger_store import GpuPod, MemoryStore, Pods
from webhook.ledger.ledgers import Ledgers
from webhook.model.claims import CLAIM
from webhook.model.json_parts import mapped, part
from webhook.model.workloads import is_pod
from webhook.policy.policy_set import PolicySet

_MIRROR = "kubernetes.io/config.mirror"
"""Annotation of mirror pods, with which kubelets show their static pods."""
_FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class AuditScope:
    """Where the objects of an audit come from.

    `namespace` is the namespace of objects that name none. `scope` says which namespaces of a cluster are audited. The
    pods of a cluster count against their quotas already.
    """

    is_cluster: bool
    namespace: str = ""
    scope: NamespaceScope = field(default_factory=NamespaceScope)


class Auditor:
    """Reviews objects, one by one, under one set of policies.

    `owners` knows the owners of an object before the object comes. `now` is in seconds since 1970.
    """

    def __init__(self, context: ReviewContext, owners: Owners, place: AuditScope, now: float) -> None:
        self._context = context
        self._owners = owners
        self._place = place
        self._now = now
        self.counts = Counts()
        self.errors: list[DocumentError] = []
        self._findings = Deduplicator()
        self._pods: list[GpuPod] = []
        self._claims: list[GpuPod] = []
        self._named: Counter[tuple[str, ...]] = Counter()

    def add(self, document: Document | DocumentError) -> None:
        if isinstance(document, DocumentError):
            self.errors.append(document)
            return
        if self._place.is_cluster and is_pod(document.api_version, document.kind):
            self._context.learn(own_namespace(document), document.object)
        try:
            self._count_in_quotas(document)
            if not self._place.is_cluster and is_never_sent(document, self._place.namespace):
                self.counts = replace(self.counts, unsent=self.counts.unsent + 1)
            elif not is_passed_over(document, self._owners):
                self._review(document)
        except ValueError as error:
            self.errors.append(error_about(document, str(error)))

    def findings(self) -> tuple[tuple[AuditFinding, ...], tuple[QuotaInUse, ...]]:
        """All findings, and for a cluster the usage of its quotas. Call it once, at the end."""
        quotas: tuple[QuotaInUse, ...] = ()
        if self._place.is_cluster:
            counted = list(counted_once(self._pods, self._claims, self._context.facts))
            quotas = tuple(filter(self._sees_all_of, quotas_in_use(self._context.policies, counted)))
            for finding in quota_overuse(quotas, counted, self._context.policies):
                self._findings.add(finding)
        return self._findings.findings(), quotas

    def _review(self, document: Document) -> None:
        item = review_object(document, self._place.namespace, self._context, is_running=self._place.is_cluster)
        self.counts = _with(item, self.counts)
        for found in findings_of(item, self._owners, self._ordinal(item)):
            self._findings.add(found)

    def _ordinal(self, item: ReviewedObject) -> int:
        """The ordinal of an object without a name among the objects of its file with the same generateName, from 1."""
        document = item.document
        if not document.source or part(document.object, "metadata", "name"):
            return 1
        name = document.source, document.api_version, document.kind, item.namespace, item.name
        self._named[name] += 1
        return self._named[name]

    def _count_in_quotas(self, document: Document) -> None:
        if not self._place.is_cluster:
            return
        accelerators = self._context.policies.accelerators
        if is_pod(document.api_version, document.kind):
            stored = stored_from_raw(document.object, accelerators)
            if stored.gpu_pod is not None and stored.ends >= self._now:
                self._pods.append(stored.gpu_pod)
        elif document.kind == CLAIM and (claim := stored_claim(document.object, accelerators).gpu_pod) is not None:
            self._claims.append(claim)

    def _sees_all_of(self, quota: QuotaInUse) -> bool:
        """Whether the audit covers all namespaces of a quota, and so all of its pods."""
        scope, patterns = self._place.scope, quota.bound.quota.patterns
        return all(map(scope.holds, patterns)) and (not scope.namespaces or set(scope.namespaces).issuperset(patterns))


def is_passed_over(document: Document, owners: Owners) -> bool:
    """Whether an object is not looked at: its owner is, it is being deleted, or it is a pod that has finished."""
    raw = document.object
    metadata = mapped(raw, "metadata")
    if metadata.get("deletionTimestamp") is not None:
        return True
    if not is_pod(document.api_version, document.kind):
        return owners.is_owned_by_known(raw)
    is_mirror = _MIRROR in mapped(metadata, "annotations")
    return is_mirror or part(raw, "status", "phase") in _FINISHED


def error_about(document: Document, message: str) -> DocumentError:
    """The error about an object; an object that is in no file is named by kind, namespace and name."""
    if document.source:
        return document.error(message)
    metadata = mapped(document.object, "metadata")
    place = "/".join(str(metadata[key]) for key in ("namespace", "name") if metadata.get(key))
    return DocumentError("", document.number, None, f"{document.kind} {place}: {message}")


def _with(item: ReviewedObject, counts: Counts) -> Counts:
    if item.policy is None:
        return replace(counts, others=counts.others + 1)
    name = "pods" if item.outcome is not None else "workloads" if item.pods else "claims"
    counts = replace(counts, **{name: getattr(counts, name) + 1})
    if any(pods.template.is_queued and pods.gpus for pods in item.pods):
        counts = replace(counts, queued=counts.queued + 1)
    if not item.is_allowed:
        return replace(counts, refused=counts.refused + 1)
    if any(Level.of(finding) is Level.WARN for finding in item.findings):
        return replace(counts, warned=counts.warned + 1)
    return replace(counts, completed=counts.completed + 1) if item.is_completed else counts


@dataclass(frozen=True, slots=True)
class Background:
    """What is known about the cluster that objects are in, or that files are meant for.

    `pods` count against quotas before the objects do. `counted` are the pods of an inventory, for the quotas of the
    report; None without an inventory.
    """

    facts: ClusterFacts = field(default_factory=ClusterFacts)
    pods: Pods = field(default_factory=StaticPods)
    counted: Iterable[GpuPod] | None = None


@dataclass(frozen=True, slots=True)
class AuditPolicies:
    """The policies of an audit with everything else that decisions depend on, and their directory."""

    directory: str
    context: ReviewContext

    @classmethod
    def of(
        cls,
        directory: str,
        policies: PolicySet,
        background: Background,
        images: ImageSource | None = None,
        *,
        now: float | None = None,
    ) -> "AuditPolicies":
        """These policies with ledgers of their own; `images` answers questions about images.

        `now` is the moment for which exceptions are judged, in seconds since 1970; by default it is now.
        """
        ledgers = Ledgers(LedgerContext(MemoryStore(), background.pods))
        facts, moment = background.facts.with_images(images), time.time() if now is None else now
        return cls(directory, ReviewContext(policies, facts, ledgers, moment))


class Audit:
    """One audit: `add` reviews objects one by one, `report` returns the findings.

    `created` is in UTC. With `in_force` the objects are also reviewed under a second set of policies, for comparison.
    """

    def __init__(
        self,
        proposed: AuditPolicies,
        owners: Owners,
        place: AuditScope,
        created: datetime,
        *,
        in_force: AuditPolicies | None = None,
    ) -> None:
        self._proposed, self._in_force = proposed, in_force
        self._place, self._created = place, created
        now = created.timestamp()
        self._auditor = Auditor(proposed.context, owners, place, now)
        self._other_auditor = None if in_force is None else Auditor(in_force.context, owners, place, now)

    def add(self, document: Document | DocumentError) -> None:
        self._auditor.add(document)
        if self._other_auditor is not None:
            self._other_auditor.add(document)

    def report(self, background: Background, unsent: int = 0) -> AuditReport:
        """The report about the objects so far. `unsent` more were left out: the webhook is never asked about them."""
        findings, quotas = self._auditor.findings()
        policies, counts, pods = self._proposed.context.policies, self._auditor.counts, background.counted
        return AuditReport(
            created=self._created,
            directory=self._proposed.directory,
            hash=policies.hash,
            is_of_cluster=self._place.is_cluster,
            counts=replace(counts, unsent=counts.unsent + unsent),
            findings=findings,
            errors=tuple(self._auditor.errors),
            capacity=capacity_of(background.facts.cluster, policies.accelerators, policies.cuda.tables),
            quotas=tuple(reported_quotas(quotas) if pods is None else quotas_with_pods(policies, pods, None)),
            comparison=self._comparison(findings),
        )

    def _comparison(self, proposed: tuple[AuditFinding, ...]) -> Comparison | None:
        if self._in_force is None or self._other_auditor is None:
            return None
        in_force, _ = self._other_auditor.findings()
        return Comparison(
            directory=self._in_force.directory,
            hash=self._in_force.context.policies.hash,
            newly_refused=new_refusals(proposed, in_force),
            no_longer_refused=new_refusals(in_force, proposed),
            changed_injections=changed_injections(proposed, in_force),
        )
