"""Situations in which a GPU workload does not run, or does: each is staged, and has one reason."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.e2e.control_plane import ControlPlane
from tests.e2e.custom_kinds import CustomKind
from tests.e2e.eventually import eventually
from tests.e2e.objects import deployment, gpu_pod, job, pod
from tests.e2e.why_nodes import on

Raw = dict[str, Any]

KUEUE = CustomKind("kueue.x-k8s.io", "v1beta1", "Workload", "workloads")
KAI = CustomKind("scheduling.run.ai", "v2alpha2", "PodGroup", "podgroups")
VOLCANO = CustomKind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups")
JOB_SET = CustomKind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
MPI_JOB = CustomKind("kubeflow.org", "v2beta1", "MPIJob", "mpijobs")
KINDS = (KUEUE, KAI, VOLCANO, JOB_SET, MPI_JOB)


@dataclass(frozen=True)
class Stage:
    """One namespace of a real cluster."""

    plane: ControlPlane
    namespace: str

    def create(self, raw: Raw, path: str = "") -> Raw:
        """Create an object, and return it as it is stored."""
        version = raw["apiVersion"]
        api = f"/api/{version}" if version == "v1" else f"/apis/{version}"
        plural = path or f"{raw['kind'].lower()}s"
        status, stored = self.plane.raw("POST", f"{api}/namespaces/{self.namespace}/{plural}", raw)
        assert status == 201, stored
        return dict(stored)

    def get(self, plural: str, name: str, api: str = "/api/v1") -> Raw:
        """An object as it is stored."""
        return dict(self.plane.raw("GET", f"{api}/namespaces/{self.namespace}/{plural}/{name}")[1])

    def set_status(self, name: str, **status: Any) -> str:
        """Write the status of a pod, as its kubelet would; returns its name."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/status"
        code, answer = self.plane.raw("PATCH", path, {"status": status})
        assert code == 200, answer
        return name

    def event(
        self, about: Raw, reason: str, message: str, kind: str = "Warning", at: str = "2026-11-01T10:00:00Z"
    ) -> None:
        """Write an event about an object."""
        reference = {"kind": about["kind"], "namespace": self.namespace, "name": about["metadata"]["name"]}
        metadata = {"generateName": "seen-", "namespace": self.namespace}
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": metadata,
            "involvedObject": {**reference, "uid": about["metadata"]["uid"]},
            "reason": reason,
            "message": message,
            "type": kind,
            "lastTimestamp": at,
            "source": {"component": "staged"},
        }
        self.create(body, "events")

    def has_event(self, reason: str) -> bool:
        """Whether there is an event of this reason in the namespace."""
        found = self.plane.raw("GET", f"/api/v1/namespaces/{self.namespace}/events")[1]["items"]
        return any(one["reason"] == reason for one in found)

    def forget_events(self) -> None:
        """Delete the events, as the API server does after an hour. Controllers that try again write new ones."""
        self.plane.raw("DELETE", f"/api/v1/namespaces/{self.namespace}/events")

    def unscheduled(self, name: str) -> str:
        """The pod, after the scheduler has said that it finds no node."""
        eventually(
            lambda: any(
                one.get("reason") == "Unschedulable" for one in self.get("pods", name)["status"].get("conditions", ())
            )
        )
        return name


@dataclass(frozen=True)
class Situation:
    """`stage` makes it and returns what to ask about; `reason` is the answer, whose texts have all of `said`.

    `prefix` is the beginning of the namespace's name. `since` is the first version of Kubernetes that can have it.
    """

    id: str
    stage: Callable[[Stage], str]
    reason: str
    said: tuple[str, ...]
    prefix: str = "explained"
    since: tuple[int, int] = (1, 20)
    is_forgotten: bool = False
    """Whether events are gone when the question comes."""


def bound(stage: Stage, name: str, node: str, phase: str = "Running", **status: Any) -> Raw:
    """A pod on a node, with a status."""
    stored = stage.create(gpu_pod(name, 1, nodeName=node))
    stage.set_status(name, phase=phase, **status)
    return stored


def waiting(reason: str, message: str = "", **more: Any) -> list[Raw]:
    """The status of a container that waits."""
    state = {"waiting": {"reason": reason, "message": message}}
    return [
        {
            "name": "main",
            "image": "registry.example/trainer:1",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": state,
            **more,
        }
    ]


