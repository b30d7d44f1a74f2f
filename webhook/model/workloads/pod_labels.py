"""Pods of jobs that run on several nodes: how they are known, and which label their controllers will give them.

Labels and annotations are those of kubeflow/training-operator and kubeflow/mpi-operator, kubernetes-sigs/jobset,
kubernetes-sigs/lws, ray-project/kuberay, volcano-sh/volcano, and of the Job controller of Kubernetes for Jobs with the
completion mode Indexed. None says on how many nodes a job runs, except for the size of a LeaderWorkerSet's group.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from webhook.model.pod import Pod
from webhook.model.workloads.parts import counted, part
from webhook.model.workloads.template import Template

INDEX = "batch.kubernetes.io/job-completion-index"
JOB_SET = "jobset.sigs.k8s.io/jobset-name"
LEADER_WORKER_SET = "leaderworkerset.sigs.k8s.io/name"
RAY = "ray.io/cluster"
TRAINING = "training.kubeflow.org/job-name"
VOLCANO = "volcano.sh/job-name"

_NAMES = (INDEX, JOB_SET, RAY, TRAINING, VOLCANO)
_GROUP_SIZE = "leaderworkerset.sigs.k8s.io/size"
_OWNERS = frozenset(
    {
        "JAXJob",
        "MPIJob",
        "MXJob",
        "PaddleJob",
        "PyTorchJob",
        "RayCluster",
        "TFJob",
        "XGBoostJob",
    }
)

IN_A_GROUP = MappingProxyType({LEADER_WORKER_SET: ""})
"""The label of pods in a LeaderWorkerSet, for templates of operators that make such sets."""


def may_span_nodes(pod: Pod) -> bool:
    """Whether the pod belongs to a job that may run on several nodes."""
    if pod.owner_kind in _OWNERS or any(name in pod.labels or name in pod.annotations for name in _NAMES):
        return True
    return LEADER_WORKER_SET in pod.labels and pod.annotations.get(_GROUP_SIZE) != "1"


_OF_GROUPS = {
    "kubeflow.org": TRAINING,
    "trainer.kubeflow.org": JOB_SET,
    "jobset.x-k8s.io": JOB_SET,
    "leaderworkerset.x-k8s.io": LEADER_WORKER_SET,
    "disaggregatedset.x-k8s.io": LEADER_WORKER_SET,
    "ray.io": RAY,
    "batch.volcano.sh": VOLCANO,
    "flow.volcano.sh": VOLCANO,
}
"""API group -> label that the controllers of its kinds add to their pods."""
_ALONE = frozenset({"Notebook"})


def labelled(raw: Mapping[str, Any], templates: Iterable[Template]) -> Iterator[Template]:
    """The templates of an object with the label that its controller adds."""
    name = _label(raw, str(raw.get("apiVersion")).rpartition("/")[0], str(raw.get("kind")))
    for template in templates:
        yield replace(template, labels={name: ""}) if name else template


def _label(raw: Mapping[str, Any], group: str, kind: str) -> str:
    if group == "batch":
        path = ("spec", "jobTemplate", "spec") if kind == "CronJob" else ("spec",)
        return INDEX if part(raw, *path, "completionMode") == "Indexed" else ""
    if kind == "LeaderWorkerSet" and counted(part(raw, "spec", "leaderWorkerTemplate", "size"), 1) == 1:
        return ""
    return "" if kind in _ALONE else _OF_GROUPS.get(group, "")
