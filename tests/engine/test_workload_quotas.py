"""What is said of a workload at apply about what is free now, and about times with more pods than usual."""

import copy
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from tests.build import FACTS, pod, policy, workload
from tests.judged_workloads import LIMITED, TEAM, cluster, training
from tests.ledger.small_cluster import raw_pod
from tests.quota.quotas import own, shared_quota
from webhook import engine
from webhook.engine import Around
from webhook.facts.facts import ClusterFacts
from webhook.ledger.ledger_store import GpuPod, demands_of
from webhook.ledger.ledgers import InUse
from webhook.model.pod_reader import pod_from_raw
from webhook.model.workloads.peaks import Scaler
from webhook.policy.policy_quotas import ConfiguredQuota
from webhook.quota.quotas import Quota

OURS = (("ReplicaSet", "w-5c9"), ("Deployment", "w"))
OTHERS = (("ReplicaSet", "w-2-5c9"), ("Deployment", "w-2"))


def held(**gpus: int) -> list[GpuPod]:
    """Pods that nothing made, and what each uses; `w` and `x` in front stand for pods of Deployments w and w-2."""
    makers = {"w": OURS, "x": OTHERS}
    return [
        GpuPod(name.encode().ljust(16), TEAM, name, pod_from_raw(raw_pod(count)), makers=makers.get(name[0], ()))
        for name, count in gpus.items()
    ]


def around(pods: list[GpuPod], *scalers: Scaler, tells: bool = True) -> Around:
    def in_use(quota: Quota) -> InUse:
        return InUse(Counter(demands_of(pods, quota.counting).values()), pods, tells)

    return Around(in_use, scalers)


def apply(
    raw: Any, pods: list[GpuPod], *bound: ConfiguredQuota, old: Any = None, mode: str = "warn", **more: Any
) -> list[str]:
    """What is said of a workload, with its places left out."""
    using = policy(LIMITED, workloads=mode)
    beside = around(pods, **more)
    outcome = engine.validate_workload(raw, TEAM, using, FACTS, bound or (own(gpus=12),), old=old, around=beside)
    assert outcome.refusals == ()
    return [one.message + ". " + one.remedy for one in outcome.findings]


def deployment(replicas: Any = 1, gpus: int = 4, kind: str = "Deployment", **spec: Any) -> dict[str, Any]:
    raw = workload(kind, pod(gpus))
    raw["spec"] |= {"replicas": replicas, **spec}
    return raw


RECREATE = {"strategy": {"type": "Recreate"}}


def groups(number: int, size: int, gpus: int) -> dict[str, Any]:
    template = {"size": size, "workerTemplate": {"spec": pod(gpus)["spec"]}}
    spec = {"replicas": number, "leaderWorkerTemplate": template}
    api = "leaderworkerset.x-k8s.io/v1"
    return {"apiVersion": api, "kind": "LeaderWorkerSet", "metadata": {"name": "lws"}, "spec": spec}


def gated(raw: dict[str, Any]) -> dict[str, Any]:
    raw["spec"]["template"]["spec"] |= {"schedulingGates": [{"name": "example.com/queue"}]}
    return raw


def queued(raw: dict[str, Any]) -> dict[str, Any]:
    raw["spec"]["template"]["metadata"] = {"labels": {"kueue.x-k8s.io/queue-name": "q"}}
    return raw


def in_turn(*pods: int) -> dict[str, Any]:
    """A JobSet with a job of so many pods after the other."""
    jobs: list[dict[str, Any]] = [
        {"name": f"j{at}", "template": {"spec": {"parallelism": number, "template": {"spec": pod(1)["spec"]}}}}
        for at, number in enumerate(pods)
    ]
    for before, job in pairwise(jobs):
        job["dependsOn"] = [{"name": before["name"], "status": "Complete"}]
    api = "jobset.x-k8s.io/v1alpha2"
    return {"apiVersion": api, "kind": "JobSet", "metadata": {"name": "js"}, "spec": {"replicatedJobs": jobs}}


def two_roles(gpus: int) -> dict[str, Any]:
    """A service of models with one pod that fills caches and one that answers."""
    spec = {"template": pod(gpus)["spec"], "prefill": {"template": pod(gpus)["spec"]}}
    return {"apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService", "spec": spec}


