"""Resource claims as the API server gives them, and pods that claims are made for."""

from typing import Any

from tests.facts.pod_samples import cpu_pod, uid_text


def stored_claim(
    name: str, count: int = 1, device_class: str = "gpu.nvidia.com", namespace: str = "team-a", **annotations: str
) -> dict[str, Any]:
    """A claim of somebody; its uid follows from its name."""
    exactly = {"deviceClassName": device_class, "count": count}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid_text(f"claim {name}"),
            "resourceVersion": "7",
            "annotations": annotations,
        },
        "spec": {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}},
    }


def made_for(pod: str, claim: dict[str, Any], in_pod: str = "gpus") -> dict[str, Any]:
    """The claim as Kubernetes makes it for a pod."""
    annotations = claim["metadata"]["annotations"] | {"resource.kubernetes.io/pod-claim-name": in_pod}
    return {**claim, "metadata": {**claim["metadata"], "annotations": annotations, "ownerReferences": [owner(pod)]}}


def for_extended_resources(pod: str, claim: dict[str, Any]) -> dict[str, Any]:
    """The claim as the scheduler makes it for extended resources of a pod."""
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    return {**claim, "metadata": {**claim["metadata"], "annotations": annotations, "ownerReferences": [owner(pod)]}}


def owner(pod: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid_text(pod), "controller": True}


def claiming_pod(name: str, *in_pod: str) -> dict[str, Any]:
    """A stored pod without GPUs of its own, with claims from a template."""
    raw = cpu_pod(name)
    raw["spec"]["resourceClaims"] = [{"name": one, "resourceClaimTemplateName": "t"} for one in in_pod or ("gpus",)]
    return raw
