"""Situations in which the API server makes no pods of a GPU workload: refusals and quotas."""

from tests.e2e.eventually import eventually
from tests.e2e.objects import deployment, gpu_pod, job
from tests.e2e.why_nodes import on
from tests.e2e.why_stage import JOB_SET, Situation, Stage, bound, is_ready, running


def refused_deployment(stage: Stage) -> str:
    stage.create(deployment("api", gpu_pod("p", 6, **on("good"))))
    eventually(lambda: stage.has_event("FailedCreate"))
    return "deployment/api"


def refused_job(stage: Stage) -> str:
    stage.create(job("train", gpu_pod("p", 6, **on("good"))))
    eventually(lambda: stage.has_event("FailedCreate"))
    return "job/train"


def refused_stateful_set(stage: Stage) -> str:
    made = deployment("db", gpu_pod("p", 6, **on("good")))
    stage.create({**made, "kind": "StatefulSet", "spec": {**made["spec"], "serviceName": "db"}})
    eventually(lambda: stage.has_event("FailedCreate"))
    return "sts/db"


def refused_an_hour_ago(stage: Stage) -> str:
    stage.create(deployment("api", gpu_pod("p", 6, **on("good"))))
    eventually(lambda: stage.has_event("FailedCreate"))
    return "deploy/api"


def refused_job_an_hour_ago(stage: Stage) -> str:
    made = job("train", gpu_pod("p", 6, **on("good")))
    stage.create({**made, "spec": {**made["spec"], "backoffLimit": 0}})
    eventually(lambda: stage.has_event("FailedCreate"))
    return "train"


def over_resource_quota(stage: Stage) -> str:
    hard = {"requests.nvidia.com/gpu": "1"}
    stage.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": hard}})
    eventually(lambda: stage.get("resourcequotas", "few").get("status", {}).get("hard"))
    bound(stage, "holder", "why-good", containerStatuses=running(), conditions=is_ready())
    stage.create(job("train", gpu_pod("p", 1, **on("good"))))
    eventually(lambda: stage.has_event("FailedCreate"))
    return "job/train"


def over_gpu_quota(stage: Stage) -> str:
    stage.create(job("train", gpu_pod("p", 4, **on("good"))))
    eventually(lambda: stage.has_event("FailedCreate"))
    return "job/train"


def refused_child(stage: Stage) -> str:
    """The oldest of five Jobs of a JobSet is refused; the others have their pods."""
    template = job("w", gpu_pod("p", 1, **on("good")))["spec"]
    stored = stage.create(
        JOB_SET.made("jb", {"replicatedJobs": [{"name": "w", "replicas": 5, "template": {"spec": template}}]})
    )
    owner = {key: stored[key] for key in ("apiVersion", "kind")} | {"name": "jb", "uid": stored["metadata"]["uid"]}
    for number, gpus in enumerate((6, 1, 1, 1, 1)):
        made = job(f"jb-w-{number}", gpu_pod("p", gpus, **on("good")))
        made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        stage.create(made)
        wanted = "FailedCreate" if gpus > 1 else "SuccessfulCreate"
        eventually(lambda wanted=wanted: stage.has_event(wanted))
    eventually(lambda: len(stage.plane.raw("GET", f"/api/v1/namespaces/{stage.namespace}/pods")[1]["items"]) == 4)
    return "jobset/jb"


def refused_rollout(stage: Stage) -> str:
    made = deployment("api", gpu_pod("p", 1, **on("good"), schedulerName="nobody"))
    stage.create(made)
    path = f"/apis/apps/v1/namespaces/{stage.namespace}/deployments/api"
    eventually(lambda: stage.get("deployments", "api", "/apis/apps/v1").get("status", {}).get("replicas") == 1)
    made["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "6"
    status, answer = stage.plane.raw("PATCH", path, {"spec": made["spec"]})
    assert status == 200, answer
    eventually(lambda: stage.has_event("FailedCreate"))
    return "deploy/api"


SITUATIONS = (
    Situation("a rollout that is refused", refused_rollout, "Refused", ("gpuLimits", "ReplicaSet api-")),
    Situation(
        "a refused Deployment",
        refused_deployment,
        "Refused",
        ("gpuLimits", "at most 4", "event FailedCreate of ReplicaSet api"),
    ),
    Situation(
        "a refused Job", refused_job, "Refused", ("gpuLimits", "event FailedCreate of Job train", "explained.yaml:")
    ),
    Situation("a refused StatefulSet", refused_stateful_set, "Refused", ("gpuLimits", "StatefulSet db")),
    Situation(
        "a Deployment whose refusal has left no event",
        refused_an_hour_ago,
        "Refused",
        ("gpuLimits", "condition ReplicaFailure"),
        is_forgotten=True,
    ),
    Situation(
        "a Job whose refusal has left no event",
        refused_job_an_hour_ago,
        "Refused",
        ("gpuLimits", "none is left"),
        is_forgotten=True,
    ),
    Situation("over a ResourceQuota", over_resource_quota, "OverQuota", ("ResourceQuota few", "Pod", "holder holds 1")),
    Situation("over the GPU quota", over_gpu_quota, "OverQuota", ("gpuQuota",), prefix="counted"),
    Situation("a JobSet whose oldest Job is refused", refused_child, "Refused", ("gpuLimits", "Job jb-w-0")),
)
