"""Workloads of several groups, and what the engine says of them."""

from typing import Any

from tests.build import FACTS, container, env, pod, policy
from tests.quota.quotas import TEAM
from webhook import engine
from webhook.outcome import Outcome
from webhook.policy.policy_quotas import ConfiguredQuota

LIMITED = {"gpuLimits": {"maxPerPod": 8}}


WARNING = policy(LIMITED)


ENFORCING = policy(LIMITED, workloads="enforce")


EXPOSED = env("NVIDIA_VISIBLE_DEVICES", "all")


def training(master: int = 8, worker: int = 8, workers: Any = 4, **changes: Any) -> dict[str, Any]:
    """A PyTorchJob; `changes` are keys of the container of its workers."""
    asked = {"Master": (1, master, {}), "Worker": (workers, worker, changes)}
    groups = {
        name: {
            "replicas": replicas,
            "template": {"spec": {"containers": [container("pytorch", limits={"nvidia.com/gpu": gpus}) | changed]}},
        }
        for name, (replicas, gpus, changed) in asked.items()
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train", "namespace": TEAM},
        "spec": {"pytorchReplicaSpecs": groups},
    }


def cluster(*gpus: int) -> dict[str, Any]:
    """A RayCluster with a head without GPUs, and a group of workers for each number of them."""
    groups = [{"groupName": f"gpu-{count}", "replicas": 1, "template": {"spec": pod(count)["spec"]}} for count in gpus]
    spec = {"headGroupSpec": {"template": {"spec": pod(0)["spec"]}}, "workerGroupSpecs": groups}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "ray"}, "spec": spec}


def judged(raw: dict[str, Any], *bound: ConfiguredQuota, using: Any = WARNING, old: Any = None) -> Outcome:
    return engine.validate_workload(raw, TEAM, using, FACTS, bound, old=old)


def said(raw: dict[str, Any], *bound: ConfiguredQuota, using: Any = WARNING, old: Any = None) -> list[str]:
    return [str(finding) for finding in judged(raw, *bound, using=using, old=old).findings]


def pods_foreseen(raw: dict[str, Any], using: Any) -> tuple[engine.TemplateOutcome, ...]:
    return engine.template_outcomes(raw, TEAM, using, FACTS)
