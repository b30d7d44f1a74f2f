"""What is read of a workload, its parts and its pods, and the one reason that comes of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.facts.fake_api_server import always
from tests.facts.served_kinds import aggregated
from tests.why.samples import POLICIES, node, pod, workload
from tests.why.small_cluster import SERVED, SmallCluster, named, owned_by, small_cluster
from webhook.why.explanation import MissingAnswer
from webhook.why.targets import TargetError

Raw = dict[str, Any]

REFUSED = (
    'Error creating: admission webhook "validate.gpupolicy.dev" denied the request: '
    "gpuLimits: spec: requests 9 nvidia.com/gpu; at most 8 are allowed. Request 8."
)
RUNS = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
BACK_OFF = {"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
LARGE = "meta-llama/Llama-3.1-405B-Instruct"
UNKNOWN = MissingAnswer("get", "configmaps", "gpu-policy", "the policies")


def pulls(reason: str) -> Raw:
    """The status of a pod whose image cannot be pulled."""
    state = {"waiting": {"reason": reason, "message": "no such image"}}
    return {"phase": "Pending", "containerStatuses": [{"name": "main", "image": "i:1", "state": state}]}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SmallCluster]:
    with small_cluster(tmp_path) as cluster:
        cluster.add(node("n"))
        yield cluster


def job_set(cluster: SmallCluster, jobs: int) -> list[Raw]:
    """A JobSet jb of Jobs with one pod each; returns the Jobs, the oldest first. None has a pod yet."""
    template = {"spec": workload()["spec"]}
    spec = {"replicatedJobs": [{"name": "w", "replicas": jobs, "template": template}]}
    top = named({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {}, "spec": spec}, "jb")
    cluster.add(top)
    made = []
    for number in range(jobs):
        at = f"2026-11-01T09:{number // 60:02}:{number % 60:02}Z"
        made.append(owned_by(top, named(workload(), f"jb-w-{number}", creationTimestamp=at)))
    cluster.add(*made)
    return made


def run(cluster: SmallCluster, owner: Raw, name: str, gpus: int = 1, status: Raw = RUNS, *, on: str = "n") -> None:
    cluster.add(owned_by(owner, named(pod(gpus, status=status, nodeName=on), name)))


@pytest.mark.parametrize("jobs", [5, 40])
def test_a_refused_child_is_found_however_many_newer_ones_run(cluster: SmallCluster, jobs: int) -> None:
    """The refusal went to the oldest of the Jobs; few of the others are read."""
    made = job_set(cluster, jobs)
    cluster.say(made[0], "FailedCreate", REFUSED)
    for number, one in enumerate(made[1:], start=1):
        run(cluster, one, f"jb-w-{number}-0")
    found = cluster.why("jobset/jb", POLICIES)
    assert (str(found.explanation.code), "gpuLimits" in found.explanation.message) == ("Refused", True)
    assert cluster.asked("/events") < 15


def test_a_refused_child_of_a_cron_job_is_found_while_another_runs(cluster: SmallCluster) -> None:
    """A CronJob does not say how many pods it wants; its Jobs do."""
    top = named({**workload("CronJob"), "apiVersion": "batch/v1"}, "nightly")
    top["spec"] = {"schedule": "0 1 * * *", "jobTemplate": {"spec": workload()["spec"]}}
    old, new, done = (
        owned_by(top, named(workload(), name, creationTimestamp=f"2026-11-01T0{at}:00:00Z"))
        for at, name in enumerate(("old", "new", "done"), start=1)
    )
    done["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    cluster.add(top, old, new, done)
    cluster.say(old, "FailedCreate", REFUSED)
    cluster.say(done, "FailedCreate", "an hour ago it was refused, too")
    run(cluster, new, "new-0")
    found = cluster.why("cronjob/nightly", POLICIES).explanation
    assert (str(found.code), "gpuLimits" in found.message) == ("Refused", True)


def test_the_refusal_of_a_child_that_has_all_its_pods_by_now_counts_no_more(cluster: SmallCluster) -> None:
    """Its event stays for an hour."""
    made = job_set(cluster, 3)
    cluster.say(made[0], "FailedCreate", REFUSED)
    for number, one in enumerate(made):
        run(cluster, one, f"jb-w-{number}-0")
    assert str(cluster.why("jobset/jb", POLICIES).explanation.code) == "Healthy"


def test_a_refused_rollout_is_found_beside_a_long_history(cluster: SmallCluster) -> None:
    """The newest ReplicaSet has a pod, and 30 old ones, which want none, have fewer."""
    top = named(workload("Deployment", spec={"replicas": 2}), "api")
    cluster.add(top)
    for number in range(30):
        at = {"creationTimestamp": f"2026-11-01T09:00:{number:02}Z"}
        cluster.add(owned_by(top, named(workload("ReplicaSet", spec={"replicas": 0}), f"old-{number}", **at)))
    at = {"creationTimestamp": "2026-11-01T10:00:00Z"}
    new = owned_by(top, named(workload("ReplicaSet", spec={"replicas": 2}), "new", **at))
    new["status"] = {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": REFUSED}]}
    cluster.add(new)
    run(cluster, new, "new-0")
    assert str(cluster.why("deploy/api", POLICIES).explanation.code) == "Refused"


def test_a_workload_that_lacks_pods_is_not_healthy(cluster: SmallCluster) -> None:
    """Nothing says why one of three is missing; what is known is said."""
    top = named(workload("Deployment", spec={"replicas": 3}), "api")
    part = owned_by(top, named(workload("ReplicaSet", spec={"replicas": 3}), "api-1"))
    cluster.add(top, part)
    for number in range(2):
        run(cluster, part, f"api-1-{number}")
    found = cluster.why("deploy/api", POLICIES).explanation
    assert (str(found.code), found.message) == ("TooFewPods", "it wants 3 pods, and 2 are there; nothing says why")


def test_pods_on_many_nodes_are_one_kind_of_pods(cluster: SmallCluster) -> None:
    """Nodes differ by a few KiB of memory in every cluster, and are listed instead of being read one by one."""
    top = named({**workload(), "spec": {"parallelism": 60, **workload()["spec"]}}, "wide")
    cluster.add(top)
    for number in range(60):
        one = node(f"n{number}")
        one["status"]["allocatable"]["memory"] = f"{536870912 + number * 4}Ki"
        cluster.add(one)
        run(cluster, top, f"wide-{number}", on=f"n{number}")
    found = cluster.why("job/wide", POLICIES)
    assert [(str(one.explanation.code), one.count) for one in found.pods] == [("Healthy", 60)]
    assert cluster.asked("/nodes") < 30


def test_a_fault_of_a_few_pods_is_found_behind_many_that_run(cluster: SmallCluster) -> None:
    made = job_set(cluster, 30)
    cluster.add(node("large", 32))
    for number, one in enumerate(made):
        run(cluster, one, f"jb-w-{number}-0", 1, RUNS if number < 27 else pulls("ImagePullBackOff"), on="large")
    found = cluster.why("jobset/jb", POLICIES)
    assert [(str(one.explanation.code), one.count) for one in found.pods] == [("ImageFailing", 3), ("Healthy", 27)]
    assert str(found.explanation.code) == "ImageFailing"


def test_pods_of_more_kinds_than_are_looked_at_are_explained_by_their_status(cluster: SmallCluster) -> None:
    """Each waits with words of its own; the pull fault comes last."""
    top = named({**workload(), "spec": {"parallelism": 41, **workload()["spec"]}}, "wide")
    cluster.add(top)
    for number in range(40):
        status = {"conditions": [{"type": "PodScheduled", "status": "False", "message": f"0/{number} nodes"}]}
        waiting = named(pod(schedulingGates=[{"name": f"g/{number}"}], status=status), f"w{number}")
        cluster.add(owned_by(top, waiting))
    run(cluster, top, "last", status=pulls("ErrImagePull"))
    found = cluster.why("job/wide", POLICIES)
    assert str(found.explanation.code) == "ImageFailing"
    assert sum(one.count for one in found.pods) == 41
    assert {str(one.explanation.code) for one in found.pods} == {"ImageFailing", "Gated"}


@pytest.mark.parametrize(
    ("launcher", "reason"),
    [
        pytest.param(RUNS, "Healthy", id="all run"),
        pytest.param(pulls("ImagePullBackOff"), "ImageFailing", id="the launcher has no image"),
    ],
)
def test_a_launcher_without_gpus_counts_like_the_other_pods(cluster: SmallCluster, launcher: Raw, reason: str) -> None:
    """An MPIJob, a RayCluster with a head on CPUs, and every driver with workers."""
    replicas = {
        "Launcher": {"replicas": 1, "template": {"spec": pod(0)["spec"]}},
        "Worker": {"replicas": 2, "template": {"spec": pod(1)["spec"]}},
    }
    spec = {"mpiReplicaSpecs": replicas}
    top = named({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {}, "spec": spec}, "mpi")
    cluster.add(top)
    run(cluster, top, "mpi-launcher", 0, launcher)
    run(cluster, top, "mpi-worker-0")
    run(cluster, top, "mpi-worker-1")
    found = cluster.why("mpijob/mpi", POLICIES)
    assert str(found.explanation.code) == reason
    assert not any("claims" in one.explanation.message for one in found.pods)
    assert str(cluster.why("mpi-launcher", POLICIES).explanation.code) == "NoGpus"


def test_without_the_policies_nobody_says_that_a_device_is_no_gpu(cluster: SmallCluster) -> None:
    """`accelerators.extra` may name it: what events and the scheduler say comes first."""
    template = pod(0)
    template["spec"]["containers"][0]["resources"] = {"limits": {"example.com/vgpu-8": "9"}}
    top = named(workload(spec={"template": template}), "vgpu")
    cluster.add(top)
    assert str(cluster.why("job/vgpu", UNKNOWN).explanation.code) == "NoPods"
    said = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/9 nodes are available"}]}
    waits = {**template, "status": {"phase": "Pending", **said}}
    cluster.add(owned_by(top, named(waits, "vgpu-0")))
    assert str(cluster.why("job/vgpu", UNKNOWN).explanation.code) == "Unschedulable"
    assert str(cluster.why("vgpu-0", UNKNOWN).explanation.code) == "Unschedulable"
    assert str(cluster.why("job/vgpu", POLICIES).explanation.code) == "NoGpus"


@pytest.mark.parametrize("policies", [POLICIES, UNKNOWN], ids=["with policies", "without"])
def test_a_refusal_counts_whether_or_not_gpus_are_known(cluster: SmallCluster, policies: Any) -> None:
    top = named(workload(spec={"template": {"spec": pod(0)["spec"]}}), "plain")
    cluster.add(top)
    assert str(cluster.why("job/plain", policies).explanation.code) == "NoGpus"
    cluster.say(top, "FailedCreate", REFUSED)
    assert str(cluster.why("job/plain", policies).explanation.code) == "Refused"


def test_a_suspended_cron_job_whose_jobs_run_is_told_by_their_pods(cluster: SmallCluster) -> None:
    """`suspend` stops no Job that exists; an audit says the same."""
    top = named({**workload("CronJob"), "apiVersion": "batch/v1"}, "nightly")
    top["spec"] = {"schedule": "0 1 * * *", "suspend": True, "jobTemplate": {"spec": workload()["spec"]}}
    child = owned_by(top, named(workload(), "nightly-1"))
    cluster.add(top, child)
    assert str(cluster.why("cronjob/nightly", POLICIES).explanation.code) == "Suspended"
    cluster.add(owned_by(child, named(pod(nodeSelector={"no": "where"}), "nightly-1-0")))
    assert str(cluster.why("cronjob/nightly", POLICIES).explanation.code) == "FitsNowhere"


def test_a_node_with_fewer_gpus_than_its_pods_request_is_found_whatever_is_asked_about(cluster: SmallCluster) -> None:
    """Also where no pod waits; only the pods of that node are read for it."""
    cluster.add(node("small", 1))
    cluster.add(*(named(pod(nodeName="small", status=RUNS), name) for name in ("s1", "s2")))
    for name in ("s1", "s2"):
        assert str(cluster.why(name, POLICIES).explanation.code) == "WithoutGpu"


def test_of_a_pod_that_crashes_its_node_is_read_and_no_other(cluster: SmallCluster) -> None:
    crashes = pod(2, nodeName="n", status={"phase": "Running", "containerStatuses": [BACK_OFF]})
    crashes["spec"]["containers"][0] |= {"image": "vllm/vllm-openai:v0.11.0", "args": ["--model", LARGE]}
    cluster.add(named(crashes, "big"))
    found = cluster.why("big", POLICIES).explanation
    assert any("2 H100-80GB have 160 GB" in one.message for one in found.evidence), found
    assert found.remedy.startswith("Request more or larger GPUs")
    assert cluster.asked("/nodes?") == 0


def test_a_name_that_is_not_found_says_which_kinds_nobody_could_look_at(cluster: SmallCluster) -> None:
    cluster.server.under = {"/apis/kubeflow.org/v1/": always(403, {"message": "forbidden"}), **cluster.server.under}
    with pytest.raises(TargetError, match=r"among the kinds that could be read.*`get pytorchjobs.kubeflow.org`"):
        cluster.why("train", POLICIES)


def test_a_group_that_does_not_answer_is_no_group_that_is_not_there(cluster: SmallCluster) -> None:
    cluster.server.instead["/apis"] = aggregated({**SERVED, "batch": [("v1", None)]})
    cluster.server.under = {"/apis/batch/v1": always(503, {"message": "no backend"}), **cluster.server.under}
    for target in ("job/train", "train"):
        with pytest.raises(TargetError, match=r"whether the cluster has .*batch.* is not known"):
            cluster.why(target, POLICIES)
