"""How pods name their groups, and how large objects of each kind say that a group is."""

import pytest

from tests.golden import each
from webhook.model.pod_groups import GROUP_KINDS, group_in, group_of, named_groups

UID = "3f1c2a00-0000-4000-8000-000000000001"
TEMPLATE = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 4}}}]}}
LWS, JOBSET, KUEUE = "leaderworkerset.sigs.k8s.io/", "jobset.sigs.k8s.io/", "kueue.x-k8s.io/"


def pod(*, labels=None, annotations=None, owner=None, **spec):
    owners = [{"apiVersion": owner[0], "kind": owner[1], "uid": owner[2], "controller": True}] if owner else []
    metadata = {"name": "p", "labels": labels or {}, "annotations": annotations or {}, "ownerReferences": owners}
    return {"metadata": metadata, "spec": spec}


def made(key, spec, **status):
    kind = GROUP_KINDS[key]
    api = f"{kind.group}/{kind.versions[0]}"
    return {"apiVersion": api, "kind": kind.kind, "metadata": {"name": "g", "uid": UID}, "spec": spec, "status": status}


OF_PODGROUP = pod(schedulingGroup={"podGroupName": "g"})
OF_LWS = {LWS + "name": "g", LWS + "group-index": "2", LWS + "worker-index": "1"}
OF_JOBSET = {JOBSET + "jobset-name": "g", JOBSET + "jobset-uid": UID, JOBSET + "replicatedjob-name": "w"}
PODGROUP = made("podgroups.scheduling.k8s.io", {"schedulingPolicy": {"gang": {"minCount": 4}}})
CONDITION = {"type": "PodGroupInitiallyScheduled", "status": "True"}
LEADERS = {"size": 3, "leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE}
JOBS = [
    {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 4, "completions": 3, "template": TEMPLATE}}},
    {"name": "x", "template": {"spec": {"template": TEMPLATE}}},
    {"name": "late", "dependsOn": [{"name": "w"}], "template": {"spec": {"template": TEMPLATE}}},
]
WORKERS = {"groupName": "big", "replicas": 9, "minReplicas": 2, "numOfHosts": 2, "template": TEMPLATE}
RAY = {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [WORKERS]}
SETS = [{"name": "main", "count": 5, "template": TEMPLATE}, {"name": "new", "count": 1, "template": TEMPLATE}]


@each(
    "its_pod, raw, text, parts",
    {
        "PodGroup of Kubernetes": (OF_PODGROUP, PODGROUP, "podgroups.scheduling.k8s.io/g/", [("", 4)]),
        "no gang": (
            OF_PODGROUP,
            made("podgroups.scheduling.k8s.io", {"schedulingPolicy": {"basic": {}}}),
            "podgroups.scheduling.k8s.io/g/",
            [("", 1)],
        ),
        "a worker of a LeaderWorkerSet": (
            pod(labels=OF_LWS),
            made("leaderworkersets.leaderworkerset.x-k8s.io", {"replicas": 7, "leaderWorkerTemplate": LEADERS}),
            "leaderworkersets.leaderworkerset.x-k8s.io/g/2",
            [("worker", 2), ("leader", 1)],
        ),
        "a LeaderWorkerSet with one template": (
            pod(labels=OF_LWS),
            made(
                "leaderworkersets.leaderworkerset.x-k8s.io",
                {"leaderWorkerTemplate": {"size": 3, "workerTemplate": TEMPLATE}},
            ),
            "leaderworkersets.leaderworkerset.x-k8s.io/g/2",
            [("", 3)],
        ),
        "a JobSet, without the jobs that wait for others": (
            pod(labels=OF_JOBSET),
            made("jobsets.jobset.x-k8s.io", {"replicatedJobs": JOBS}),
            "jobsets.jobset.x-k8s.io/g/",
            [("w", 6), ("x", 1)],
        ),
        "head and minimum of a RayCluster": (
            pod(labels={"ray.io/cluster": "g", "ray.io/group": "headgroup"}),
            made("rayclusters.ray.io", RAY),
            "rayclusters.ray.io/g/",
            [("head", 1), ("big", 4)],
        ),
        "a Workload of Kueue, as it was admitted, without pods that have finished": (
            pod(annotations={KUEUE + "workload": "g"}, labels={KUEUE + "podset": "main"}),
            made(
                "workloads.kueue.x-k8s.io",
                {"podSets": SETS},
                admission={"podSetAssignments": [{"name": "main", "count": 4}]},
                reclaimablePods=[{"name": "main", "count": 1}],
            ),
            "workloads.kueue.x-k8s.io/g/",
            [("main", 3)],
        ),
        "Volcano": (
            pod(annotations={"scheduling.k8s.io/group-name": "g"}),
            made("podgroups.scheduling.volcano.sh", {"minMember": 3}),
            "podgroups.scheduling.volcano.sh/g/",
            [("", 3)],
        ),
        "KAI": (
            pod(annotations={"pod-group-name": "g"}),
            made("podgroups.scheduling.run.ai", {"minMember": 3}),
            "podgroups.scheduling.run.ai/g/",
            [("", 3)],
        ),
        "scheduler-plugins": (
            pod(labels={"scheduling.x-k8s.io/pod-group": "g"}),
            made("podgroups.scheduling.x-k8s.io", {"minMember": 3}),
            "podgroups.scheduling.x-k8s.io/g/",
            [("", 3)],
        ),
    },
)
def test_a_group_is_as_large_as_its_object_says(its_pod, raw, text, parts):
    (named,) = named_groups(its_pod)
    assert named.text == text
    found = group_of(named, raw, its_pod)
    assert [(one.name, one.size) for one in found.parts] == parts
    assert found.uid == UID
    of = f"{text}/{found.parts[0].name}"
    assert group_of(group_in(of), raw).parts[0].size == parts[0][1]


