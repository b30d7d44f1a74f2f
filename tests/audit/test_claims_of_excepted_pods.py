"""An audit of a cluster judges the claims of excepted pods as the webhook does, which knows who made a claim."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.admission.test_claims_of_excepted_pods import BERT, LABELLED, NO_TEMPLATE, NOW, made
from tests.audit.audits import report_of
from tests.build import FACTS, container
from tests.engine.test_exceptions import written
from tests.facts.claim_samples import for_extended_resources, stored_claim
from tests.golden import each
from webhook.audit.documents import Document
from webhook.audit.object_sources import Background, ObjectSource
from webhook.audit.owners import Owners
from webhook.audit.report import AuditReport

POD = {**BERT, "metadata": {**BERT["metadata"], "namespace": "team"}}


def changed(**metadata: Any) -> dict[str, Any]:
    return {**POD, "metadata": {**POD["metadata"], **metadata}}


def audited(directory: Path, *objects: Mapping[str, Any]) -> AuditReport:
    """The audit of a cluster whose owners are workloads alone, in the order in which it is read: pods, then claims."""
    documents = [Document("", number, 0, raw) for number, raw in enumerate(objects, start=1)]
    source = ObjectSource(documents, Owners(), Background(FACTS), is_cluster=True, now=NOW)
    return report_of(source, written(directory, LABELLED))


def levels(report: AuditReport) -> list[tuple[str, str]]:
    return [(one.object.kind, one.level.value) for one in report.findings if one.object.kind == "ResourceClaim"]


EXTENDING = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"} | for_extended_resources(
    "p", stored_claim("c", 9, namespace="team")
)
WITH_GPUS = {
    **POD,
    "spec": {"containers": [container("main", limits={"nvidia.com/gpu": 9})]},
    "status": {"extendedResourceClaimStatus": {"resourceClaimName": "c"}},
}


@each(
    "pod, claim",
    {
        "from a template": (POD, made()),
        "for extended resources": (WITH_GPUS, EXTENDING),
        "of a pod that is being deleted": (changed(deletionTimestamp="2027-01-15T00:00:00Z"), made()),
    },
)
def test_the_claim_of_an_excepted_pod_is_skipped_with_the_name_of_the_exception(
    tmp_path: Path, pod: dict[str, Any], claim: dict[str, Any]
) -> None:
    report = audited(tmp_path, pod, claim)
    assert (levels(report), report.exit_status()) == ([("ResourceClaim", "skip")], 0)
    assert {one.exception for one in report.findings if one.object.kind == "ResourceClaim"} == {"bert-legacy"}


@each(
    "objects",
    {
        "whose pod is gone": [made()],
        "of an earlier pod of this name": [changed(uid="5bd7c0a8-6393-11e8-b7cc-42010a800002"), made()],
        "of a pod of another name": [changed(name="q"), made()],
        "of a pod without an exception": [changed(labels={}), made()],
        "that its pod names as an existing one": [{**NO_TEMPLATE, "metadata": POD["metadata"]}, made()],
        "that its pod does not name": [WITH_GPUS, made()],
        "without the annotation": [POD, made(annotations={})],
        "without an owner": [POD, made(ownerReferences=[])],
    },
)
def test_any_other_claim_is_refused(tmp_path: Path, objects: list[dict[str, Any]]) -> None:
    report = audited(tmp_path, *objects)
    assert (levels(report), report.exit_status()) == ([("ResourceClaim", "refuse")], 1)
