"""Nodes whose driver only ResourceSlices say, and pods that get their GPUs by claims."""

from typing import Any

from tests.facts.samples import claim, device_class, node, resource_slice
from tests.golden import each
from tests.rules.samples import container, pod
from tests.rules.test_cuda_driver import CUDA_12, CUDA_13, DRIVER, GPU, RUNTIME, excluded, gpu_pod, told
from webhook.facts.facts import ClusterFacts
from webhook.model.claims import TEMPLATE
from webhook.model.node import NodePool
from webhook.rules.rule import Advice, Violation


def unlabelled(name: str, driver: str, **labels: str) -> Any:
    """A node of which no label says the driver, and the slice that does."""
    said = {"driverVersion": driver, "cudaComputeCapability": "9.0.0"}
    return node(name, labels=labels, capacity={GPU: "8"}), resource_slice(name, name, gpus=8, attributes=said)


def test_a_driver_that_only_resource_slices_say_refuses_a_pod():
    nodes, slices = zip(*(unlabelled(name, "535.54.3") for name in ("a", "b")), strict=True)
    (found,) = told(gpu_pod(CUDA_13), ClusterFacts.of(nodes, slices=slices))
    assert isinstance(found, Violation)
    assert "2 nodes with driver 535.54.3" in str(found)
    assert not any(isinstance(one, Violation) for one in told(gpu_pod(CUDA_13), ClusterFacts.of(nodes)))
    newer, slices = unlabelled("a", "580.65.6")
    assert told(gpu_pod(CUDA_13), ClusterFacts.of([newer], slices=[slices])) == []


def test_where_labels_and_resource_slices_differ_the_driver_is_not_known():
    one, slices = unlabelled("a", "580.65.6", **{DRIVER: "535.54.03"})
    (found,) = told(gpu_pod(CUDA_13), ClusterFacts.of([one], slices=[slices]), unknown="warn")
    assert isinstance(found, Advice)
    assert "labels say driver 535.54.03, and ResourceSlices 580.65.6" in str(found)


def test_pods_are_steered_by_labels_only():
    """The node without labels may get any, which would exclude it by what its ResourceSlices say."""
    old, of_old = unlabelled("old", "535.54.3")
    new, of_new = unlabelled("new", "580.65.6", **{RUNTIME: "13"})
    facts = ClusterFacts.of([old, new], slices=[of_old, of_new])
    assert excluded(gpu_pod(CUDA_13), facts) == []
    (found,) = told(gpu_pod(CUDA_13), facts)
    assert "and no label separates them" in str(found)


GPU_CLASS, OF_NVIDIA = "gpu.nvidia.com", "device.driver == 'gpu.nvidia.com'"
CLASSES = [
    device_class(
        GPU_CLASS, selector=f"device.driver == '{GPU_CLASS}' && device.attributes['{GPU_CLASS}'].type == 'gpu'"
    ),
    device_class("vfio", selector=f"device.driver == '{GPU_CLASS}' && device.attributes['{GPU_CLASS}'].type == 'vfio'"),
    device_class("any", selector=f"device.driver == '{GPU_CLASS}'"),
    device_class("amd", selector="device.driver == 'gpu.amd.com'"),
]

SLICE = [resource_slice("n0", "n0", attributes={"driverVersion": "535.54.3"})]


def by_dra(*drivers: str, requests: Any = (GPU_CLASS,), **more: Any) -> ClusterFacts:
    """Nodes whose GPUs only ResourceSlices offer, beside one without GPUs, and the template `t`."""
    nodes = [node(f"n{at}", labels={RUNTIME: driver.split(".")[0]}) for at, driver in enumerate(drivers)]
    slices = [
        resource_slice(f"n{at}", f"n{at}", gpus=8, attributes={"driverVersion": driver})
        for at, driver in enumerate(drivers)
    ]
    templates = [claim("t", TEMPLATE, *requests)]
    found = {"slices": slices, "device_classes": CLASSES, "templates": templates} | more
    return ClusterFacts.of([node("cpu"), *nodes], **found)


