"""Audits as tests make them, of objects that were in a file or that a cluster holds."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from tests.audit.owned import reference_to
from tests.build import FACTS
from webhook.audit.auditing import Audit
from webhook.audit.documents import Document, DocumentError
from webhook.audit.object_sources import Background, ObjectSource, of_files
from webhook.audit.owners import Owners
from webhook.audit.report import AuditFinding, AuditReport, Level
from webhook.facts.facts import ClusterFacts
from webhook.policy.policy_set import PolicySet

CREATED = datetime(2026, 3, 9, 6, 30, tzinfo=UTC)

Object = Mapping[str, Any]


def audited(
    *objects: Any, using: PolicySet, against: PolicySet | None = None, facts: ClusterFacts = FACTS, **background: Any
) -> AuditReport:
    """The audit of a file with these objects, some of them documents or errors already."""
    documents = [
        one if isinstance(one, Document | DocumentError) else Document("f.yaml", number, number, one)
        for number, one in enumerate(objects, start=1)
    ]
    return report_of(of_files(documents, "default", Background(facts, **background)), using, against)


def audited_in_a_cluster(
    *objects: Object, using: PolicySet, against: PolicySet | None = None, facts: ClusterFacts = FACTS, **source: Any
) -> AuditReport:
    """The audit of a cluster that holds these objects, each of which is known as an owner from the beginning."""
    owners = Owners()
    for one in objects:
        owners.learn(one)
    documents = [Document("", number, 0, one) for number, one in enumerate(objects, start=1)]
    return report_of(ObjectSource(documents, owners, Background(facts), is_cluster=True, **source), using, against)


def report_of(source: ObjectSource, using: PolicySet, against: PolicySet | None = None) -> AuditReport:
    in_force = None if against is None else source.context(against, "in force")
    now = CREATED if source.now is None else datetime.fromtimestamp(source.now, UTC)
    audit = Audit(source, source.context(using, "policies"), now, in_force)
    for document in source.documents:
        audit.add(document)
    return audit.report()


def stored(raw: Object, number: int, owner: Object | None = None, **metadata: Any) -> dict[str, Any]:
    """The object as a cluster holds it: with a uid that follows from a number, and perhaps with an owner."""
    references = [reference_to(owner)] if owner is not None else []
    own = {"uid": str(UUID(int=number)), "ownerReferences": references, **metadata}
    return {**raw, "metadata": {**raw["metadata"], **own}}


def titles(findings: Sequence[AuditFinding]) -> list[tuple[str, str, str]]:
    return [(finding.level.value, finding.rule, finding.owner.title) for finding in findings]


def messages(report: AuditReport, level: Level) -> list[str]:
    return [finding.message for finding in report.at(level)]
