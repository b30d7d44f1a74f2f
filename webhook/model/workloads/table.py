"""The table of kinds that make pods, and the readers of the kinds of Kubernetes itself."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from webhook.model.json_parts import part
from webhook.model.workloads import argo, groups, kserve, kubeflow, nvidia, ray, sgl_project
from webhook.model.workloads.controllers import labelled, waiting
from webhook.model.workloads.search import number_of_specs, search
from webhook.model.workloads.template import Template, count_of, pods_of_job

Reader = Callable[[Mapping[str, Any]], Iterator[Template]]
"""Finds the templates of an object of one kind. Missing and malformed parts yield no template; nothing is raised."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A kind that makes pods: its API group, kind and resource name, and the reader of its templates."""

    group: str
    kind: str
    resource: str
    read: Reader
    is_namespaced: bool = True

    def templates(self, raw: Mapping[str, Any]) -> Iterator[Template]:
        for template in labelled(raw, self.read(raw)):
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
"""Kinds that make no pods by themselves. The objects that use them add tolerations, so no finding is about tolerations
in these kinds."""
_TOLERATIONS = frozenset({"spec.tolerations"})


_MAKES = {"Deployment": "ReplicaSet", "CronJob": "Job", "PodTemplate": ""}
"""Kind of an object -> kind of the controller of its pods, if it is another kind."""


def replicated(raw: Mapping[str, Any]) -> Iterator[Template]:
    """Deployment, StatefulSet, ReplicaSet, ReplicationController."""
    yield from _at(raw, ("spec", "template"), pods=count_of(part(raw, "spec", "replicas"), 1))


def per_node(raw: Mapping[str, Any]) -> Iterator[Template]:
    """DaemonSet: a pod on every node that fits."""
    yield from _at(raw, ("spec", "template"), is_per_node=True)


def pod_template(raw: Mapping[str, Any]) -> Iterator[Template]:
    """PodTemplate, which makes no pods by itself."""
    yield from _at(raw, ("template",))


def job(raw: Mapping[str, Any]) -> Iterator[Template]:
    """Job."""
    yield from _at(raw, ("spec", "template"), pods=pods_of_job(part(raw, "spec")))


def cron_job(raw: Mapping[str, Any]) -> Iterator[Template]:
    """CronJob."""
    path = ("spec", "jobTemplate", "spec")
    yield from _at(raw, (*path, "template"), pods=pods_of_job(part(raw, *path)))


def _at(
    raw: Mapping[str, Any], path: Sequence[str], *, pods: int | None = None, is_per_node: bool = False
) -> Iterator[Template]:
    template = part(raw, *path)
    if template is not None:
        where = ".".join((*path, "spec"))
        kind = str(raw.get("kind") or "")
        owner = _MAKES.get(kind, kind)
        yield Template(template, where, pods=pods, is_per_node=is_per_node, owner_kind=owner, is_validated=True)


