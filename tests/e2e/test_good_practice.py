"""Good practice as people meet it at `kubectl apply`: told or refused, or left in peace.

One case for each thing that the API server or the webhook has to know; tests of rules pin their words.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.applying import apply
from tests.e2e.eventually import eventually
from tests.e2e.gpu_nodes import add_node, labels, remove_node
from tests.e2e.installation import Installation
from tests.e2e.objects import deployment, pod

Raw = dict[str, Any]
GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
NODES: dict[str, tuple[dict[str, str], str, int]] = {
    "practice-a100": (labels("550.54.15", "NVIDIA-A100-SXM4-80GB", "8.0"), GPU, 4),
    "practice-t4": (labels("535.183.01", "Tesla-T4-SHARED", "7.5"), SHARED, 8),
    "practice-web": ({"pool": "web"}, GPU, 0),
}
"""Name of the node -> its labels, the resource of its GPUs, and how many it has. Those with GPUs have a taint."""
CLASSES = {"practice-training": 1000, "practice-batch": 10, "other-class": 5}
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
TOLERATIONS = [{"key": GPU, "operator": "Exists"}]


def trainer(gpus: int = 1, resource: str = GPU, **spec: Any) -> Raw:
    """A GPU pod that keeps every rule."""
    resources = {"requests": {"cpu": "4"}, "limits": {"memory": "16Gi", resource: str(gpus)}}
    return pod("trainer", resources, **{"tolerations": TOLERATIONS, **spec})


def web(**spec: Any) -> Raw:
    """A pod without GPUs that tolerates the taint of GPU nodes."""
    return pod("trainer", {"requests": {"cpu": "4"}}, **{"tolerations": TOLERATIONS, **spec})


def replicas(count: int, **spec: Any) -> Raw:
    """A Deployment of GPU pods."""
    raw = deployment("chat", trainer(**spec))
    return raw | {"spec": {**raw["spec"], "replicas": count}}


APART = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "chat"}}}
SPREAD = {
    "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": APART}]}
}
CASES = {
    "nodes, of a pod without GPUs": (
        *(web(), web(nodeSelector={"pool": "web"}), "advised", "strict"),
        "gpuNodesForGpuPods: spec.tolerations: lets a pod without GPUs onto 2 GPU nodes",
    ),
    "nodes, of a pod with GPUs": (
        *(trainer(tolerations=[]), trainer(), "advised", "strict"),
        "schedulable: spec.tolerations: does not tolerate nvidia.com/gpu=present:NoSchedule",
    ),
    "the name of the resource": (
        *(trainer(2, SHARED), trainer(1, SHARED), "advised", "strict"),
        "sharedGpus: spec.containers[main].resources: requests 2 nvidia.com/gpu.shared",
    ),
    "several pods together": (
        *(replicas(2), replicas(2, affinity=SPREAD), "advised", "strict"),
        "replicaSpread: pod template (2 pods, 2 GPUs): spec.template.spec.topologySpreadConstraints: nothing keeps",
    ),
    "priority classes": (
        *(trainer(priorityClassName="other-class"), trainer(priorityClassName="practice-batch"), "", "classed"),
        "priorityClass: spec.priorityClassName: is other-class",
    ),
}
"""What has to be known -> what breaks a rule, the same done right, the namespaces (by what their names begin with)
where it is told, if there is one, and where it is refused, and how what is said begins."""


@pytest.fixture(scope="module")
def nodes(installation: Installation) -> Iterator[None]:
    """Two kinds of GPU nodes and one for the web, and priority classes."""
    plane = installation.plane
    for name, value in CLASSES.items():
        assert plane.raw("POST", PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})[0] == 201
    for name, (found, resource, gpus) in NODES.items():
        add_node(plane, name, found, resource=resource, gpus=gpus)
    plane.namespace("advised-probe")
    yield
    for name in NODES:
        remove_node(plane, name)
    for name in CLASSES:
        plane.raw("DELETE", f"{PRIORITY_CLASSES}/{name}")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_breaks_a_rule_is_told_or_refused_and_what_keeps_it_is_not_spoken_of(
    nodes: None, webhook: Installation, make_namespace: Callable[[str], str], case: tuple[Raw, Raw, str, str, str]
) -> None:
    wrong, right, warned, refused, said = case
    plane = webhook.plane
    eventually(lambda: "onto 2 GPU nodes" in apply(plane, "advised-probe", web(), dry_run=True)[1])
    eventually(lambda: apply(plane, "advised-probe", trainer(), dry_run=True)[1] == "")
    for prefix in {warned, refused} - {""}:
        assert apply(plane, make_namespace(prefix), right) == (0, "")
    if warned:
        status, told = apply(plane, make_namespace(warned), wrong)
        assert (status, told.count("\n"), told.startswith(f"Warning: {said}")) == (0, 1, True), told
    status, told = apply(plane, make_namespace(refused), wrong)
    entry = "validate" if wrong["kind"] == "Pod" else "workloads"
    assert f'admission webhook "{entry}.gpupolicy.dev" denied the request: {said}' in told
    assert (status, told.count("\n")) == (1, 1)
