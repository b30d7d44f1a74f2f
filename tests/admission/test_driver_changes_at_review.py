"""The moment at which a pool gets its next driver: warned before, judged by it after, in every command alike."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.build import against, request
from tests.policy.conftest import policy_text
from tests.rules.samples import container, pod
from webhook.admission import phases
from webhook.audit.documents import Document
from webhook.audit.review_objects import review
from webhook.facts.facts import ClusterFacts
from webhook.policy.loader import load
from webhook.policy.policy_set import PolicySet

DECEMBER = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
FACTS = ClusterFacts.of([])
POOLS = """  nodePools:
  - name: v100
    labels: {pool: v100}
    driver: "580.95.05"
    product: Tesla-V100-SXM2-32GB
    next: {driver: "595.71.05", from: "2026-12-01"}
"""


@pytest.fixture
def policies(tmp_path: Path) -> PolicySet:
    """Pods are refused that no node can run, and there is one pool that will be upgraded."""
    text = policy_text("_default", "cudaDriver: {mode: enforce}").replace("spec:\n", f"spec:\n{POOLS}")
    (tmp_path / "_default.yaml").write_text(text)
    return load(tmp_path)


def of_job(name: str) -> dict[str, Any]:
    """One of the pods that a Job makes."""
    raw = pod(container(gpus=1, image="nvidia/cuda:12.4.1-base-ubuntu22.04"))
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-1", "controller": True}
    return raw | {"metadata": {"name": name, "namespace": "team", "ownerReferences": [owner]}}


def test_a_pod_is_warned_before_the_day_and_refused_from_then_on(policies: PolicySet) -> None:
    """Volta has no driver after 580. No warning ever becomes a refusal before the day."""
    before = phases.validate(request(of_job("p"), namespace="team"), policies, FACTS, DECEMBER - 1)
    after = phases.validate(request(of_job("p"), namespace="team"), policies, FACTS, DECEMBER)
    assert (before.result, after.result) == ("allowed", "refused")
    (warning,) = before.answer.warnings
    assert warning.startswith("cudaDriver: ")
    assert ": from 1 December 2026 on, nodes of pool v100 have driver 595.71.05; " in warning
    assert ", and will not run there" in warning
    assert "driver branch 580 is the last for compute capability 7.0" in after.answer.message
    assert "December" not in after.answer.message


@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
def test_reviews_and_audits_judge_by_the_moment_that_they_are_given(policies: PolicySet, kind: str) -> None:
    raw = of_job("p")
    raw["metadata"].pop("ownerReferences")
    if kind == "Deployment":
        spec = {"selector": {}, "template": {"metadata": {}, "spec": raw["spec"]}}
        raw = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "d", "namespace": "team"}, "spec": spec}
    found = {}
    for now in (DECEMBER - 1, DECEMBER):
        document = Document("m.yaml", 1, 1, raw)
        (item,) = review([document], "team", replace(against(policies, FACTS), now=now)).items
        found[now] = [(finding.kind, "December" in finding.message) for finding in item.findings]
    assert found == {DECEMBER - 1: [("advice", True)], DECEMBER: [("violation", False)]}


def test_a_workload_that_is_applied_is_warned_as_its_pods_will_be(policies: PolicySet) -> None:
    spec = {"selector": {}, "template": {"metadata": {}, "spec": of_job("p")["spec"]}}
    raw = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    asked = request(raw, namespace="team")
    before, after = (phases.workloads(asked, policies, FACTS, now) for now in (DECEMBER - 1, DECEMBER))
    assert "from 1 December 2026 on" in str(before.answer.warnings)
    assert "December" not in str(after.answer.warnings)
    assert "is the last for compute capability 7.0" in str(after.answer.warnings)
