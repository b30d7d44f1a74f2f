"""Nodes of four kinds that only pods of these tests can run on, and pods for them."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.e2e.control_plane import ControlPlane
from tests.e2e.gpu_nodes import TAINT, change, remove_node
from tests.rules.samples import container, term, terms

Raw = dict[str, Any]

PRODUCT, POOL, MIG = "nvidia.com/gpu.product", "example.com/pool", "nvidia.com/mig-1g.10gb"
A100, T4 = "NVIDIA-A100-SXM4-80GB", "Tesla-T4"
OURS = {"key": "agrees", "value": "only", "effect": "NoSchedule"}
"""A taint of every node here, which keeps away pods that other tests have left."""
TEAM = {"key": "team", "value": "vision", "effect": "NoExecute"}
NODES: dict[str, tuple[Raw, list[Raw], Raw]] = {
    "a100": (
        {PRODUCT: A100, POOL: "training", "nvidia.com/gpu.memory": "81920"},
        [TAINT],
        {"cpu": "96", "memory": "1000Gi", "nvidia.com/gpu": "8", "rdma/hca": "4"},
    ),
    "t4": (
        {PRODUCT: T4, POOL: "serving", "nvidia.com/gpu.memory": "15360"},
        [TAINT],
        {"cpu": "16", "memory": "60Gi", "nvidia.com/gpu": "1"},
    ),
    "sliced": ({PRODUCT: f"{A100}-MIG-1g.10gb"}, [TAINT, TEAM], {"cpu": "32", "memory": "500Gi", MIG: "7"}),
    "plain": ({POOL: "web"}, [], {"cpu": "192", "memory": "2Ti"}),
}
"""Labels, taints and what pods may use of each node."""
KATA = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "kata"},
    "handler": "kata",
    "scheduling": {"nodeSelector": {POOL: "serving"}, "tolerations": [{**TEAM, "operator": "Equal"}]},
}
HERE = {"operator": "Equal", **OURS}
GPU = {"key": TAINT["key"], "operator": "Exists"}
TEAM_TOLERATED = {"key": "team", "operator": "Exists"}


def asking(gpus: int, resource: str = "nvidia.com/gpu", also: Raw | None = None, **spec: Any) -> Raw:
    """The spec of a pod of one container, which tolerates what its like tolerates."""
    amounts = {resource: str(gpus), **(also or {})}
    containers = [container("main", resources={"limits": amounts, "requests": amounts})]
    return {"containers": containers, "tolerations": [HERE, GPU], **spec}


def running(*containers: Raw, **spec: Any) -> Raw:
    """The same of these containers."""
    return {**asking(0), **spec, "containers": list(containers)}


@contextmanager
def nodes_and_class(plane: ControlPlane) -> Iterator[None]:
    """The nodes and the RuntimeClass, as long as the block runs."""
    try:
        assert plane.raw("POST", "/apis/node.k8s.io/v1/runtimeclasses", KATA)[0] == 201
        for name in NODES:
            _add(plane, name)
        yield
    finally:
        plane.raw("DELETE", "/apis/node.k8s.io/v1/runtimeclasses/kata")
        for name in NODES:
            remove_node(plane, name)


def _add(plane: ControlPlane, name: str) -> None:
    labels, taints, amounts = NODES[name]
    metadata = {"name": name, "labels": {**labels, "kubernetes.io/hostname": name}}
    status, answer = plane.raw("POST", "/api/v1/nodes", {"metadata": metadata})
    assert status == 201, answer
    resources = {"pods": "110", **amounts}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    state = {"capacity": resources, "allocatable": resources, "conditions": [ready]}
    change(plane, name, {"status": state}, subresource="/status")
    change(plane, name, {"spec": {"taints": [OURS, *taints]}})  # without the one that marks new nodes as not ready


def random_spec(chance: random.Random) -> Raw:
    """The spec of a pod that wants some of what these nodes have, and now and then of what none has."""
    gpu = chance.choice(("nvidia.com/gpu", "nvidia.com/gpu", MIG))
    containers = [_random_container(chance, gpu, f"c{at}") for at in range(chance.choice((1, 1, 2)))]
    tolerations = chance.sample([GPU, GPU, TEAM_TOLERATED, {"operator": "Exists"}], chance.choice((1, 3, 3)))
    spec = running(*containers, tolerations=[HERE, *tolerations])
    if chance.random() < 0.3:
        spec["initContainers"] = [_random_container(chance, gpu, "before")]
    if chance.random() < 0.4:
        spec["affinity"] = terms(*[_random_term(chance) for _ in range(chance.randint(1, 2))])
    if chance.random() < 0.3:
        spec["nodeSelector"] = chance.choice(({PRODUCT: A100}, {PRODUCT: T4}, {POOL: "training"}, {"zone": "a"}))
    if chance.random() < 0.1 and POOL not in spec.get("nodeSelector", {}):  # Kubernetes refuses a contradiction
        spec["runtimeClassName"] = "kata"
    return spec


def _random_term(chance: random.Random) -> Raw:
    expressions = [
        (PRODUCT, chance.choice(("In", "NotIn")), chance.sample([A100, T4, "NVIDIA-H100"], 2)),
        (POOL, chance.choice(("Exists", "DoesNotExist")), []),
        (POOL, "In", [chance.choice(("training", "serving", "web"))]),
        ("nvidia.com/gpu.memory", chance.choice(("Gt", "Lt")), ["20000"]),
    ]
    return term(*chance.sample(expressions, chance.choice((1, 1, 2))))


def _random_container(chance: random.Random, gpu: str, name: str) -> Raw:
    amounts = {chance.choice((gpu, gpu, gpu, "nvidia.com/gpu")): str(chance.choice((1, 1, 1, 2, 4, 7, 8, 9)))}
    if chance.random() < 0.4:
        amounts["memory"] = chance.choice(("16Gi", "60Gi", "61Gi", "250Gi", "500Gi", "501Gi", "1000Gi", "2049Gi"))
    if chance.random() < 0.4:
        amounts["cpu"] = chance.choice(("500m", "8", "16", "32", "48", "96", "193"))
    if chance.random() < 0.1:
        amounts["rdma/hca"] = chance.choice(("1", "4", "5"))
    return container(name, resources={"limits": amounts, "requests": amounts})
