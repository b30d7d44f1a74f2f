"""What a workload is told of quotas that its pods pass together."""

from typing import Any

import pytest

from tests.bound_quotas import TEAM, own, shared_quota
from tests.build import FACTS, pod, policy, workload
from webhook import engine
from webhook.outcome import Finding
from webhook.policy.policy_quotas import BoundQuota

# Workloads.


def told(raw: dict[str, Any], *bound: BoundQuota) -> list[Finding]:
    """What a workload is told of quotas."""
    return list(engine.validate_workload(raw, TEAM, policy({}), FACTS, bound).findings)


def deployment(replicas: int | None, gpus: int = 2, kind: str = "Deployment") -> dict[str, Any]:
    """A workload of so many pods."""
    raw = workload(kind, pod(gpus))
    raw["spec"] |= {} if replicas is None else {"replicas": replicas}
    return raw


def test_a_deployment_whose_pods_do_not_all_fit_is_told_how_many_do() -> None:
    (finding,) = told(deployment(5), own(gpus=8))
    assert str(finding) == (
        "gpuQuota: pod template (5 pods, 10 GPUs): spec.template.spec: its 5 pods request 10 GPUs together; GPU quota "
        "'team-vision' allows 8 GPUs in all, enough for 4 of them. Run 4 or fewer, or request less in each."
    )
    assert finding.warns


@pytest.mark.parametrize(
    ("raw", "is_told"),
    [
        pytest.param(deployment(4), False, id="just fits"),
        pytest.param(deployment(5), True, id="one too many"),
        pytest.param(deployment(None), False, id="one pod"),
        pytest.param(deployment(0), False, id="none"),
        pytest.param(deployment(5, 0), False, id="without GPUs"),
        pytest.param(deployment(5, kind="StatefulSet"), True, id="StatefulSet"),
        pytest.param(deployment(5, kind="ReplicaSet"), True, id="ReplicaSet"),
        pytest.param(deployment(5, kind="DaemonSet"), False, id="DaemonSet"),
        pytest.param(workload("Job", pod(2)), False, id="Job"),
    ],
)
def test_only_a_workload_whose_pods_pass_the_quota_together_is_told(raw: dict[str, Any], is_told: bool) -> None:
    assert bool(told(raw, own(gpus=8))) is is_told


def test_a_job_of_a_cron_job_is_told_at_its_own_place() -> None:
    raw = workload("CronJob", pod(2))
    raw["spec"]["jobTemplate"]["spec"]["parallelism"] = 5
    assert [finding.field for finding in told(raw, own(gpus=8))] == ["spec.jobTemplate.spec.template.spec"]


def test_each_limit_of_each_quota_is_told() -> None:
    bound = own(gpus=8, byModel={"H100": 4}), shared_quota(byResource={"nvidia.com/gpu": 9})
    assert [finding.message.partition(";")[0] for finding in told(deployment(5), *bound)] == [
        "its 5 pods request 10 GPUs together",
        "its 5 pods request 10 H100 together",
        "its 5 pods request 10 nvidia.com/gpu together",
    ]


@pytest.mark.parametrize(("mode", "warns"), [("enforce", True), ("warn", True), ("audit", False)])
def test_a_workload_is_never_refused_for_its_number_of_pods(mode: str, warns: bool) -> None:
    (finding,) = told(deployment(5), own(gpus=8, mode=mode))
    assert (finding.refuses, finding.warns) == (False, warns)


def test_slices_of_a_workload_are_added_up_exactly() -> None:
    raw = deployment(7, 0)
    raw["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/mig-1g.10gb": 1}
    raw["spec"]["template"]["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert told(raw, own(gpus=1)) == []
    raw["spec"]["replicas"] = 8
    assert "its 8 pods request 1 1/7 GPUs together" in told(raw, own(gpus=1))[0].message


def test_a_workload_none_of_whose_pods_fits_into_a_shared_quota_is_told_what_they_would_be() -> None:
    assert [str(finding) for finding in told(deployment(1, 9), own(gpus=8), shared_quota(gpus=8))] == [
        "gpuQuota: pod template (1 pod, 9 GPUs): spec.template.spec: requests 9 GPUs; GPU quota 'research' allows 8 "
        "GPUs in all. Request 8 or fewer."
    ]


def test_a_model_that_the_policy_will_add_is_not_counted_as_open() -> None:
    product = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["Tesla-T4"]}
    using = policy({"nodeAffinity": {"required": [product]}})
    raw = deployment(5)
    assert engine.validate_workload(raw, TEAM, using, FACTS, [own(byModel={"H100": 4})]).findings == ()
    assert told(raw, own(byModel={"H100": 4}))
