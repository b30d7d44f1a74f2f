"""Pods are warned before a node pool gets a driver that cannot run their images, and never refused for it."""

from collections.abc import Iterable
from typing import Any

from tests.facts.samples import claim, device_class, node, resource_slice
from tests.golden import each
from tests.rules.samples import container, pod, settings_of
from webhook.facts.facts import ClusterFacts
from webhook.model.claims import TEMPLATE
from webhook.model.node import NextDriver, NodePool
from webhook.model.pod_reader import pod_from_raw
from webhook.rules.cuda_driver import RULE
from webhook.rules.rule import Advice, Violation

GPU = "nvidia.com/gpu"
PRODUCT, DRIVER = "nvidia.com/gpu.product", "nvidia.com/cuda.driver-version.full"
CUDA_12 = "nvidia/cuda:12.4.1-base-ubuntu22.04"
CUDA_13 = "pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime"
V100 = {PRODUCT: "Tesla-V100-SXM2-32GB", DRIVER: "580.95.05"}
T4 = {PRODUCT: "Tesla-T4", DRIVER: "580.95.05"}
OWN = {"pool": "old"}
MAJOR = "nvidia.com/cuda.driver-version.major"


def cluster(*nodes: dict[str, str]) -> ClusterFacts:
    """A cluster with nodes of one GPU each."""
    return ClusterFacts.of(
        {"metadata": {"name": f"n{at}", "labels": labels}, "status": {"capacity": {GPU: "1"}}}
        for at, labels in enumerate(nodes)
    )


def changing(driver: str = "595.71.05", members: dict[str, str] = OWN, labels: dict[str, str] = V100) -> NodePool:
    """A pool of V100 whose driver will change on 1 December 2026."""
    own = tuple((key, driver if key.endswith("full") else driver.split(".", 1)[0]) for key in (DRIVER, MAJOR))
    change = NextDriver(driver, 1_796_083_200.0, "1 December 2026", own, tuple(members.items()))
    return NodePool("old", tuple(sorted({**labels, **OWN}.items())), (), frozenset({GPU}), None, change)


def told(
    facts: ClusterFacts, image: str = CUDA_12, pools: Iterable[NodePool] = (changing(),), **spec: Any
) -> list[Violation | Advice]:
    """What the rule says about a pod with one GPU."""
    raw = pod(container(gpus=1, image=image), **spec)
    return list(RULE.validate(pod_from_raw(raw), settings_of(RULE, {}), facts.with_pools(tuple(pools))))


def test_a_warning_names_the_day_the_pool_the_driver_and_what_to_do() -> None:
    """Volta has no driver after branch 580."""
    (advice,) = told(cluster({**V100, **OWN}, {**V100, **OWN}, T4))
    assert isinstance(advice, Advice)
    assert advice.where == "spec.containers[trainer].image"
    assert advice.found == (
        "from 1 December 2026 on, nodes of pool old have driver 595.71.05; nvidia/cuda:12.4.1-base-ubuntu22.04 needs "
        "CUDA 12.4.1 (its tag), and will not run there: 2 nodes with "
        "Tesla-V100-SXM2-32GB, driver 595.71.05: driver branch 580 is the last for compute capability 7.0 "
        "(Tesla-V100-SXM2-32GB)"
    )
    assert advice.remedy


def test_a_pod_for_which_no_node_would_be_left_is_told_so() -> None:
    (advice,) = told(cluster({**V100, **OWN}))
    assert "and will not run there, and there are no other nodes for the pod: " in advice.found


def test_a_pool_without_nodes_is_meant_as_well() -> None:
    (advice,) = told(cluster(T4))
    assert ": a pool with Tesla-V100-SXM2-32GB, driver 595.71.05: " in advice.found
    assert "no other nodes" not in advice.found


@each(
    "nodes, pool, image, spec",
    {
        "the image runs with the next driver": ([{**V100, **OWN}], changing("575.57.08"), CUDA_12, {}),
        "other": ([{**V100, "pool": "other"}], changing(), CUDA_12, {"nodeSelector": {"pool": "other"}}),
        "the pod selects others": ([T4], changing(), CUDA_12, {"nodeSelector": {PRODUCT: "Tesla-T4"}}),
        "nobody knows what the image needs": ([T4], changing(), "registry.example.com/team/app:1", {}),
        "an image that runs nowhere": ([T4], changing(), "rocm/pytorch:latest", {}),
    },
)
def test_nothing_is_said_where_nothing_is_certainly_lost(
    nodes: list[dict[str, str]], pool: NodePool, image: str, spec: dict[str, Any]
) -> None:
    assert [one.found for one in told(cluster(*nodes), image, [pool], **spec) if "December" in one.found] == []


def test_a_node_that_has_the_next_driver_already_is_judged_by_its_labels() -> None:
    """It has lost the pods by now, and nobody needs to be warned of that."""
    upgraded = {**V100, **OWN, DRIVER: "595.71.05"}
    found = told(cluster(upgraded, T4), pools=[changing(labels={**V100, PRODUCT: "Tesla-T4"})])
    assert [one.found for one in found if "December" in one.found] == []


def test_a_pod_that_no_node_can_run_now_is_refused_and_not_warned() -> None:
    """CUDA 13 has no code for Volta."""
    (violation,) = told(cluster({**V100, **OWN}), CUDA_13)
    assert isinstance(violation, Violation)
    assert "December" not in violation.found


