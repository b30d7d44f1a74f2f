"""What an exception is compared with: names of pods before and after they are generated, and who makes them."""

from typing import Any

import pytest

from tests.build import pod, workload
from tests.golden import golden
from webhook.model.subject import PodSubject, subject_of, subject_of_template
from webhook.model.workloads import templates_of
from webhook.policy.exceptions import Match


def owned(kind: str, name: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "p",
            "labels": labels,
            "ownerReferences": [{"kind": kind, "name": name, "controller": True}],
        }
    }


def test_a_generated_name_is_the_same_before_and_after_it_is_generated() -> None:
    before = subject_of({"metadata": {"generateName": "bert-"}})
    after = subject_of({"metadata": {"generateName": "bert-", "name": "bert-x7k2p"}})
    assert before.members == after.members == (("Pod", "bert-xxxxx"),)


def test_a_name_that_was_not_generated_counts() -> None:
    assert subject_of({"metadata": {"generateName": "bert-", "name": "other"}}).members == (("Pod", "other"),)


def test_a_long_stem_is_cut_as_kubernetes_cuts_it() -> None:
    stem = "b" * 70
    assert subject_of({"metadata": {"generateName": stem}}).members == (("Pod", "b" * 58 + "xxxxx"),)


@pytest.mark.parametrize(
    ("raw", "members"),
    [
        (
            owned("ReplicaSet", "web-7c9", **{"pod-template-hash": "7c9"}),
            [("ReplicaSet", "web-7c9"), ("Deployment", "web")],
        ),
        (owned("ReplicaSet", "web-7c9"), [("ReplicaSet", "web-7c9")]),
        (owned("ReplicaSet", "web", **{"pod-template-hash": "7c9"}), [("ReplicaSet", "web")]),
        (
            owned("ReplicaSet", "web-7c9", **{"rollouts-pod-template-hash": "7c9"}),
            [("ReplicaSet", "web-7c9"), ("Rollout", "web")],
        ),
        (
            owned("ReplicaSet", "web-1-deployment-7c9", **{"serving.knative.dev/service": "web"}),
            [("ReplicaSet", "web-1-deployment-7c9"), ("Service", "web")],
        ),
        (owned("Job", "nightly-29012345"), [("Job", "nightly-29012345"), ("CronJob", "nightly")]),
        (owned("Job", "nightly-2901"), [("Job", "nightly-2901")]),
        (owned("Job", "js-w-0", **{"jobset.sigs.k8s.io/jobset-name": "js"}), [("Job", "js-w-0"), ("JobSet", "js")]),
    ],
)
def test_who_makes_a_pod_is_known_by_names_and_labels_of_controllers(raw: dict[str, Any], members) -> None:
    assert list(subject_of(raw).members) == [("Pod", "p"), *members]


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("Deployment", {("Deployment", "w"), ("ReplicaSet", "w-xxxxxxxxxx"), ("Pod", "w-xxxxxxxxxx-xxxxx")}),
        ("CronJob", {("CronJob", "w"), ("Job", "w-00000000"), ("Pod", "w-00000000-xxxxx")}),
        ("StatefulSet", {("StatefulSet", "w"), ("Pod", "w-xxxxxxxxxx")}),
        ("Job", {("Job", "w"), ("Pod", "w-xxxxx")}),
    ],
)
def test_a_workload_is_compared_as_the_pods_that_it_will_make(kind: str, members) -> None:
    raw = workload(kind, pod(1))
    raw["spec"]["replicas"] = 2
    (template,) = templates_of(raw)
    found = subject_of_template(raw, template)
    assert set(found.members) == members
    assert found.containers == (("c0", "registry.example.com/train:1"),)
    assert found.labels["app"] == "a"


def template_subject(api_version: str, kind: str, spec: dict[str, Any]) -> PodSubject:
    raw = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w"}, "spec": spec}
    return subject_of_template(raw, templates_of(raw)[0])


POD = {"spec": pod(1)["spec"]}
RAY = {"rayClusterSpec": {"headGroupSpec": {"template": POD}}}
NIM = {"resources": {"limits": {"nvidia.com/gpu": 1}}}


@golden
def test_the_only_pod_of_a_stateful_set_is_known_by_name_and_no_other_one(spec: dict[str, Any], name: str) -> None:
    assert template_subject("apps/v1", "StatefulSet", {"template": POD, **spec}).members[0] == ("Pod", name)


