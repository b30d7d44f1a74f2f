"""What a pod asks of the quotas of its namespace."""

from webhook.model.pod import Pod
from webhook.quota.quota import Counting, Demand


def demand_of(pod: Pod, namespace: str, counting: Counting) -> Demand | None:
    """The GPUs that the scheduler reserves for a pod, and the models it may land on; None for a pod without GPUs.

    Attributes of a GPU, such as its share of memory (nvidia.com/gpumem), are no GPUs and never count.
    """
    if not pod.gpus:
        return None
    return Demand(namespace, tuple(sorted(pod.gpus.items())), counting.catalogue.models_of(pod))
