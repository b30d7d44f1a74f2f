"""Pods with memory volumes at /dev/shm."""

from tests.rules.samples import Cluster, container
from webhook.model.node import NodeClass

OURS = "gpu-policy-shm"


AT_SHM = {"name": OURS, "mountPath": "/dev/shm"}


def trainer(name="trainer", gpus=2, memory=None, **parts):
    raw = container(name, gpus, **parts)
    if memory is not None and gpus is not None:
        raw["resources"]["limits"]["memory"] = memory
    return raw


def memory_volume(size, name=OURS):
    return {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": size}}


def nodes(*kinds):
    """A cluster with nodes of these labels."""
    return Cluster(nodes=[NodeClass(kind, gpu_resources=frozenset({"nvidia.com/gpu"})) for kind in kinds])