def test_a_downgrade_is_a_change_as_well() -> None:
    """CUDA 13 needs 580, and the image has no cuda-compat."""
    (advice,) = told(cluster({**T4, **OWN}), CUDA_13, [changing("550.54.15", labels=T4)])
    assert "will not run there" in advice.found
    assert "needs driver 580.65.06 or newer" in advice.found


def test_nodes_belong_to_a_pool_by_all_its_labels_and_to_a_pool_without_labels_none_does() -> None:
    nodes = cluster({**V100, **OWN}, {**V100, "pool": "old", "zone": "b"}, T4)
    (advice,) = told(nodes, pools=[changing(members={"pool": "old", "zone": "b"})])
    assert ": 1 node with Tesla-V100-SXM2-32GB, " in advice.found
    (advice,) = told(nodes, pools=[changing(members={})])
    assert ": a pool with Tesla-V100-SXM2-32GB, " in advice.found


def test_each_pool_brings_a_warning_of_its_own() -> None:
    second = NodePool("new", (*V100.items(), ("pool", "new")), (), frozenset({GPU}), None, changing().next)
    found = told(cluster(T4), pools=[changing(), second])
    assert [one.found.partition(" have")[0] for one in found] == [
        "from 1 December 2026 on, nodes of pool old",
        "from 1 December 2026 on, nodes of pool new",
    ]


@each(
    "nodes, warnings",
    {
        "others are left among which the queue chooses": ([{**V100, **OWN}, T4], 0),
        "none is left": ([{**V100, **OWN}], 1),
    },
)
def test_a_pod_in_a_queue_is_warned_only_if_no_node_would_be_left(nodes: list[dict[str, str]], warnings: int) -> None:
    assert len(told(cluster(*nodes), schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])) == warnings


def test_the_driver_in_resource_slices_changes_with_the_labels() -> None:
    """A slice that says the old driver beside a label with the new one would make the driver unknown."""
    labels = {**T4, **OWN}
    found = resource_slice("n0", "n0", attributes={"driverVersion": "580.95.05", "cudaComputeCapability": "7.5.0"})
    facts = ClusterFacts.of(
        [{"metadata": {"name": "n0", "labels": labels}, "status": {"capacity": {GPU: "1"}}}], slices=[found]
    )
    (advice,) = told(facts, CUDA_13, [changing("550.54.15", labels=T4)])
    assert ": 1 node with Tesla-T4, driver 550.54.15: needs driver 580.65.06" in advice.found


def test_pods_that_are_alike_share_the_nodes_as_they_will_be() -> None:
    """So the verdicts about them are found again instead of made again, however many pods come."""
    facts = cluster({**V100, **OWN}, T4).with_pools((changing(),))
    first, second = (facts.changing_nodes(pod_from_raw(pod(container(gpus=1, image=CUDA_12)))) for _ in range(2))
    assert first[0] is second[0]
    other = facts.changing_nodes(pod_from_raw(pod(container(gpus=1), nodeSelector={PRODUCT: "Tesla-T4"})))
    assert other == ()


def test_a_policy_without_changes_asks_nothing() -> None:
    still = NodePool("old", changing().labels, (), frozenset({GPU}))
    assert cluster({**V100, **OWN}).with_pools((still,)).changing_nodes(pod_from_raw(pod(container(gpus=1)))) == ()
    assert cluster({**V100, **OWN}).changing_nodes(pod_from_raw(pod(container(gpus=1)))) == ()


def test_labels_of_the_old_driver_do_not_stay() -> None:
    """A deprecated label, or the CUDA of the old driver, would contradict the new one."""
    old = {**V100, **OWN, "nvidia.com/cuda.driver.major": "580", "nvidia.com/cuda.runtime-version.full": "13.0"}
    facts = cluster(old).with_pools((changing(),))
    (one,) = facts.changing_nodes(pod_from_raw(pod(container(gpus=1))))
    assert dict(one.now[0].labels)["nvidia.com/cuda.driver.major"] == "580"
    assert {key: value for key, value in one.then[0].labels.items() if key.startswith("nvidia.com/cuda.")} == {
        DRIVER: "595.71.05",
        MAJOR: "595",
    }


def test_gpus_that_come_by_claims_alone_bring_no_warning() -> None:
    """Which devices a claim gets is open until the pod is placed, so nodes of the pool may not be among them."""
    name = "gpu.nvidia.com"
    selector = f"device.driver == '{name}' && device.attributes['{name}'].type == 'gpu'"
    slices = [resource_slice("n0", "n0", attributes={"driverVersion": "580.95.05"})]
    facts = ClusterFacts.of(
        [node("n0", labels={**OWN, **V100})],
        device_classes=[device_class(name, selector=selector)],
        templates=[claim("t", TEMPLATE, name)],
        slices=slices,
    ).with_pools((changing(),))
    raw = pod(
        container(image=CUDA_12, resources={"claims": [{"name": "gpu"}]}),
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}],
    )
    raw["metadata"]["namespace"] = "team"
    assert facts.nodes_offering(name, pod_from_raw(raw, namespace="team"))
    assert list(RULE.validate(pod_from_raw(raw, namespace="team"), settings_of(RULE, {}), facts)) == []
