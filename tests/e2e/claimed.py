"""Claims, templates of claims, and pods that get GPUs by them."""

from collections.abc import Mapping
from typing import Any

from tests.e2e.objects import pod

Raw = dict[str, Any]
API = "/apis/resource.k8s.io/v1"
CLASS = "gpu.nvidia.com"


def requests(count: int, device_class: str = CLASS, **more: Any) -> Raw:
    """The spec of a claim for so many devices of a class."""
    exactly = {"deviceClassName": device_class, "count": count, **more}
    return {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}


def claim(name: str, spec: Raw) -> Raw:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


def template(name: str, spec: Raw) -> Raw:
    return {**claim(name, {"spec": spec}), "kind": "ResourceClaimTemplate"}


def claiming(name: str, **named: str) -> Raw:
    """A pod with one claim: by `resourceClaimTemplateName` or by `resourceClaimName`."""
    raw = pod(name, {"claims": [{"name": "gpus"}]})
    raw["spec"]["resourceClaims"] = [{"name": "gpus", **named}]
    return raw


def path_of(namespace: str, raw: Mapping[str, Any]) -> str:
    """Where objects of this kind are created."""
    kind = raw.get("kind", "Pod")
    return f"{'/api/v1' if kind == 'Pod' else API}/namespaces/{namespace}/{kind.lower()}s"
