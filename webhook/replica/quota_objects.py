"""The objects of kind GPUQuota: where they are in the API server, what is written there, and when they differ."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webhook.engine.quota_usage import Place, Status
from webhook.kubernetes.api_paths import path_of

API = "gpupolicy.dev/v1alpha1"
KIND = "GPUQuota"
EVERYWHERE = path_of(f"/apis/{API}", "gpuquotas")
"""The path of all of them."""

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "gpu-policy-webhook"
INSTALLATION = "gpupolicy.dev/installation"
"""The label that tells the objects of one installation from those of another: the namespace of its ledgers."""

_LONGEST_VERSION = 20
_NOT_COMPARED = frozenset({"ledger", "updated"})


@dataclass(frozen=True, slots=True)
class StoredStatus:
    """An object as it was last heard of; the status only of those that are ours."""

    uid: str
    version: str
    is_ours: bool
    status: Status

    def is_as(self, status: Status) -> bool:
        """Whether it says what people are to see."""
        return _compared(self.status) == _compared(status)

    def is_newer_than(self, status: Status) -> bool:
        """Whether it was counted from a newer ledger; resource versions compare as numbers."""
        theirs, mine = (str(one.get("ledger", ""))[:_LONGEST_VERSION] for one in (self.status, status))
        return theirs.isdecimal() and mine.isdecimal() and int(theirs) > int(mine)


def labels_of(installation: str) -> Mapping[str, str]:
    """The labels of the objects of one installation."""
    return {MANAGED_BY: MANAGER, INSTALLATION: installation}


def heard(raw: Mapping[str, Any], labels: Mapping[str, str]) -> tuple[Place, StoredStatus]:
    """An object that the API server tells of, and where it is. It is ours where it has these labels."""
    metadata, status = raw["metadata"], raw.get("status")
    found = metadata.get("labels") or {}
    is_ours = all(found.get(key) == value for key, value in labels.items())
    kept = status if is_ours and isinstance(status, dict) else {}
    return (metadata["namespace"], metadata["name"]), StoredStatus(
        metadata["uid"], metadata["resourceVersion"], is_ours, kept
    )


def body(place: Place, status: Status, labels: Mapping[str, str], over: StoredStatus | None) -> dict[str, Any]:
    """What is sent to create an object, or to replace what was seen."""
    metadata: dict[str, Any] = {"namespace": place[0], "name": place[1], "labels": dict(labels)}
    if over is not None:
        metadata["resourceVersion"] = over.version
    return {"apiVersion": API, "kind": KIND, "metadata": metadata, "status": dict(status)}


def removal(found: StoredStatus) -> dict[str, Any]:
    """What is sent to delete an object, and no other that has its name."""
    preconditions = {"uid": found.uid, "resourceVersion": found.version}
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}


def path_in(namespace: str, name: str = "") -> str:
    """The path of the objects of a namespace, or of one of them."""
    return path_of(f"/apis/{API}", "gpuquotas", namespace=namespace, name=name)


def _compared(status: Status) -> dict[str, Any]:
    return {key: value for key, value in status.items() if key not in _NOT_COMPARED}