def running(*, ready: bool = True) -> list[Raw]:
    """The status of a container that runs."""
    state = {"running": {"startedAt": "2026-11-01T10:00:00Z"}}
    return [
        {
            "name": "main",
            "image": "registry.example/trainer:1",
            "imageID": "x",
            "ready": ready,
            "restartCount": 0,
            "state": state,
            "started": True,
        }
    ]


def is_ready(status: str = "True") -> list[Raw]:
    """The condition of a pod that is ready, or not."""
    return [
        {
            "type": "Ready",
            "status": status,
            "message": "" if status == "True" else "containers with unready status: [main]",
        }
    ]


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


def fits_nowhere(stage: Stage) -> str:
    selector = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM"}
    stage.create(gpu_pod("train-0", 1, **{**on("good"), "nodeSelector": selector}))
    return stage.unscheduled("train-0")


def too_large(stage: Stage) -> str:
    stage.create(gpu_pod("train-0", 4, **on("mixed", nodeSelector={"kubernetes.io/hostname": "why-small"})))
    return stage.unscheduled("train-0")


def kept_off_by_cuda(stage: Stage) -> str:
    made = gpu_pod("train-0", 4, **on("mixed"))
    made["spec"]["containers"][0]["image"] = "nvidia/cuda:13.0.1-runtime-ubuntu24.04"
    stage.create(made)
    return stage.unscheduled("train-0")


def kept_off_by_policy(stage: Stage) -> str:
    stage.create(gpu_pod("train-0", 1, **on("good")))
    return stage.unscheduled("train-0")


def busy(stage: Stage) -> str:
    for number in range(3):
        bound(stage, f"holder-{number}", "why-busy", containerStatuses=running(), conditions=is_ready())
    stage.create(gpu_pod("train-0", 2, **on("busy")))
    stage.unscheduled("train-0")
    return "train-0"


def busy_by_memory(stage: Stage) -> str:
    held = pod("holder", {"requests": {"memory": "500Gi"}}, nodeName="why-small")
    stage.create(held)
    made = gpu_pod("train-0", 1, **on("mixed", nodeSelector={"kubernetes.io/hostname": "why-small"}))
    made["spec"]["containers"][0]["resources"]["limits"]["memory"] = "100Gi"
    stage.create(made)
    return stage.unscheduled("train-0")


def cordoned(stage: Stage) -> str:
    stage.create(gpu_pod("train-0", 1, **on("cordoned")))
    return stage.unscheduled("train-0")


def vanished(stage: Stage) -> str:
    stage.create(gpu_pod("train-0", 1, **on("gone")))
    return stage.unscheduled("train-0")


def kai_cannot_help(stage: Stage) -> str:
    selector = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM"}
    stage.create(gpu_pod("train-0", 1, schedulerName="kai-scheduler", nodeSelector=selector))
    return "train-0"


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


def launcher_without_image(stage: Stage) -> str:
    """The launcher requests no GPU, and its image cannot be pulled."""
    replicas = {
        "Launcher": {"replicas": 1, "template": {"spec": pod("p", {})["spec"]}},
        "Worker": {"replicas": 1, "template": {"spec": gpu_pod("p", 1)["spec"]}},
    }
    stored = stage.create(MPI_JOB.made("mpi", {"mpiReplicaSpecs": replicas}))
    owner = {key: stored[key] for key in ("apiVersion", "kind")} | {"name": "mpi", "uid": stored["metadata"]["uid"]}
    for made in (pod("mpi-launcher", {}, nodeName="why-good"), gpu_pod("mpi-worker-0", 1, nodeName="why-good")):
        made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        stage.create(made)
    stage.set_status("mpi-worker-0", phase="Running", containerStatuses=running(), conditions=is_ready())
    stage.set_status("mpi-launcher", phase="Pending", containerStatuses=waiting("ImagePullBackOff", "no such tag"))
    return "mpijob/mpi"


def without_volume(stage: Stage) -> str:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "absent"}}
    stage.create(gpu_pod("train-0", 1, **on("good"), volumes=[volume]))
    return stage.unscheduled("train-0")


def unseen(stage: Stage) -> str:
    stage.create(gpu_pod("train-0", 1, **on("good"), schedulerName="nobody"))
    return "train-0"


def image_failing(stage: Stage) -> str:
    about = bound(
        stage, "train-0", "why-good", "Pending", containerStatuses=waiting("ImagePullBackOff", "Back-off pulling image")
    )
    stage.event(about, "Failed", 'Failed to pull image "registry.example/trainer:1": not found')
    return "train-0"