@each(
    "its_pod, raw",
    {
        "the JobSet has another uid": (
            pod(labels={**OF_JOBSET, JOBSET + "jobset-uid": "other"}),
            made("jobsets.jobset.x-k8s.io", {"replicatedJobs": JOBS}),
        ),
        "a job that waits for others": (
            pod(labels={**OF_JOBSET, JOBSET + "replicatedjob-name": "late"}),
            made("jobsets.jobset.x-k8s.io", {"replicatedJobs": JOBS}),
        ),
        "the owner has another uid": (
            pod(labels={"ray.io/cluster": "g", "ray.io/group": "big"}, owner=("ray.io/v1", "RayCluster", "other")),
            made("rayclusters.ray.io", RAY),
        ),
        "a Workload that is not admitted": (
            pod(annotations={KUEUE + "workload": "g"}, labels={KUEUE + "podset": "main"}),
            made("workloads.kueue.x-k8s.io", {"podSets": SETS}),
        ),
        "no uid": (OF_PODGROUP, {**PODGROUP, "metadata": {}}),
        "a size that is no number": (
            OF_PODGROUP,
            made("podgroups.scheduling.k8s.io", {"schedulingPolicy": {"gang": {"minCount": "x"}}}),
        ),
        "made of other types": (OF_PODGROUP, {**PODGROUP, "spec": [], "metadata": {"uid": 7}}),
    },
)
def test_a_pod_counts_alone_where_its_object_makes_no_demand_on_it(its_pod, raw):
    (named,) = named_groups(its_pod)
    assert group_of(named, raw, its_pod) is None


@each(
    "its_pod",
    {
        "no group": pod(),
        "no text": pod(schedulingGroup={"podGroupName": 7}),
        "a slash": pod(schedulingGroup={"podGroupName": "a/b"}),
        "too long": pod(schedulingGroup={"podGroupName": "a" * 300}),
        "no pod": {"metadata": [], "spec": 1},
        "nothing": None,
    },
)
def test_what_names_no_object_makes_no_group(its_pod):
    assert not list(named_groups(its_pod))
    assert group_in("nothing/of/the kind") is None


@pytest.mark.parametrize(
    ("key", "spec", "its_pod"),
    [
        (
            "leaderworkersets.leaderworkerset.x-k8s.io",
            {"startupPolicy": "LeaderReady", "leaderWorkerTemplate": LEADERS},
            pod(labels=OF_LWS),
        ),
        (
            "jobsets.jobset.x-k8s.io",
            {"startupPolicy": {"startupPolicyOrder": "InOrder"}, "replicatedJobs": JOBS},
            pod(labels=OF_JOBSET),
        ),
    ],
)
def test_pods_that_come_one_after_the_other_have_no_lease(key, spec, its_pod):
    (named,) = named_groups(its_pod)
    assert group_of(named, made(key, spec), its_pod).is_lasting
    spec = {name: value for name, value in spec.items() if name != "startupPolicy"}
    assert not group_of(named, made(key, spec), its_pod).is_lasting


@pytest.mark.parametrize(
    ("key", "status", "begun", "started"),
    [
        ("podgroups.scheduling.k8s.io", {}, False, False),
        ("podgroups.scheduling.k8s.io", {"conditions": [CONDITION | {"status": "False"}]}, False, False),
        ("podgroups.scheduling.k8s.io", {"conditions": [CONDITION]}, True, True),
        ("podgroups.scheduling.volcano.sh", {"phase": "Inqueue"}, False, False),
        ("podgroups.scheduling.volcano.sh", {"phase": "Running"}, True, True),
        ("podgroups.scheduling.k8s.io", {"replicatedJobsStatus": [{"ready": 0, "succeeded": 1}]}, True, False),
        ("podgroups.scheduling.k8s.io", {"state": "ready"}, True, False),
    ],
)
def test_a_group_that_was_there_once_is_told_apart(key, status, begun, started):
    raw = made(key, {"minMember": 3, **PODGROUP["spec"]}, **status)
    found = group_of(group_in(f"{key}/g//"), raw)
    assert (found.has_begun, found.has_started) == (begun, started)


def test_pods_of_a_stateful_set_in_a_queue_have_no_lease():
    admission = {"podSetAssignments": [{"name": "main", "count": 3}]}
    raw = made("workloads.kueue.x-k8s.io", {"podSets": SETS}, admission=admission)
    labels = {KUEUE + "pod-group-name": "g", KUEUE + "podset": "main"}
    for kind, is_lasting in (("StatefulSet", True), ("Job", False)):
        its_pod = pod(labels=labels, owner=("apps/v1", kind, "u"))
        (named,) = named_groups(its_pod)
        assert group_of(named, raw, its_pod).is_lasting is is_lasting
