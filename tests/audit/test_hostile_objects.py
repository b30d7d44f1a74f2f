"""What tenants write makes an audit neither lie, nor grow."""

from uuid import UUID

import pytest

from tests.audit.audits import audited, audited_in_a_cluster, stored
from tests.build import container, pod, policies
from webhook.audit.report import Running
from webhook.engine.running_rules import MOST_OF_A_RULE
from webhook.policy.policy_set import PolicySet

FOUR = policies({"gpuLimits": {"maxPerPod": 4}})
TOLERATING = policies({"tolerations": {}})


def test_an_owner_of_no_namespace_joins_nothing_that_is_in_two() -> None:
    """Whoever owns them, the people of a namespace are told of its pods, and nobody else is."""
    owner = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "c", "uid": str(UUID(int=1))}}
    pods = [stored(pod(9, namespace=namespace), n, owner) for n, namespace in enumerate(("a", "b"), start=2)]
    report = audited_in_a_cluster(owner, *pods, using=FOUR)
    assert [(one.owner.title, one.object.title, one.running) for one in report.findings] == [
        ("ClusterPolicy c", "Pod a/trainer", Running(1, ("trainer",))),
        ("ClusterPolicy c", "Pod b/trainer", Running(1, ("trainer",))),
    ]
    assert len({one.id for one in report.findings}) == 2


def test_of_thousands_of_findings_in_one_pod_it_is_said_how_many_are_left_out() -> None:
    containers = [container(f"c{n}", requests={"nvidia.com/gpu": 1}) for n in range(3000)]
    report = audited(pod(spec={"containers": containers}), using=policies({"gpuLimits": {}}))
    assert len({one.id for one in report.findings}) == len(report.findings) == MOST_OF_A_RULE + 1
    assert report.findings[0].message == f"{3000 - MOST_OF_A_RULE} more findings of this rule"


@pytest.mark.parametrize("rules", [FOUR, TOLERATING], ids=["refused", "completed"])
def test_a_name_of_a_megabyte_in_a_custom_resource_is_not_kept(rules: PolicySet) -> None:
    made = {"replicas": 1, "template": {"spec": {"template": {"spec": pod(9)["spec"]}}}}
    head = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "j"}}
    named = container("c" * 2**20, requests={"nvidia.com/gpu": 1})
    made["template"]["spec"]["template"]["spec"] = {"containers": [*pod(9)["spec"]["containers"], named]}
    report = audited({**head, "spec": {"replicatedJobs": [{"name": "n" * 2**20, **made}]}}, using=rules)
    assert report.findings
    assert all(len("".join(one.identity)) < 1500 for one in report.findings)


def test_thousands_of_containers_that_stand_elsewhere_in_a_workflow_are_audited() -> None:
    """Looked up one by one among all the others it would take hours."""
    sidecars = [container(f"s{n}", requests={"nvidia.com/gpu": 1}) for n in range(20_000)]
    template = {"name": "train", "container": container("main"), "sidecars": sidecars}
    raw = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "w"}}
    report = audited({**raw, "spec": {"templates": [template]}}, using=policies({"gpuLimits": {}}))
    fields = {f"spec.templates[train].sidecars[s{n}].resources" for n in range(MOST_OF_A_RULE)}
    assert {one.field for one in report.findings} >= fields
