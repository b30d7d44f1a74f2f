"""Situations of GPU pods that have a node: images, containers, the node itself, and pods that are in order."""

from tests.e2e.eventually import eventually
from tests.e2e.objects import deployment, gpu_pod, pod
from tests.e2e.why_nodes import on
from tests.e2e.why_stage import MPI_JOB, Situation, Stage, bound, is_ready, running, waiting


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


SITUATIONS = (
    Situation("a launcher without GPUs and image", launcher_without_image, "ImageFailing", ("mpi-launcher",)),
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