@pytest.mark.parametrize("count", [2, 12])
def test_no_name_of_one_pod_holds_for_a_workload_with_several(count: int) -> None:
    several = template_subject("apps/v1", "StatefulSet", {"template": POD, "replicas": count})
    for pattern, holds in (("w-0", False), ("w-?", False), ("w-??", False), ("w-*", True), ("w", True)):
        assert Match(names=(pattern,)).holds(several) is holds


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "makers"),
    [
        ("ray.io/v1", "RayJob", RAY, {("RayCluster", "")}),
        ("ray.io/v1", "RayService", {"rayClusterConfig": RAY["rayClusterSpec"]}, {("RayCluster", "")}),
        ("ray.io/v1", "RayCluster", RAY["rayClusterSpec"], {("RayCluster", "w")}),
        ("batch.volcano.sh/v1alpha1", "Job", {"tasks": [{"name": "t", "template": POD}]}, {("Job", "w")}),
        (
            "batch.volcano.sh/v1alpha1",
            "CronJob",
            {"jobTemplate": {"spec": {"tasks": [{"name": "t", "template": POD}]}}},
            {("Job", "")},
        ),
        ("argoproj.io/v1alpha1", "Rollout", {"template": POD}, {("ReplicaSet", "w-xxxxxxxxxx"), ("Rollout", "w")}),
        (
            "argoproj.io/v1alpha1",
            "CronWorkflow",
            {"workflowSpec": {"templates": [{"name": "t", "container": POD["spec"]["containers"][0]}]}},
            {("Workflow", "")},
        ),
        (
            "argoproj.io/v1alpha1",
            "Workflow",
            {"templates": [{"name": "t", "container": POD["spec"]["containers"][0]}]},
            {("Workflow", "w")},
        ),
        ("kubeflow.org/v1", "Notebook", {"template": POD}, {("StatefulSet", "w"), ("Notebook", "w")}),
        (
            "kubeflow.org/v1",
            "PyTorchJob",
            {"pytorchReplicaSpecs": {"Worker": {"template": POD}}},
            {("PyTorchJob", "w")},
        ),
        (
            "trainer.kubeflow.org/v1alpha1",
            "TrainJob",
            {"trainer": {"resourcesPerNode": POD["spec"]["containers"][0]["resources"]}},
            {("Job", ""), ("JobSet", "w")},
        ),
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {"replicatedJobs": [{"name": "r", "template": {"spec": {"template": POD}}}]},
            {("Job", "w-r-xxxxxxxxxx"), ("JobSet", "w")},
        ),
        ("serving.knative.dev/v1", "Service", {"template": POD}, {("Service", "w")}),
        ("apps.nvidia.com/v1alpha1", "NIMService", NIM, {("ReplicaSet", "w-xxxxxxxxxx"), ("Deployment", "w")}),
        (
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            {"leaderWorkerTemplate": {"size": 2, "leaderTemplate": POD, "workerTemplate": POD}},
            {("StatefulSet", "w"), ("LeaderWorkerSet", "w")},
        ),
        (
            "ome.io/v1",
            "InferenceService",
            {"engine": {"runner": POD["spec"]["containers"][0]}},
            {("InferenceService", "w")},
        ),
        ("example.com/v1", "Unknown", {"template": POD}, {("Unknown", "w")}),
    ],
)
def test_a_workload_is_known_by_what_its_pods_say_of_who_makes_them(
    api_version: str, kind: str, spec: dict[str, Any], makers: set[Any]
) -> None:
    assert {one for one in template_subject(api_version, kind, spec).members if one[0] != "Pod"} == makers


def test_a_job_with_indexes_makes_pods_with_indexes() -> None:
    raw = workload("Job", pod(1))
    raw["spec"]["completionMode"] = "Indexed"
    assert subject_of_template(raw, templates_of(raw)[0]).members[0] == ("Pod", "w-xxxxxxxxxx-xxxxx")


@golden
def test_malformed_parts_count_as_missing(raw: dict[str, Any]) -> None:
    found = subject_of(raw)
    assert all(isinstance(text, str) for pair in (*found.members, *found.containers) for text in pair)
    assert found.labels == {}
