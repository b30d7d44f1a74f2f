"""Reviews and audits of files have findings about resource claims, and templates of claims, as about other objects."""

from typing import Any

import pytest

from tests.audit.audits import audited
from tests.build import NAMESPACE, against, pod, policies
from tests.facts.samples import device_class
from webhook.audit.documents import Document
from webhook.audit.report import Counts, Level
from webhook.audit.review_objects import review
from webhook.facts.facts import ClusterFacts

TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists"}


def template(name: str, *requests: Any, namespace: str = NAMESPACE) -> dict[str, Any]:
    spec = {"spec": {"devices": {"requests": [{"name": f"r{i}", **one} for i, one in enumerate(requests)]}}}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}


def exactly(device_class: str = "gpu.nvidia.com", **fields: Any) -> dict[str, Any]:
    return {"exactly": {"deviceClassName": device_class, **fields}}


def asking(*templates: str, **spec: Any) -> dict[str, Any]:
    claims = [{"name": f"c{i}", "resourceClaimTemplateName": name} for i, name in enumerate(templates)]
    own = {"tolerations": [TOLERATION], "resourceClaims": claims, **spec}
    return pod(0, spec=own)


STRICT = policies({"resourceClaims": {"deviceClasses": {"denied": ["*.example.com"]}}})
BAD = template("gpus", exactly(), exactly("h200.example.com"))
GOOD = template("gpus", exactly())
PLACE = "spec.spec.devices.requests[1].exactly.deviceClassName"


def test_an_audit_has_the_finding_at_the_place_in_the_object() -> None:
    report = audited(BAD, using=STRICT)
    (finding,) = report.findings
    assert (finding.level, finding.rule, finding.field) == (Level.REFUSE, "resourceClaims", PLACE)
    assert (finding.object.kind, finding.owner.name, finding.policy) == ("ResourceClaimTemplate", "gpus", "_default")
    assert (report.counts, report.exit_status()) == (Counts(claims=1, refused=1), 1)


@pytest.mark.parametrize(("mode", "counts"), [("warn", Counts(claims=1, warned=1)), ("audit", Counts(claims=1))])
def test_the_mode_of_the_rule_counts(mode: str, counts: Counts) -> None:
    denied: dict[str, Any] = {"mode": mode, "deviceClasses": {"denied": ["*.example.com"]}}
    report = audited(BAD, using=policies({"resourceClaims": denied}))
    assert (report.counts, len(report.findings)) == (counts, 1)


def test_claims_that_nothing_is_wrong_with_are_counted() -> None:
    report = audited(GOOD, asking("gpus"), using=policies({"resourceClaims": {}}))
    assert report.counts == Counts(pods=1, claims=1)


def test_a_review_refuses_the_object_and_its_pods() -> None:
    documents = [Document("f.yaml", number, number, raw) for number, raw in enumerate([BAD, GOOD], start=1)]
    reviewed = review(documents, NAMESPACE, against(STRICT))
    assert [item.is_allowed for item in reviewed.items] == [False, True]
    assert [item.title for item in reviewed.items] == [f"ResourceClaimTemplate {NAMESPACE}/gpus"] * 2
    assert reviewed.exit_status == 1


def test_a_device_class_in_the_input_is_no_class_that_the_cluster_does_not_have() -> None:
    using, facts = policies({"schedulable": {"mode": "warn"}}), ClusterFacts.of(device_classes=[device_class("other")])
    objects = [template("t", exactly("own.example.com")), asking("t")]
    assert "schedulable" in {one.rule for one in audited(*objects, using=using, facts=facts).findings}
    own = device_class("own.example.com")
    assert "schedulable" not in {one.rule for one in audited(*objects, own, using=using, facts=facts).findings}
