"""An audit: objects are judged one after the other, and nothing is kept of them but what was found."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from webhook.audit.documents import Document, DocumentError
from webhook.audit.gathering import Deduplicator, DraftFinding, Gathered
from webhook.audit.listing import NamespaceScope
from webhook.audit.overuse import overused
from webhook.audit.owners import Owners
from webhook.audit.quota_report import InUse, in_use
from webhook.audit.report import Counts
from webhook.audit.review_objects import Item, ReviewContext, look
from webhook.audit.telling import found_in
from webhook.facts.gpu_pods import stored_from_raw
from webhook.ledger.ledger_store import GpuPod
from webhook.model.workloads import is_pod

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
