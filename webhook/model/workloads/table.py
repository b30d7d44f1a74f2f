"""The table of kinds that make pods, and the readers of the kinds of Kubernetes itself."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from webhook.model.json_parts import mapped, part
from webhook.model.workloads import jobs, kubeflow, serving
from webhook.model.workloads.controllers import completed, labelled, waiting
from webhook.model.workloads.search import number_of_specs, search
from webhook.model.workloads.template import (
    Reader,
    Template,
    at,
    count_of,
    pods_of_job,
    pods_of_replicated_job,
    replicas,
    templates_in,
)


@dataclass(frozen=True, slots=True)
class Workload:
    """A kind that makes pods: its API group, its kind, and the reader of its templates."""

    group: str
    kind: str
    read: Reader
    is_namespaced: bool = True

    @property
    def resource(self) -> str:
        """The resource name, such as pytorchjobs."""
        return f"{self.kind.lower()}s"

    def templates(self, raw: Mapping[str, Any]) -> Iterator[Template]:
        templates = labelled(raw, self.read(raw))
        for template in completed(templates) if self.kind in _MAKE_NONE else templates:
            is_base = self.kind in _MAKE_NONE
            yield replace(template, unknown=template.unknown | _TOLERATIONS) if is_base else template


_MAKE_NONE = frozenset(
    {
        "ClusterServingRuntime",
        "ClusterTrainingRuntime",
        "LLMInferenceServiceConfig",
        "PodTemplate",
        "ServingRuntime",
        "TrainingRuntime",
    }
)
"""Kinds that make no pods by themselves. The objects that use them complete them and add tolerations, so no finding is
about tolerations in these kinds."""
_TOLERATIONS = frozenset({"spec.tolerations"})


def _one(
    path: str,
    pods: Callable[[Mapping[str, Any]], int | None] = lambda _: None,
    owner_kind: str = "",
    *,
    is_per_node: bool = False,
    is_validated: bool = True,
) -> Reader:
    """The reader of a kind with one template, at `path`. `pods` counts those of the part above.

    The API server validates templates of its own kinds, whatever they are, so they are read even if they have no spec.
    """
    keys = path.split(".")

    def read(raw: Mapping[str, Any]) -> Iterator[Template]:
        template = part(raw, *keys)
        if template is not None if is_validated else mapped(template, "spec"):
            number = pods(mapped(raw, *keys[:-1]))
            yield Template(template, f"{path}.spec", "", number, is_per_node, owner_kind, is_validated)

    return read


_RUNTIME = templates_in("spec.template.spec.replicatedJobs", "template.spec.template", lambda _: None)
"""The reader of templates of a JobSet, which make no pods by themselves."""

_KINDS = (
    Workload("apps", "Deployment", _one("spec.template", replicas, "ReplicaSet")),
    Workload("apps", "StatefulSet", _one("spec.template", replicas, "StatefulSet")),
    Workload("apps", "DaemonSet", _one("spec.template", owner_kind="DaemonSet", is_per_node=True)),
    Workload("apps", "ReplicaSet", _one("spec.template", replicas, "ReplicaSet")),
    Workload("", "ReplicationController", _one("spec.template", replicas, "ReplicationController")),
    Workload("", "PodTemplate", _one("template")),
    Workload("batch", "Job", _one("spec.template", pods_of_job, "Job")),
    Workload("batch", "CronJob", _one("spec.jobTemplate.spec.template", pods_of_job, "Job")),
    Workload("kubeflow.org", "PyTorchJob", templates_in("spec.pytorchReplicaSpecs", "template")),
    Workload("kubeflow.org", "TFJob", templates_in("spec.tfReplicaSpecs", "template")),
    Workload("kubeflow.org", "MPIJob", kubeflow.mpi_job),
    Workload("kubeflow.org", "PaddleJob", templates_in("spec.paddleReplicaSpecs", "template")),
    Workload("kubeflow.org", "XGBoostJob", templates_in("spec.xgbReplicaSpecs", "template")),
    Workload("kubeflow.org", "MXJob", templates_in("spec.mxReplicaSpecs", "template")),
    Workload("kubeflow.org", "JAXJob", templates_in("spec.jaxReplicaSpecs", "template")),
    Workload("kubeflow.org", "Notebook", kubeflow.notebook),
    Workload("trainer.kubeflow.org", "TrainJob", kubeflow.train_job),
    Workload("trainer.kubeflow.org", "TrainingRuntime", _RUNTIME),
    Workload("trainer.kubeflow.org", "ClusterTrainingRuntime", _RUNTIME, is_namespaced=False),
    Workload("ray.io", "RayCluster", at("spec", jobs.ray_cluster)),
    Workload("ray.io", "RayJob", at("spec", jobs.ray_job)),
    Workload("ray.io", "RayCronJob", at("spec.jobTemplate", jobs.ray_job)),
    Workload("ray.io", "RayService", at("spec.rayClusterConfig", jobs.ray_cluster)),
    Workload("serving.kserve.io", "InferenceService", serving.inference_service),
    Workload("serving.kserve.io", "LLMInferenceService", serving.llm_inference_service),
    Workload("serving.kserve.io", "LLMInferenceServiceConfig", serving.llm_configuration),
    Workload("serving.kserve.io", "ServingRuntime", serving.serving_runtime),
    Workload("serving.kserve.io", "ClusterServingRuntime", serving.serving_runtime, is_namespaced=False),
    Workload(
        "jobset.x-k8s.io",
        "JobSet",
        templates_in("spec.replicatedJobs", "template.spec.template", pods_of_replicated_job),
    ),
    Workload("leaderworkerset.x-k8s.io", "LeaderWorkerSet", at("spec", jobs.leader_worker_set)),
    Workload("disaggregatedset.x-k8s.io", "DisaggregatedSet", jobs.disaggregated_set),
    Workload("batch.volcano.sh", "Job", at("spec", jobs.volcano_job)),
    Workload("batch.volcano.sh", "CronJob", at("spec.jobTemplate.spec", jobs.volcano_job)),
    Workload("flow.volcano.sh", "JobTemplate", at("spec", jobs.volcano_job)),
    Workload("argoproj.io", "Workflow", at("spec", jobs.workflow)),
    Workload("argoproj.io", "WorkflowTemplate", at("spec", jobs.workflow)),
    Workload("argoproj.io", "ClusterWorkflowTemplate", at("spec", jobs.workflow), is_namespaced=False),
    Workload("argoproj.io", "CronWorkflow", at("spec.workflowSpec", jobs.workflow)),
    Workload("argoproj.io", "Rollout", _one("spec.template", replicas, "ReplicaSet", is_validated=False)),
    Workload("argoproj.io", "Experiment", templates_in("spec.templates", "template", owner_kind="ReplicaSet")),
    Workload("serving.knative.dev", "Service", serving.knative_service),
    Workload("sparkoperator.k8s.io", "SparkApplication", at("spec", kubeflow.spark_application)),
    Workload("sparkoperator.k8s.io", "ScheduledSparkApplication", at("spec.template", kubeflow.spark_application)),
    Workload("apps.nvidia.com", "NIMService", serving.nim_service),
    Workload("apps.nvidia.com", "NIMPipeline", serving.nim_pipeline),
    Workload("nvidia.com", "DynamoGraphDeployment", serving.dynamo_graph),
    Workload("nvidia.com", "DynamoComponentDeployment", at("spec", serving.dynamo_component)),
    Workload("grove.io", "PodCliqueSet", jobs.pod_clique_set),
    Workload("grove.io", "PodClique", jobs.pod_clique),
    Workload(
        "sagemaker.amazonaws.com",
        "HyperPodPyTorchJob",
        templates_in("spec.replicaSpecs", "template", lambda role: count_of(role.get("replicas"), None)),
    ),
    Workload("inference.sagemaker.aws.amazon.com", "InferenceEndpointConfig", jobs.inference_endpoint_config),
    Workload("ome.io", "InferenceService", serving.ome_service),
    Workload("ome.io", "ServingRuntime", serving.ome_runtime),
    Workload("ome.io", "ClusterServingRuntime", serving.ome_runtime, is_namespaced=False),
    Workload("workloads.x-k8s.io", "RoleBasedGroup", at("spec", jobs.role_based_group)),
    Workload("workloads.x-k8s.io", "RoleBasedGroupSet", jobs.role_based_group_set),
    Workload("slinky.slurm.net", "NodeSet", jobs.node_set),
)

WORKLOADS: Mapping[tuple[str, str], Workload] = {(one.group, one.kind): one for one in _KINDS}
"""API group and kind -> the kind's row."""


def workload_of(api_version: object, kind: object) -> Workload | None:
    """The row of a kind, whatever its version; None for kinds that are not in the table."""
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return None
    return WORKLOADS.get((api_version.rpartition("/")[0], kind))


def is_pod(api_version: object, kind: object) -> bool:
    """Whether this is the kind Pod."""
    return api_version == "v1" and kind == "Pod"


def templates_of(raw: Mapping[str, Any], most: int | None = None) -> tuple[Template, ...]:
    """The pod templates of an object: found by the table for known kinds, else by a careful search.

    `most` limits their number; None finds all.
    """
    if is_pod(raw.get("apiVersion"), raw.get("kind")):
        return ()
    known = workload_of(raw.get("apiVersion"), raw.get("kind"))
    found = search(raw, most) if known is None else known.templates(raw)
    return tuple(waiting(raw, islice(found, most)))


def number_of_templates(raw: Mapping[str, Any]) -> int:
    """The number of an object's pod templates, which are not kept. In unknown kinds the specs are only counted."""
    known = workload_of(raw.get("apiVersion"), raw.get("kind"))
    return number_of_specs(raw) if known is None else sum(1 for _ in known.read(raw))
