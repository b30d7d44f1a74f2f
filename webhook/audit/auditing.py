"""An audit: from objects to a report, under one set of policies or under two at the same time.

Objects are reviewed one after the other. Only findings are kept, not objects: each once for all objects, compared with
those of another audit of the same objects, and about quotas that are used beyond their limits.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from functools import partial
from heapq import nsmallest

from webhook.audit.documents import Document, DocumentError, own_namespace
from webhook.audit.node_kinds import capacity_of
from webhook.audit.object_sources import ObjectSource
from webhook.audit.owners import Owners, reference_of
from webhook.audit.quota_report import QuotaInUse, quotas_in_use, quotas_with_pods, reported_quotas
from webhook.audit.report import (
    MOST_NAMES,
    AuditFinding,
    AuditReport,
    ChangedInjection,
    Comparison,
    Counts,
    Level,
    ObjectReference,
    PodGroup,
    Running,
    SourceLine,
)
from webhook.audit.review_objects import ReviewContext, ReviewedObject, injected, is_never_sent, review_object
from webhook.engine import TemplateOutcome
from webhook.engine.quota_requests import amount_of_stored
from webhook.ledger.gpu_pods import counted_once, stored_claim, stored_from_raw
from webhook.ledger.ledger_store import GpuPod
from webhook.model.claims import CLAIM
from webhook.model.json_parts import mapped, part
from webhook.model.workloads import controller_of, is_pod
from webhook.outcome import Finding, FindingKind, Injection
from webhook.policy.policy_quotas import ConfiguredQuota
from webhook.policy.policy_set import PolicySet
from webhook.policy.schema import API_VERSION
from webhook.quota.quota_wording import amount_of, number
from webhook.quota.quotas import Limit, Quota, QuotaScope
from webhook.rules import gpu_quota
from webhook.rules.rule_settings import Mode

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


_SPEC = "spec"


def findings_of(item: ReviewedObject, owners: Owners) -> Iterator[AuditFinding]:
    """What was found in an object, and what is injected, template by template for a workload."""
    own, owner = _references(item, owners)
    policy = item.policy.name if item.policy is not None else ""
    source = SourceLine(item.document.source, item.document.line or None)
    running = Running(1, (item.name,)) if item.outcome is not None and own.uid else None
    for pods, findings, injections in _results(item):
        template = None if pods is None else pods.template
        group = None if pods is None else PodGroup(pods.template.group, pods.template.pods, pods.gpus)
        places: dict[str, str] = {}  # place in the object -> its place in a pod
        if template is not None:
            places = {outside: inside for inside, outside in template.elsewhere.items()}
            places |= {template.path: _SPEC, template.path.removesuffix(f".{_SPEC}"): ""}
        made = partial(
            AuditFinding, object=own, owner=owner, policy=policy, source=source, pod_group=group, running=running
        )
        for finding in findings:
            yield made(
                level=Level.of(finding),
                rule=finding.rule,
                mode=finding.mode,
                kind=finding.kind,
                field=finding.where,
                message=finding.message,
                remedy=finding.remedy,
                file=finding.origin,
                line=finding.line,
                exception=finding.exception.name if finding.exception is not None else "",
                place=_in_a_pod(finding.where, places),
            )
        for injection in injections:
            edits = tuple(map(str, injection.edits))
            yield made(
                level=Level.COMPLETE,
                rule=injection.rule,
                mode=Mode.ENFORCE,
                kind=FindingKind.INJECTION,
                field=_SPEC if template is None else template.place(_SPEC),
                message=", ".join(edits),
                remedy="",
                file=injection.origin,
                line=injection.line,
                place=_SPEC,
                edits=edits,
            )


def _results(item: ReviewedObject) -> Iterator[tuple[TemplateOutcome | None, Iterable[Finding], Iterable[Injection]]]:
    if not item.pods:
        yield None, item.findings, item.outcome.injections if item.outcome is not None and item.is_allowed else ()
    for pods in item.pods:
        yield pods, pods.findings, injected(pods)


def _references(item: ReviewedObject, owners: Owners) -> tuple[ObjectReference, ObjectReference]:
    raw = item.document.object
    own = replace(reference_of(raw), namespace=item.namespace)
    owner = own if controller_of(raw) is None else owners.root_of(raw)
    if not owner.namespace and not part(raw, "metadata", "namespace"):
        owner = replace(owner, namespace=own.namespace)
    return own, owner


def _in_a_pod(field: str, places: Mapping[str, str]) -> str:
    """The place in a pod that corresponds to `field` of the object: the reverse of `Template.place`."""
    for end in (len(field), *(at for at in reversed(range(len(field))) if field[at] in ".[")):
        if (inside := places.get(field[:end])) is not None:
            return (inside + field[end:]).removeprefix(".")
    return field


class Deduplicator:
    """Keeps each finding once, however many pods have it, for the object that people change to fix it."""

    def __init__(self) -> None:
        self._findings: dict[tuple[str, ...], AuditFinding] = {}

    def add(self, finding: AuditFinding) -> None:
        key = finding.identity
        known = self._findings.get(key)
        self._findings[key] = finding if known is None else _merged(known, finding)

    def findings(self) -> tuple[AuditFinding, ...]:
        """All findings so far, sorted as in reports.

        A finding about a pod, or about a workload that another workload made, is left out if the template of its owner
        has the same finding. The finding of the template then counts the pod.
        """
        of_templates: dict[tuple[str, ...], int] = {}
        kept: list[AuditFinding] = []
        for finding in sorted(self._findings.values(), key=_remoteness):
            key = (finding.rule, finding.kind, *finding.whose, finding.place, finding.message)
            if _remoteness(finding) and key in of_templates:
                kept[of_templates[key]] = _merged(kept[of_templates[key]], finding)
                continue
            if finding.pod_group is not None:
                of_templates.setdefault(key, len(kept))
            kept.append(finding)
        return tuple(sorted(kept, key=lambda one: (one.level.rank, one.owner, *one.identity, one.source.line or 0)))


def _merged(first: AuditFinding, finding: AuditFinding) -> AuditFinding:
    """The first of two equal findings, with the graver level of the two and the pods of both."""
    if finding.level.rank < first.level.rank:
        first = replace(
            first,
            level=finding.level,
            mode=finding.mode,
            file=finding.file,
            line=finding.line,
            exception=finding.exception,
        )
    if finding.running is None:
        return first
    known = first.running or Running(0, ())
    names = tuple(dict.fromkeys((*known.names, *finding.running.names)))[:MOST_NAMES]
    return replace(first, running=Running(known.count + finding.running.count, names))


def _remoteness(finding: AuditFinding) -> int:
    """0 for a finding about the template that people change, 1 about a template made from it, 2 about a pod."""
    if finding.pod_group is None:
        return 2
    return int(finding.object.identity != finding.owner.identity)


_Key = tuple[str, ...]


def new_refusals(findings: Sequence[AuditFinding], others: Sequence[AuditFinding]) -> tuple[AuditFinding, ...]:
    """The refusals among `findings` that are not among `others`, in their order.

    Refusals of one rule about one place count as equal, whatever their messages: if only the allowed number or the
    nodes differ, a pod that was refused before is still refused. If a place has more refusals than before, the refusals
    with new messages are returned.
    """
    before = _refusals(others)
    new: list[AuditFinding] = []
    for place, refusals in _refusals(findings).items():
        known = before.get(place, [])
        messages = {refusal.message for refusal in known}
        changed = [refusal for refusal in refusals if refusal.message not in messages]
        new += changed[: max(0, len(refusals) - len(known))]
    return tuple(new)


def _refusals(findings: Sequence[AuditFinding]) -> dict[_Key, list[AuditFinding]]:
    found: dict[_Key, list[AuditFinding]] = defaultdict(list)
    for finding in findings:
        if finding.level is Level.REFUSE:
            found[*_pods(finding), finding.rule, finding.field].append(finding)
    return found


def changed_injections(
    proposed: Sequence[AuditFinding], in_force: Sequence[AuditFinding]
) -> tuple[ChangedInjection, ...]:
    """The pods whose injections change, in the order of objects.

    Pods that are refused in one of the two audits are left out: the refusal is reported instead.
    """
    after, before = _injections(proposed), _injections(in_force)
    both = (*in_force, *proposed)
    refused = {_pods(finding) for finding in both if finding.level is Level.REFUSE}
    examples = {_pods(finding): finding for finding in both if finding.level is Level.COMPLETE}
    changed = [
        ChangedInjection(
            example.object,
            example.source,
            example.pod_group,
            tuple(sorted(before.get(pods, ()))),
            tuple(sorted(after.get(pods, ()))),
        )
        for pods, example in examples.items()
        if pods not in refused and before.get(pods) != after.get(pods)
    ]
    return tuple(
        sorted(changed, key=lambda one: (one.object, one.pod_group.group if one.pod_group is not None else ""))
    )


def _injections(findings: Sequence[AuditFinding]) -> dict[_Key, set[str]]:
    found: dict[_Key, set[str]] = defaultdict(set)
    for finding in findings:
        if finding.level is Level.COMPLETE:
            found[_pods(finding)].update(finding.edits)
    return found


def _pods(finding: AuditFinding) -> _Key:
    """The key of the pods that a finding is about: the pods of a template, or other pods of an owner."""
    pod_group = ("template", finding.pod_group.group) if finding.pod_group is not None else ("pod", "")
    return (*finding.whose, *pod_group, finding.source.file)


_LEVELS = {Mode.ENFORCE: Level.REFUSE, Mode.WARN: Level.WARN}


def quota_overuse(quotas: Iterable[QuotaInUse], pods: Sequence[GpuPod], policies: PolicySet) -> Iterator[AuditFinding]:
    """One finding for each limit that is exceeded, about the namespace or shared quota; `pods` are all that count."""
    for active, usage in quotas:
        for limit, used in (usage.used or {}).items():
            if used > limit.hard:
                yield _over_limit(active, limit, used, _running(pods, limit, active.quota), policies)


def _over_limit(
    active: ConfiguredQuota, limit: Limit, used: Fraction, running: Running, policies: PolicySet
) -> AuditFinding:
    quota, over = active.quota, used - limit.hard
    about, policy = ObjectReference("", "Namespace", quota.name, "v1"), policies.for_namespace(quota.name).name
    if quota.scope is QuotaScope.SHARED:
        about, policy = (
            ObjectReference("", "SharedQuota", quota.name, API_VERSION),
            active.origin.removesuffix(".yaml"),
        )
    allowed = amount_of(limit.hard, limit)
    return AuditFinding(
        level=_LEVELS.get(active.mode, Level.AUDIT),
        rule=gpu_quota.RULE.key,
        mode=active.mode,
        kind=FindingKind.VIOLATION,
        object=about,
        owner=about,
        field=_SPEC,
        message=f"GPU quota '{quota.name}' is used beyond its limit: {number(used)} of {allowed} ({number(over)} over)",
        remedy=f"Free {amount_of(over, limit)}, or raise the quota",
        policy=policy,
        file=active.origin,
        line=active.line,
        running=running,
    )


def _running(pods: Iterable[GpuPod], limit: Limit, quota: Quota) -> Running:
    """How many pods count against a limit, and the names of the pods that use most of it."""
    found = [
        (-amount, pod.called)
        for pod in pods
        if quota.covers(pod.namespace) and (amount := amount_of_stored(pod, limit, quota))
    ]
    return Running(len(found), tuple(name for _, name in nsmallest(MOST_NAMES, found)))
