"""What makes a job one of several nodes is foretold of its templates as it will stand on their pods."""

from typing import Any

import pytest

from tests.build import NAMESPACE, policy
from tests.golden import each
from tests.model.workloads.samples import OBJECTS, title
from webhook import engine
from webhook.facts.facts import ClusterFacts
from webhook.model.pod_reader import pod_from_raw
from webhook.model.workloads import templates_of
from webhook.model.workloads.controllers import is_completed_elsewhere, may_span_nodes
from webhook.model.workloads.kubeflow import with_runtime

GROUPS = {
    "batch.volcano.sh",
    "flow.volcano.sh",
    "jobset.x-k8s.io",
    "kubeflow.org",
    "leaderworkerset.x-k8s.io",
    "ray.io",
    "trainer.kubeflow.org",
}
NCCL = policy({"ncclEnv": {"env": {"NCCL_DEBUG": "WARN"}}})
TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}
OTHERS = (
    "DisaggregatedSet",
    "Job",
    "CronJob",
    "LLMInferenceService",
    "LLMInferenceServiceConfig",
    "NIMService",
    "NIMPipeline",
)
"""Kinds of which it depends on the object."""


@pytest.mark.parametrize(
    "raw",
    [raw for raw in OBJECTS if raw["kind"] not in OTHERS and not raw["apiVersion"].startswith("ome.io")],
    ids=title,
)
def test_the_pods_of_training_jobs_are_known_and_no_others(raw: dict[str, Any]) -> None:
    alone = raw["kind"] == "Notebook" or (
        raw["kind"] == "LeaderWorkerSet" and raw["spec"]["leaderWorkerTemplate"].get("size", 1) == 1
    )
    expected = raw["apiVersion"].rpartition("/")[0] in GROUPS and not alone
    assert {may_span_nodes(pod_from_raw(one.made)) for one in templates_of(raw)} <= {expected}


@each(
    "mode, is_completed",
    {"indexed": ("Indexed", True), "not indexed": ("NonIndexed", False), "no completion mode": (None, False)},
)
def test_a_job_is_one_of_several_nodes_where_it_is_indexed(mode: str | None, is_completed: bool) -> None:
    job = {"completionMode": mode, "parallelism": 2, "completions": 2, "template": TEMPLATE}
    for kind, spec in (("Job", job), ("CronJob", {"jobTemplate": {"spec": job}})):
        raw = {"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}
        (one,) = engine.template_outcomes(raw, NAMESPACE, NCCL, ClusterFacts.of([]))
        assert [injection.rule for injection in one.injections] == ["ncclEnv"] * is_completed


@pytest.mark.parametrize("metadata", [None, {}, {"labels": None}, {"labels": {"ray.io/cluster": "mine"}}], ids=str)
def test_the_labels_of_the_author_are_kept(metadata: Any) -> None:
    group = {"template": {**TEMPLATE, "metadata": metadata}}
    raw = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "a"}, "spec": {"headGroupSpec": group}}
    (template,) = templates_of(raw)
    own = (metadata or {}).get("labels") or {}
    assert template.made["metadata"]["labels"] == {"ray.io/cluster": "", **own}
    assert template.pod["metadata"] == metadata, "the object is not changed"


ROLES = {size: {"size": size, "workerTemplate": TEMPLATE} for size in (2, 1)} | {0: {"workerTemplate": TEMPLATE}}
RUNNER = {"name": "a", "image": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}


@each(
    "api, spec, expected",
    {
        "KServe": ("serving.kserve.io/v1alpha2 LLMInferenceService", {"template": TEMPLATE["spec"]}, [False]),
        "KServe's groups": (
            "serving.kserve.io/v1alpha2 LLMInferenceService",
            {"template": TEMPLATE["spec"], "worker": TEMPLATE["spec"], "parallelism": {"pipeline": 2}},
            [True, True],
        ),
        "NIM": ("apps.nvidia.com/v1alpha1 NIMService", {"resources": RUNNER["resources"], "multiNode": {}}, [False]),
        "NIM's groups": (
            "apps.nvidia.com/v1alpha1 NIMService",
            {"resources": RUNNER["resources"], "multiNode": {"parallelism": {"pipeline": 2}}},
            [True],
        ),
        "roles of groups, and of pods by themselves": (
            "disaggregatedset.x-k8s.io/v1 DisaggregatedSet",
            {"roles": [{"name": str(size), "spec": {"leaderWorkerTemplate": group}} for size, group in ROLES.items()]},
            [True, False, False],
        ),
        "OME": ("ome.io/v1beta1 InferenceService", {"engine": {"runner": RUNNER}}, [False]),
        "OME's groups": (
            "ome.io/v1beta1 InferenceService",
            {"engine": {"leader": {"runner": RUNNER}, "worker": {"size": 1, "runner": RUNNER}}},
            [True, True],
        ),
    },
)
def test_groups_of_an_inference_service_are_of_several_nodes(api: str, spec: Any, expected: list[bool]) -> None:
    version, kind = api.split()
    raw = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    assert [may_span_nodes(pod_from_raw(one.made)) for one in templates_of(raw)] == expected


SERVED = TEMPLATE["spec"]
NODE = {"name": "node", "template": {"spec": {"template": TEMPLATE}}}
RUNTIME = {"spec": {"template": {"spec": {"replicatedJobs": [NODE]}}}}


