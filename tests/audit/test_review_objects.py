"""A review answers for an object what both phases of the webhook would, and where it was read."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.build import NAMESPACE, WORKLOADS, against, pod, policies, policy, requests_only, workload
from tests.golden import each
from tests.ledger.small_cluster import seen_pod
from tests.rules.every_rule import INJECTING
from webhook.audit.documents import Document, DocumentError, read_text
from webhook.audit.object_sources import Background, of_files
from webhook.audit.review_objects import ReviewedObject, ReviewList, review
from webhook.ledger.ledger_store import GpuPod
from webhook.ledger.static_pods import StaticPods
from webhook.policy.policy_set import PolicySet

ENFORCED = policies(INJECTING | {"gpuLimits": {"maxPerPod": 4}})


def reviewed(*objects: Any, using: PolicySet = ENFORCED, namespace: str = "default") -> ReviewList:
    documents = [Document("f", number, number, obj) for number, obj in enumerate(objects, start=1)]
    return review(documents, namespace, against(using))


def only(obj: Any, **kwargs: Any) -> ReviewedObject:
    (item,) = reviewed(obj, **kwargs).items
    return item


def policy_of(item: ReviewedObject) -> str:
    """The name of the policy that an item was judged by."""
    assert item.policy is not None
    return item.policy.name


def test_a_pod_goes_through_both_phases() -> None:
    item = only(pod(5))
    assert item.patch
    assert not item.is_allowed
    assert [finding.rule for finding in item.violations] == ["gpuLimits"]


def test_a_repaired_workload_that_is_refused_for_something_else_is_shown_as_it_is() -> None:
    raw = workload("Job", requests_only(5))
    item = only(raw, using=policies({"gpuLimits": {"requestsOnly": "repair", "maxPerPod": 4}}))
    assert (item.is_allowed, item.patch, item.result) == (False, (), raw)


def test_what_both_phases_find_is_told_once() -> None:
    item = only(requests_only(), using=policies({"gpuLimits": {}}, mode="warn"))
    assert (len(item.findings), len(item.warnings), item.is_allowed) == (1, 1, True)


def test_an_object_that_no_rule_concerns_is_allowed_without_a_policy() -> None:
    item = only({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}})
    assert (item.is_allowed, item.policy, item.patch, item.namespace, item.title) == (
        True,
        None,
        (),
        "b",
        "ConfigMap b/a",
    )


@pytest.mark.parametrize(
    ("metadata", "namespace", "name"),
    [
        ({"name": "a", "namespace": "own"}, "own", "a"),
        ({"name": "a"}, "given", "a"),
        ({"generateName": "a-"}, "given", "a-"),
        ({"namespace": ""}, "given", ""),
        (None, "given", ""),
    ],
    ids=["own namespace", "no namespace", "generated name", "empty namespace", "no metadata"],
)
def test_an_object_without_namespace_is_taken_to_be_in_the_one_given(metadata: Any, namespace: str, name: str) -> None:
    using = PolicySet.of(policy({}), {namespace: policy({}, name="found")})
    item = only({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}}, using=using, namespace="given")
    assert (item.namespace, item.name, policy_of(item)) == (namespace, name, "found")


@pytest.mark.parametrize("metadata", [[], "a", 7])
def test_malformed_metadata_is_an_error_and_no_crash(metadata: Any) -> None:
    result = reviewed({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}}, pod(1))
    assert [str(error) for error in result.errors] == [
        f"f:1: metadata: found {'a list' if metadata == [] else 'a string' if metadata == 'a' else 'a number'}, "
        "expected a map"
    ]
    assert len(result.items) == 1


def test_a_name_cannot_drive_a_terminal() -> None:
    assert only(pod(1, name="a\x1b[2J\n")).title == "Pod team/a?[2J?"


@each(
    "objects, errors, status",
    {
        "allowed": ([pod(1)], [], 0),
        "nothing": ([], [], 0),
        "one refused": ([pod(1), pod(9)], [], 1),
        "one unreadable": ([pod(1)], [DocumentError("f", 1, 1, "m")], 2),
        "refused and unreadable": ([pod(9)], [DocumentError("f", 1, 1, "m")], 2),
    },
)
def test_the_exit_status_is_the_worst_that_happened(objects: Any, errors: Any, status: int) -> None:
    documents = [*(Document("f", 1, 1, obj) for obj in objects), *errors]
    assert review(documents, "default", against(ENFORCED)).exit_status == status


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Worker: {template: 7}}}",
        "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nspec: {templates: [{podSpecPatch: 'containers: ['}]}",
        "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nspec: {predictor: {model: {resources: []}}}",
        "apiVersion: example.com/v1\nkind: Nobody\nspec: {template: {spec: {containers: {}}}}",
        "apiVersion: v1\nkind: Service\nspec: null",
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec: 7",
    ],
)
def test_unknown_shapes_are_left_alone(text: str) -> None:
    result = review(list(read_text(text, "f")), "default", against(ENFORCED))
    assert ([item.policy for item in result.items], result.errors, result.exit_status) == ([None], (), 0)


# Quotas.


def limited(**settings: Any) -> PolicySet:
    """The namespace of the tests may use 4 GPUs, unless `settings` say otherwise."""
    return PolicySet.of(policy({}), {NAMESPACE: policy({"gpuQuota": {"gpus": 4, **settings}}, name=NAMESPACE)})


def allowed(*objects: Any, using: PolicySet, running: Sequence[GpuPod] = ()) -> list[bool]:
    documents = [Document("f", number, number, obj) for number, obj in enumerate(objects, start=1)]
    return [item.is_allowed for item in review(documents, "default", against(using, pods=running)).items]


def test_pods_of_one_file_are_added_up() -> None:
    assert allowed(*(pod(gpus, name=f"p{gpus}") for gpus in (3, 2, 1)), using=limited()) == [True, False, True]


def test_pods_that_run_already_count() -> None:
    running = [seen_pod(1, NAMESPACE, 2), seen_pod(2, "other", 8)]
    assert allowed(pod(2), pod(1), using=limited(), running=running) == [True, False]


def test_a_pod_that_is_refused_for_something_else_uses_nothing() -> None:
    using = PolicySet.of(policy({}), {NAMESPACE: policy({"gpuQuota": {"gpus": 4}, "gpuLimits": {"maxPerPod": 2}})})
    assert allowed(pod(3), pod(2), pod(2), using=using) == [False, True, True]


def test_a_pod_counts_against_the_model_that_is_injected() -> None:
    required = [{"key": "nvidia.com/gpu.product", "operator": "In", "values": ["Tesla-T4"]}]
    rules = {"gpuQuota": {"byModel": {"H100": 0, "T4": 4}}, "nodeAffinity": {"required": required}}
    using = PolicySet.of(policy({}), {NAMESPACE: policy(rules, name=NAMESPACE)})
    assert allowed(pod(3), pod(2), using=using) == [True, False]


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_workload_uses_nothing_of_a_quota_and_is_refused_where_none_of_its_pods_would_fit(kind: str) -> None:
    assert allowed(workload(kind, pod(4)), workload(kind, pod(4)), pod(4), using=limited()) == [True, True, True]
    assert allowed(workload(kind, pod(5)), using=limited()) == [False]


def test_a_pod_that_was_taken_from_the_cluster_is_not_counted_again() -> None:
    again = pod(3, name="pod-1", uid="00000000-0000-0000-0000-000000000001")
    running = [seen_pod(1, NAMESPACE, 3)]
    assert allowed(again, pod(1), pod(1), using=limited(), running=running) == [True, True, False]


@pytest.mark.parametrize(("running", "size", "allowed"), [(0, 3, 0), (0, 2, 2), (1, 3, 0), (2, 4, 2), (2, 3, 2)])
def test_pods_that_start_together_count_together_with_those_that_run(running: int, size: int, allowed: int) -> None:
    def member(name: str) -> dict[str, Any]:
        raw = pod(1, name=name)
        raw["spec"]["schedulingGroup"] = {"podGroupName": "ga"}
        return raw

    spec = {"schedulingPolicy": {"gang": {"minCount": size}}}
    head = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup"}
    group = {**head, "metadata": {"name": "ga", "namespace": NAMESPACE}, "spec": spec}
    there = [{**member(f"r{number}"), "status": {"phase": "Running"}} for number in range(running)]
    documents = [Document("f", number, number, obj) for number, obj in enumerate([group, member("a"), member("b")], 1)]
    source = of_files(documents, NAMESPACE, Background(pods=StaticPods(there)))
    quota = policies({"gpuQuota": {"gpus": running + (2 if running != 1 else 1)}})
    items = review(documents, NAMESPACE, source.context(quota, "")).items
    assert [item.is_allowed for item in items[1:]].count(True) == allowed
    for item in items[1:]:
        assert item.is_allowed or "PodGroup ga needs" in item.findings[0].message