def ray_job(gpus: int) -> dict[str, Any]:
    """A job whose cluster grows by two workers at a time."""
    template = {"spec": pod(gpus)["spec"]}
    workers = {"groupName": "w", "replicas": 0, "maxReplicas": 9, "numOfHosts": 2, "template": template}
    cluster_spec = {"headGroupSpec": {"template": template}, "workerGroupSpecs": [workers]}
    spec = {"rayClusterSpec": {**cluster_spec, "enableInTreeAutoscaling": True}}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "r"}, "spec": spec}


@pytest.mark.parametrize("mode", ["warn", "enforce"])
@pytest.mark.parametrize(
    ("raw", "pods", "said"),
    [
        pytest.param(
            deployment(1, 8, **RECREATE),
            held(train=8),
            "requests 8 GPUs; 8 of 12 are in use, 4 free; largest: train 8. Free some or request 4",
            id="one pod",
        ),
        pytest.param(
            deployment(3, 4, "StatefulSet"),
            held(a=5, b=1),
            "its 3 pods request 12 GPUs together; 6 of 12 are in use, 6 free; largest: a 5, b 1. Free some",
            id="all pods",
        ),
        pytest.param(
            deployment(3, 4, "StatefulSet"),
            held(a=9),
            "requests 4 GPUs; 9 of 12 are in use, 3 free; largest: a 9. Free some or request 3",
            id="one pod already, so all are not named",
        ),
        pytest.param(
            groups(2, 2, 3),
            held(a=7),
            "one group (2 pods) requests 6 GPUs together; 7 of 12 are in use, 5 free; largest: a 7. Free some",
            id="one group",
        ),
        pytest.param(
            groups(2, 2, 3),
            held(a=5),
            "its 4 pods request 12 GPUs together; 5 of 12 are in use, 7 free; largest: a 5. Free some",
            id="all groups",
        ),
        pytest.param(
            training(2, 2, 4),
            held(a=4),
            "its 5 pods request 10 GPUs together; 4 of 12 are in use, 8 free; largest: a 4. Free some",
            id="two templates",
        ),
        pytest.param(
            deployment(None, 4, "DaemonSet"),
            held(a=9),
            "requests 4 GPUs; 9 of 12 are in use, 3 free; largest: a 9. Free some or request 3",
            id="one for each node",
        ),
        pytest.param(
            deployment(2, 4, **RECREATE),
            held(w1=4, a=8),
            "requests 4 GPUs; 12 of 12 are in use, 0 free; largest: a 8, w1 4. Free some",
            id="one of its own runs",
        ),
        pytest.param(
            deployment(1, 4, **RECREATE),
            held(x1=9),
            "requests 4 GPUs; 9 of 12 are in use, 3 free; largest: x1 9. Free some or request 3",
            id="a Deployment of a similar name",
        ),
        pytest.param(deployment(2, 4, "StatefulSet"), held(a=4), "", id="fits"),
        pytest.param(deployment(2, 4, **RECREATE), held(w1=4, w2=4, a=4), "", id="all of its own run"),
        pytest.param(cluster(4), held(ray=4, a=4), "", id="a cluster that fits"),
        pytest.param(deployment(0, 4), held(a=12), "", id="no pods"),
        pytest.param(deployment(1, 4, paused=True), held(a=12), "", id="paused"),
        pytest.param(gated(deployment(1, 4, **RECREATE)), held(a=12), "", id="gated"),
        pytest.param(queued(deployment(1, 4, **RECREATE)), held(a=12), "", id="its pods wait in a queue"),
        pytest.param(in_turn(4, 6), held(a=6), "", id="jobs that follow each other"),
        pytest.param(deployment(1, 4, "Job", suspend=True), held(a=12), "", id="suspended"),
        pytest.param(workload("CronJob", pod(4)), held(a=12), "", id="a schedule"),
        pytest.param(workload("PodTemplate", pod(4)), held(a=12), "", id="no pods by itself"),
    ],
)
def test_a_workload_is_told_what_is_free_now_and_never_refused_for_it(
    raw: Any, pods: list[GpuPod], said: str, mode: str
) -> None:
    assert apply(raw, pods, mode=mode) == ([said] if said else [])