def image_pulling(stage: Stage) -> str:
    about = bound(
        stage,
        "train-0",
        "why-good",
        "Pending",
        containerStatuses=waiting("ContainerCreating"),
        startTime="2026-11-01T10:00:00Z",
    )
    stage.event(about, "Pulling", 'Pulling image "registry.example/trainer:1"', "Normal")
    return "train-0"


def secret_missing(stage: Stage) -> str:
    bound(
        stage,
        "train-0",
        "why-good",
        "Pending",
        containerStatuses=waiting("CreateContainerConfigError", 'secret "token" not found'),
    )
    return "train-0"


def sandbox_failing(stage: Stage) -> str:
    about = bound(stage, "train-0", "why-good", "Pending", containerStatuses=waiting("ContainerCreating"))
    stage.event(about, "FailedCreatePodSandBox", 'no runtime for "nvidia" is configured')
    return "train-0"


def crashing(stage: Stage) -> str:
    last = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    found = waiting("CrashLoopBackOff", "back-off 5m0s", restartCount=7, lastState=last)
    bound(stage, "train-0", "why-good", containerStatuses=found, conditions=is_ready("False"))
    return "train-0"


def dark_node(stage: Stage) -> str:
    bound(stage, "train-0", "why-dark", containerStatuses=running(), conditions=is_ready())
    return "train-0"


def gone_node(stage: Stage) -> str:
    bound(stage, "train-0", "why-never", containerStatuses=running(), conditions=is_ready())
    return "train-0"


def gone_gpus(stage: Stage) -> str:
    bound(stage, "train-0", "why-gone", containerStatuses=running(), conditions=is_ready())
    return "train-0"


def turned_away(stage: Stage) -> str:
    message = (
        "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0"
    )
    bound(stage, "train-0", "why-good", "Failed", reason="UnexpectedAdmissionError", message=message)
    return "train-0"


def starting(stage: Stage) -> str:
    bound(stage, "train-0", "why-good", "Pending")
    return "train-0"


def unready(stage: Stage) -> str:
    bound(stage, "train-0", "why-good", containerStatuses=running(ready=False), conditions=is_ready("False"))
    return "train-0"


def healthy(stage: Stage) -> str:
    bound(stage, "train-0", "why-good", containerStatuses=running(), conditions=is_ready())
    return "train-0"


def finished(stage: Stage) -> str:
    bound(stage, "train-0", "why-good", "Succeeded")
    return "train-0"


def failed(stage: Stage) -> str:
    ended = [
        {
            "name": "main",
            "image": "x",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": {"exitCode": 1, "reason": "Error"}},
        }
    ]
    bound(stage, "train-0", "why-good", "Failed", containerStatuses=ended)
    return "train-0"


def without_gpus(stage: Stage) -> str:
    stage.create(pod("web", {"requests": {"cpu": "1"}}, schedulerName="nobody"))
    return "web"


def terminating(stage: Stage) -> str:
    made = gpu_pod("train-0", 1, nodeName="why-good")
    made["metadata"]["finalizers"] = ["example.com/kept"]
    stage.create(made)
    stage.plane.raw("DELETE", f"/api/v1/namespaces/{stage.namespace}/pods/train-0?gracePeriodSeconds=0")
    return "train-0"


