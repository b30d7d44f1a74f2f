"""Gated pods, and pods of groups: the quota says of them what it says when they start."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.admission.quota_desk import shared_quotas_file
from tests.build import policy
from tests.facts.fake_api_server import always
from tests.why.samples import POLICIES, node, pod, workload
from tests.why.small_cluster import SmallCluster, named, owned_by, small_cluster
from webhook.policy.loader import load
from webhook.policy.policy_set import PolicySet
from webhook.why.explanation import Explanation, MissingAnswer

Raw = dict[str, Any]

QUOTA = PolicySet.of(policy({}), {"team": policy({"gpuQuota": {"gpus": 4}}, name="team")})
UNKNOWN = MissingAnswer("get", "configmaps", "gpu-policy", "the policies")
KUEUE: Raw = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
GATED: Raw = {"schedulingGates": [{"name": "example.com/later"}]}
IN_GROUP: Raw = {"schedulingGroup": {"podGroupName": "ga"}}
RUNS: Raw = {"status": {"phase": "Running"}, "nodeName": "n"}
FORBIDDEN = always(403, {"message": "forbidden"})
OVER = "gpuQuota: spec: exceeded GPU quota 'team': "
ALONE = f"{OVER}requested 2, used 3 of 4 (1 free); largest: running 3; free some or request 1."
GROUP = "PodGroup ga needs {0} GPUs for {0} pods together; used {1} of 4 ({2} free); largest: running 3"
LESS = "; free some, or let PodGroup ga start with fewer pods, or request less in each."
NO_START, NO_ROOM = "the GPU quota does not let it start: ", "the GPU quota has no room for the rest of its group: "


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SmallCluster]:
    with small_cluster(tmp_path) as cluster:
        cluster.add(node("n"))
        yield cluster


def running(gpus: int) -> Raw:
    return pod(gpus, "running", **RUNS)


def group(size: int = 3, **status: Any) -> Raw:
    spec = {"schedulingPolicy": {"gang": {"minCount": size}}}
    head = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {}}
    return {**named(head, "ga"), "spec": spec, "status": status}


def told(found: Explanation) -> list[str]:
    return [clue.message for clue in found.evidence if clue.source in ("group", "GPU quota")]


MEMBER, STARTED = pod(1, **IN_GROUP), {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}]}
REST = f"{OVER}{GROUP.format(2, 4, 0)}, train-0 1{LESS}"
THERE = "{} of the 3 pods of PodGroup ga are there"
CASES: dict[str, tuple[list[Raw], str, str, list[str]]] = {
    "a gate of anybody": ([pod(2, **GATED), running(3)], "OverQuota", NO_START + ALONE, []),
    "a gate of Kueue": ([pod(2, **KUEUE), running(3)], "OverQuota", NO_START + ALONE, []),
    "room for a gated pod": ([pod(1, **GATED), running(3)], "Gated", "", []),
    "gated pods use nothing": ([pod(2, **GATED), pod(3, "other", **GATED)], "Gated", "", []),
    "a gated pod of a group": (
        [pod(1, **GATED, **IN_GROUP), group(), running(3)],
        *("OverQuota", f"{NO_START}{OVER}{GROUP.format(3, 3, 1)}{LESS}", [THERE.format(0)]),
    ),
    "the rest of a group": ([MEMBER, group(), running(3)], "OverQuota", NO_ROOM + REST, [THERE.format(1)]),
    "room for the rest": ([MEMBER, group(), running(1)], "NotScheduled", "", [THERE.format(1)]),
    "a group that is whole": ([MEMBER, group(1), running(4)], "NotScheduled", "", []),
    "a group that was whole": ([MEMBER, group(**STARTED), running(4)], "NotScheduled", "", []),
    "no such group": ([MEMBER, running(4)], "NotScheduled", "", []),
    "a pod that runs": ([pod(1, **IN_GROUP, **RUNS), group(), running(3)], "Healthy", "", [THERE.format(1), REST]),
}


@pytest.mark.parametrize(("objects", "reason", "message", "clues"), CASES.values(), ids=CASES)
def test_a_pod_is_told_what_its_quota_would_say(
    cluster: SmallCluster, objects: list[Raw], reason: str, message: str, clues: list[str]
) -> None:
    cluster.add(*objects)
    answer = cluster.why("train-0", QUOTA)
    found = answer.explanation
    assert (str(found.code), answer.missing) == (reason, ())
    assert message in ("", found.message)
    assert all(one.startswith(part) for one, part in zip(told(found), clues, strict=True))


def test_what_its_queue_says_comes_before_its_quota(cluster: SmallCluster) -> None:
    """Kueue has admitted nothing yet, and says why."""
    waiting, said = pod(2, **KUEUE), {"type": "QuotaReserved", "status": "False", "message": "no flavor fits"}
    entry = named({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {}}, "w")
    cluster.add(waiting, running(3), owned_by(waiting, {**entry, "status": {"conditions": [said]}}))
    found = cluster.why("train-0", QUOTA).explanation
    assert (str(found.code), "no flavor fits" in found.message, told(found)) == ("Queued", True, [ALONE])


def test_without_the_policies_the_event_on_a_gated_pod_tells(cluster: SmallCluster) -> None:
    waiting = pod(2, **GATED)
    cluster.add(waiting)
    cluster.say(waiting, "GpuPolicyWarning", f"may not start: {ALONE}")
    found = cluster.why("train-0", UNKNOWN).explanation
    assert (str(found.code), found.message) == ("OverQuota", NO_START + ALONE)


@pytest.mark.parametrize(
    ("path", "right"),
    [
        ("/apis/scheduling.k8s.io/v1beta1/namespaces/team/podgroups/ga", "get podgroups.scheduling.k8s.io"),
        ("/api/v1/namespaces/team/pods", "list pods"),
    ],
)
def test_what_may_not_be_read_of_a_group_is_said(cluster: SmallCluster, path: str, right: str) -> None:
    cluster.server.instead[path] = FORBIDDEN
    cluster.add(MEMBER, group(), running(4))
    answer = cluster.why("train-0", QUOTA)
    assert str(answer.explanation.code) == "NotScheduled"
    assert [one.right for one in answer.missing] == [f"`{right}` in namespace team"]


def test_shared_quotas_need_the_pods_of_all_namespaces(cluster: SmallCluster, tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    shared_quotas_file(tmp_path / "policies", {"name": "all", "namespaces": ["*"], "gpus": 4})
    shared = load(tmp_path / "policies")
    cluster.add(pod(2, **GATED), running(3))
    assert "GPU quota 'all'" in cluster.why("train-0", shared).explanation.message
    cluster.server.instead["/api/v1/pods"] = FORBIDDEN
    answer = cluster.why("train-0", shared)
    assert str(answer.explanation.code) == "Gated"
    assert [one.right for one in answer.missing] == ["`list pods` in the cluster"]


@pytest.mark.parametrize(
    ("used", "pods", "reason", "message"),
    [
        pytest.param(3, 0, "OverQuota", "JobSet jb needs 2 GPUs for 2 pods together; used 3 of 4 (1 free)", id="none"),
        pytest.param(3, 1, "OverQuota", "requested 1, used 4 of 4 (0 free)", id="half of it is there"),
        pytest.param(2, 0, "NoPods", "it has no pods, and nothing says why", id="room"),
        pytest.param(2, 1, "NotScheduled", "the scheduler default-scheduler has not looked at it yet", id="for half"),
    ],
)
def test_a_workload_that_lacks_pods_without_an_event_is_told_of_its_group(
    cluster: SmallCluster, used: int, pods: int, reason: str, message: str
) -> None:
    jobs = [{"name": "w", "replicas": 2, "template": {"spec": workload()["spec"]}}]
    head = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {}}
    top = {**named(head, "jb"), "spec": {"replicatedJobs": jobs}}
    said = {"jobset-name": "jb", "jobset-uid": "jb", "replicatedjob-name": "w"}
    labels = {f"jobset.sigs.k8s.io/{key}": value for key, value in said.items()}
    own = owned_by(top, pod(1))
    cluster.add(
        top,
        running(used),
        pod(8, "gated-0", **GATED),
        *[{**own, "metadata": {**own["metadata"], "labels": labels}}] * pods,
    )
    found = cluster.why("jobset/jb", QUOTA).explanation
    assert (str(found.code), message in found.message) == (reason, True), found.message
    assert "gated-0" not in str(found.evidence)  # it holds nothing


@pytest.mark.parametrize(("target", "reason"), [("train-0", "Gated"), ("deploy/train", "NoPods")])
def test_no_limit_of_a_model_counts_before_the_model_is_selected(
    cluster: SmallCluster, target: str, reason: str
) -> None:
    """Kueue selects a flavor for a pod, and a policy the nodes for the pods of a workload."""
    required = [{"key": "nvidia.com/gpu.product", "operator": "In", "values": ["Tesla-T4"]}]
    rules = {"gpuQuota": {"byModel": {"H100": 0, "T4": 4}}, "nodeAffinity": {"required": required}}
    other = node("t")
    other["metadata"]["labels"]["nvidia.com/gpu.product"] = "Tesla-T4"
    cluster.add(other, pod(1, **GATED), {**workload("Deployment"), "metadata": named(workload(), "train")["metadata"]})
    found = cluster.why(target, PolicySet.of(policy({}), {"team": policy(rules, name="team")})).explanation
    assert str(found.code) == reason, found.message


def test_without_a_quota_no_group_is_read(cluster: SmallCluster) -> None:
    cluster.add(MEMBER, group())
    cluster.why("train-0", POLICIES)
    assert cluster.asked("podgroups") == 0
