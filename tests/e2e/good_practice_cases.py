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
    """Something wrong, how what is said of it begins, and the same done right.

    `warned` and `refused` are what the names of namespaces begin with where it is told and where it is refused; empty
    where no policy does that.
    """

    rule: str
    wrong: Raw
    said: str
    right: Raw
    warned: str = "advised"
    refused: str = "strict"


CASES = [
    pytest.param(
        Case(
            "gpuNodesForGpuPods",
            web(),
            "spec.tolerations: lets a pod without GPUs onto 2 GPU nodes",
            web(nodeSelector={"pool": "web"}),
        ),
        id="by nodes, of a pod without GPUs",
    ),
    pytest.param(
        Case(
            "schedulable",
            trainer(tolerations=[]),
            "spec.tolerations: does not tolerate nvidia.com/gpu=present:NoSchedule",
            trainer(),
        ),
        id="by nodes, of a pod with GPUs",
    ),
    pytest.param(
        Case(
            "sharedGpus",
            trainer(2, SHARED),
            "spec.containers[main].resources: requests 2 nvidia.com/gpu.shared",
            trainer(1, SHARED),
        ),
        id="by the name of the resource",
    ),
    pytest.param(
        Case(
            "replicaSpread",
            replicas(2),
            "pod template (2 pods, 2 GPUs): spec.template.spec.topologySpreadConstraints: nothing keeps",
            replicas(2, affinity=SPREAD),
        ),
        id="of several pods together",
    ),
    pytest.param(
        Case(
            "priorityClass",
            trainer(priorityClassName="other-class"),
            "spec.priorityClassName: is other-class",
            trainer(priorityClassName="practice-batch"),
            warned="",
            refused="classed",
        ),
        id="by priority classes",
    ),
]
"""What differs in what the API server or the webhook has to know; tests of rules pin their words."""
