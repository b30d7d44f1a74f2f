"""Situations in which a GPU pod finds no node."""

from tests.e2e.objects import gpu_pod, pod
from tests.e2e.why_nodes import on
from tests.e2e.why_stage import Situation, Stage, bound, is_ready, running


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


def without_volume(stage: Stage) -> str:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "absent"}}
    stage.create(gpu_pod("train-0", 1, **on("good"), volumes=[volume]))
    return stage.unscheduled("train-0")


def unseen(stage: Stage) -> str:
    stage.create(gpu_pod("train-0", 1, **on("good"), schedulerName="nobody"))
    return "train-0"


SITUATIONS = (
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
    Situation("a volume that is missing", without_volume, "Unschedulable", ("absent",)),
    Situation("a scheduler that does not exist", unseen, "NotScheduled", ("nobody",)),
)
