"""What a pod asks of the quotas of its namespace."""

from webhook.model.pod import Pod
from webhook.quota.quotas import Counting, Demand
from webhook.quota.resources import PLAIN, entered_name

MOST_UNITS = 10**15
"""Of one resource, as a pod is counted: more than any limit allows, and a number that every reader of JSON can hold."""


def demand_of(pod: Pod, namespace: str, counting: Counting) -> Demand | None:
    """The GPUs that the scheduler reserves for a pod, and the models it may land on; None for a pod without GPUs.

    Attributes of a GPU, such as its share of memory (nvidia.com/gpumem), are no GPUs and never count. Resources that
    count alike whatever they are called go by one name.
    """
    if not pod.gpus:
        return None
    gpus: dict[str, int] = {}
    for resource, count in pod.gpus.items():
        plain = resource in PLAIN
        name = resource if plain else entered_name(resource, counting.named, counting.accelerators)
        gpus[name] = min(gpus.get(name, 0) + count, MOST_UNITS)
    return Demand(namespace, tuple(sorted(gpus.items())), counting.catalogue.models_of(pod))
