"""Situations in which somebody holds a GPU workload back: gates, queues, and people who suspend it."""

from tests.e2e.objects import deployment, gpu_pod, job
from tests.e2e.why_stage import KAI, KUEUE, VOLCANO, Raw, Situation, Stage


def gated(stage: Stage) -> str:
    stage.create(gpu_pod("train-0", 1, schedulingGates=[{"name": "example.com/data-is-there"}]))
    return "train-0"


def gated_by_kueue(stage: Stage) -> str:
    made = gpu_pod("train-0", 1, schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    made["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    in_kueue(stage, stage.create(made))
    return "pod/train-0"


def suspended_by_kueue(stage: Stage) -> str:
    made = job("train", gpu_pod("p", 1))
    made["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    made["spec"]["suspend"] = True
    in_kueue(stage, stage.create(made))
    return "job/train"


def in_kueue(stage: Stage, owner: Raw) -> None:
    reference = {
        "apiVersion": "v1",
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    message = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100"
    made = KUEUE.made("train-1", {"queueName": "team"}, ownerReferences=[reference])
    condition = {
        "type": "QuotaReserved",
        "status": "False",
        "reason": "Pending",
        "message": f"{message}, 1 more needed",
    }
    stage.create({**made, "status": {"conditions": [condition]}})


def queued_by_kai(stage: Stage) -> str:
    group = KAI.made("pg-train", {"queue": "team-a"})
    condition = {
        "type": "UnschedulableOnNodePool",
        "status": "True",
        "message": "OverLimit: team-a quota has reached the limit of 8 GPUs",
    }
    stage.create({**group, "status": {"schedulingConditions": [condition]}})
    made = gpu_pod("train-0", 1, schedulerName="kai-scheduler")
    made["metadata"]["annotations"] = {"pod-group-name": "pg-train"}
    stage.create(made)
    return "train-0"


def queued_by_volcano(stage: Stage) -> str:
    group = VOLCANO.made("pg-train", {"queue": "default", "minMember": 2})
    condition = {
        "type": "Unschedulable",
        "status": "True",
        "message": "2/2 tasks in gang unschedulable: pod group is not ready",
    }
    stage.create({**group, "status": {"phase": "Inqueue", "conditions": [condition]}})
    made = gpu_pod("train-0", 1, schedulerName="volcano")
    made["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "pg-train"}
    stage.create(made)
    return "train-0"


def suspended(stage: Stage) -> str:
    made = job("train", gpu_pod("p", 1))
    made["spec"]["suspend"] = True
    stage.create(made)
    return "jobs.batch/train"


def scaled_to_zero(stage: Stage) -> str:
    made = deployment("api", gpu_pod("p", 1))
    made["spec"]["replicas"] = 0
    stage.create(made)
    return "deployments/api"


def paused(stage: Stage) -> str:
    made = deployment("api", gpu_pod("p", 1))
    made["spec"]["paused"] = True
    stage.create(made)
    return "deployment.apps/api"


SITUATIONS = (
    Situation("a scheduling gate", gated, "Gated", ("example.com/data-is-there",)),
    Situation("a gate of Kueue", gated_by_kueue, "Queued", ("Kueue", "queue team", "1 more needed")),
    Situation("a Job that Kueue suspends", suspended_by_kueue, "Queued", ("Kueue", "1 more needed")),
    Situation("a queue of KAI", queued_by_kai, "Queued", ("KAI", "team-a", "limit of 8 GPUs")),
    Situation("a queue of Volcano", queued_by_volcano, "Queued", ("Volcano", "gang unschedulable")),
    Situation("a suspended Job", suspended, "Suspended", ("suspend",)),
    Situation("no replicas", scaled_to_zero, "ScaledToZero", ("replicas: 0", "kubectl scale deployment api")),
    Situation("a paused Deployment", paused, "Paused", ("kubectl rollout resume deployment api",)),
)
