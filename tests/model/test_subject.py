"""What an exception is compared with: names of pods before and after they are generated, and who makes them."""

from typing import Any

import pytest

from tests.reviews import pod, workload
from webhook.model.subject import subject_of, subject_of_template
from webhook.model.workloads import templates_of


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
        (owned("Job", "nightly-29012345"), [("Job", "nightly-29012345"), ("CronJob", "nightly")]),
        (owned("Job", "nightly-2901"), [("Job", "nightly-2901")]),
        (
            owned("Job", "js-w-0", **{"jobset.sigs.k8s.io/jobset-name": "js"}),
            [("Job", "js-w-0"), ("JobSet", "js")],
        ),
    ],
)
def test_who_makes_a_pod_is_known_by_names_and_labels_of_controllers(raw: dict[str, Any], members) -> None:
    assert list(subject_of(raw).members) == [("Pod", "p"), *members]


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("Deployment", {("Deployment", "w"), ("ReplicaSet", "w-xxxxxxxxxx"), ("Pod", "w-xxxxxxxxxx-xxxxx")}),
        ("CronJob", {("CronJob", "w"), ("Job", "w-00000000"), ("Pod", "w-00000000-xxxxx")}),
        ("StatefulSet", {("StatefulSet", "w"), ("Pod", "w-0")}),
        ("Job", {("Job", "w"), ("Pod", "w-xxxxx")}),
    ],
)
def test_a_workload_is_compared_as_the_pods_that_it_will_make(kind: str, members) -> None:
    raw = workload(kind, pod(1))
    (template,) = templates_of(raw)
    found = subject_of_template(raw, template)
    assert set(found.members) == members
    assert found.containers == (("c0", "registry.example.com/train:1"),)
    assert found.labels["app"] == "a"


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"metadata": None},
        {"metadata": {"name": 7, "labels": [], "generateName": {}, "ownerReferences": {}}, "spec": []},
        {"metadata": {"ownerReferences": [7, {"controller": True, "name": []}], "labels": {"a": None}}},
        {"spec": {"containers": [None, {"name": 1, "image": []}], "initContainers": "x"}},
    ],
)
def test_malformed_parts_count_as_missing(raw: dict[str, Any]) -> None:
    found = subject_of(raw)
    assert all(isinstance(text, str) for pair in (*found.members, *found.containers) for text in pair)
    assert found.labels == {}
