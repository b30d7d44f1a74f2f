"""Pods, what the webhook says of each, and what the scheduler does with it."""

from dataclasses import dataclass

from tests.e2e.scheduling_nodes import GPU, HERE, MIG, POOL, PRODUCT, T4, TEAM_TOLERATED, Raw, asking, running
from tests.rules.samples import container, term, terms

SELECTOR = "didn't match (Pod's )?node (affinity|selector)"
UNTOLERATED = "had (untolerated )?taint"


def insufficient(resource: str) -> str:
    """How the scheduler says that nodes have not enough of a resource."""
    return f"Insufficient {resource}"


@dataclass(frozen=True)
class Case:
    """A pod and what becomes of it. `said` is what the webhook warns of, `why` what the scheduler says; none: bound."""

    id: str
    spec: Raw
    said: str = ""
    why: str = ""


BOUND = (
    Case("one GPU", asking(1)),
    Case("all that a node has", asking(8, also={"cpu": "96", "memory": "1000Gi", "rdma/hca": "4"})),
    Case("slices", asking(7, MIG, tolerations=[HERE, GPU, TEAM_TOLERATED])),
    Case("a label", asking(1, nodeSelector={PRODUCT: T4})),
    Case("a value of several", asking(1, affinity=terms(term((PRODUCT, "In", ["NVIDIA-H100", T4]))))),
    Case(
        "a term of several",
        asking(8, affinity=terms(term((POOL, "In", ["NVIDIA-H100"])), term((POOL, "In", ["training"])))),
    ),
    Case("a larger number", asking(1, affinity=terms(term(("nvidia.com/gpu.memory", "Gt", ["16384"]))))),
    Case(
        "every node but one",
        asking(1, affinity=terms({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a100"]}]})),
    ),
    Case("an init container before it", running(container("a", 8), initContainers=[container("b", 8)])),
    Case("what its RuntimeClass adds", asking(1, runtimeClassName="kata")),
)

PENDING = (
    Case(
        "too many GPUs", asking(16), "requests 16 nvidia.com/gpu; the largest node has 8", "Insufficient nvidia.com/gpu"
    ),
    Case(
        "too many in all",
        running(container("a", 5), container("b", 4)),
        "spec: requests 9 nvidia.com/gpu in all; the largest node has 8",
        insufficient("nvidia.com/gpu"),
    ),
    Case(
        "too many with a sidecar",
        running(container("a", 5), initContainers=[container("b", 4, restartPolicy="Always")]),
        "spec: requests 9 nvidia.com/gpu in all; the largest node has 8",
        insufficient("nvidia.com/gpu"),
    ),
    Case(
        "a MIG profile that no node offers",
        asking(1, "nvidia.com/mig-9g.90gb", tolerations=[{"operator": "Exists"}]),
        "requests nvidia.com/mig-9g.90gb, which no node offers; nodes offer nvidia.com/gpu and nvidia.com/mig-1g.10gb. "
        "Request what nodes offer",
        insufficient("nvidia.com/mig-9g.90gb"),
    ),
    Case(
        "a vendor without nodes", asking(1, "amd.com/gpu"), "requests amd.com/gpu, which", insufficient("amd.com/gpu")
    ),
    Case(
        "too much memory",
        asking(1, also={"memory": "2049Gi"}),
        "requests 2049Gi of memory; the largest node with nvidia.com/gpu has 1000Gi",
        insufficient("memory"),
    ),
    Case(
        "too much cpu",
        asking(1, also={"cpu": "193"}),
        "requests 193 cpu; the largest node with nvidia.com/gpu has 96",
        insufficient("cpu"),
    ),
    Case(
        "too much of the pod as a whole",
        asking(1, resources={"limits": {"memory": "3Ti"}}),
        "spec.resources: requests 3Ti of memory; the largest node with nvidia.com/gpu has 1000Gi",
        insufficient("memory"),
    ),
    Case(
        "too many network cards",
        asking(1, also={"rdma/hca": "5"}),
        "requests 5 rdma/hca; the largest node with nvidia.com/gpu has 4",
        insufficient("rdma/hca"),
    ),
    Case(
        "another device that no node has",
        asking(1, also={"example.com/fpga": "1"}),
        "requests 1 example.com/fpga; no node offers any",
        insufficient("example.com/fpga"),
    ),
    Case(
        "a product that no node has",
        asking(1, nodeSelector={PRODUCT: "NVIDIA-A100-SXM-80GB"}),
        "no node has the value NVIDIA-A100-SXM-80GB; nodes have NVIDIA-A100-SXM4-80GB, "
        "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb and Tesla-T4. Did you mean NVIDIA-A100-SXM4-80GB? Correct the value.",
        SELECTOR,
    ),
    Case(
        "a label that no node has",
        asking(1, nodeSelector={"nvidia.com/gpu-product": T4}),
        "no node has this label; nodes have nvidia.com/gpu.product. Did you mean nvidia.com/gpu.product?",
        SELECTOR,
    ),
    Case(
        "a required expression",
        asking(1, affinity=terms(term(("nvidia.com/gpu.memory", "Gt", ["90000"])))),
        "no node meets nvidia.com/gpu.memory Gt [90000]; nodes have 15360 and 81920",
        SELECTOR,
    ),
    Case(
        "required terms",
        asking(1, affinity=terms(term((PRODUCT, "In", ["tesla-t4"])), term(("zone", "Exists", [])))),
        "no node meets any of its 2 required terms",
        SELECTOR,
    ),
    Case("an empty term", asking(1, affinity=terms({})), "requires empty terms only", SELECTOR),
    Case(
        "labels of different nodes",
        asking(1, nodeSelector={PRODUCT: T4, POOL: "training"}),
        "spec: no node has example.com/pool=training and nvidia.com/gpu.product=Tesla-T4 together",
        SELECTOR,
    ),
    Case(
        "more GPUs than the nodes of a product have",
        asking(4, nodeSelector={PRODUCT: T4}),
        "requests 4 nvidia.com/gpu; the largest node with nvidia.com/gpu.product=Tesla-T4 has 1",
        insufficient("nvidia.com/gpu"),
    ),
    Case(
        "GPUs and a pool without any",
        asking(1, affinity=terms(term((POOL, "In", ["web"])))),
        "requests 1 nvidia.com/gpu; no node with example.com/pool In [web] offers any",
        insufficient("nvidia.com/gpu"),
    ),
    Case(
        "more memory than nodes with these GPUs have",
        asking(1, also={"memory": "1500Gi"}),
        "requests 1500Gi of memory; the largest node with nvidia.com/gpu has 1000Gi",
        insufficient("memory"),
    ),
    Case(
        "GPUs and slices",
        running(container("a", 1), container("b", 1, MIG), tolerations=[{"operator": "Exists"}]),
        "requests 1 nvidia.com/gpu",
        insufficient("nvidia.com/gpu"),
    ),
    Case(
        "more than the nodes of its RuntimeClass have",
        asking(4, runtimeClassName="kata"),
        "requests 4 nvidia.com/gpu; the largest node with example.com/pool=serving has 1",
        insufficient("nvidia.com/gpu"),
    ),
    Case(
        "a taint that it does not tolerate",
        asking(1, tolerations=[HERE]),
        "spec.tolerations: does not tolerate nvidia.com/gpu=present:NoSchedule; every node that fits has this taint",
        UNTOLERATED,
    ),
    Case(
        "one taint of several",
        asking(1, MIG),
        "Add the toleration {key: team, operator: Equal, value: vision, effect: NoExecute}",
        UNTOLERATED,
    ),
)
