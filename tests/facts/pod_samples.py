"""Pods as the API server gives them."""

from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from tests.e2e.objects import gpu_pod
from webhook.ledger.pod_cache import PodCache
from webhook.ledger.pod_source import LivePods

AT, AT_SECONDS = "2026-03-01T12:00:00Z", 1772366400.0
"""A moment, as it stands in objects and in seconds since 1970."""


def stored(
    name: str, namespace: str = "team-a", *, gpus: int = 1, phase: str = "Running", **spec: Any
) -> dict[str, Any]:
    """A pod that is stored; its uid follows from its name."""
    found = gpu_pod(name, gpus, **spec)
    found["metadata"] |= {"namespace": namespace, "uid": uid_text(name), "resourceVersion": "7"}
    return {**found, "status": {"phase": phase}}


def cpu_pod(name: str, namespace: str = "team-a") -> dict[str, Any]:
    """A stored pod without GPUs."""
    found = stored(name, namespace)
    found["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1"}}
    return found


def deleted(found: dict[str, Any], at: str, grace: int) -> dict[str, Any]:
    """The pod once its deletion was asked for."""
    metadata = {**found["metadata"], "deletionTimestamp": at, "deletionGracePeriodSeconds": grace}
    return {**found, "metadata": metadata}


def uid_text(name: str) -> str:
    """The uid of the pod of this name."""
    return str(uuid5(NAMESPACE_URL, name))


def uid(name: str) -> bytes:
    """The uid in bytes."""
    return UUID(uid_text(name)).bytes


def live(pods: PodCache | LivePods, namespace: str | None = None) -> set[str]:
    """The names of the pods that count."""
    return {pod.name for pod in pods.seen(namespace)}
