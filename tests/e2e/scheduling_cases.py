"""Pods, and what the scheduler does with them: bound, or pending for a reason."""

from typing import Any

import pytest

from tests.e2e.scheduling_nodes import GPU, HERE, MIG, POOL, PRODUCT, T4, TEAM_TOLERATED, asking, running
from tests.rules.samples import container, term, terms

SELECTOR, UNTOLERATED, GPUS = "node (affinity|selector)", "had (untolerated )?taint", "Insufficient nvidia.com/gpu"
ANYTHING = [{"operator": "Exists"}]
NOT_A100 = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a100"]}]}


def one_of(*parts: tuple[str, str, list[str]]) -> dict[str, Any]:
    """A pod of one GPU with required terms of one expression each."""
    return asking(1, affinity=terms(*(term(part) for part in parts)))


BOUND = {
    "one GPU": asking(1),
    "all that a node has": asking(8, also={"cpu": "96", "memory": "1000Gi", "rdma/hca": "4"}),
    "slices": asking(7, MIG, tolerations=[HERE, GPU, TEAM_TOLERATED]),
    "a label": asking(1, nodeSelector={PRODUCT: T4}),
    "a term of several": one_of((POOL, "In", ["NVIDIA-H100"]), (POOL, "In", ["training"])),
    "a larger number": one_of(("nvidia.com/gpu.memory", "Gt", ["16384"])),
    "every node but one": asking(1, affinity=terms(NOT_A100)),
    "an init container before it": running(container("a", 8), initContainers=[container("b", 8)]),
    "what its RuntimeClass adds": asking(1, runtimeClassName="kata"),
}
PENDING = {
    "too many GPUs": (asking(16), GPUS),
    "too many in all": (running(container("a", 5), container("b", 4)), GPUS),
    "too many with a sidecar": (
        running(container("a", 5), initContainers=[container("b", 4, restartPolicy="Always")]),
        GPUS,
    ),
    "a MIG profile that no node offers": (asking(1, "nvidia.com/mig-9g.90gb", tolerations=ANYTHING), "mig-9g.90gb"),
    "a vendor without nodes": (asking(1, "amd.com/gpu"), "Insufficient amd.com/gpu"),
    "too much memory": (asking(1, also={"memory": "2049Gi"}), "Insufficient memory"),
    "too much of the pod as a whole": (asking(1, resources={"limits": {"memory": "3Ti"}}), "Insufficient memory"),
    "too many network cards": (asking(1, also={"rdma/hca": "5"}), "Insufficient rdma/hca"),
    "a product that no node has": (asking(1, nodeSelector={PRODUCT: "NVIDIA-A100-SXM-80GB"}), SELECTOR),
    "a required expression": (one_of(("nvidia.com/gpu.memory", "Gt", ["90000"])), SELECTOR),
    "required terms": (one_of((PRODUCT, "In", ["tesla-t4"]), ("zone", "Exists", [])), SELECTOR),
    "an empty term": (asking(1, affinity=terms({})), SELECTOR),
    "labels of different nodes": (asking(1, nodeSelector={PRODUCT: T4, POOL: "training"}), SELECTOR),
    "more GPUs than the nodes of a product have": (asking(4, nodeSelector={PRODUCT: T4}), GPUS),
    "GPUs and a pool without any": (one_of((POOL, "In", ["web"])), GPUS),
    "more memory than nodes with these GPUs have": (asking(1, also={"memory": "1500Gi"}), "Insufficient memory"),
    "GPUs and slices": (running(container("a", 1), container("b", 1, MIG), tolerations=ANYTHING), GPUS),
    "more than the nodes of its RuntimeClass have": (asking(4, runtimeClassName="kata"), GPUS),
    "a taint that it does not tolerate": (asking(1, tolerations=[HERE]), UNTOLERATED),
    "one taint of several": (asking(1, MIG), UNTOLERATED),
}
"""Each with what the scheduler says. What the rule says of it stands in the tests of the rule."""


def each(table: dict[str, Any]) -> list[Any]:
    return [pytest.param(value, id=name) for name, value in table.items()]
