"""Whose the pods of a workload will be, and what the workload says of their priority, where that is certain."""

from typing import Any

import pytest

from tests.golden import each
from tests.model.workloads.samples import OBJECTS, title
from webhook.model.pod_reader import pod_from_raw
from webhook.model.workloads import Template, templates_of

SPEC: dict[str, Any] = {"containers": [{"name": "a", "image": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
OWNERS = {
    ("apps", "Deployment"): "ReplicaSet",
    ("apps", "ReplicaSet"): "ReplicaSet",
    ("apps", "StatefulSet"): "StatefulSet",
    ("apps", "DaemonSet"): "DaemonSet",
    ("", "ReplicationController"): "ReplicationController",
    ("batch", "Job"): "Job",
    ("batch", "CronJob"): "Job",
    ("argoproj.io", "Rollout"): "ReplicaSet",
    ("argoproj.io", "Experiment"): "ReplicaSet",
    ("kubeflow.org", "Notebook"): "StatefulSet",
    **{("kubeflow.org", kind): kind for kind in ("MXJob", "TFJob", "XGBoostJob")},
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): "StatefulSet",
    ("disaggregatedset.x-k8s.io", "DisaggregatedSet"): "StatefulSet",
}
"""What makes the pods of a kind. Of all others that is not certain, or no rule asks for it."""


def made(api_version: str, kind: str, spec: dict[str, Any], **metadata: Any) -> tuple[Template, ...]:
    return templates_of({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", **metadata}, "spec": spec})


@pytest.mark.parametrize("raw", OBJECTS, ids=title)
def test_the_owner_of_pods_is_known_where_it_is_certain(raw: dict[str, Any]) -> None:
    key = raw["apiVersion"].rpartition("/")[0], raw["kind"]
    owners = {one.owner_kind for one in templates_of(raw)}
    if key[0] == "ray.io":
        assert owners - {""} == {"RayCluster"}, "submitters are not of the cluster"
    elif key[0] != "apps.nvidia.com":
        assert owners <= {OWNERS.get(key, "")}


@each(
    "said, owner",
    {
        "alone": ({}, "ReplicaSet"),
        "the platform by default": ({"inferencePlatform": "standalone"}, "ReplicaSet"),
        "left to KServe": ({"inferencePlatform": "kserve"}, ""),
        "on several nodes": ({"multiNode": {"parallelism": {"pipeline": 2}}}, ""),
    },
)
def test_a_service_of_nvidia_is_a_deployment_where_nothing_else_makes_its_pods(said: Any, owner: str) -> None:
    spec = {"resources": {"limits": {"nvidia.com/gpu": 1}}, **said}
    (service,) = made("apps.nvidia.com/v1alpha1", "NIMService", spec)
    (pipeline,) = made("apps.nvidia.com/v1alpha1", "NIMPipeline", {"services": [{"name": "a", "spec": spec}]})
    assert [service.owner_kind, pipeline.owner_kind] == [owner, owner]


def test_a_notebook_has_the_labels_by_which_its_controller_knows_it_and_those_of_the_object() -> None:
    written = {"metadata": {"labels": {"lost": "yes"}}, "spec": SPEC}
    (notebook,) = made("kubeflow.org/v1", "Notebook", {"template": written}, labels={"team": "vision"})
    assert pod_from_raw(notebook.made).labels == {"statefulset": "a", "notebook-name": "a", "team": "vision"}
    assert written["metadata"] == {"labels": {"lost": "yes"}}


def workflow(template: Any = None, **spec: Any) -> tuple[Template, ...]:
    container = {"image": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    return made(
        "argoproj.io/v1alpha1",
        "Workflow",
        {**spec, "templates": [{"name": "train", "container": container, **(template or {})}]},
    )


def volcano(pod: Any = None, **spec: Any) -> tuple[Template, ...]:
    tasks = [{"name": "w", "replicas": 1, "template": {"spec": {**SPEC, **(pod or {})}}}]
    return made("batch.volcano.sh/v1alpha1", "Job", {**spec, "tasks": tasks})


def spark(**role: Any) -> tuple[Template, ...]:
    driver = {"gpu": {"name": "nvidia.com/gpu", "quantity": 1}, **role}
    return made("sparkoperator.k8s.io/v1beta2", "SparkApplication", {"driver": driver})


def nim(**said: Any) -> tuple[Template, ...]:
    spec = {"resources": {"limits": {"nvidia.com/gpu": 1}}, **said}
    return made("apps.nvidia.com/v1alpha1", "NIMService", spec)


BATCH = {"priorityClassName": "batch"}


@each(
    "templates, name, place",
    {
        "workflow: none": (workflow(), "", "spec.templates[train].priorityClassName"),
        "workflow: all": (workflow(podPriorityClassName="a"), "a", "spec.podPriorityClassName"),
        "template": (workflow(BATCH, podPriorityClassName="a"), "batch", "spec.templates[train].priorityClassName"),
        "defaults of templates": (
            workflow(templateDefaults=BATCH, podPriorityClassName="a"),
            "batch",
            "spec.templateDefaults.priorityClassName",
        ),
        "Volcano: none": (volcano(), "", "spec.tasks[w].template.spec.priorityClassName"),
        "Volcano: all": (volcano(priorityClassName="a"), "a", "spec.priorityClassName"),
        "task": (volcano(BATCH, priorityClassName="a"), "batch", "spec.tasks[w].template.spec.priorityClassName"),
        "Spark": (spark(**BATCH), "batch", "spec.driver.priorityClassName"),
        "NIM": (nim(**BATCH), "batch", "spec.priorityClassName"),
    },
)
def test_the_priority_class_is_read_where_a_kind_keeps_it(templates: Any, name: str, place: str) -> None:
    (template,) = templates
    assert pod_from_raw(template.pod).priority_class == name
    assert template.place("spec.priorityClassName") == place
    assert not template.is_unknown("spec.priorityClassName")


def test_the_priority_class_in_the_template_of_a_spark_role_is_a_default() -> None:
    (by_template,) = spark(template={"spec": {"priorityClassName": "a"}})
    (by_role,) = spark(template={"spec": {"priorityClassName": "a"}}, **BATCH)
    assert [pod_from_raw(one.pod).priority_class for one in (by_template, by_role)] == ["a", "batch"]


def test_nothing_is_said_of_the_priority_of_pods_whose_runtime_says_it() -> None:
    trainer = {"resourcesPerNode": {"limits": {"nvidia.com/gpu": 1}}}
    (template,) = made("trainer.kubeflow.org/v1alpha1", "TrainJob", {"trainer": trainer})
    assert template.is_unknown("spec.priorityClassName")


def test_nothing_is_said_of_what_is_filled_in_later() -> None:
    (of_workflow,) = workflow(podPriorityClassName="{{workflow.parameters.class}}")
    assert of_workflow.is_unknown("spec.priorityClassName")
    late = {**SPEC, "activeDeadlineSeconds": "{{seconds}}"}
    (template,) = made("ml.example.com/v1", "Training", {"template": {"spec": late}})
    assert template.is_unknown("spec.activeDeadlineSeconds")
    assert pod_from_raw(template.pod).active_deadline is None


def test_the_deadline_of_a_service_of_knative_is_unknown():
    spec = {"containers": [{"image": "server", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    raw = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "spec": {"template": {"spec": spec}}}
    (template,) = templates_of(raw)
    assert template.is_unknown("spec.activeDeadlineSeconds")
    assert not template.is_unknown("spec.containers")
