"""The workloads that people change have the rows of a plan, and each option has an entry with its nodes."""

from typing import Any

import pytest

from tests.audit.audits import stored
from tests.facts.samples import claim, device_class
from tests.golden import each
from tests.upgrades.generated import SELECTOR, gpu_node, slice_of
from tests.upgrades.plans import changed, planned
from tests.upgrades.test_changes import A100, BOTH, CUDA_11, CUDA_12, UNKNOWN, V100, Raw, nodes, plan_for, pod
from webhook.facts.facts import ClusterFacts
from webhook.upgrades.driver_plan import DriverPlan, RunsOn, WorkloadChange
from webhook.upgrades.node_changes import ChangeAction

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


def test_running_pods_tell_too_where_a_template_tolerates_none_of_its_nodes() -> None:
    """Its tolerations may come later, but the pods that run already have them."""
    other = nodes(3, A100, "535.183.01", "a")
    for raw in other:
        raw["spec"]["taints"].append({"key": "team", "value": "b", "effect": "NoSchedule"})
    tainted = nodes(2, V100, "535.183.01", "v")
    for raw in tainted:
        raw["spec"]["taints"].append({"key": "team", "value": "a", "effect": "NoSchedule"})
    objects = deployed(CUDA_12, pods=2, gpus=1)
    for raw in objects:
        spec = raw["spec"] if raw["kind"] == "Pod" else raw["spec"]["template"]["spec"]
        spec["nodeSelector"] = {}
        if raw["kind"] == "Pod":
            spec["tolerations"] = [{"key": "team", "value": "a"}]
    (found,) = planned(objects, changed(ClusterFacts.of([*tainted, *other]), ["pool=v=590.44.01"])).workloads
    assert (found.change, found.before.of) == (WorkloadChange.BREAKS, 2)
    (found,) = planned(objects[2:], changed(ClusterFacts.of([*tainted, *other]), ["pool=v=590.44.01"])).workloads
    assert (found.change, found.before.of) == (WorkloadChange.LOSES_NODES, 5)


def test_a_running_pod_is_placed_anew() -> None:
    facts = ClusterFacts.of([*nodes(1, V100, "535.183.01", "v"), *nodes(1, A100, "535.183.01", "a")])
    found = plan_for(pod("w", CUDA_12, node="v0"), facts, "pool=v=590.44.01")
    assert (found.change, found.gpus) == (WorkloadChange.LOSES_NODES, 1)


def test_a_pod_with_a_part_of_a_gpu_needs_nodes_like_one_with_a_whole_gpu() -> None:
    part = pod("f", CUDA_12, gpus=0, node="v0")
    part["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
    (found,) = of_deployment(part).workloads
    assert (found.change, found.gpus) == (WorkloadChange.BREAKS, 1)


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
    assert pool.branch.branch == 590


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
    assert (retired.action, retired.nodes, retired.driver, retired.branch) == (ChangeAction.RETIRE, 2, None, None)
    assert (added.action, added.nodes, added.gpus, len(added.undriven)) == (ChangeAction.ADD, 1, 8, 1)


@each(
    "raw, breaking, unknown, losing",
    {
        "something breaks": (pod("w", CUDA_12, "v"), 1, 1, 1),
        "something is unknown": (pod("w", UNKNOWN), 0, 1, 1),
        "something loses nodes": (pod("w", CUDA_12), 0, 0, 1),
        "nothing changes": (pod("w", CUDA_12, "a"), 0, 0, 0),
    },
)
def test_the_exit_status_says_whether_something_is_that_bad_or_worse(
    raw: Raw, breaking: int, unknown: int, losing: int
) -> None:
    facts = ClusterFacts.of([*nodes(1, V100, "535.183.01", "v"), *nodes(1, A100, "535.183.01", "a")])
    plan = planned([raw], changed(facts, ["pool=v=590.44.01"]))
    assert plan.exit_status() == plan.exit_status(WorkloadChange.BREAKS) == breaking
    assert plan.exit_status(WorkloadChange.UNKNOWN) == unknown
    assert plan.exit_status(WorkloadChange.LOSES_NODES) == losing
    assert plan.exit_status(None) == 0


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
    judge = workload_planner.placement_of

    def counting(one: Any, *others: Any) -> Any:
        asked.append(one.namespace)
        return judge(one, *others)

    monkeypatch.setattr(workload_planner, "placement_of", counting)
    facts = ClusterFacts.of(nodes(2, V100, "535.183.01", "v"))
    volumes = [[{"name": f"kube-api-access-{at:05}"}] for at in range(50)]
    pods = [pod(f"w{at}", CUDA_12, hostname=f"w{at}", volumes=made) for at, made in enumerate(volumes)]
    for at, raw in enumerate(pods):
        raw["metadata"]["labels"] = {"batch.kubernetes.io/job-completion-index": str(at)}
    plan = planned([*pods, pod("other", CUDA_12, gpus=2)], changed(facts, ["pool=v=590.44.01"]))
    assert len(plan.workloads) == 51
    assert len(asked) == 4
