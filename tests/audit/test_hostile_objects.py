"""What tenants write makes an audit neither lie, nor grow."""

from uuid import UUID

import pytest

from tests.audit.audits import audited, audited_in_a_cluster, stored
from tests.build import container, pod, policies
from webhook.audit.audit_findings import MOST_FINDINGS
from webhook.audit.report import Running
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


@pytest.mark.parametrize(
    ("count", "left_out"),
    [
        pytest.param(MOST_FINDINGS, None, id="as many as are told"),
        pytest.param(MOST_FINDINGS + 1, None, id="one more, which is told too"),
        pytest.param(3000, 3000 - MOST_FINDINGS - 1, id="thousands"),
    ],
)
def test_of_thousands_of_findings_in_one_object_it_is_said_how_many_are_left_out(
    count: int, left_out: int | None
) -> None:
    containers = [container(f"c{n}", requests={"nvidia.com/gpu": 1}) for n in range(count)]
    report = audited(pod(spec={"containers": containers}), using=policies({"gpuLimits": {}}))
    assert len(report.findings) == min(count, MOST_FINDINGS + 1)
    assert len({one.id for one in report.findings}) == len(report.findings)
    ends = [one.message.rpartition("; ")[2] for one in report.findings if "left out" in one.message]
    assert ends == ([] if left_out is None else [f"{left_out} more like it are left out"])


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
    fields = {f"spec.templates[train].sidecars[s{n}].resources" for n in range(MOST_FINDINGS + 1)}
    assert {one.field for one in report.findings} >= fields
