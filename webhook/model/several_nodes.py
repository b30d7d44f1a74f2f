"""Which pods belong to a job that may run on several nodes, by their owner and by what controllers write on pods.

Labels and annotations are those of kubeflow/training-operator and kubeflow/mpi-operator, kubernetes-sigs/jobset,
kubernetes-sigs/lws, ray-project/kuberay, volcano-sh/volcano, and of the Job controller of Kubernetes for Jobs with the
completion mode Indexed. None says on how many nodes a job runs, but for the size of a LeaderWorkerSet's group.
"""

from types import MappingProxyType

from webhook.model.pod import Pod

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
"""The label of pods in a LeaderWorkerSet, as templates of operators that make one have it."""


def may_span_nodes(pod: Pod) -> bool:
    """Whether the pod is one of a job that is made to run on several nodes."""
    if pod.owner_kind in _OWNERS or any(name in pod.labels or name in pod.annotations for name in _NAMES):
        return True
    return LEADER_WORKER_SET in pod.labels and pod.annotations.get(_GROUP_SIZE) != "1"