def several_pods(stage: Stage) -> str:
    made = deployment("api", gpu_pod("p", 1, **on("good"), schedulerName="nobody"))
    made["spec"]["replicas"] = 3
    stage.create(made)

    def names() -> list[str]:
        return sorted(
            one["metadata"]["name"]
            for one in stage.plane.raw("GET", f"/api/v1/namespaces/{stage.namespace}/pods")[1]["items"]
        )

    eventually(lambda: len(names()) == 3)
    for name in names()[:2]:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"kind": "Node", "name": "why-good"},
        }
        assert stage.plane.raw("POST", f"/api/v1/namespaces/{stage.namespace}/pods/{name}/binding", binding)[0] == 201
    stage.set_status(names()[0], phase="Running", containerStatuses=running(), conditions=is_ready())
    stage.set_status(names()[1], phase="Pending", containerStatuses=waiting("ErrImagePull", "manifest unknown"))
    return "deploy/api"


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
    Situation("a scheduling gate", gated, "Gated", ("example.com/data-is-there",), since=(1, 27)),
    Situation("a gate of Kueue", gated_by_kueue, "Queued", ("Kueue", "queue team", "1 more needed"), since=(1, 27)),
    Situation("a Job that Kueue suspends", suspended_by_kueue, "Queued", ("Kueue", "1 more needed"), since=(1, 21)),
    Situation("a queue of KAI", queued_by_kai, "Queued", ("KAI", "team-a", "limit of 8 GPUs")),
    Situation("a queue of Volcano", queued_by_volcano, "Queued", ("Volcano", "gang unschedulable")),
    Situation("a suspended Job", suspended, "Suspended", ("suspend",), since=(1, 21)),
    Situation("no replicas", scaled_to_zero, "ScaledToZero", ("replicas: 0", "kubectl scale deployment api")),
    Situation("a paused Deployment", paused, "Paused", ("kubectl rollout resume deployment api",)),
    Situation("a label that no node has", fits_nowhere, "FitsNowhere", ("NVIDIA-H100-80GB-HBM3",)),
    Situation("more GPUs than a node has", too_large, "FitsNowhere", ("4 nvidia.com/gpu",)),
    Situation(
        "an image that needs another driver",
        kept_off_by_cuda,
        "KeptOff",
        ("cudaDriver", "_default.yaml:", "Tesla-V100-SXM2-32GB", "470.82.01"),
    ),
    Situation(
        "a policy that requires a label",
        kept_off_by_policy,
        "KeptOff",
        ("nodeAffinity", "placing.yaml:"),
        prefix="placing",
    ),
    Situation("GPUs in use", busy, "Busy", ("1 of 4 nvidia.com/gpu", "at most 1 on one node", "holds 3")),
    Situation("memory in use", busy_by_memory, "Busy", ("GPUs are free", "memory")),
    Situation("a cordoned node", cordoned, "NodesUnavailable", ("why-cordoned", "cordoned")),
    Situation("a node whose GPUs have vanished", vanished, "NodesUnavailable", ("offers 0 of its 4 nvidia.com/gpu",)),
    Situation("a label that no node has, under KAI", kai_cannot_help, "FitsNowhere", ("NVIDIA-H100-80GB-HBM3",)),
    Situation(
        "a JobSet whose oldest Job is refused", refused_child, "Refused", ("gpuLimits", "Job jb-w-0"), since=(1, 21)
    ),
    Situation("a launcher without GPUs and image", launcher_without_image, "ImageFailing", ("mpi-launcher",)),
    Situation("a volume that is missing", without_volume, "Unschedulable", ("absent",)),
    Situation("a scheduler that does not exist", unseen, "NotScheduled", ("nobody",)),
    Situation(
        "an image that does not exist", image_failing, "ImageFailing", ("not found", "registry.example/trainer:1")
    ),
    Situation("an image that is pulled", image_pulling, "ImagePulling", ("Pulling image",)),
    Situation("a Secret that is missing", secret_missing, "NotStarting", ('secret "token" not found',)),
    Situation("a runtime that is missing", sandbox_failing, "NotStarting", ('no runtime for "nvidia"',)),
    Situation("a container that crashes", crashing, "Crashing", ("7 restarts", "OOMKilled", "memory limit")),
    Situation("a node that is not ready", dark_node, "NodeNotReady", ("why-dark", "Kubelet stopped posting")),
    Situation("a node that is gone", gone_node, "NodeNotReady", ("why-never", "no such node")),
    Situation("GPUs that are gone", gone_gpus, "WithoutGpu", ("why-gone offers 0 nvidia.com/gpu",)),
    Situation(
        "a pod that its node turned away", turned_away, "WithoutGpu", ("UnexpectedAdmissionError", "Available: 0")
    ),
    Situation("a pod that starts", starting, "Starting", ("why-good",)),
    Situation("a pod that is not ready", unready, "NotReady", ("unready status",)),
    Situation("a pod that runs", healthy, "Healthy", ("why-good", "1 nvidia.com/gpu")),
    Situation("a pod that has finished", finished, "Finished", ("holds no GPU",)),
    Situation("a pod that has failed", failed, "Failed", ("exit code 1",)),
    Situation("a pod without GPUs", without_gpus, "NoGpus", ("requests no GPU",)),
    Situation("a pod that is being deleted", terminating, "Terminating", ("example.com/kept",)),
    Situation(
        "several pods", several_pods, "ImageFailing", ("1 of its 3 pods", "Healthy: 1 pod", "NotScheduled: 1 pod")
    ),
)
