"""What a plan says of single workloads: the change, how far they get, and why."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.audit.audits import stored
from tests.facts.samples import claim, device_class, expressions
from tests.reviews import policies
from tests.upgrades.generated import SELECTOR, gpu_node, slice_of
from tests.upgrades.plans import DEFAULTS, by_name, changed, planned
from webhook.audit.review_objects import LookedUpImages
from webhook.facts.facts import ClusterFacts
from webhook.model.image import ImageConfig, ImageInfo
from webhook.model.node import NodePool
from webhook.policy.policy_set import Policy, PolicySet, content_hash
from webhook.upgrades.driver_plan import DriverPlan, PlannedWorkload, Reach, WorkloadChange
from webhook.upgrades.node_changes import ChangeAction
from webhook.upgrades.standing import RunsOn

CUDA_11 = "nvidia/cuda:11.4.3-runtime-ubuntu20.04"
CUDA_12 = "nvidia/cuda:12.4.1-runtime-ubuntu22.04"
CUDA_13 = "nvidia/cuda:13.0.0-runtime-ubuntu24.04"
UNKNOWN = "registry.corp/train:1"
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
    """What a plan says of one object."""
    using: PolicySet = how.pop("using", DEFAULTS)
    plan = planned([raw], changed(facts, sets, policies=using, **how), using)
    assert plan.errors == ()
    (one,) = plan.workloads
    return one


@pytest.mark.parametrize(
    ("image", "product", "before", "after", "change"),
    [
        pytest.param(CUDA_12, V100, "535.183.01", "590.44.01", WorkloadChange.BREAKS, id="a branch that drops the GPU"),
        pytest.param(CUDA_12, V100, "535.183.01", "580.95.05", WorkloadChange.SAME, id="the last branch for the GPU"),
        pytest.param(CUDA_12, GEFORCE, "535.183.01", "470.82.01", WorkloadChange.BREAKS, id="a driver that is too old"),
        pytest.param(CUDA_13, GEFORCE, "535.183.01", "580.95.05", WorkloadChange.UNBLOCKED, id="a driver that runs it"),
        pytest.param(CUDA_13, A100, "580.95.05", "535.183.01", WorkloadChange.COMPAT_ONLY, id="then by cuda-compat"),
        pytest.param(CUDA_13, A100, "535.183.01", "580.95.05", WorkloadChange.SAME, id="no longer by cuda-compat"),
        pytest.param(UNKNOWN, A100, "535.183.01", "580.95.05", WorkloadChange.UNKNOWN, id="nobody knows the image"),
        pytest.param(UNKNOWN, A100, "535.183.01", "535.183.01", WorkloadChange.SAME, id="the driver of today"),
        pytest.param("busybox:1.36", V100, "535.183.01", "590.44.01", WorkloadChange.SAME, id="an image without CUDA"),
    ],
)
def test_one_driver_for_another(image: str, product: str, before: str, after: str, change: WorkloadChange) -> None:
    facts = ClusterFacts.of(nodes(2, product, before, "p"))
    found = plan_for(pod("w", image), facts, f"pool=p={after}")
    assert found.change is change, found.reason


def test_what_breaks_is_told_with_what_would_run() -> None:
    facts = ClusterFacts.of([*nodes(2, V100, "535.183.01", "v"), *nodes(3, A100, "535.183.01", "a")])
    found = plan_for(pod("w", CUDA_12, "v"), facts, "pool=v=590.44.01")
    assert (found.before, found.after) == (Reach(RunsOn.RUNS, 2, 2), Reach(RunsOn.CANNOT_RUN, 0, 2))
    assert "driver branch 580 is the last for compute capability 7.0" in found.reason
    assert found.remedy == "Install a driver of branch 580 or older"


def test_nodes_that_are_lost_are_counted_and_told() -> None:
    facts = ClusterFacts.of([*nodes(2, V100, "535.183.01", "v"), *nodes(3, A100, "535.183.01", "a")])
    found = plan_for(pod("w", CUDA_12), facts, "pool=v=590.44.01")
    assert (found.change, found.before.nodes, found.after.nodes, found.after.of) == (
        WorkloadChange.LOSES_NODES,
        5,
        3,
        5,
    )
    assert found.reason.startswith("runs on 3 nodes then, and on 5 nodes now; ")
    assert "2 nodes with Tesla-V100-SXM2-16GB, driver 590.44.01" in found.reason


def test_a_workload_that_needs_no_forward_compatibility_any_more_is_told_so() -> None:
    facts = ClusterFacts.of([*nodes(1, A100, "535.183.01", "a"), *nodes(1, A100, "580.95.05", "b")])
    found = plan_for(pod("w", CUDA_13), facts, "pool=a=580.95.05")
    assert found.change is WorkloadChange.SAME
    assert found.reason == "runs without forward compatibility then, and on some nodes only by it now"
    assert plan_for(pod("w", CUDA_13), facts, "pool=b=580.95.05").reason == "nothing changes"


def test_whether_it_runs_on_a_node_that_comes_is_unknown_although_there_are_others_of_its_kind() -> None:
    there, coming = (ClusterFacts.of(nodes(1, "NVIDIA-B200", "580.95.05", pool)) for pool in ("v", "a"))
    found = plan_for(pod("w", "tensorflow/tensorflow:2.15.0-gpu", "a"), there, added=coming)
    assert (found.before.verdict, found.after.verdict) == (RunsOn.NO_NODES, RunsOn.UNKNOWN)
    assert found.change is WorkloadChange.UNKNOWN
    assert "it is not known whether it runs" in found.reason


def test_nodes_that_are_gained_are_counted() -> None:
    facts = ClusterFacts.of([*nodes(2, GEFORCE, "535.183.01", "g"), *nodes(3, A100, "580.95.05", "a")])
    found = plan_for(pod("w", CUDA_13), facts, "pool=g=580.95.05")
    assert (found.change, found.before.nodes, found.after.nodes) == (WorkloadChange.GAINS, 3, 5)
    assert found.reason == "runs on 2 nodes more than now"


def test_some_nodes_lost_and_others_gained_is_a_loss() -> None:
    facts = ClusterFacts.of([*nodes(2, V100, "535.183.01", "v"), *nodes(2, GEFORCE, "470.82.01", "g")])
    found = plan_for(pod("w", CUDA_12), facts, "pool=v=590.44.01", "pool=g=580.95.05")
    assert (found.change, found.before.nodes, found.after.nodes) == (WorkloadChange.LOSES_NODES, 2, 2)


def test_a_workload_whose_nodes_are_all_retired_breaks() -> None:
    facts = ClusterFacts.of([*nodes(2, V100, "535.183.01", "v"), *nodes(1, A100, "535.183.01", "a")])
    found = plan_for(pod("w", CUDA_12, "v"), facts, retired=["pool=v"])
    assert (found.change, found.after.verdict) == (WorkloadChange.BREAKS, RunsOn.NO_NODES)
    assert found.reason == "all nodes that it could land on are retired: 2 nodes"


def test_a_workload_that_selects_the_old_driver_by_its_label_breaks() -> None:
    facts = ClusterFacts.of(nodes(2, A100, "535.183.01", "a"))
    raw = pod("w", CUDA_12, nodeSelector={"nvidia.com/cuda.driver-version.major": "535"})
    found = plan_for(raw, facts, "pool=a=580.95.05")
    assert (found.change, found.after.verdict) == (WorkloadChange.BREAKS, RunsOn.NO_NODES)
    assert found.reason == (
        "no node is left that its nodeSelector and affinity allow, because the labels of 2 nodes change"
    )


def test_a_pod_that_was_steered_off_a_driver_gains_its_nodes_back() -> None:
    facts = ClusterFacts.of([*nodes(2, GEFORCE, "470.82.01", "g"), *nodes(1, A100, "535.183.01", "a")])
    old = expressions(("nvidia.com/cuda.driver-version.major", "NotIn", ["470"]))
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [old]}}}
    found = plan_for(pod("w", CUDA_12, affinity=affinity), facts, "pool=g=580.95.05")
    assert (found.change, found.before, found.after) == (
        WorkloadChange.GAINS,
        Reach(RunsOn.RUNS, 1, 1),
        Reach(RunsOn.RUNS, 3, 3),
    )


def test_new_nodes_are_gained_and_make_up_for_retired_ones() -> None:
    facts = ClusterFacts.of(nodes(2, A100, "535.183.01", "a"))
    new = ClusterFacts.of(nodes(2, A100, "535.183.01", "new"))
    assert plan_for(pod("w", CUDA_12), facts, added=new).change is WorkloadChange.GAINS
    assert plan_for(pod("w", CUDA_12), facts, added=new, retired=["pool=a"]).change is WorkloadChange.SAME
    assert plan_for(pod("w", CUDA_12, "a"), facts, added=new, retired=["pool=a"]).change is WorkloadChange.BREAKS
    assert plan_for(pod("w", UNKNOWN), facts, added=new, retired=["pool=a"]).change is WorkloadChange.SAME
    fewer = ClusterFacts.of(nodes(1, A100, "535.183.01", "new"))
    assert plan_for(pod("w", CUDA_12), facts, added=fewer, retired=["pool=a"]).change is WorkloadChange.LOSES_NODES


def test_a_branch_alone_says_which_cuda_runs_and_not_which_driver() -> None:
    """A GPU that needs a certain driver of a branch, such as H100 one of 525, may or may not get it."""
    facts = ClusterFacts.of(nodes(2, GEFORCE, "535.183.01", "g"))
    assert plan_for(pod("w", CUDA_13), facts, "pool=g=580").change is WorkloadChange.UNBLOCKED
    assert plan_for(pod("w", CUDA_12), facts, "pool=g=520").change is WorkloadChange.BREAKS


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


def test_what_a_policy_says_of_an_image_counts() -> None:
    facts = ClusterFacts.of(nodes(2, GEFORCE, "535.183.01", "g"))
    using = policies({"tolerations": {}, "cudaDriver": {"images": {"registry.corp/*": "13.0"}}})
    assert plan_for(pod("w", UNKNOWN), facts, "pool=g=580.95.05", using=using).change is WorkloadChange.UNBLOCKED


def test_a_policy_that_allows_no_forward_compatibility_counts() -> None:
    facts = ClusterFacts.of(nodes(2, A100, "580.95.05", "a"))
    using = policies({"tolerations": {}, "cudaDriver": {"forwardCompat": "deny"}})
    assert plan_for(pod("w", CUDA_13), facts, "pool=a=535.183.01", using=using).change is WorkloadChange.BREAKS


def test_images_break_where_the_rule_is_disabled_too() -> None:
    facts = ClusterFacts.of(nodes(2, V100, "535.183.01", "v"))
    using = policies({"tolerations": {}, "cudaDriver": {"mode": "disabled"}})
    assert plan_for(pod("w", CUDA_12), facts, "pool=v=590.44.01", using=using).change is WorkloadChange.BREAKS


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


# Owners


def deployed(image: str, pods: int, gpus: int, *, known: bool = True) -> list[Raw]:
    """A Deployment with its ReplicaSet and running pods, or the pods alone."""
    template = {"metadata": {"labels": {"app": "d"}}, "spec": pod("x", image, "v", gpus=gpus)["spec"]}
    spec = {"replicas": pods, "selector": {"matchLabels": {"app": "d"}}, "template": template}
    head = {"apiVersion": "apps/v1", "metadata": {"name": "d", "namespace": "team"}, "spec": spec}
    owner = stored({**head, "kind": "Deployment"}, 1)
    between = stored({**head, "kind": "ReplicaSet"}, 2, owner)
    made = [stored(pod(f"d-{at}", image, "v", gpus=gpus, node="v0"), 10 + at, between) for at in range(pods)]
    return [*made, *([owner, between] if known else [])]


def of_deployment(*objects: Raw, is_file: bool = False) -> DriverPlan:
    facts = ClusterFacts.of(nodes(2, V100, "535.183.01", "v"))
    return planned(objects, changed(facts, ["pool=v=590.44.01"]), is_file=is_file)


def test_a_deployment_is_one_workload_with_the_gpus_of_its_running_pods() -> None:
    (found,) = of_deployment(*deployed(CUDA_12, pods=3, gpus=2)).workloads
    assert (found.owner.kind, found.owner.name, found.gpus) == ("Deployment", "d", 6)
    assert found.change is WorkloadChange.BREAKS


def test_pods_of_an_unknown_owner_are_one_workload_too() -> None:
    (found,) = of_deployment(*deployed(CUDA_12, pods=3, gpus=2, known=False)).workloads
    assert (found.owner.kind, found.owner.name, found.gpus) == ("ReplicaSet", "d", 6)


def test_a_manifest_counts_the_gpus_that_its_pods_would_use() -> None:
    owner = {**deployed(CUDA_12, pods=3, gpus=2)[3]}
    owner["metadata"] = {"name": "d", "namespace": "team"}
    (found,) = of_deployment(owner, is_file=True).workloads
    assert found.gpus == 6


def test_a_template_without_pods_uses_no_gpu_and_counts_all_the_same() -> None:
    (found,) = of_deployment(*deployed(CUDA_12, pods=3, gpus=2)[3:]).workloads
    assert (found.gpus, found.change) == (0, WorkloadChange.BREAKS)


def test_running_pods_tell_where_a_template_has_no_nodes() -> None:
    """Something else gives its pods the toleration that its template lacks."""
    tainted = nodes(2, V100, "535.183.01", "v")
    for raw in tainted:
        raw["spec"]["taints"].append({"key": "team", "value": "a", "effect": "NoSchedule"})
    objects = deployed(CUDA_12, pods=2, gpus=1)
    for raw in objects[:2]:
        raw["spec"]["tolerations"] = [{"key": "team", "operator": "Exists"}]
    (found,) = planned(objects, changed(ClusterFacts.of(tainted), ["pool=v=590.44.01"])).workloads
    assert (found.owner.kind, found.change, found.before.nodes) == ("Deployment", WorkloadChange.BREAKS, 2)


def test_a_running_pod_is_placed_anew() -> None:
    facts = ClusterFacts.of([*nodes(1, V100, "535.183.01", "v"), *nodes(1, A100, "535.183.01", "a")])
    found = plan_for(pod("w", CUDA_12, node="v0"), facts, "pool=v=590.44.01")
    assert (found.change, found.gpus) == (WorkloadChange.LOSES_NODES, 1)


def test_finished_pods_and_pods_of_other_vendors_are_left_out() -> None:
    finished = {**pod("f", CUDA_12), "status": {"phase": "Succeeded"}}
    other = pod("amd", CUDA_12)
    other["spec"]["containers"][0]["resources"] = {"limits": {"amd.com/gpu": "1"}}
    assert of_deployment(finished, other).workloads == ()


def test_a_malformed_object_is_an_error_and_the_others_are_planned() -> None:
    broken = pod("b", CUDA_12)
    broken["spec"]["containers"] = "none"
    plan = of_deployment(broken, *deployed(CUDA_12, pods=1, gpus=1))
    assert len(plan.workloads) == 1
    assert [one.message[:12] for one in plan.errors] == ["Pod team/b: "]
    assert plan.exit_status() == 2


def test_pods_that_claim_their_gpus_are_judged_on_the_nodes_that_offer_them() -> None:
    raw = gpu_node("dra", V100, "535.183.01", (), pool="dra")
    raw["status"]["capacity"] = {"cpu": "64"}
    template = claim("gpu", "ResourceClaimTemplate", "gpu.nvidia.com")
    classes = [device_class("gpu.nvidia.com", selector=SELECTOR)]
    slices = [slice_of("dra", V100, "535.183.01")]
    facts = ClusterFacts.of([raw, *nodes(1, A100, "535.183.01", "a")], [], [], classes, [], [template], slices)
    asking = pod("w", CUDA_12, node="dra", resourceClaims=[{"name": "g", "resourceClaimTemplateName": "gpu"}])
    asking["spec"]["containers"][0]["resources"] = {"claims": [{"name": "g"}]}
    plan = planned([asking], changed(facts, ["pool=dra=590.44.01"]))
    (found,), (pool,) = plan.workloads, plan.pools
    assert (found.change, found.before.of, found.gpus) == (WorkloadChange.BREAKS, 1, 1)
    assert (pool.nodes, pool.gpus, pool.drivers) == (1, 2, ("535.183.01",))
    assert plan_for(asking, facts, retired=["pool=dra"]).after.verdict is RunsOn.NO_NODES


# Pools


def test_gpus_that_the_branch_no_longer_drives_are_told_in_the_entry_of_the_pool() -> None:
    facts = ClusterFacts.of([*nodes(2, V100, "535.183.01", "p"), gpu_node("n", A100, "550.54.15", BOTH, pool="p")])
    (pool,) = planned([], changed(facts, ["pool=p=590.44.01"])).pools
    assert (pool.action, pool.selector, pool.nodes, pool.gpus) == (ChangeAction.SET, "pool=p", 3, 24)
    assert (set(pool.drivers), pool.driver) == ({"535.183.01", "550.54.15"}, "590.44.01")
    (undriven,) = pool.undriven
    assert (undriven.product, undriven.nodes, undriven.gpus, undriven.is_certain) == (V100, 2, 16, True)
    assert pool.branch is not None
    assert pool.branch.number == 590


def test_a_driver_that_is_older_than_the_gpu_is_told_and_breaks() -> None:
    facts = ClusterFacts.of(nodes(2, "NVIDIA-H100-80GB-HBM3", "535.183.01", "p"))
    plan = planned([pod("w", CUDA_11)], changed(facts, ["pool=p=470.82.01"]))
    (undriven,) = plan.pools[0].undriven
    assert "needs driver branch 520 or newer" in undriven.reason
    assert plan.workloads[0].change is WorkloadChange.BREAKS


def test_retired_and_new_nodes_have_entries_too() -> None:
    facts = ClusterFacts.of(nodes(2, V100, "535.183.01", "p"))
    new = ClusterFacts.of(nodes(1, V100, "590.44.01", "new"))
    retired, added = planned([], changed(facts, retired=["pool=p"], added=new)).pools
    assert (retired.action, retired.nodes, retired.driver, retired.branch) == (ChangeAction.RETIRE, 2, "", None)
    assert (added.action, added.nodes, added.gpus, len(added.undriven)) == (ChangeAction.ADD, 1, 8, 1)


@pytest.mark.parametrize(
    ("image", "is_strict", "status"),
    [
        pytest.param(CUDA_12, False, 1, id="something breaks"),
        pytest.param("busybox:1.36", True, 0, id="nothing changes"),
        pytest.param(UNKNOWN, False, 0, id="something is unknown"),
        pytest.param(UNKNOWN, True, 1, id="something is unknown, which is enough if strict"),
    ],
)
def test_the_exit_status_says_whether_something_breaks(image: str, is_strict: bool, status: int) -> None:
    product = A100 if image == UNKNOWN else V100
    facts = ClusterFacts.of(nodes(1, product, "535.183.01", "p"))
    assert planned([pod("w", image)], changed(facts, ["pool=p=590.44.01"])).exit_status(is_strict=is_strict) == status


def test_the_worst_change_comes_first_and_then_the_most_gpus() -> None:
    facts = ClusterFacts.of([*nodes(2, V100, "535.183.01", "v"), *nodes(1, A100, "535.183.01", "a")])
    objects = [
        pod("same", CUDA_12, "a"),
        pod("few", CUDA_12, "v", gpus=1, node="v0"),
        pod("loses", CUDA_12),
        pod("many", CUDA_12, "v", gpus=8, node="v1"),
    ]
    plan = planned(objects, changed(facts, ["pool=v=590.44.01"]))
    assert [one.owner.name for one in plan.workloads] == ["many", "few", "loses", "same"]


def test_pods_that_are_alike_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work does not grow with the number of replicas."""
    from webhook.upgrades import workload_planner

    asked: list[str] = []
    judge = workload_planner.standing_of

    def counting(one: Any, *others: Any) -> Any:
        asked.append(one.namespace)
        return judge(one, *others)

    monkeypatch.setattr(workload_planner, "standing_of", counting)
    facts = ClusterFacts.of(nodes(2, V100, "535.183.01", "v"))
    plan = planned([pod(f"w{at}", CUDA_12) for at in range(50)], changed(facts, ["pool=v=590.44.01"]))
    assert len(plan.workloads) == 50
    assert len(asked) == 2
