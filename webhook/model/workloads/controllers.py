"""What controllers add to pods later: the label of a job that may span nodes, and the placement that a queue decides.

Labels and annotations of jobs are those of kubeflow/training-operator and kubeflow/mpi-operator,
kubernetes-sigs/jobset, kubernetes-sigs/lws, ray-project/kuberay, volcano-sh/volcano, and of the Job controller of
Kubernetes for Jobs with the completion mode Indexed. None says on how many nodes a job runs, except for the size of a
LeaderWorkerSet's group.

If an object waits in a queue, no finding depends on nodes. Kueue suspends objects with its label. When it starts an
object, it sets `suspend: false` and adds the nodeLabels and tolerations of the ResourceFlavor that it chose
(pkg/podset/podset.go in kubernetes-sigs/kueue), and all is known. Kueue does not suspend Deployments and the like; it
gates their pods. Queues of KAI and of Volcano choose among nodes for pods that exist (label `kai.scheduler/queue` in
kai-scheduler/KAI-Scheduler, its annotation in ai-dynamo/dynamo; `scheduling.volcano.sh/queue-name` and `queue` in
volcano-sh/volcano, in runPolicy of kubeflow/training-operator and in batchSchedulerOptions of kubeflow/spark-operator).
Pods with Volcano's schedulerName that name no queue are in its queue `default`, and so are its own Jobs, which get that
schedulerName. YuniKorn has every pod with its schedulerName in a queue, by default in `root.sandbox`
(pkg/common/constants in apache/yunikorn-k8shim).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from webhook.model.json_parts import mapped, part
from webhook.model.pod import KUEUE_QUEUE, Pod
from webhook.model.workloads.template import Template, count_of

INDEX = "batch.kubernetes.io/job-completion-index"
JOB_SET = "jobset.sigs.k8s.io/jobset-name"
LEADER_WORKER_SET = "leaderworkerset.sigs.k8s.io/name"
RAY = "ray.io/cluster"
TRAINING = "training.kubeflow.org/job-name"
VOLCANO = "volcano.sh/job-name"

_NAMES = frozenset({INDEX, JOB_SET, RAY, TRAINING, VOLCANO})
GROUP_SIZE = "leaderworkerset.sigs.k8s.io/size"
WITHOUT_COLLECTIVES = frozenset({"MXJob", "TFJob", "XGBoostJob"})
"""Training jobs whose pods talk to parameter servers or trackers over TCP."""
_OWNERS = frozenset({"JAXJob", "MPIJob", "PaddleJob", "PyTorchJob", "RayCluster"}) | WITHOUT_COLLECTIVES

IN_A_GROUP = MappingProxyType({LEADER_WORKER_SET: ""})
"""The label of pods in a LeaderWorkerSet, for templates of operators that make LeaderWorkerSets."""


_MPI = ("training.kubeflow.org/operator-name", "mpi-operator")
"""The label of pods of MPIJobs in kubeflow.org/v2beta1 (defaultLabels in kubeflow/mpi-operator). In v1 mpirun starts
ranks by kubectl exec, in the environment of the container."""


def starts_ranks_over_ssh(pod: Pod) -> bool:
    """Whether the pod belongs to a job in which mpirun starts processes over ssh."""
    return pod.labels.get(_MPI[0]) == _MPI[1]


def may_span_nodes(pod: Pod) -> bool:
    """Whether the pod belongs to a job that may run on several nodes."""
    if pod.owner_kind in _OWNERS or not (_NAMES.isdisjoint(pod.labels) and _NAMES.isdisjoint(pod.annotations)):
        return True
    return LEADER_WORKER_SET in pod.labels and pod.annotations.get(GROUP_SIZE) != "1"


PERHAPS_A_PART = MappingProxyType({"(perhaps a part of a group)": ""})
"""The mark of templates whose controller may make pods that work together, and no label says so. It is no label that a
pod can have."""


def may_be_a_part(pod: Pod) -> bool:
    """Whether the pod may work with others as one program, as far as anything tells."""
    return may_span_nodes(pod) or not PERHAPS_A_PART.keys().isdisjoint(pod.labels)


COMPLETED_ELSEWHERE = MappingProxyType({"(completed by another object)": ""})
"""The mark of templates to which a runtime, a preset or an operator adds words, variables or requests that the object
does not show. It is no label that a pod can have."""


def is_completed_elsewhere(pod: Pod) -> bool:
    """Whether something else may complete what the pod runs and requests, so that what is missing may come."""
    return not COMPLETED_ELSEWHERE.keys().isdisjoint(pod.labels)


def completed(templates: Iterable[Template]) -> Iterator[Template]:
    """The templates with the mark of what something else completes."""
    return (replace(one, labels={**one.labels, **COMPLETED_ELSEWHERE}) for one in templates)


_OF_GROUPS = {
    "kubeflow.org": TRAINING,
    "trainer.kubeflow.org": JOB_SET,
    "jobset.x-k8s.io": JOB_SET,
    "leaderworkerset.x-k8s.io": LEADER_WORKER_SET,
    "ray.io": RAY,
    "batch.volcano.sh": VOLCANO,
    "flow.volcano.sh": VOLCANO,
}
"""API group -> label that controllers of the group add to their pods."""
_WITHOUT_LABELS = ("grove.io/", "workloads.x-k8s.io/")
"""API groups whose pods may work together without a label of these."""
_ALONE = frozenset({"Notebook"})
ONE_PROGRAM = "(one program on all nodes)"
"""The mark of templates of Kubeflow's Trainer, which tells each process of the others (pkg/runtime/framework/plugins of
kubeflow/trainer). It is no label that a pod can have."""


def labelled(raw: Mapping[str, Any], templates: Iterable[Template]) -> Iterator[Template]:
    """The templates of an object with the label that its controller adds."""
    group, kind = str(raw.get("apiVersion")).rpartition("/")[0], str(raw.get("kind"))
    name = _label(raw, group, kind)
    for template in templates:
        labels = {name: ""} | (dict([_MPI]) if raw.get("apiVersion") == "kubeflow.org/v2beta1" else {})
        if group == "trainer.kubeflow.org":
            labels[ONE_PROGRAM] = ""
        if not name:
            labels = dict(PERHAPS_A_PART) if str(raw.get("apiVersion")).startswith(_WITHOUT_LABELS) else {}
        owner = kind if name == TRAINING and kind in WITHOUT_COLLECTIVES else template.owner_kind
        yield replace(template, labels={**template.labels, **labels}, owner_kind=owner) if labels else template


def _label(raw: Mapping[str, Any], group: str, kind: str) -> str:
    if group == "batch":
        path = ("spec", "jobTemplate", "spec") if kind == "CronJob" else ("spec",)
        return INDEX if part(raw, *path, "completionMode") == "Indexed" else ""
    if kind == "LeaderWorkerSet" and count_of(part(raw, "spec", "leaderWorkerTemplate", "size"), 1) == 1:
        return ""
    return "" if kind in _ALONE else _OF_GROUPS.get(group, "")


_QUEUES = (
    "kai.scheduler/queue",
    "nvidia.com/kai-scheduler-queue",
    "runai/queue",
    "scheduling.volcano.sh/queue-name",
    "volcano.sh/queue-name",
    "yunikorn.apache.org/queue",
)
"""Labels and annotations of an object or its pods that name a queue."""
_FIELDS = (("runPolicy", "schedulingPolicy", "queue"), ("batchSchedulerOptions", "queue"))
"""Fields of a spec that name a queue."""
_VOLCANOS_SCHEDULER = "volcano"
_SCHEDULERS = (_VOLCANOS_SCHEDULER, "yunikorn")
"""Schedulers that have each of their pods in a queue."""
_SUSPENDED = (("suspend",), ("runPolicy", "suspend"))
_VOLCANO = ("batch.volcano.sh/", "flow.volcano.sh/")
_REPEATED = {"CronJob": "jobTemplate", "RayCronJob": "jobTemplate", "ScheduledSparkApplication": "template"}
"""Kind with a schedule -> field with the object that it repeats. Its own `suspend` stops the schedule."""
_FLOWS = frozenset({"Workflow", "CronWorkflow"})
"""Kinds that people suspend and resume themselves."""


def waiting(raw: Mapping[str, Any], templates: Iterable[Template]) -> Iterator[Template]:
    """The templates of an object, marked where a queue decides later where their pods run."""
    kind = str(raw.get("kind"))
    made, spec = raw, mapped(raw, "spec")
    if kind in _REPEATED:
        made = mapped(spec, _REPEATED[kind])
        spec = mapped(made, "spec") or made
    suspended = [] if kind in _FLOWS else [part(spec, *path) for path in _SUSPENDED]
    queues = _QUEUES if False in suspended else (*_QUEUES, KUEUE_QUEUE)
    is_for_volcano = part(spec, "schedulerName") in (None, "", _VOLCANOS_SCHEDULER)
    waits = (
        True in suspended
        or (str(raw.get("apiVersion")).startswith(_VOLCANO) and (part(spec, "queue") or is_for_volcano))
        or any(part(spec, *path) for path in _FIELDS)
        or any(_names(mapped(one, "metadata"), queues) for one in (raw, made))
    )
    for template in templates:
        is_queued = waits or _names(mapped(template.pod, "metadata"), queues)
        is_queued = is_queued or part(template.pod, "spec", "schedulerName") in _SCHEDULERS
        yield replace(template, is_queued=True) if is_queued else template


def _names(metadata: Mapping[str, Any], queues: Sequence[str]) -> bool:
    return any(part(metadata, key, queue) for key in ("labels", "annotations") for queue in queues)
