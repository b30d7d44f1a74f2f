"""What a plan says of single workloads: the change, how far they get, and why."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest

from tests.build import policies
from tests.facts.samples import expressions
from tests.facts.test_made_pools import node_class, node_pool
from tests.golden import each
from tests.upgrades.generated import gpu_node
from tests.upgrades.plans import DEFAULTS, by_name, changed, planned
from webhook.audit.review_objects import LookedUpImages
from webhook.facts.facts import ClusterFacts
from webhook.model.image import ImageConfig, ImageInfo
from webhook.model.node import NodePool
from webhook.policy.policy_set import Policy, PolicySet, content_hash
from webhook.upgrades.driver_plan import PlannedWorkload, Reach, RunsOn, WorkloadChange

CUDA_11 = "nvidia/cuda:11.4.3-runtime-ubuntu20.04"
CUDA_12 = "nvidia/cuda:12.4.1-runtime-ubuntu22.04"
CUDA_13 = "nvidia/cuda:13.0.0-runtime-ubuntu24.04"
UNKNOWN = "registry.corp/train:1"
TRITON = "nvcr.io/nvidia/tritonserver:23.10-py3"
BOTH = ("driver-version", "runtime-version")
T4, V100, A100, GEFORCE = "Tesla-T4", "Tesla-V100-SXM2-16GB", "NVIDIA-A100-SXM4-80GB", "NVIDIA-GeForce-RTX-3090"

Raw = dict[str, Any]


def nodes(number: int, product: str, driver: str, pool: str) -> list[Raw]:
    return [gpu_node(f"{pool}{at}", product, driver, BOTH, pool=pool) for at in range(number)]


def pod(name: str, image: str, pool: str = "", *, gpus: int = 1, node: str = "", **spec: Any) -> Raw:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}}
    selector = {"nodeSelector": {"pool": pool}} if pool else {}
    on = {"nodeName": node} if node else {}
    body = {"containers": [{"name": "main", "image": image, "resources": resources}], **selector, **on, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "team"}, "spec": body}


def plan_for(raw: Raw, facts: ClusterFacts, *sets: str, **how: Any) -> PlannedWorkload:
    using: PolicySet = how.pop("using", DEFAULTS)
    plan = planned([raw], changed(facts, sets, policies=using, **how), using)
    assert plan.errors == ()
    (one,) = plan.workloads
    return one


@each(
    "image, product, before, after, change",
    {
        "a branch that drops the GPU": (CUDA_12, V100, "535.183.01", "590.44.01", WorkloadChange.BREAKS),
        "the last branch for the GPU": (CUDA_12, V100, "535.183.01", "580.95.05", WorkloadChange.SAME),
        "a driver that is too old": (CUDA_12, GEFORCE, "535.183.01", "470.82.01", WorkloadChange.BREAKS),
        "a driver that runs it": (CUDA_13, GEFORCE, "535.183.01", "580.95.05", WorkloadChange.UNBLOCKED),
        "then by cuda-compat": (CUDA_13, A100, "580.95.05", "535.183.01", WorkloadChange.COMPAT_ONLY),
        "no longer by cuda-compat": (CUDA_13, A100, "535.183.01", "580.95.05", WorkloadChange.SAME),
        "nobody knows the image": (UNKNOWN, A100, "535.183.01", "580.95.05", WorkloadChange.UNKNOWN),
        "the driver of today": (UNKNOWN, A100, "535.183.01", "535.183.01", WorkloadChange.SAME),
        "an image without CUDA": ("busybox:1.36", V100, "535.183.01", "590.44.01", WorkloadChange.SAME),
    },
)
def test_one_driver_for_another(image: str, product: str, before: str, after: str, change: WorkloadChange) -> None:
    facts = ClusterFacts.of(nodes(2, product, before, "p"))
    found = plan_for(pod("w", image), facts, f"pool=p={after}")
    assert found.change is change, found.reason


@pytest.mark.parametrize(
    ("sets", "retired", "change"),
    [
        (["gpu=470.82.01"], [], WorkloadChange.COMPAT_ONLY),
        (["karpenter.sh/nodepool=gpu=580.95.05"], [], WorkloadChange.SAME),
        ([], ["gpu"], WorkloadChange.BREAKS),
    ],
    ids=str,
)
def test_a_node_pool_of_karpenter_may_get_another_driver(
    sets: list[str], retired: list[str], change: WorkloadChange
) -> None:
    """For the nodes that it makes, of which there is none."""
    driven = node_class("al2023@v20250920")
    facts = ClusterFacts.of(node_pools=[node_pool(["instance-family In g5"])], ec2_node_classes=[driven])
    (found,) = planned([pod("w", CUDA_12)], changed(facts, sets, retired)).workloads
    assert (found.change, found.before.pools) == (change, ("gpu",))


def test_a_declared_pool_that_replaces_a_node_pool_says_its_gpu() -> None:
    labels = (("nvidia.com/cuda.driver-version.major", "535"), ("nvidia.com/gpu.product", "NVIDIA-A10G"))
    pool = NodePool("gpu", labels, (), frozenset({"nvidia.com/gpu"}), 8)
    using = PolicySet.of(Policy("p", (), content_hash("p"), DEFAULTS.default.rules, (pool,)), {})
    facts = ClusterFacts.of(node_pools=[node_pool(["instance-family In g5"])])
    plan = planned([], changed(facts, ["gpu=580.95.05"], policies=using), using)
    assert [one.products for one in plan.pools] == [("NVIDIA-A10G",)]


@each(
    "driver, remedy",
    {
        "a whole driver": ("470.82.01", f"Write what {TRITON} brings into images of _cuda.yaml"),
        "a branch": (
            "525",
            f"Write the driver with all its numbers, or what {TRITON} brings into images of _cuda.yaml",
        ),
    },
)
def test_what_would_clear_a_doubt_is_what_is_missing(driver: str, remedy: str) -> None:
    facts = ClusterFacts.of([gpu_node("p0", T4, "535.183.01", ("driver-version",), pool="p")])
    assert plan_for(pod("w", TRITON), facts, f"pool=p={driver}").remedy == remedy


KINDS = {
    "v": (V100, "535.183.01"),
    "a": (A100, "535.183.01"),
    "n": (A100, "580.95.05"),
    "g": (GEFORCE, "535.183.01"),
    "o": (GEFORCE, "470.82.01"),
    "u": (T4, "470.82.01"),
    "b": ("NVIDIA-B200", "580.95.05"),
}
"""Pools by name: their GPUs and driver."""


def pools(text: str) -> ClusterFacts:
    """A cluster of pools such as `v2 a3`: two nodes of the pool v, three of the pool a."""
    return ClusterFacts.of([raw for one in text.split() for raw in nodes(int(one[1:]), *KINDS[one[0]], one[0])])


def selecting(key: str, operator: str, value: str) -> Raw:
    term = expressions((key, operator, [value]))
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    return pod("w", CUDA_12, affinity=affinity)


MAJOR = "nvidia.com/cuda.driver-version.major"
LAST = "driver branch 580 is the last for compute capability 7.0"
RETIRED: Raw = {"retired": ["pool=a"]}
NEW: Raw = {"added": pools("n2")}
BLACKWELL = ClusterFacts.of(nodes(1, *KINDS["b"], "n"))
KERAS = "tensorflow/tensorflow:2.15.0-gpu"


w = partial(pod, "w")
STEERED, PINNED = selecting(MAJOR, "NotIn", "470"), w(CUDA_12, nodeSelector={MAJOR: "535"})
CASES: dict[str, tuple[str, Raw, Any, str, str, str]] = {
    "no GPU is driven": ("v2 a3", w(CUDA_12, "v"), "v=590.44.01", "breaks", "2/2 0/2", LAST),
    "some are not driven": ("v2 a3", w(CUDA_12), "v=590.44.01", "losesNodes", "5/5 3/5", "runs on 3 nodes then, and"),
    "lost and gained": ("v2 o2", w(CUDA_12), "v=590.44.01 o=580.95.05", "losesNodes", "2/4 2/4", LAST),
    "gained": ("g2 n3", w(CUDA_13), "g=580.95.05", "gains", "3/5 5/5", "runs on 2 nodes more than now"),
    "known then": ("a1 u2", w(TRITON), "u=580.95.05", "gains", "1/3 3/3", "2 nodes then, and whether it does now is"),
    "without cuda-compat": ("a1 n1", w(CUDA_13), "a=580.95.05", "same", "2/2 2/2", "runs without forward"),
    "nothing": ("a1 n1", w(CUDA_13), "n=580.95.05", "same", "2/2 2/2", "nothing changes"),
    "a branch alone": ("g2", w(CUDA_13), "g=580", "unblocked", "0/2 2/2", "none of the nodes that it could land on"),
    "an older branch alone": ("g2", w(CUDA_12), "g=520", "breaks", "2/2 0/2", ""),
    "no room": ("v2", w(CUDA_12, gpus=16), "v=590.44.01", "same", "0/0 0/0", "no node has room for what it requests"),
    "it selects the driver": ("a2", PINNED, "a=580.95.05", "breaks", "2/2 0/0", "the labels of 2 nodes change"),
    "it is steered off one": ("o2 a1", STEERED, "o=580.95.05", "gains", "1/1 3/3", ""),
    "all are retired": ("v2 a1", w(CUDA_12, "a"), RETIRED, "breaks", "1/1 0/0", "land on are retired: 1 node"),
    "nodes come": ("a2", w(CUDA_12), NEW, "gains", "2/2 4/4", ""),
    "they make up for others": ("a2", w(CUDA_12), NEW | RETIRED, "same", "2/2 2/2", ""),
    "for too many": ("a3", w(CUDA_12), NEW | RETIRED, "losesNodes", "3/3 2/2", "3 nodes retired"),
    "not with another driver": ("a2", w(UNKNOWN), NEW | RETIRED, "unknown", "0/2 0/2", "is not known"),
    "not if another pool is meant": ("a2", w(CUDA_12, "a"), NEW | RETIRED, "breaks", "2/2 0/0", ""),
    "a node of a known kind": ("b1", w(KERAS, "n"), {"added": BLACKWELL}, "unknown", "0/0 0/1", "whether it runs"),
}


@pytest.mark.parametrize(("now", "raw", "options", "change", "reach", "reason"), CASES.values(), ids=CASES)
def test_what_a_plan_says_of_a_workload(now: str, raw: Raw, options: Any, change: str, reach: str, reason: str) -> None:
    """The change, how far the workload gets now and then (`nodes/of`), and why."""
    sets, how = ([f"pool={one}" for one in options.split()], {}) if isinstance(options, str) else ([], options)
    found = plan_for(raw, pools(now), *sets, **how)
    reached = f"{found.before.nodes}/{found.before.of} {found.after.nodes}/{found.after.of}"
    assert (found.change, reached) == (change, reach), found.reason
    assert reason in found.reason


def test_what_breaks_is_told_with_what_would_run() -> None:
    found = plan_for(pod("w", CUDA_12, "v"), pools("v2"), "pool=v=590.44.01")
    assert (found.before, found.after) == (Reach(RunsOn.RUNS, 2, 2), Reach(RunsOn.CANNOT_RUN, 0, 2))
    assert found.remedy == "Install a driver of branch 580 or older"


def test_nodes_that_an_autoscaler_makes_may_come_again_after_they_are_retired() -> None:
    """So it is unknown whether their workloads break, unless these name one of the nodes."""
    raws = nodes(2, V100, "535.183.01", "v")
    for raw in raws:
        raw["metadata"]["labels"]["karpenter.sh/nodepool"] = "volta"
    facts = ClusterFacts.of(raws)
    found = plan_for(pod("w", CUDA_12, "v"), facts, retired=["pool=v"])
    assert (found.change, found.after.verdict) == (WorkloadChange.UNKNOWN, RunsOn.NO_NODES)
    assert found.reason == "2 nodes that may run it are retired, and Karpenter may make such nodes anew"
    assert "name a node that it will make with --add" in found.remedy
    named = pod("w", CUDA_12, nodeSelector={"kubernetes.io/hostname": "v0"})
    assert plan_for(named, facts, retired=["pool=v"]).change is WorkloadChange.BREAKS
    assert plan_for(pod("w", CUDA_12, "v"), facts, "pool=v=590.44.01").change is WorkloadChange.BREAKS


def test_an_unknown_image_is_listed_with_what_uses_it() -> None:
    facts = ClusterFacts.of(nodes(2, A100, "535.183.01", "a"))
    objects = [pod("x", UNKNOWN, gpus=2, node="a0"), pod("y", UNKNOWN, gpus=3, node="a1"), pod("z", CUDA_12)]
    plan = planned(objects, changed(facts, ["pool=a=580.95.05"]))
    (image,) = plan.unknown_images
    assert (image.image, image.workloads, image.gpus) == (UNKNOWN, 2, 5)
    assert by_name(plan)["x"].remedy.startswith("Ask its registry with --resolve, or write what registry.corp/train:1 ")


def test_registries_are_asked_once_about_each_image_of_gpu_pods() -> None:
    """And what they say is known now and then."""
    asked: list[list[str]] = []

    def ask(images: Iterable[str]) -> dict[str, ImageInfo]:
        asked.append(sorted(images))
        return {
            one: ImageInfo(ImageConfig("sha256:" + "0" * 64, {"CUDA_VERSION": "12.4.1"}, ("amd64",)))
            for one in asked[-1]
        }

    facts = ClusterFacts.of(nodes(2, V100, "535.183.01", "v"))
    cpu = pod("cpu", "registry.corp/web:1")
    cpu["spec"]["containers"][0]["resources"] = {}
    objects = [*(pod(f"w{at}", UNKNOWN) for at in range(3)), pod("other", f"{UNKNOWN}0"), cpu]
    plan = planned(objects, changed(facts, ["pool=v=590.44.01"]), images=LookedUpImages(ask))
    assert asked == [[UNKNOWN, f"{UNKNOWN}0"]]
    assert {one.change for one in plan.workloads} == {WorkloadChange.BREAKS}
    assert plan.unknown_images == ()


def test_a_plan_tells_what_a_registry_says_to_the_namespaces_for_which_it_is() -> None:
    known = ImageInfo(ImageConfig("sha256:" + "0" * 64, {"CUDA_VERSION": "12.4.1"}, ("amd64",)))
    facts = ClusterFacts.of(nodes(2, V100, "535.183.01", "v"))
    objects = [pod("a", UNKNOWN), pod("b", UNKNOWN)]
    objects[1]["metadata"]["namespace"] = "team-b"
    images = LookedUpImages(
        lambda images: dict.fromkeys(images, known),
        lambda _image, asker: None if asker == "team-b" else ImageInfo(problem="not for you"),
    )
    plan = planned(objects, changed(facts, ["pool=v=590.44.01"]), images=images)
    assert [name for name, one in by_name(plan).items() if one.change is WorkloadChange.BREAKS] == ["b"]
    assert [one.problem for one in plan.unknown_images] != []


@each(
    "settings, image, product, now, then, change",
    {
        "an image": ({"images": {"registry.corp/*": "13.0"}}, UNKNOWN, GEFORCE, 535, 580, "unblocked"),
        "no forward compatibility": ({"forwardCompat": "deny"}, CUDA_13, A100, 580, 535, "breaks"),
        "nothing, being disabled": ({"mode": "disabled"}, CUDA_12, V100, 535, 590, "breaks"),
    },
)
def test_what_a_policy_says_counts(
    settings: dict[str, Any], image: str, product: str, now: int, then: int, change: str
) -> None:
    whole = {535: "535.183.01", 580: "580.95.05", 590: "590.44.01"}
    facts = ClusterFacts.of(nodes(2, product, whole[now], "g"))
    using = policies({"tolerations": {}, "cudaDriver": settings})
    assert plan_for(pod("w", image), facts, f"pool=g={whole[then]}", using=using).change == change


def halved(raws: list[Raw], **capacity: str) -> list[Raw]:
    for raw in raws:
        raw["status"]["capacity"] |= {"nvidia.com/gpu": "4", **capacity}
    return raws


@each(
    "requests, capacity",
    {
        "GPUs": ({"nvidia.com/gpu": "8"}, {}),
        "memory": ({"nvidia.com/gpu": "1", "memory": "200Gi"}, {"memory": "128Gi"}),
        "CPU": ({"nvidia.com/gpu": "1", "cpu": "48"}, {"cpu": "32"}),
        "storage": ({"nvidia.com/gpu": "1", "ephemeral-storage": "2Ti"}, {"ephemeral-storage": "1Ti"}),
    },
)
def test_nodes_without_room_for_all_that_a_workload_requests_do_not_save_it(
    requests: dict[str, str], capacity: dict[str, str]
) -> None:
    """16 of 16 nodes -> 8 of 16 nodes was said of a job that no node could run any more."""
    facts = ClusterFacts.of(
        [*nodes(8, V100, "535.183.01", "v"), *halved(nodes(8, A100, "535.183.01", "a"), **capacity)]
    )
    raw = pod("w", CUDA_12)
    raw["spec"]["containers"][0]["resources"]["limits"] = requests
    found = plan_for(raw, facts, "pool=v=590.44.01")
    assert (found.change, found.before, found.after) == (
        WorkloadChange.BREAKS,
        Reach(RunsOn.RUNS, 8, 8),
        Reach(RunsOn.CANNOT_RUN, 0, 8),
    )
    assert "8 nodes with Tesla-V100-SXM2-16GB, driver 590.44.01" in found.reason
    assert found.reason.endswith("; too small for what it requests: 8 nodes")
    retired = plan_for(raw, facts, retired=["pool=v"])
    assert retired.change is WorkloadChange.BREAKS
    assert retired.reason == (
        "all nodes that it could land on are retired: 8 nodes; too small for what it requests: 8 nodes"
    )


def test_new_nodes_of_another_size_make_up_for_retired_ones_only_for_workloads_that_they_have_room_for() -> None:
    facts = ClusterFacts.of(nodes(2, A100, "535.183.01", "a"))
    how: dict[str, Any] = {"added": ClusterFacts.of(halved(nodes(2, A100, "535.183.01", "new"))), "retired": ["pool=a"]}
    assert plan_for(pod("w", CUDA_12, gpus=4), facts, **how).change is WorkloadChange.SAME
    assert plan_for(pod("w", CUDA_12, gpus=8), facts, **how).change is WorkloadChange.BREAKS


def test_taints_that_a_workload_does_not_tolerate_are_a_doubt_where_it_has_other_nodes_now() -> None:
    facts = ClusterFacts.of([*nodes(1, A100, "535.183.01", "d"), *nodes(2, A100, "535.183.01", "a")])
    found = plan_for(pod("w", CUDA_12), facts, retired=["pool=d"], using=policies({"cudaDriver": {}}))
    assert (found.change, found.before.of, found.after.of) == (WorkloadChange.UNKNOWN, 1, 2)
    assert found.reason == "all nodes that are left for it have taints that it does not tolerate"


def test_nodes_that_another_rule_keeps_pods_off_are_no_candidates() -> None:
    facts = ClusterFacts.of([*nodes(2, V100, "535.183.01", "v"), *nodes(3, A100, "535.183.01", "a")])
    using = policies({"tolerations": {}, "gpuTypes": {"denied": ["A100"]}, "cudaDriver": {}})
    found = plan_for(pod("w", CUDA_12), facts, "pool=v=590.44.01", using=using)
    assert (found.change, found.before.of) == (WorkloadChange.BREAKS, 2)


def test_declared_pools_count_beside_nodes() -> None:
    labels = gpu_node("x", V100, "535.183.01", BOTH, pool="spot")["metadata"]["labels"]
    pool = NodePool("spot", tuple(sorted(labels.items())), (), frozenset({"nvidia.com/gpu"}), 8)
    using = PolicySet.of(Policy("p", (), content_hash("p"), DEFAULTS.default.rules, (pool,)), {})
    found = plan_for(pod("w", CUDA_12), ClusterFacts.of([]), "spot=590.44.01", using=using)
    assert (found.change, found.before, found.after) == (
        WorkloadChange.BREAKS,
        Reach(RunsOn.RUNS, 0, 0, 0, ("spot",)),
        Reach(RunsOn.CANNOT_RUN, 0, 0),
    )
    assert plan_for(pod("w", CUDA_12), ClusterFacts.of([]), retired=["spot"], using=using).change is (
        WorkloadChange.BREAKS
    )