@pytest.mark.parametrize(
    ("old", "new", "pods", "said"),
    [
        pytest.param(
            deployment(1, 4, **RECREATE),
            deployment(2, 4, **RECREATE),
            held(w1=4, a=6),
            ["requests 4 GPUs; 10 of 12 are in use, 2 free; largest: a 6, w1 4. Free some or request 2"],
            id="one pod more",
        ),
        pytest.param(
            deployment(1, 2, **RECREATE),
            deployment(3, 2, **RECREATE),
            held(w1=2, a=7),
            [
                "its 3 pods request 6 GPUs together, 4 more than now; 9 of 12 are in use, 3 free; largest: a 7, w1 2. "
                "Free some"
            ],
            id="two pods more, of which one fits",
        ),
        pytest.param(
            deployment(1, 4, **RECREATE),
            deployment(1, 7, **RECREATE),
            held(w1=4, a=6),
            [
                "its pod requests 7 GPUs together, 3 more than now; 10 of 12 are in use, 2 free; largest: a 6, w1 4. "
                "Free some"
            ],
            id="larger pods in the place of the old",
        ),
        pytest.param(deployment(1, 4, **RECREATE), deployment(1, 6, **RECREATE), held(w1=4, a=6), [], id="they fit"),
        pytest.param(deployment(3), deployment(2), held(w1=4, w2=4, w3=4), [], id="fewer"),
        pytest.param(deployment(2), deployment(2), held(w1=4, w2=4, a=4), [], id="unchanged"),
        pytest.param(deployment(0), deployment(1), held(a=9), ["requests 4 GPUs; 9 of 12 are"], id="from none"),
        pytest.param(
            deployment(2),
            deployment(2, minReadySeconds=5) | {"changed": 1},
            held(w1=4, w2=4, a=4),
            [
                "a rolling update starts 1 pod more (maxSurge 25%), which requests 4 GPUs; 12 of 12 are in use, 0 "
                "free; largest: a 4, w1 4, w2 4. Set strategy Recreate, or maxSurge: 0"
            ],
            id="another template",
        ),
        pytest.param(
            deployment(2, **RECREATE),
            deployment(2, **RECREATE) | {"changed": 1},
            held(w1=4, w2=4, a=4),
            [],
            id="another template without a surge",
        ),
        pytest.param(deployment(2), deployment(2) | {"changed": 1}, held(w1=4, w2=4), [], id="with room for a surge"),
    ],
)
def test_an_update_is_told_of_what_it_adds(old: Any, new: Any, pods: list[GpuPod], said: list[str]) -> None:
    if new.pop("changed", None):
        new = copy.deepcopy(new)
        new["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example.com/train:2"
    found = apply(new, pods, old=old)
    assert [text.startswith(part) for text, part in zip(found, said, strict=True)] == [True] * len(said), found


@pytest.mark.parametrize(
    ("bound", "raw", "said"),
    [
        pytest.param(
            [own(gpus=12), own(gpus=12, byModel={"H100": 12})],
            deployment(1, 8, "StatefulSet"),
            ["8 of 12 are in use, 4 free; largest: a 8", "8 of 12 are in use, 4 free; largest: a 8"],
            id="one limit of each quota",
        ),
        pytest.param(
            [shared_quota(gpus=9)],
            deployment(1, 8, "StatefulSet"),
            ["requests 8 GPUs; 8 of 9 of GPU quota 'research' are in use, 1 free; largest: a 8"],
            id="a shared quota",
        ),
        pytest.param([own(gpus=12, mode="audit")], deployment(1, 8, "StatefulSet"), ["8 of 12"], id="only audited"),
        pytest.param(
            [own(gpus=12, weights={"nvidia.com/gpu": "1/2"})],
            deployment(1, 8, "StatefulSet"),
            [],
            id="counted as the quota counts",
        ),
    ],
)
def test_each_quota_speaks_once(bound: list[ConfiguredQuota], raw: Any, said: list[str]) -> None:
    found = apply(raw, held(a=8), *bound)
    assert [part in text for text, part in zip(found, said, strict=True)] == [True] * len(said), found


def test_where_nobody_may_know_what_is_in_use_only_the_limit_is_said() -> None:
    (found,) = apply(deployment(1, 8, **RECREATE), held(a=8), tells=False)
    assert found == "requests 8 GPUs, more than is free of 12 GPUs. Free some or request less"


def hpa(most: int) -> Scaler:
    return Scaler(("Deployment", "w"), most, "maxReplicas", "HorizontalPodAutoscaler w")


@pytest.mark.parametrize(
    ("raw", "scalers", "said"),
    [
        pytest.param(
            deployment(1, 8),
            [],
            "a rolling update starts 1 pod more (maxSurge 25%), so 2 pods request 16 GPUs together; GPU quota "
            "'team-vision' allows 12 GPUs in all, so the update never ends. Set strategy Recreate, or maxSurge: 0",
            id="an update",
        ),
        pytest.param(
            deployment(4, 3, strategy={"rollingUpdate": {"maxSurge": 1}}),
            [],
            "a rolling update starts 1 pod more (maxSurge 1), so 5 pods request 15 GPUs together; GPU quota "
            "'team-vision' allows 12 GPUs in all, so new pods wait until old ones have ended. Set strategy Recreate, "
            "or maxSurge: 0",
            id="an update that ends all the same",
        ),
        pytest.param(
            deployment(2, 4, strategy={"rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0}}),
            [],
            "a rolling update starts 2 pods more (maxSurge 100%), so 4 pods request 16 GPUs together; GPU quota "
            "'team-vision' allows 12 GPUs in all, so new pods wait until old ones have ended. Set strategy Recreate, "
            "or maxSurge: 0, with maxUnavailable: 1",
            id="an update with room for one pod more",
        ),
        pytest.param(in_turn(9, 12), [], "", id="jobs that follow each other"),
        pytest.param(
            two_roles(4),
            [],
            "a rolling update starts 2 pods more (maxSurge 25%), so 4 pods request 16 GPUs together; GPU quota "
            "'team-vision' allows 12 GPUs in all, so new pods wait until old ones have ended. Set maxSurge: 0 in "
            "rolloutStrategy",
            id="updates with room for one of two",
        ),
        pytest.param(deployment(4, 3), [], "", id="an update that nobody asked to start more"),
        pytest.param(
            deployment(1, 4),
            [hpa(5)],
            "maxReplicas of HorizontalPodAutoscaler w is 5, so 5 pods request 20 GPUs together; GPU quota "
            "'team-vision' allows 12 GPUs in all, enough for 3 of them. Set maxReplicas to 3 or less",
            id="an autoscaler",
        ),
        pytest.param(
            ray_job(2),
            [],
            "maxReplicas is 9, so 19 pods request 38 GPUs together; GPU quota 'team-vision' allows 12 GPUs in all, "
            "enough for 5 of them. Set maxReplicas to 2 or less",
            id="replicas of two pods, beside a head with GPUs",
        ),
        pytest.param(deployment(1, 4), [hpa(3)], "", id="an autoscaler that stays within"),
    ],
)
def test_more_pods_than_usual_are_compared_with_the_quota(raw: Any, scalers: list[Scaler], said: str) -> None:
    beside = Around(scalers=scalers)
    outcome = engine.validate_workload(raw, TEAM, policy(LIMITED), FACTS, [own(gpus=12)], around=beside)
    assert [one.message + ". " + one.remedy for one in outcome.findings] == ([said] if said else [])


def node(gpus: int, name: str = "n", **labels: str) -> dict[str, Any]:
    amounts = {"nvidia.com/gpu": str(gpus), "cpu": "64", "memory": "512Gi", "pods": "110"}
    return {"metadata": {"name": name, "labels": labels}, "status": {"capacity": amounts, "allocatable": amounts}}


@pytest.mark.parametrize(
    ("raw", "nodes", "most", "said"),
    [
        pytest.param(
            deployment(2, 4),
            [node(8)],
            0,
            "a rolling update starts 1 pod more (maxSurge 25%), so 3 pods request 12 GPUs together; the nodes of today "
            "that fit have room for 2 of them, so the update never ends",
            id="an update",
        ),
        pytest.param(
            deployment(2, 4, **RECREATE),
            [node(8), node(6, "m")],
            5,
            "maxReplicas of HorizontalPodAutoscaler w is 5, so 5 pods request 20 GPUs together; the nodes of today "
            "that fit have room for 3 of them",
            id="an autoscaler",
        ),
        pytest.param(deployment(2, 4), [node(8), node(4, "m")], 0, "", id="room"),
        pytest.param(deployment(3, 4), [node(8)], 0, "", id="too many without an update"),
        pytest.param(deployment(2, 4), [], 0, "", id="no known node"),
        pytest.param(deployment(2, 4), [node(8, **{"karpenter.sh/nodepool": "a"})], 0, "", id="nodes on demand"),
    ],
)
def test_more_pods_than_usual_are_compared_with_the_nodes_of_today(
    raw: Any, nodes: list[Any], most: int, said: str
) -> None:
    beside, facts = Around(scalers=[hpa(most)] if most else []), ClusterFacts.of(nodes)
    outcome = engine.validate_workload(raw, TEAM, policy({"schedulable": {}}), facts, around=beside)
    assert [one.message for one in outcome.findings] == ([said] if said else [])
    assert all(one.rule == "schedulable" and not one.refuses for one in outcome.findings)