_KINDS = (
    Workload("apps", "Deployment", "deployments", replicated),
    Workload("apps", "StatefulSet", "statefulsets", replicated),
    Workload("apps", "DaemonSet", "daemonsets", per_node),
    Workload("apps", "ReplicaSet", "replicasets", replicated),
    Workload("", "ReplicationController", "replicationcontrollers", replicated),
    Workload("", "PodTemplate", "podtemplates", pod_template),
    Workload("batch", "Job", "jobs", job),
    Workload("batch", "CronJob", "cronjobs", cron_job),
    Workload("kubeflow.org", "PyTorchJob", "pytorchjobs", kubeflow.replicas_at("pytorchReplicaSpecs")),
    Workload("kubeflow.org", "TFJob", "tfjobs", kubeflow.replicas_at("tfReplicaSpecs")),
    Workload("kubeflow.org", "MPIJob", "mpijobs", kubeflow.mpi_job),
    Workload("kubeflow.org", "PaddleJob", "paddlejobs", kubeflow.replicas_at("paddleReplicaSpecs")),
    Workload("kubeflow.org", "XGBoostJob", "xgboostjobs", kubeflow.replicas_at("xgbReplicaSpecs")),
    Workload("kubeflow.org", "MXJob", "mxjobs", kubeflow.replicas_at("mxReplicaSpecs")),
    Workload("kubeflow.org", "JAXJob", "jaxjobs", kubeflow.replicas_at("jaxReplicaSpecs")),
    Workload("kubeflow.org", "Notebook", "notebooks", kubeflow.notebook),
    Workload("trainer.kubeflow.org", "TrainJob", "trainjobs", kubeflow.train_job),
    Workload("trainer.kubeflow.org", "TrainingRuntime", "trainingruntimes", kubeflow.training_runtime),
    Workload(
        "trainer.kubeflow.org",
        "ClusterTrainingRuntime",
        "clustertrainingruntimes",
        kubeflow.training_runtime,
        is_namespaced=False,
    ),
    Workload("ray.io", "RayCluster", "rayclusters", ray.ray_cluster),
    Workload("ray.io", "RayJob", "rayjobs", ray.ray_job),
    Workload("ray.io", "RayCronJob", "raycronjobs", ray.ray_cron_job),
    Workload("ray.io", "RayService", "rayservices", ray.ray_service),
    Workload("serving.kserve.io", "InferenceService", "inferenceservices", kserve.inference_service),
    Workload("serving.kserve.io", "LLMInferenceService", "llminferenceservices", kserve.llm_inference_service),
    Workload("serving.kserve.io", "LLMInferenceServiceConfig", "llminferenceserviceconfigs", kserve.llm_configuration),
    Workload("serving.kserve.io", "ServingRuntime", "servingruntimes", kserve.serving_runtime),
    Workload(
        "serving.kserve.io",
        "ClusterServingRuntime",
        "clusterservingruntimes",
        kserve.serving_runtime,
        is_namespaced=False,
    ),
    Workload("jobset.x-k8s.io", "JobSet", "jobsets", groups.job_set),
    Workload("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "leaderworkersets", groups.leader_worker_set),
    Workload("disaggregatedset.x-k8s.io", "DisaggregatedSet", "disaggregatedsets", groups.disaggregated_set),
    Workload("batch.volcano.sh", "Job", "jobs", groups.volcano_job),
    Workload("batch.volcano.sh", "CronJob", "cronjobs", groups.volcano_cron_job),
    Workload("flow.volcano.sh", "JobTemplate", "jobtemplates", groups.volcano_job),
    Workload("argoproj.io", "Workflow", "workflows", argo.workflow),
    Workload("argoproj.io", "WorkflowTemplate", "workflowtemplates", argo.workflow),
    Workload("argoproj.io", "ClusterWorkflowTemplate", "clusterworkflowtemplates", argo.workflow, is_namespaced=False),
    Workload("argoproj.io", "CronWorkflow", "cronworkflows", argo.cron_workflow),
    Workload("argoproj.io", "Rollout", "rollouts", argo.rollout),
    Workload("argoproj.io", "Experiment", "experiments", argo.experiment),
    Workload("serving.knative.dev", "Service", "services", kserve.knative_service),
    Workload("sparkoperator.k8s.io", "SparkApplication", "sparkapplications", kubeflow.spark_application),
    Workload(
        "sparkoperator.k8s.io",
        "ScheduledSparkApplication",
        "scheduledsparkapplications",
        kubeflow.scheduled_spark_application,
    ),
    Workload("apps.nvidia.com", "NIMService", "nimservices", nvidia.nim_service),
    Workload("apps.nvidia.com", "NIMPipeline", "nimpipelines", nvidia.nim_pipeline),
    Workload("nvidia.com", "DynamoGraphDeployment", "dynamographdeployments", nvidia.dynamo_graph),
    Workload("nvidia.com", "DynamoComponentDeployment", "dynamocomponentdeployments", nvidia.dynamo_component),
    Workload("grove.io", "PodCliqueSet", "podcliquesets", groups.pod_clique_set),
    Workload("grove.io", "PodClique", "podcliques", groups.pod_clique),
    Workload("sagemaker.amazonaws.com", "HyperPodPyTorchJob", "hyperpodpytorchjobs", groups.hyper_pod_job),
    Workload(
        "inference.sagemaker.aws.amazon.com",
        "InferenceEndpointConfig",
        "inferenceendpointconfigs",
        groups.inference_endpoint_config,
    ),
    Workload("ome.io", "InferenceService", "inferenceservices", sgl_project.inference_service),
    Workload("ome.io", "ServingRuntime", "servingruntimes", sgl_project.serving_runtime),
    Workload(
        "ome.io", "ClusterServingRuntime", "clusterservingruntimes", sgl_project.serving_runtime, is_namespaced=False
    ),
    Workload("workloads.x-k8s.io", "RoleBasedGroup", "rolebasedgroups", sgl_project.role_based_group),
    Workload("workloads.x-k8s.io", "RoleBasedGroupSet", "rolebasedgroupsets", sgl_project.role_based_group_set),
    Workload("slinky.slurm.net", "NodeSet", "nodesets", groups.node_set),
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