@each(
    "api, spec, expected",
    {
        "a model of a runtime": ("serving.kserve.io/v1beta1 InferenceService", {"predictor": {"model": RUNNER}}, True),
        "the workers of a runtime": (
            "serving.kserve.io/v1beta1 InferenceService",
            {"predictor": {"model": {}, "workerSpec": SERVED}},
            True,
        ),
        "a custom predictor": ("serving.kserve.io/v1beta1 InferenceService", {"predictor": SERVED}, False),
        "a runtime": ("serving.kserve.io/v1alpha1 ServingRuntime", SERVED, True),
        "presets": ("serving.kserve.io/v1alpha2 LLMInferenceService", {"template": SERVED}, True),
        "presets of a group": (
            "serving.kserve.io/v1alpha2 LLMInferenceService",
            {"prefill": {"template": SERVED, "worker": SERVED, "parallelism": {"pipeline": 2}}},
            True,
        ),
        "an engine of OME": ("ome.io/v1beta1 InferenceService", {"engine": {"runner": RUNNER}}, True),
        "a runtime of OME": ("ome.io/v1beta1 ClusterServingRuntime", {"engineConfig": {"runner": RUNNER}}, True),
        "nodes of Dynamo": (
            "nvidia.com/v1beta1 DynamoComponentDeployment",
            {"multinode": {"nodeCount": 2}, "podTemplate": TEMPLATE},
            True,
        ),
        "nodes of Dynamo, in its first version": (
            "nvidia.com/v1alpha1 DynamoComponentDeployment",
            {"multinode": {"nodeCount": 2}, "resources": {"limits": {"gpu": "1"}}},
            True,
        ),
        "a node of Dynamo": ("nvidia.com/v1beta1 DynamoComponentDeployment", {"podTemplate": TEMPLATE}, False),
        "a runtime of Kubeflow": ("trainer.kubeflow.org/v1alpha1 TrainingRuntime", RUNTIME["spec"], True),
        "a job whose runtime nobody knows": (
            "trainer.kubeflow.org/v1alpha1 TrainJob",
            {"runtimeRef": {"name": "a"}, "trainer": {"resourcesPerNode": RUNNER["resources"]}},
            True,
        ),
        "a NIM": ("apps.nvidia.com/v1alpha1 NIMService", {"resources": RUNNER["resources"]}, False),
        "a Deployment": ("apps/v1 Deployment", {"template": TEMPLATE}, False),
    },
)
def test_what_another_object_completes_is_marked(api: str, spec: Any, expected: bool) -> None:
    version, kind = api.split()
    raw = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    found = templates_of(raw)
    assert {is_completed_elsewhere(pod_from_raw(one.made)) for one in found} == {expected}


@each(
    "patches, expected",
    {
        "none": ({}, False),
        "of its node": ({"podTemplateOverrides": [{"targetJobs": [{"name": "node"}], "metadata": {}}]}, True),
        "of others": ({"podTemplateOverrides": [{"targetJobs": [{"name": "launcher"}], "spec": {}}]}, False),
    },
)
def test_a_train_job_with_its_runtime_is_complete_where_nothing_patches_it(patches: Any, expected: bool) -> None:
    spec = {"runtimeRef": {"name": "a"}, **patches}
    raw = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "spec": spec}
    (one,) = templates_of(with_runtime(raw, "", lambda *_: RUNTIME))
    assert tuple(ask(pod_from_raw(one.made)) for ask in (may_span_nodes, is_completed_elsewhere)) == (True, expected)


JOB = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": TEMPLATE}}
PYTORCH_JOB = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "spec": {"pytorchReplicaSpecs": {"Worker": {"template": TEMPLATE}}},
}


@each(
    "inside, expected",
    {
        "a template": ({"template": TEMPLATE}, False),
        "a Job": ({"trialSpec": JOB}, False),
        "indexed": ({"trialSpec": {**JOB, "spec": {**JOB["spec"], "completionMode": "Indexed"}}}, True),
        "a PyTorchJob": ({"trialSpec": PYTORCH_JOB}, True),
        "no whole object": ({"trialSpec": {**PYTORCH_JOB, "apiVersion": 1}}, False),
    },
)
def test_in_an_unknown_kind_the_object_inside_of_it_tells(inside: dict[str, Any], expected: bool) -> None:
    """An Experiment of Katib is in the group of training jobs, and makes any kind of job."""
    raw = {"apiVersion": "kubeflow.org/v1beta1", "kind": "Experiment", "spec": {"trialTemplate": inside}}
    assert [may_span_nodes(pod_from_raw(one.made)) for one in templates_of(raw)] == [expected]


@pytest.mark.parametrize("where", [(), ("prefill",)])
def test_an_llm_service_gives_its_annotations_and_labels_to_its_pods(where: tuple[str, ...]) -> None:
    workload = {"template": SERVED, "worker": SERVED, "annotations": {"a": "b"}, "labels": {"c": "d"}}
    raw = {"apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService", "metadata": {"name": "a"}}
    leader, worker = templates_of({**raw, "spec": dict.fromkeys(where, workload) or workload})
    for one in (leader, worker):
        assert one.made["metadata"]["annotations"] == {"a": "b"}
        assert one.made["metadata"]["labels"].items() >= {"c": "d"}.items()
        assert one.place("metadata.annotations") == ".".join(("spec", *where, "annotations"))
