"""Objects and who owns them, by as little as that takes."""

from typing import Any

VERSIONS = {"Pod": "v1", "Node": "v1", "Job": "batch/v1", "CronJob": "batch/v1", "RayCluster": "ray.io/v1"}


def made(kind: str, name: str, owner: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """An object of namespace team with the uid `<kind>-<name>`, controlled by `owner`."""
    version = VERSIONS.get(kind, "apps/v1")
    owned = {} if owner is None else {"ownerReferences": [reference_to(owner)]}
    head = {"name": name, "namespace": "team", "uid": f"{kind}-{name}", **owned, **metadata}
    return {"apiVersion": version, "kind": kind, "metadata": {k: v for k, v in head.items() if v is not None}}


def reference_to(owner: dict[str, Any], **changed: Any) -> dict[str, Any]:
    metadata = owner["metadata"]
    head = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"]}
    return {**head, "uid": metadata.get("uid"), "controller": True, **changed}
