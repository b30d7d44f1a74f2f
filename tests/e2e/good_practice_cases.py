"""Objects that break one rule of good practice, and the same objects done right."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.gpu_nodes import labels
from tests.e2e.objects import deployment, pod

Raw = dict[str, Any]

GPU = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"
A100 = "NVIDIA-A100-SXM4-80GB"
NODES: dict[str, tuple[dict[str, str], str, int]] = {
    "practice-a100": (labels("550.54.15", A100, "8.0"), GPU, 4),
    "practice-t4": (labels("535.183.01", "Tesla-T4-SHARED", "7.5"), SHARED, 8),
    "practice-web": ({"pool": "web"}, GPU, 0),
}
"""Name of the node -> its labels, the resource of its GPUs, and how many it has. Those with GPUs have a taint."""
CLASSES = {"practice-training": 1000, "practice-batch": 10, "other-class": 5}
"""Priority classes of the cluster, each with its value."""

TOLERATIONS = [{"key": GPU, "operator": "Exists"}]


def trainer(gpus: int = 1, resource: str = GPU, **spec: Any) -> Raw:
    """A GPU pod that keeps every rule."""
    resources = {"requests": {"cpu": "4"}, "limits": {"memory": "16Gi", resource: str(gpus)}}
    return pod("trainer", resources, **{"tolerations": TOLERATIONS, **spec})


def changed(raw: Raw, **container: Any) -> Raw:
    """The pod with other keys in its container."""
    made = deepcopy(raw)
    made["spec"]["containers"][0] |= container
    return made


def notebook(**spec: Any) -> Raw:
    """A GPU pod that somebody works in."""
    raw = trainer(**spec)
    return raw | {"metadata": {"name": "trainer", "labels": {"component": "singleuser-server"}}}


def web(**spec: Any) -> Raw:
    """A pod without GPUs that tolerates the taint of GPU nodes."""
    return pod("trainer", {"requests": {"cpu": "4"}}, **{"tolerations": TOLERATIONS, **spec})


def replicas(count: int, **spec: Any) -> Raw:
    """A Deployment of GPU pods."""
    raw = deployment("chat", trainer(**spec))
    return raw | {"spec": {**raw["spec"], "replicas": count}}


SPREAD = {
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 1,
                "podAffinityTerm": {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"app": "chat"}},
                },
            }
        ]
    }
}


@dataclass(frozen=True, slots=True)
class Case:
    """Something wrong, what is said of it, and the same done right.

    `warned` and `refused` are what the names of namespaces begin with where it is told and where it is refused; empty
    where no policy does that.
    """

    rule: str
    wrong: Raw
    said: str
    right: Raw
    warned: str = "advised"
    refused: str = "strict"


MAIN = "spec.containers[main]"
CASES = [
    pytest.param(
        Case(
            "gpuNodesForGpuPods",
            web(),
            "spec.tolerations: lets a pod without GPUs onto 2 GPU nodes by tolerating nvidia.com/gpu; their cpu and "
            "memory are for GPU pods. Remove the toleration.",
            web(nodeSelector={"pool": "web"}),
        ),
        id="gpuNodesForGpuPods",
    ),
    pytest.param(
        Case(
            "schedulable",
            trainer(8),
            f"{MAIN}.resources: requests 8 nvidia.com/gpu; the largest node has 4. Request 4 or fewer in one pod, or "
            "tell the platform team.",
            trainer(4),
        ),
        id="schedulable, amount",
    ),
    pytest.param(
        Case(
            "schedulable",
            trainer(nodeSelector={"nvidia.com/gpu.product": "NVIDIA-A100-SXM-80GB"}),
            "spec.nodeSelector[nvidia.com/gpu.product]: no node has the value NVIDIA-A100-SXM-80GB; nodes have "
            f"{A100} and Tesla-T4-SHARED. Did you mean {A100}? Correct the value.",
            trainer(nodeSelector={"nvidia.com/gpu.product": A100}),
        ),
        id="schedulable, product",
    ),
    pytest.param(
        Case(
            "schedulable",
            trainer(tolerations=[]),
            "spec.tolerations: does not tolerate nvidia.com/gpu=present:NoSchedule; every node that fits has this "
            "taint. Add the toleration {key: nvidia.com/gpu, operator: Equal, value: present, effect: NoSchedule} if "
            "those nodes are for this pod.",
            trainer(),
        ),
        id="schedulable, toleration",
    ),
    pytest.param(
        Case(
            "imagePinning",
            changed(trainer(), image="registry.example/trainer"),
            f'{MAIN}.image: "registry.example/trainer" has no tag, which means latest; which image that is changes '
            "with every push. Write the tag of a version, or a digest.",
            changed(trainer(), image=f"registry.example/trainer@sha256:{'0' * 64}"),
        ),
        id="imagePinning",
    ),
    pytest.param(
        Case(
            "memoryAndCpu",
            changed(trainer(), resources={"limits": {GPU: "1"}}),
            f"{MAIN}.resources: has no memory limit and no CPU request; it can use up its node's memory and its GPUs "
            "may wait for data. Write limits.memory such as 64Gi and requests.cpu such as 8.",
            changed(trainer(), resources={"limits": {GPU: "1", "cpu": "4", "memory": "16Gi"}}),
        ),
        id="memoryAndCpu",
    ),
    pytest.param(
        Case(
            "sharedGpus",
            trainer(2, SHARED),
            f"{MAIN}.resources: requests 2 nvidia.com/gpu.shared; more than 1 does not give more compute, and a device "
            "plugin set up as NVIDIA advises refuses it. Request 1, or whole GPUs (nvidia.com/gpu).",
            trainer(1, SHARED),
            warned="",
            refused="advised",
        ),
        id="sharedGpus",
    ),
    pytest.param(
        Case(
            "replicaSpread",
            replicas(2),
            "pod template (2 pods, 2 GPUs): spec.template.spec.topologySpreadConstraints: nothing keeps the replicas "
            "apart; one node may get all of them, which then fail with it. Set it or podAntiAffinity, with topologyKey "
            "kubernetes.io/hostname.",
            replicas(2, affinity=SPREAD),
        ),
        id="replicaSpread",
    ),
    pytest.param(
        Case(
            "timeLimit",
            notebook(activeDeadlineSeconds=36_000),
            "spec.activeDeadlineSeconds: is 36000 (10h); interactive GPU pods may run for 28800 (8h) at most. Set it "
            "to 28800 or less.",
            notebook(activeDeadlineSeconds=28_800),
            warned="",
        ),
        id="timeLimit, too long",
    ),
    pytest.param(
        Case(
            "timeLimit",
            notebook(),
            "spec.activeDeadlineSeconds: is not set; interactive GPU pods may run for 28800 (8h) at most. Set it to "
            "28800 or less.",
            trainer(),
            warned="",
        ),
        id="timeLimit, missing",
    ),
    pytest.param(
        Case(
            "priorityClass",
            trainer(priorityClassName="other-class"),
            "spec.priorityClassName: is other-class; GPU pods of this namespace may have practice-*. Set it to one of "
            "them.",
            trainer(priorityClassName="practice-batch"),
            warned="",
            refused="classed",
        ),
        id="priorityClass",
    ),
]
