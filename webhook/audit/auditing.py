"""An audit: from objects to a report, under one set of policies or under two at the same time.

Objects are reviewed one after the other. Only findings are kept, not objects.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from webhook.audit.audit_findings import Deduplicator, changed_injections, findings_of, new_refusals, quota_overuse
from webhook.audit.documents import Document, DocumentError, own_namespace
from webhook.audit.node_kinds import capacity_of
from webhook.audit.object_sources import ObjectSource
from webhook.audit.owners import Owners
from webhook.audit.quota_report import QuotaInUse, quotas_in_use, quotas_with_pods, reported_quotas
from webhook.audit.report import AuditFinding, AuditReport, Comparison, Counts, Level
from webhook.audit.review_objects import ReviewContext, ReviewedObject, is_never_sent, review_object
from webhook.ledger.gpu_pods import counted_once, stored_claim, stored_from_raw
from webhook.ledger.ledger_store import GpuPod
from webhook.model.claims import CLAIM
from webhook.model.json_parts import mapped, part
from webhook.model.workloads import is_pod

_MIRROR = "kubernetes.io/config.mirror"
"""Annotation of mirror pods, with which kubelets show their static pods."""
_FINISHED = ("Succeeded", "Failed")


class Audit:
    """One audit: `add` reviews objects one by one, `report` returns the findings.

    `created` is in UTC. With `in_force` the objects are also reviewed under a second set of policies, for comparison.
    """

    def __init__(
        self, source: ObjectSource, proposed: ReviewContext, created: datetime, in_force: ReviewContext | None = None
    ) -> None:
        self._source, self._created = source, created
        self._proposed = _Side(proposed, source, created.timestamp())
        self._in_force = None if in_force is None else _Side(in_force, source, created.timestamp())

    def add(self, document: Document | DocumentError) -> None:
        self._proposed.add(document)
        if self._in_force is not None:
            self._in_force.add(document)

    def report(self) -> AuditReport:
        """The report about the objects so far. Call it once, at the end."""
        findings, quotas = self._proposed.findings()
        context, counts, background = self._proposed.context, self._proposed.counts, self._source.background
        policies, pods = context.policies, background.counted
        return AuditReport(
            created=self._created,
            directory=context.directory,
            hash=policies.hash,
            is_of_cluster=self._source.is_cluster,
            counts=replace(counts, unsent=counts.unsent + self._source.unsent()),
            findings=findings,
            errors=tuple(self._proposed.errors),
            capacity=capacity_of(background.facts.cluster, policies.accelerators, policies.cuda.tables),
            quotas=tuple(reported_quotas(quotas) if pods is None else quotas_with_pods(policies, pods, None)),
            comparison=None if self._in_force is None else _compared(findings, self._in_force),
        )


class _Side:
    """The review of all objects under one set of policies. `now` is in seconds since 1970."""

    def __init__(self, context: ReviewContext, source: ObjectSource, now: float) -> None:
        self.context = context
        self.counts = Counts()
        self.errors: list[DocumentError] = []
        self._source, self._now = source, now
        self._findings = Deduplicator()
        self._pods: list[GpuPod] = []
        self._claims: list[GpuPod] = []

    def add(self, document: Document | DocumentError) -> None:
        if isinstance(document, DocumentError):
            self.errors.append(document)
            return
        source = self._source
        try:
            if source.is_cluster:
                self._count_in_quotas(document)
            if not source.is_cluster and is_never_sent(document, source.namespace):
                self.counts = replace(self.counts, unsent=self.counts.unsent + 1)
            elif not is_passed_over(document, source.owners):
                item = review_object(document, source.namespace, self.context, is_running=source.is_cluster)
                self.counts = _with(item, self.counts)
                for found in findings_of(item, source.owners):
                    self._findings.add(found)
        except ValueError as error:
            self.errors.append(error_about(document, str(error)))

    def _count_in_quotas(self, document: Document) -> None:
        accelerators = self.context.policies.accelerators
        if is_pod(document.api_version, document.kind):
            self.context.learn(own_namespace(document), document.object)
            stored = stored_from_raw(document.object, accelerators)
            if stored.gpu_pod is not None and stored.ends >= self._now:
                self._pods.append(stored.gpu_pod)
        elif document.kind == CLAIM and (claim := stored_claim(document.object, accelerators).gpu_pod) is not None:
            self._claims.append(claim)

    def findings(self) -> tuple[tuple[AuditFinding, ...], Iterable[QuotaInUse]]:
        """All findings, and for a cluster the usage of the quotas all of whose namespaces are audited."""
        quotas: list[QuotaInUse] = []
        if self._source.is_cluster:
            policies, scope = self.context.policies, self._source.scope
            counted = list(counted_once(self._pods, self._claims, self.context.facts))
            quotas = [one for one in quotas_in_use(policies, counted) if scope.holds_all(one[0].quota.patterns)]
            for finding in quota_overuse(quotas, counted, policies):
                self._findings.add(finding)
        return self._findings.findings(), quotas


def _compared(proposed: tuple[AuditFinding, ...], other: _Side) -> Comparison:
    in_force, _ = other.findings()
    return Comparison(
        directory=other.context.directory,
        hash=other.context.policies.hash,
        newly_refused=new_refusals(proposed, in_force),
        no_longer_refused=new_refusals(in_force, proposed),
        changed_injections=changed_injections(proposed, in_force),
    )


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
