"""An audit: objects are judged one after the other, and nothing is kept of them but what was found.

Quotas that are used beyond their limits become findings, too.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from heapq import nsmallest
from typing import Any

from webhook.audit.documents import Document, DocumentError
from webhook.audit.gathering import MOST_NAMES, Deduplicator, DraftFinding, Gathered
from webhook.audit.listing import NamespaceScope
from webhook.audit.owners import Owners
from webhook.audit.quota_report import InUse, in_use
from webhook.audit.report import AuditFinding, Counts, Level, ObjectReference, Running
from webhook.audit.review_objects import Item, ReviewContext, look
from webhook.audit.telling import found_in
from webhook.facts.gpu_pods import stored_from_raw
from webhook.ledger.ledger_store import GpuPod
from webhook.model.workloads import is_pod
from webhook.outcome import FindingKind
from webhook.policy.bound_quotas import BoundQuota
from webhook.policy.policy_set import PolicySet
from webhook.policy.schema import API_VERSION
from webhook.quota.amounts import amounts
from webhook.quota.claimed_gpus import demand_of
from webhook.quota.quota_wording import amount_of, number
from webhook.quota.quotas import Limit, Quota, QuotaScope
from webhook.rules import gpu_quota
from webhook.rules.rule_settings import Mode

_LEVELS = {Mode.ENFORCE: Level.REFUSE, Mode.WARN: Level.WARN}


def overused(quotas: Iterable[InUse], pods: Sequence[GpuPod], policies: PolicySet) -> Iterator[AuditFinding]:
    """One finding for each limit that is passed, about the namespace or the pot; `pods` are what uses them."""
    for one in quotas:
        for limit, used in (one.standing.used or {}).items():
            if used > limit.hard:
                yield _finding(one.bound, limit, used, _running(pods, limit, one.bound.quota), policies)


def _finding(bound: BoundQuota, limit: Limit, used: Fraction, running: Running, policies: PolicySet) -> AuditFinding:
    quota, over = bound.quota, used - limit.hard
    about, policy = ObjectReference("", "Namespace", quota.name, "v1"), policies.for_namespace(quota.name).name
    if quota.scope is QuotaScope.POT:
        about, policy = ObjectReference("", "Pot", quota.name, API_VERSION), bound.origin.removesuffix(".yaml")
    allowed = amount_of(limit.hard, limit)
    return AuditFinding(
        level=_LEVELS.get(bound.mode, Level.AUDIT),
        rule=gpu_quota.RULE.key,
        mode=bound.mode,
        kind=FindingKind.VIOLATION,
        object=about,
        owner=about,
        field="spec",
        message=f"GPU quota '{quota.name}' is used beyond its limit: {number(used)} of {allowed} ({number(over)} over)",
        remedy=f"Free {amount_of(over, limit)}, or raise the quota",
        policy=policy,
        file=bound.origin,
        line=bound.line,
        running=running,
    )


def _running(pods: Iterable[GpuPod], limit: Limit, quota: Quota) -> Running:
    """The pods that count against a limit, those that count most by name."""
    found = [(-amount, pod.name) for pod in pods if (amount := _amount(pod, limit, quota))]
    return Running(len(found), tuple(name for _, name in nsmallest(MOST_NAMES, found)))


def _amount(pod: GpuPod, limit: Limit, quota: Quota) -> Fraction:
    demand = demand_of(pod.pod, pod.namespace, quota.counting) if quota.covers(pod.namespace) else None
    return Fraction(0) if demand is None else amounts(demand, quota).get(limit, Fraction(0))


_MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
_FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class AuditScope:
    """Where the objects of an audit come from.

    Those that name no namespace are taken to be in `namespace`. The pods of a cluster are in their quotas already;
    `scope` is how much of it is looked at.
    """

    is_cluster: bool
    namespace: str = ""
    scope: NamespaceScope = field(default_factory=NamespaceScope)


@dataclass(frozen=True, slots=True)
class Collected:
    """What was found, and how the quotas stand; those of a cluster only."""

    gathered: Gathered
    counts: Counts
    errors: tuple[DocumentError, ...]
    quotas: tuple[InUse, ...]


class Auditor:
    """Takes objects one by one and judges them by one set of policies. `owners` knows who owns an object by then.

    `now` is in seconds since 1970.
    """

    def __init__(self, surroundings: ReviewContext, owners: Owners, place: AuditScope, now: float) -> None:
        self._surroundings = surroundings
        self._owners = owners
        self._place = place
        self._now = now
        self._gathering = Deduplicator()
        self._counts = Counts()
        self._errors: list[DocumentError] = []
        self._pods: list[GpuPod] = []
        self._named: Counter[tuple[str, ...]] = Counter()

    def add(self, document: Document | DocumentError) -> None:
        """Judge an object, unless it is judged with its owner, or nothing will come of it any more."""
        if isinstance(document, DocumentError):
            self._errors.append(document)
            return
        try:
            self._count_in_quotas(document)
            if not self._is_passed_over(document):
                self._judge(document)
        except ValueError as error:
            self._errors.append(_error(document, str(error)))

    def collected(self) -> Collected:
        """Everything that was found. Called once, at the end."""
        quotas: tuple[InUse, ...] = ()
        if self._place.is_cluster:
            quotas = tuple(filter(self._sees_all_of, in_use(self._surroundings.policies, self._pods)))
        for finding in overused(quotas, self._pods, self._surroundings.policies):
            self._gathering.add(DraftFinding(finding, finding.field))
        return Collected(self._gathering.gathered(), self._counts, tuple(self._errors), quotas)

    def _judge(self, document: Document) -> None:
        item = look(document, self._place.namespace, self._surroundings, is_running=self._place.is_cluster)
        self._counts = _with(item, self._counts)
        for found in found_in(item, self._owners, self._nth(item)):
            self._gathering.add(found)

    def _nth(self, item: Item) -> int:
        """Which of the objects in its file it is that are given a name when they are created, and begin alike."""
        document = item.document
        if not document.source or _mapping(document.object.get("metadata")).get("name"):
            return 1
        name = document.source, document.api_version, document.kind, item.namespace, item.name
        self._named[name] += 1
        return self._named[name]

    def _is_passed_over(self, document: Document) -> bool:
        raw = document.object
        metadata = _mapping(raw.get("metadata"))
        if metadata.get("deletionTimestamp") is not None:
            return True
        if not is_pod(document.api_version, document.kind):
            return self._owners.is_owned_by_known(raw)
        is_mirror = _MIRROR_ANNOTATION in _mapping(metadata.get("annotations"))
        return is_mirror or _mapping(raw.get("status")).get("phase") in _FINISHED

    def _count_in_quotas(self, document: Document) -> None:
        if self._place.is_cluster and is_pod(document.api_version, document.kind):
            stored = stored_from_raw(document.object, self._surroundings.policies.accelerators)
            if stored.seen is not None and stored.ends >= self._now:
                self._pods.append(stored.seen)

    def _sees_all_of(self, quota: InUse) -> bool:
        """Whether no pods count of which it is known that they are not looked at."""
        scope, patterns = self._place.scope, quota.bound.quota.patterns
        return all(map(scope.holds, patterns)) and (not scope.namespaces or set(scope.namespaces).issuperset(patterns))


def _error(document: Document, message: str) -> DocumentError:
    """What is wrong with an object; one that is in no file is named."""
    if document.source:
        return document.error(message)
    metadata = _mapping(document.object.get("metadata"))
    place = "/".join(str(metadata[key]) for key in ("namespace", "name") if metadata.get(key))
    return DocumentError("", document.number, None, f"{document.kind} {place}: {message}")


def _with(item: Item, counts: Counts) -> Counts:
    """The counts with one more object."""
    if item.policy is None:
        return replace(counts, others=counts.others + 1)
    name = "workloads" if item.outcome is None else "pods"
    counts = replace(counts, **{name: getattr(counts, name) + 1})
    if any(pods.template.is_queued and pods.gpus for pods in item.pods):
        counts = replace(counts, queued=counts.queued + 1)
    if not item.is_allowed:
        return replace(counts, refused=counts.refused + 1)
    if any(finding.warns for finding in item.findings):
        return replace(counts, warned=counts.warned + 1)
    return replace(counts, completed=counts.completed + 1) if item.is_completed else counts


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