def claiming(image: str, request: str = "", **spec: Any) -> Any:
    """A pod whose container uses a claim of the template `t`, or one request of it."""
    used = {"name": "gpu", **({"request": request} if request else {})}
    raw = pod(container(image=image, resources={"claims": [used]}), **spec)
    raw["metadata"]["namespace"] = "team"
    raw["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    return raw


def test_a_pod_with_a_claim_is_refused_where_no_node_that_offers_gpus_can_run_it():
    (found,) = told(claiming(CUDA_13), by_dra("535.54.3", "550.54.15"))
    assert isinstance(found, Violation)
    assert "; none of the nodes that the pod could land on can run it: " in str(found)
    assert told(claiming(CUDA_12), by_dra("550.54.15")) == []


def test_a_pod_with_a_claim_is_kept_off_nodes_by_their_labels():
    facts = by_dra("535.54.3", "580.65.6")
    (expression,) = excluded(claiming(CUDA_13), facts)
    assert expression == {"key": RUNTIME, "operator": "NotIn", "values": ["535"]}


@each(
    "raw, facts",
    {
        "a GPU for a virtual machine": (claiming(CUDA_13), by_dra("535.54.3", requests=("vfio",))),
        "perhaps one for a virtual machine": (claiming(CUDA_13), by_dra("535.54.3", requests=("any",))),
        "a GPU of another vendor": (claiming(CUDA_13), by_dra("535.54.3", requests=("amd",))),
        "an unknown class": (claiming(CUDA_13), by_dra("535.54.3", requests=("missing",))),
        "another request": (claiming(CUDA_13, "r1"), by_dra("535.54.3", requests=(GPU_CLASS, "amd"))),
        "no slices are known": (claiming(CUDA_13), by_dra("535.54.3", slices=())),
        "no classes are known": (claiming(CUDA_13), by_dra("535.54.3", device_classes=())),
        "the template is not known": (claiming(CUDA_13), by_dra("535.54.3", templates=())),
        "GPUs that every node has": (
            claiming(CUDA_13),
            by_dra("535.54.3", slices=[*SLICE, resource_slice("a", "", allNodes=True)]),
        ),
        "no node matches": (claiming(CUDA_13, nodeSelector={"zone": "b"}), by_dra("535.54.3")),
    },
)
def test_nothing_is_said_of_a_claim_where_gpus_and_nodes_are_not_certain(raw, facts):
    assert told(raw, facts, unknown="deny") == []


def test_nothing_is_said_of_a_claim_that_only_watches_gpus():
    watching = claim("t", TEMPLATE, GPU_CLASS)
    watching["spec"]["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    assert told(claiming(CUDA_13), by_dra("535.54.3", templates=[watching]), unknown="deny") == []


def test_a_container_that_uses_a_part_of_a_claim_for_gpus_is_judged():
    assert told(claiming(CUDA_13, "r1"), by_dra("535.54.3", requests=(GPU_CLASS, GPU_CLASS)))
    assert told(claiming(CUDA_13), by_dra("535.54.3", requests=(GPU_CLASS, "amd")))
    unused = claiming(CUDA_13)
    unused["spec"]["containers"][0]["resources"] = {}
    assert told(unused, by_dra("535.54.3")) == []


def test_a_pool_of_which_nothing_is_known_may_run_a_pod_with_a_claim():
    pool = NodePool("p", gpu_resources=frozenset({GPU}))
    assert not any(
        isinstance(one, Violation) for one in told(claiming(CUDA_13), by_dra("535.54.3").with_pools((pool,)))
    )
    other = NodePool("cpu")
    assert isinstance(told(claiming(CUDA_13), by_dra("535.54.3").with_pools((other,)))[0], Violation)
